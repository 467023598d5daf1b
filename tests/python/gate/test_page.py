"""The page about the gate proves what it says by tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parents[2] / "docs" / "gate.md"


def test_each_row_names_a_test_that_is_there() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "`test_" in line]
    there = {
        name
        for file in TESTS.glob("test_*.py")
        for name in re.findall(r"def (\w+)", file.read_text())
    }
    named = {name for row in rows for name in re.findall(r"`(test_\w+)`", row)}
    assert len(rows) > 25 and named <= there, named - there
