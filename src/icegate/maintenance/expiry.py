"""Expire snapshots as Iceberg does, without Java: a commit, and then the files nobody needs go.

The procedure finds those by jobs of Spark, for a thousand snapshots the work of minutes. That is
for tables in a bucket, and for what one process can't hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from icegate import storage
from icegate.gate.refs import Metadata
from icegate.gate.store import edit
from icegate.health.files import reading
from icegate.health.limits import limits_of
from icegate.health.snapshots import expired, old_refs
from icegate.maintenance.action import Expiry
from icegate.settings import Lake
from icegate.tables.manifests import GONE, STATISTICS, lists_of, manifests_of, paths_of
from icegate.tables.metadata import history

MOST_FILES = 500_000  # of which the paths, of some hundred bytes each, are held in memory


def fits(metadata: Metadata, expiry: Expiry) -> bool:
    """Tell whether this process can expire snapshots of a table."""
    has_lists = all("manifest-list" in snapshot for snapshot in metadata["snapshots"])
    is_here = not storage.is_remote(metadata["location"])
    return has_lists and is_here and expiry.removed <= MOST_FILES


def expire(lake: Lake, table: str, expiry: Expiry) -> None:
    """Expire snapshots of `schema.table`, and delete the files that only they had.

    A file that can't be deleted stays as an orphan. Raises ``TableError`` for manifests that can't
    be read: then only metadata has changed, and nothing is deleted.
    """
    seen: list[Metadata] = []

    def change(metadata: Metadata) -> Metadata:
        seen[:] = [metadata, without_expired(metadata, expiry, int(time.time() * 1000))]
        return seen[1]

    edit(lake, table, change)
    if seen and seen[0] is not seen[1]:
        with reading(table, f"which files of {table} nobody needs any more"):
            unneeded = [*_unneeded(*seen)]
        for path in unneeded:
            with suppress(OSError):
                storage.delete(path)


def without_expired(metadata: Metadata, expiry: Expiry, now_ms: int) -> Metadata:
    """Return the metadata without what expires now, the same if nothing does."""
    age = {"snapshot_age": now_ms - expiry.older_than_ms, "snapshots": expiry.retain_last}
    limits = limits_of(metadata).model_copy(update=age)
    gone, old = {*expired(metadata, limits, now_ms)}, old_refs(metadata, limits, now_ms)
    if not gone and not old:
        return metadata
    log: list[dict[str, Any]] = []
    for entry in metadata.get("snapshot-log") or []:
        # Of a history with a gap nobody could tell what was between.
        log = [] if entry["snapshot-id"] in gone else [*log, entry]
    kept = {
        name: [each for each in metadata.get(name) or [] if each["snapshot-id"] not in gone]
        for name in ("snapshots", *STATISTICS)
    }
    refs = {n: ref for n, ref in (metadata.get("refs") or {}).items() if n not in old}
    return {**metadata, **kept, "refs": refs, "snapshot-log": log}


def _unneeded(before: Metadata, after: Metadata) -> Iterator[str]:
    """Yield the files that only snapshots needed which are gone: data first, then metadata."""
    left = {snapshot["snapshot-id"] for snapshot in after["snapshots"]}
    gone = [each for each in before["snapshots"] if each["snapshot-id"] not in left]
    of_gone, needed = manifests_of(gone), manifests_of(after["snapshots"])
    unneeded = [manifest for path, manifest in of_gone.items() if path not in needed]
    if oldest := _oldest_of_a_line(before, after):
        # What isn't live there was deleted by it, or by one before: those manifests are few.
        ids = {oldest, *(snapshot["snapshot-id"] for snapshot in gone)}
        told = [m for m in {**of_gone, **needed}.values() if m.added_by in ids and m.deleted != 0]
        files = paths_of(told, GONE)
    else:
        files = paths_of(unneeded)
    yield from files - paths_of(needed.values()) if files else ()
    yield from (manifest.path for manifest in unneeded)
    yield from lists_of(before) - lists_of(after)


def _oldest_of_a_line(before: Metadata, after: Metadata) -> int | None:
    """Return the oldest snapshot left, where all are of one line and those gone its beginning."""
    line = [snapshot["snapshot-id"] for snapshot in history(before)]
    left = {snapshot["snapshot-id"] for snapshot in after["snapshots"]}
    is_line = len(line) == len(before["snapshots"]) and left == {*line[: len(left)]}
    return line[len(left) - 1] if is_line and left else None
