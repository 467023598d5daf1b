"""A table in a schema of its own, in each form that a history can be asked of."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from history.scene import Scene
from history.versioned import KINDS
from icegate.settings import Lake


@pytest.fixture(params=list(KINDS))
def scene(request: pytest.FixtureRequest, lake: Lake, spark: Any) -> Any:
    """Return a scene for each kind of table; its tables are dropped at the end."""
    made = Scene(spark, lake, f"h_{uuid.uuid4().hex[:8]}", request.param)
    yield made
    made.close()
