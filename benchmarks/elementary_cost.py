"""What the real elementary adds to a build in which nothing has changed: as it comes, and as here.

It needs the real package in `dbt_packages/`, and exits 2 where that isn't installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from _bench import HOME, ROOT, Cost, _lake, options, refuse_unfair, save, timed

from icegate.dbt_process import DBT
from icegate.packages import SWITCH, are_installed

BAR = 1 / 2  # of what it adds as it comes
STATEMENT = '/* {"app": "dbt"'
COPIED = ("models", "macros", "tests/generic", "tests/singular", "seeds", "snapshots")
FILES = ("dbt_project.yml", "packages.yml", "package-lock.yml", "profiles/profiles.yml")


@dataclass
class Project:
    """A copy of this project with a lake of its own."""

    name: str
    folder: Path
    args: list[str]
    without: bool = False  # elementary: with the stand-ins

    def build(self) -> tuple[int, Cost]:
        """Build all, and return how many SQL statements dbt sent, and seconds."""
        log = self.folder / "logs" / "dbt.log"
        log.unlink(missing_ok=True)
        env = {
            "ICEGATE_HOME": str(self.folder / ".icegate"),
            "ICEGATE_LANDING": str(HOME / "elementary_cost" / "landing"),
        }
        dbt = ["build", "--quiet", "--log-file-max-bytes", "0", *self.args]
        if self.without:
            cost = timed([*DBT, *dbt], self.folder, {**env, SWITCH: "1"})
        else:
            program = [sys.executable, str(ROOT / "python_jobs" / "run_dbt.py"), "--require-real"]
            cost = timed([*program, "--", *dbt], self.folder, env)
        return log.read_text().count(STATEMENT), cost


def as_it_comes(project: dict[str, Any]) -> None:
    """Take away what this project does about elementary's cost and repairs."""
    del project["on-run-end"]
    for name in ("disable_dbt_artifacts_autoupload", "query_max_size"):
        del project["vars"][name]
    project["models"]["elementary"]["+skip_unchanged"] = False


def make(name: str, args: list[str], change: Any = None) -> Project:
    """Copy the project, and change its configuration."""
    folder = HOME / "elementary_cost" / name
    shutil.rmtree(folder, ignore_errors=True)
    for path in COPIED:
        shutil.copytree(ROOT / path, folder / path)
    for path in FILES:
        shutil.copy(ROOT / path, folder / Path(path).name)
    for path in ("dbt_packages", "standins"):
        (folder / path).symlink_to(ROOT / path)
    if change:
        shutil.rmtree(folder / "macros" / "elementary")
        path = folder / "dbt_project.yml"
        configured = yaml.safe_load(path.read_text())
        change(configured)
        path.write_text(yaml.safe_dump(configured, sort_keys=False))
    _lake(folder)
    return Project(name, folder, args, without=name == "without")


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=1)  # a count is the same in every run
    refuse_unfair()
    if not are_installed(ROOT):
        print("error: the real elementary isn't installed\n  fix: run `dbt deps`", file=sys.stderr)
        sys.exit(2)
    out = HOME / "elementary_cost" / "landing"
    sizes = ["--customers", "150", "--products", "60", "--orders", "900"]
    program = [sys.executable, str(ROOT / "python_jobs" / "generate_landing.py")]
    subprocess.run([*program, "--out", str(out), *sizes], check=True, stdout=subprocess.DEVNULL)
    some = ["--select", "tag:sensors", "package:elementary"] if given.quick else []
    projects = [
        make("without", some),
        make("as it comes", [*some, "--exclude", "tag:nothing"], as_it_comes),
        # With a selection `make build` leaves nothing out by itself.
        make("here", [*some, "--exclude", "package:elementary"] if some else []),
    ]
    found = {}
    for project in projects:
        if project.name == "here" and some:
            Project("here", project.folder, some).build()
        for _ in range(2):  # the second makes incremental models' SQL known
            project.build()
        found[project.name] = project.build()
        count, cost = found[project.name]
        print(f"{project.name}: {count} statements, {cost.wall:.1f} s, {cost.cpu:.1f} s of CPU")
    base, stock, ours = (found[project.name][0] for project in projects)
    met = ours - base <= (stock - base) * BAR
    counts = {
        name: {"statements": n, "wall": c.wall, "cpu": c.cpu} for name, (n, c) in found.items()
    }
    save("elementary_cost", builds=counts, met=met)
    print(
        f"elementary_cost: adds {ours - base} statements to {base} (as it comes {stock - base}, "
        f"bar half: {'met' if met else 'missed'})"
    )
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
