"""A lake of its own for each test: an erasure looks through all tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from erasure.forgetting import Forgetting
from icegate.session import start_session
from icegate.settings import Lake


@pytest.fixture
def lake_to_clean(tmp_path: Path, lake_copy: Path, spark: Any) -> Forgetting:
    """An empty lake on the Spark of all tests."""
    conf = {"spark.sql.session.timeZone": "UTC"}
    lake = Lake(home=lake_copy, warehouse=lake_copy / "warehouse", ansi=True, spark_conf=conf)
    return Forgetting(tmp_path / "a project", lake, start_session(lake))
