"""What a table was in an earlier release, and how long that can be asked."""

from __future__ import annotations

import time
from collections.abc import Collection

from icegate.catalog import list_relations, read_metadata
from icegate.errors import ConfigError, GateError
from icegate.gate import ledger, refs
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.refs import Metadata
from icegate.settings import Lake

KEPT_RELEASES, KEPT_DAYS = 10, 7
DAY_MS = 24 * 3600 * 1000


def tables_of(lake: Lake, release: int, chosen: Collection[str] = ()) -> dict[str, ReleaseTable]:
    """Return what tables were in a release, all or those chosen, by `schema.table`.

    Raises ``ConfigError`` for a release that isn't known, and for a table that it lacks.
    """
    rows = {row.table_name: row for row in ledger.read_release_tables(lake, release)}
    lost = [name for name in chosen if name not in rows]
    if lost or not rows:
        last = ledger.last_release(lake)
        raise ConfigError(
            f"cannot read {' '.join(lost) or 'tables'} as of release {release}",
            why="it wasn't there, or isn't gated"
            if rows
            else f"there is no such release: the last one is {last}",
            fix=f"`icegate release {f'show {release}' if rows else 'list'}` has what there is",
        )
    return {name: row for name, row in rows.items() if not chosen or name in chosen}


def snapshot_in_release(lake: Lake, table: str, release: int) -> int | None:
    """Return the snapshot that `schema.table` was at in a release; None if it had no rows.

    Raises ``ConfigError`` as ``tables_of`` does, and ``GateError`` for rows that have expired.
    """
    found = tables_of(lake, release, [table])[table].snapshot_id
    entries = (e for e in list_relations(lake) if e.full_name == table)
    if found is not None and not any(refs.snapshot(read_metadata(e), found) for e in entries):
        raise GateError(
            f"cannot read {table} as of release {release}",
            why=f"its snapshot {found} has expired, or the table was dropped",
            fix="ask for a later release, or keep more of them before they expire",
        )
    return found


def expired_tags(
    metadata: Metadata, last: int, keep: int = KEPT_RELEASES, days: int = KEPT_DAYS
) -> list[str]:
    """Return the release tags that a table needs no more when ``last`` is the newest release.

    Kept are those of the last ``keep`` releases and of the last ``days``, and the one before
    them: it is what the first of them has, if the table didn't move in it.
    """
    oldest_ms = int(time.time() * 1000) - days * DAY_MS
    found = refs.releases(metadata)
    times = {s["snapshot-id"]: s["timestamp-ms"] for s in metadata.get("snapshots") or []}
    old = [
        release
        for release, snapshot_id in found.items()
        if release <= last - keep and times.get(snapshot_id, 0) < oldest_ms
    ]
    return [refs.tag_of(release) for release in old[:-1]]
