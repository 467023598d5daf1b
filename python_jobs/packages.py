"""Choose the dbt packages of a run: installed, fresh from dbt's hub, or the stand-ins.

dbt reads ``packages-install-path`` before it does anything else, so the choice is made outside
of dbt, and handed to it in the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from icegate.dbt_process import DBT
from icegate.errors import PackagesError
from icegate.packages import (
    LAPTOP,
    LOCK,
    SWITCH,
    are_installed,
    locked_versions,
    no_packages,
    versions_below,
)

HUB_URL = "https://hub.getdbt.com/"
HUB_TIMEOUT_S = 5
DEPS_TIMEOUT_S = 600


class RealPackagesError(PackagesError):
    """Real packages were demanded, and only stand-ins are to be had."""

    exit_code = 3


class Choice(NamedTuple):
    """The packages of one run of dbt: their versions by name, and why they're stand-ins, if so."""

    versions: dict[str, str]
    standins_because: str = ""

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return ``environ`` with the switch that makes dbt take these packages."""
        return {
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            **{key: value for key, value in environ.items() if key != SWITCH},
            **({SWITCH: "1"} if self.standins_because else {}),
        }


def choose_packages(
    project_dir: Path, target: str, *, standins_allowed: bool = False, require_real: bool = False
) -> Choice:
    """Return the packages to run with, after getting them from the hub when that is needed.

    Raises ``PackagesError`` when there are none, ``RealPackagesError`` when only stand-ins are
    left and ``require_real`` forbids them.
    """
    if not (project_dir / "packages.yml").exists() or are_installed(project_dir):
        return Choice(locked_versions(project_dir))
    problem = hub_problem() or fetch_packages(project_dir)
    if not problem:
        return Choice(locked_versions(project_dir))
    if require_real:
        raise RealPackagesError(
            "cannot get the real dbt packages", why=problem, fix="run `dbt deps` with access to it"
        )
    allowed = standins_allowed or os.environ.get(SWITCH) == "1"
    if target not in LAPTOP or not allowed or not (project_dir / "standins").is_dir():
        raise no_packages(target, problem)
    return Choice(versions_below(project_dir / "standins"), standins_because=problem)


def hub_problem() -> str:
    """Return why dbt's hub can't be used, or nothing when it answers."""
    url = os.environ.get("DBT_PACKAGE_HUB_URL") or HUB_URL
    try:
        with urllib.request.urlopen(f"{url}api/v1/index.json", timeout=HUB_TIMEOUT_S):
            return ""
    except (OSError, ValueError) as error:
        return f"dbt's hub can't be reached: {url}: {getattr(error, 'reason', error)}"


def fetch_packages(project_dir: Path) -> str:
    """Install the locked packages by ``dbt deps``; return why that failed, or nothing.

    dbt empties its folder before it downloads. Here it works in a folder aside, which takes the
    old one's place when it is complete.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".dbt_packages-", dir=project_dir) as aside:
            return _fetch(project_dir, Path(aside))
    except OSError as error:
        if are_installed(project_dir):  # by another run, which was faster
            return ""
        return f"cannot put the packages into {project_dir / 'dbt_packages'}: {error}"


def _fetch(project_dir: Path, aside: Path) -> str:
    (aside / "dbt_project.yml").write_text("name: packages\nversion: '1.0'\n")
    for file in ("packages.yml", LOCK):
        if (project_dir / file).exists():
            shutil.copy(project_dir / file, aside)
    problem = _run_deps(aside)
    if problem:
        return problem
    shutil.copy(aside / LOCK, aside / "dbt_packages")
    if not are_installed(aside):
        return "`dbt deps` installed other packages than package-lock.yml names"
    shutil.copy(aside / LOCK, project_dir)
    _swap_in(aside / "dbt_packages", project_dir / "dbt_packages", aside / "old")
    return ""


def _run_deps(project_dir: Path) -> str:
    """Run ``dbt deps`` there, without the switch: it deletes the folder that dbt is told to use."""
    command = (*DBT, "--no-use-colors", "deps", "--project-dir", ".", "--log-path", "logs")
    try:
        done = subprocess.run(
            command,
            cwd=project_dir,
            env=Choice({}).environment(os.environ),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEPS_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"`dbt deps` took longer than {DEPS_TIMEOUT_S} s"
    lines = done.stdout.strip().splitlines() or ["no output"]
    return f"`dbt deps` failed: {lines[-1].strip()}" if done.returncode else ""


def _swap_in(fresh: Path, folder: Path, old: Path) -> None:
    if folder.exists():
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
