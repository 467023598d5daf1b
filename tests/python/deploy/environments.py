"""The programs that templates and schedules are tried with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from environments import environment


def installed(name: str, requirements: Path) -> Path:
    """Return the folder of an environment's programs; skip where they can't be installed."""
    try:
        return environment(name, requirements.read_text()) / "bin"
    except subprocess.CalledProcessError as error:
        if error.stderr is None:  # no environment could be made
            raise
        pytest.skip(f"no {name} can be installed: {error.stderr[-500:]}")
