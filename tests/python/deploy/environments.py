"""Programs whose packages don't agree with ours, each set in an environment of its own."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def installed(name: str, requirements: Path) -> Path:
    """Return the folder of an environment's programs, which is installed once for each lock."""
    venv = ROOT / ".icegate" / name
    venv.parent.mkdir(exist_ok=True)
    with (venv.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in two processes
        _install(venv, requirements)
    return venv / "bin"


def _install(venv: Path, requirements: Path) -> None:
    mark = venv / "requirements.txt"
    if not mark.is_file() or mark.read_text() != requirements.read_text():
        uv = [sys.executable, "-m", "uv"]
        made = [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, venv]
        subprocess.run(made, check=True)
        packages = [*uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
        done = subprocess.run(
            [*packages, "-r", requirements], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no {venv.name} can be installed: {done.stderr[-500:]}")
        mark.write_text(requirements.read_text())
