"""Programs whose packages don't agree with ours, each set in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from maven import CACHE

from icegate.locks import FileLock, alone


def environment(name: str, requirements: str, *options: str) -> Path:
    """Return the folder of an environment, which is installed once for each list of packages.

    Raises ``CalledProcessError`` with what the installer says.
    """
    venv = CACHE / name
    with alone(FileLock(CACHE / f"{name}.lock"), f"install {name}"):  # tests run in two processes
        mark = venv / "requirements.txt"
        if not mark.is_file() or mark.read_text() != requirements:
            uv = [sys.executable, "-m", "uv"]
            made = [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, venv]
            subprocess.run(made, check=True)
            packages = [*uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python"]
            subprocess.run(
                [*packages, *options, "-r", "-"],
                input=requirements,
                check=True,
                capture_output=True,
                text=True,
            )
            mark.write_text(requirements)
    return venv
