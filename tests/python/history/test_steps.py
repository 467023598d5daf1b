"""Where a history goes on, by the metadata of its table and of its source."""

from __future__ import annotations

from icegate.history.steps import GOES_ON, Bookmark, goes_on, going_on


def test_where_a_history_goes_on_is_a_version_that_readers_had() -> None:
    log = [{"snapshot-id": id} for id in (1, 2, 3, 5)]
    source = {"snapshot-log": log, "refs": {"main": {"snapshot-id": 5}}}
    mark, history = Bookmark(2, 7), {"properties": {"owner": "me"}}
    assert goes_on(history, mark, source) == mark
    for looked_up_to in (2, 3, 4):  # the last by a build that was rejected
        history = going_on(history, mark, looked_up_to)
    assert goes_on(history, mark, source) == Bookmark(3, 7)
    assert going_on(history, mark, 4) is history
    back = Bookmark(2, 8)  # by a rollback, after which other versions came
    assert goes_on(history, back, source) == back
    history = going_on(history, mark, 5)
    assert goes_on(history, mark, source) == Bookmark(5, 7)
    assert goes_on(history, Bookmark(1, 7), source) == Bookmark(1, 7)
    for later in range(10, 20):
        history = going_on(history, Bookmark(later, 8), later + 1)
    assert len(history["properties"][GOES_ON].split()) == 8 and history["properties"]["owner"]
