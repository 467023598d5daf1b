"""What a build left in a table is known as its own, even where Iceberg doesn't sign snapshots."""

from __future__ import annotations

import pytest

from icegate.unchanged.skips import _may_be_others

ON_MAIN, ON_BRANCH = 1, 2
TABLE = {"snapshot-log": [{"snapshot-id": ON_MAIN, "timestamp-ms": 0}]}


@pytest.mark.parametrize(
    ("metadata", "is_staged", "others"),
    [
        (TABLE, False, {ON_MAIN}),
        (TABLE, True, set()),
        ({"snapshot-log": []}, False, {ON_MAIN, ON_BRANCH}),
        ({}, False, {ON_MAIN, ON_BRANCH}),
    ],
)
def test_only_what_was_on_main_may_be_anothers(metadata, is_staged, others) -> None:
    asked = _may_be_others(metadata, is_staged)
    assert {id for id in (ON_MAIN, ON_BRANCH) if asked(id)} == others
