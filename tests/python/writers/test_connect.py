"""Writers that meet on a Spark Connect server, where Java's errors arrive as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DbtProject

from icegate.settings import Lake
from writers.scenes import SCENES

pytestmark = pytest.mark.long
HERE = Path(__file__).parents[1]


def test_on_a_server_it_is_the_same(lake_copy: Path, tmp_path: Path) -> None:
    lake = Lake(home=lake_copy, warehouse=lake_copy / "warehouse")
    project = DbtProject(tmp_path / "p", lake, None, method="connect", memory="1g")
    server = [sys.executable, "-m", "icegate.cli.main", "server"]
    where = ["--project-dir", str(project.folder), "--profiles-dir", str(project.folder)]
    subprocess.run([*server, "start", *where], check=True, timeout=240)
    try:
        played = subprocess.run(  # pyspark knows one kind of session in a process
            [sys.executable, "-m", "writers.scenes", str(project.folder)],
            cwd=HERE, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    finally:
        subprocess.run([*server, "stop", *where], check=False, timeout=60)
    lines = played.stdout.splitlines()[2:]
    scenes = [scene for scene in SCENES if not scene.spoils]
    assert len(lines) == len(scenes), played.stderr
    for scene, line in zip(scenes, lines, strict=True):
        writers, how, conflicts, *_, outcome = line.strip("| ").split(" | ")
        assert (writers, how.strip(), outcome) == (scene.writers, scene.how, scene.outcome)
        assert scene.meets in (None, bool(int(conflicts))), line
