"""What a job runs: `dbt …` or `icegate …`, for the project beside it, in the Spark it was begun in.

The last line says the exit code, since EMR tells only that a job failed.
"""

from __future__ import annotations

import os
import subprocess
import sys

EXIT_CODE = "icegate: exit code"  # `follow.Followed` reads it
WHERE = ("project-dir", "profiles-dir", "target")


def commands(program: str, args: list[str]) -> list[list[str]]:
    """Return what a program needs to be run, in turn.

    `dbt build` is `icegate build`, which meets other writers. What other commands of `icegate` know
    of the project is dbt's to write first: a job's disk is empty.
    """
    from icegate.dbt_process import DBT, ICEGATE, options

    if program == "icegate":
        known = vars(options(args))
        where = [f"--{n}={known[n.replace('-', '_')]}" for n in WHERE]
        return [[*DBT, "--quiet", "parse", *where], [*ICEGATE, *args]]
    return [[*(ICEGATE if args[:1] == ["build"] else DBT), *args]]


def run(program: str, args: list[str]) -> int:
    """Run them until one fails, and return the exit code."""
    return next((code for code in map(subprocess.call, commands(program, args)) if code), 0)


if __name__ == "__main__":
    # dbt goes into the project's folder, and starts programs from there.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    code = run(sys.argv[1], sys.argv[2:])
    print(f"\n{EXIT_CODE} {code}", flush=True)
    sys.exit(code)
