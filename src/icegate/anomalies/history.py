"""A table's changes, from the summaries of its snapshots: no manifest and no data is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from icegate.gate.refs import BUILD_STAMP, MAIN, RELEASE_STAMP, Metadata, head, with_releases
from icegate.tables.metadata import ancestry, row_count


@dataclass(frozen=True)
class Point:
    """A snapshot that may have changed rows, or what one build or day did, taken together.

    ``at`` is when it was committed (UTC), on a branch before it was published. ``rows`` is how
    many the table had then; ``growth`` how many more than before, None where that can't be known:
    of a table's first rows, and with equality deletes, which don't say how many they take. The
    rest is of the data files that it added, by column, None where no manifest was read: nulls,
    values (nulls too), and bounds as numbers, times in seconds since 1970.
    """

    snapshot_id: int
    at: datetime
    rows_added: int
    rows_deleted: int
    rows: int | None
    growth: int | None
    schema_id: int | None = None
    build: tuple[str, str] | None = None
    parts: tuple[int, ...] = ()  # the snapshots
    null_counts: dict[str, int] | None = None
    value_counts: dict[str, int] | None = None
    lowest: dict[str, float] | None = None
    highest: dict[str, float] | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether it changed no row, as an append of nothing."""
        return not (self.rows_added or self.rows_deleted)

    @property
    def is_all(self) -> bool:
        """Tell whether the table had no other rows than those that it added."""
        return bool(self.rows_added) and self.rows == self.rows_added


def changes(metadata: Metadata, ref: str = MAIN) -> list[Point]:
    """Return the changes that led to a branch or tag, the oldest that is kept first.

    Maintenance (`replace`: compaction, rewritten manifests and delete files) is none. A merge that
    is copy-on-write writes whole files anew, so that ``rows_added`` and ``rows_deleted`` are above
    what was changed: their difference is right, and updates can't be told from rows that stayed.
    """
    points: list[Point] = []
    for snapshot in reversed(list(_line(with_releases(metadata), ref))):
        if snapshot.get("summary", {}).get("operation") != "replace":
            points.append(_point(snapshot, points[-1].rows if points else None))
    return points


def runs(points: Iterable[Point]) -> list[Point]:
    """Return the changes, those of one build taken together, such as a delete and an insert."""
    groups = groupby(points, key=lambda point: point.build or point.snapshot_id)
    return [_together(list(group)) for _, group in groups]


def days(points: Iterable[Point]) -> list[Point]:
    """Return the changes, those of one day (UTC) taken together."""
    groups = groupby(points, key=lambda point: point.at.date())
    return [_together(list(group)) for _, group in groups]


def volumes(points: list[Point]) -> tuple[list[int | None], bool]:
    """Return what tells of each change how much came, and whether that is the table's total.

    It is, where most changes leave only what they wrote, unless the table grows nearly each time:
    a merge into a table of one file writes all of it, too. Else it's the growth, but of a change
    that made the table anew, as a full refresh does. The last, which is to be judged, has no say.
    """
    earlier = points[1:-1]
    grew = sum((point.growth or 0) > 0 for point in earlier)
    mostly = sum(point.is_all for point in earlier) * 2 > len(earlier)
    if mostly and grew * 10 < len(earlier) * 9:
        return [point.rows for point in points], True
    return [point.growth if mostly or not point.is_all else None for point in points], False


def _together(points: list[Point]) -> Point:
    """Return changes as one; to blame is the one that grew the table most, else the last."""
    growth = [p.growth for p in points]
    return replace(
        points[-1],
        snapshot_id=max(points, key=lambda p: (p.growth or 0, p.at)).snapshot_id,
        rows_added=sum(p.rows_added for p in points),
        rows_deleted=sum(p.rows_deleted for p in points),
        growth=None if None in growth else sum(filter(None, growth)),
        parts=tuple(part for p in points for part in p.parts),
    )


def _line(metadata: Metadata, ref: str) -> Iterator[dict[str, Any]]:
    """Yield a ref's snapshots, the newest first, over the times that the table was made anew.

    `create or replace` begins with a snapshot that has no parent; main's log has what was before.
    What a rollback left is in that log too, but not among the ancestors of what came after.
    """
    log = [entry["snapshot-id"] for entry in metadata.get("snapshot-log") or []]
    at = head(metadata, ref)
    while at is not None:
        found = list(ancestry(metadata, at))
        yield from found
        first = found[-1] if found else {"parent-snapshot-id": at}  # it has expired
        known = first.get("parent-snapshot-id") is None and first["snapshot-id"] in log
        before = log.index(first["snapshot-id"]) if known else 0
        at = log[before - 1] if before else None


def _point(snapshot: dict[str, Any], rows_before: int | None) -> Point:
    """Return a snapshot as a point; the table had ``rows_before``, None if it wasn't there."""
    summary = snapshot.get("summary", {})
    names = ("added-records", "deleted-records", "added-position-deletes")
    added, deleted, marked = (int(summary.get(name, 0)) for name in names)
    deleted += marked - int(summary.get("removed-position-deletes", 0))
    rows = row_count(summary)[0]
    growth: int | None = added - deleted
    if snapshot.get("parent-snapshot-id") is None:  # made anew: no row counts as deleted
        growth = None if rows_before is None or rows is None else rows - rows_before
    if "added-equality-deletes" in summary or "removed-equality-deletes" in summary:
        growth = None
    build = summary.get(BUILD_STAMP)
    return Point(
        snapshot_id=snapshot["snapshot-id"],
        at=datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, timezone.utc),
        rows_added=added,
        rows_deleted=deleted,
        rows=rows,
        growth=growth,
        schema_id=snapshot.get("schema-id"),
        build=(build, summary.get(RELEASE_STAMP, "")) if build else None,
        parts=(snapshot["snapshot-id"],),
    )
