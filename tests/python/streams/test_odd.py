"""Odd records become what they always became, however quick the way: see `odd.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.odd import NOTED, outcomes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("quickly", [False, True])
def test_odd_records_are_read_as_noted(spark: Any, quickly: bool) -> None:
    noted = json.loads(NOTED.read_text())
    found = outcomes(spark, quickly)
    assert [each["record"] for each in found] == [each["record"] for each in noted]
    differ = [(was, now) for was, now in zip(noted, found, strict=True) if was != now]
    assert differ == []
