"""Where a history goes on, by the metadata of its table and of its source."""

from __future__ import annotations

from typing import Any

import pytest

from icegate.errors import TableError
from icegate.history.steps import GOES_ON, Bookmark, goes_on, going_on, looked_at, steps


def source(*log: tuple[int, int], kept: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return a table whose readers had versions at times in ms; each was committed at ``10 * id``.

    A version with a greater number was written on top of the one below it that there is.
    """
    ids = sorted(kept or {id for id, _ in log})
    return {
        "snapshots": [
            {
                "snapshot-id": id,
                "sequence-number": id,
                "timestamp-ms": 10 * id,
                "summary": {},
                **({"parent-snapshot-id": before} if before else {}),
            }
            for before, id in zip([0, *ids], ids, strict=False)
        ],
        "last-sequence-number": max(ids),
        "snapshot-log": [{"snapshot-id": id, "timestamp-ms": at} for id, at in log],
        "refs": {"main": {"snapshot-id": log[-1][0]}},
    }


def test_where_a_history_goes_on_is_a_version_that_readers_had() -> None:
    table = source((1, 10), (2, 20), (3, 30), (5, 50))
    mark, history = Bookmark(2, 7), {"properties": {"owner": "me"}}
    assert goes_on(history, mark, table) == mark
    for looked_up_to in (2, 3, 4):  # the last by a build that was rejected
        history = going_on(history, mark, Bookmark(looked_up_to, 7))
    assert goes_on(history, mark, table) == Bookmark(3, 7)
    assert going_on(history, mark, Bookmark(4, 7)) is history
    back = Bookmark(2, 8)  # by a rollback, after which other versions came
    assert goes_on(history, back, table) == back
    history = going_on(history, mark, looked_at(mark, 5, table))
    assert goes_on(history, mark, table) == Bookmark(5, 7, 50)
    assert goes_on(history, Bookmark(1, 7), table) == Bookmark(1, 7)
    for later in range(10, 20):
        history = going_on(history, Bookmark(later, 8), Bookmark(later + 1, 8))
    assert len(history["properties"][GOES_ON].split()) == 8 and history["properties"]["owner"]


def test_what_a_build_looked_at_on_its_branch_was_not_logged() -> None:
    table = source((1, 10), (2, 20))
    assert looked_at(Bookmark(1, 7), 2, table) == Bookmark(2, 7, 20)
    assert looked_at(Bookmark(1, 7), 3, table) == Bookmark(3, 7)
    assert looked_at(Bookmark(1, 7), 3, {}) == Bookmark(3, 7)


def test_a_version_that_came_back_is_not_where_a_history_was() -> None:
    """Between its two times in the log there was a version that has expired."""
    seen = looked_at(Bookmark(1, 10_000), 1, source((1, 10)))
    later = source((1, 35), (4, 40))
    with pytest.raises(TableError, match="the history of t has a gap"):
        steps("t", later, "", seen)
    with pytest.raises(TableError, match="the history of t has a gap"):
        steps("t", source((1, 35), (4, 40), kept=(1, 4, 5)), "a build", seen)
    (bridged,) = steps("t", later, "", seen, "bridge")
    assert (bridged.old, bridged.new) == (1, 4)
    kept = source((1, 10), (3, 30), (1, 35), (4, 40))
    found = [(step.old, step.new) for step in steps("t", kept, "", seen)]
    assert found == [(1, 3), (3, 1), (1, 4)]


def test_a_past_that_is_known_whole() -> None:
    whole = [step.is_known_whole for step in steps("t", source((1, 10), (2, 20)), "", None)]
    assert whole == [True, True]
    published = steps("t", source((1, 15), (2, 25)), "", None)[0]
    assert published.is_known_whole and published.at == 10_000
    back = steps("t", source((1, 35), (4, 40)), "", None)[0]  # 2 and 3 have expired
    assert not back.is_known_whole and back.at == 35_000
    alone = steps("t", {**source((1, 35)), "last-sequence-number": 3}, "", None)[0]
    assert not alone.is_known_whole
