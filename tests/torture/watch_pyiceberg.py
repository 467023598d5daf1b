"""Look at all pointers of one moment, and read every table there through PyIceberg."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks import foreign_ids, order_faults, row_faults, tie_faults
from gated_shop import SCHEMA, Row
from lakes import is_moving, read_pointers, read_table
from pyiceberg.expressions import EqualTo
from watch import Findings

TABLES = ("orders", "lines", "totals")
REREAD = 50  # polls: a reader also comes when nothing has changed


class PyIcebergWatcher:
    """Reads the pointers in one SQL transaction, so that they are those of one moment."""

    pause_s = 0.03

    def __init__(self, home: Path) -> None:
        self.home = home
        self.findings = Findings()
        self.pointers: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        self.foreign: set[str] = set()
        self.undos = 0

    def look(self) -> None:
        was_moving = is_moving(self.home)
        pointers = read_pointers(self.home)
        self.is_moving = is_moving(self.home) or was_moving
        self.findings.polls += 1
        if pointers == self.pointers and self.findings.polls % REREAD:
            return
        self.findings.changes += pointers != self.pointers
        # What was on its way is looked at again once it's there.
        self.pointers = {} if self.is_moving else pointers
        try:
            self._check(pointers)
        except FileNotFoundError as error:
            self.findings.add(f"PyIceberg {pointers}", [f"a file of a table is gone: {error}"])

    def _check(self, pointers: dict[str, str]) -> None:
        found = {name: read_table(file) for name, file in pointers.items()}
        own = {name: found[f"{SCHEMA}.{name}"] for name in TABLES if f"{SCHEMA}.{name}" in found}
        tables: dict[str, list[Row]] = dict.fromkeys(TABLES, [])
        tables |= {name: table.scan().to_arrow().to_pylist() for name, table in own.items()}
        heads = {name: table.metadata.current_snapshot_id for name, table in own.items()}
        where = f"PyIceberg, snapshots {heads}"
        self.findings.add(where, row_faults(tables))
        if self.is_moving:  # till then each table by itself is all that holds
            return
        self.findings.add(where, tie_faults(tables))
        metadata = {name: _as_json(table) for name, table in own.items()}
        undos, foreign = _undos(found), foreign_ids(tables)
        if undos == self.undos:
            self.findings.add(where, order_faults(self.metadata, metadata))
            lost = sorted(self.foreign - foreign)
            self.findings.add(where, [f"rows of another writer are lost: {lost}"] if lost else [])
        self.findings.undos += undos - self.undos
        self.undos, self.metadata, self.foreign = undos, metadata, foreign
        self.findings.add(where, self._release_faults(found, own))

    def _release_faults(self, found: dict[str, Any], own: dict[str, Any]) -> Iterator[str]:
        """Yield what the last release of the ledger says otherwise than tables and tags."""
        if "icegate.release_tables" not in found:
            return
        releases = found["icegate.releases"].properties.get("icegate.last-release", "0")
        self.findings.releases = int(releases)
        wanted = EqualTo("release", int(releases))
        rows = found["icegate.release_tables"].scan(wanted).to_arrow().to_pylist()
        at = {row["table_name"].partition(".")[2]: row for row in rows}
        if not at:
            return
        tables: dict[str, list[Row]] = dict.fromkeys(TABLES, [])
        for name, table in own.items():
            if name not in at:
                yield f"release {releases} lacks {name}"
                continue
            snapshot = at[name]["snapshot_id"]
            tag = table.metadata.refs.get(f"release_{releases}")
            if at[name]["moved"] and (tag is None or tag.snapshot_id != snapshot):
                yield f"release {releases} has no tag on {name}, or another one: {tag}"
            if snapshot not in _ancestry(table):
                yield f"release {releases} has {name} at {snapshot}, where main isn't"
            if snapshot is not None:
                tables[name] = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        yield from (f"as of release {releases}: {fault}" for fault in tie_faults(tables))


def _undos(found: dict[str, Any]) -> int:
    if "icegate.releases" not in found:
        return 0
    events = found["icegate.releases"].scan(selected_fields=("event",)).to_arrow()
    return events["event"].to_pylist().count("rolled_back")


def _as_json(table: Any) -> dict[str, Any]:
    return {
        "current-snapshot-id": table.metadata.current_snapshot_id,
        "snapshots": [
            {"snapshot-id": s.snapshot_id, "sequence-number": s.sequence_number}
            for s in table.metadata.snapshots
        ],
    }


def _ancestry(table: Any) -> set[int | None]:
    """Return the snapshots that `main` is at or came from; None of a table without rows."""
    by_id = {s.snapshot_id: s for s in table.metadata.snapshots}
    at, found = table.metadata.current_snapshot_id, set[int | None]()
    while at is not None:
        found.add(at)
        at = by_id[at].parent_snapshot_id if at in by_id else None
    return found or {None}
