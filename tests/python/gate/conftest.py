"""Projects behind the gate, each with a catalog of its own on the one Spark of all tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gate.gated import GatedProject
from icegate.session import start_session
from icegate.settings import Lake


@pytest.fixture
def gated(tmp_path: Path, lake_copy: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project whose target has the gate on."""
    monkeypatch.delenv("ICEGATE_RELEASE", raising=False)
    conf = {"spark.sql.session.timeZone": "UTC"}
    lake = Lake(home=lake_copy, warehouse=lake_copy / "warehouse", ansi=True, spark_conf=conf)
    return GatedProject(tmp_path / "a project", lake, start_session(lake), gate=True)


@pytest.fixture
def make_read_only() -> Iterator[Callable[[Path], None]]:
    """What puts a folder on a disk that nobody can write to, root neither."""
    mounted: list[str] = []

    def mount(folder: Path) -> None:
        bind = ["mount", "--bind", str(folder), str(folder)]
        if os.geteuid() != 0 or subprocess.run(bind, check=False).returncode != 0:
            pytest.skip("a disk can be mounted by root only")
        mounted.append(str(folder))
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)
