"""Projects behind the gate, each with a catalog of its own on the one Spark of all tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.gated import GatedProject
from icegate.session import start_session
from icegate.settings import Lake


@pytest.fixture
def gated(tmp_path: Path, own_lake: Lake, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project whose target has the gate on."""
    monkeypatch.delenv("ICEGATE_RELEASE", raising=False)
    return GatedProject(tmp_path / "a project", own_lake, start_session(own_lake), gate=True)
