"""A lake of its own for each test: an erasure looks through all tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gate.conftest import gated
from gate.gated import GatedProject

from erasure.forgetting import Forgetting
from erasure.shopping import Shop
from icegate.session import start_session
from icegate.settings import Lake

__all__ = ["gated"]


@pytest.fixture
def lake_to_clean(tmp_path: Path, own_lake: Lake, spark: Any) -> Forgetting:
    """An empty lake on the Spark of all tests."""
    return Forgetting(tmp_path / "a project", own_lake, start_session(own_lake))


@pytest.fixture
def shop(gated: GatedProject) -> Shop:
    """A project behind the gate, with landing files of three customers."""
    return Shop(gated)
