"""Projects behind the gate, each with a catalog of its own on the one Spark of all tests."""

from __future__ import annotations

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
