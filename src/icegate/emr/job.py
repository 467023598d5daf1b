"""What a job runs: `dbt …` or `icegate …`, for the project beside it, in the Spark it was begun in.

The last line says the exit code, since EMR Serverless tells only that a job failed.
"""

from __future__ import annotations

import os
import subprocess
import sys

EXIT_CODE = "icegate: exit code"  # `serverless.Followed` reads it
ICEGATE = (sys.executable, "-m", "icegate.cli.main")


def command(program: str, args: list[str]) -> list[str]:
    """Return a program's command; `dbt build` is `icegate build`, which meets other writers."""
    if program == "icegate" or args[:1] == ["build"]:
        return [*ICEGATE, *args]
    from icegate.dbt_process import DBT

    return [*DBT, *args]


if __name__ == "__main__":
    # dbt goes into the project's folder, and starts programs from there.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    code = subprocess.call(command(sys.argv[1], sys.argv[2:]))
    print(f"\n{EXIT_CODE} {code}", flush=True)
    sys.exit(code)
