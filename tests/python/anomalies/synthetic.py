"""Metadata of tables that never were, as Iceberg writes it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

MONDAY = datetime(2026, 1, 5, 6, 0, tzinfo=timezone.utc)
SCHEMA = {"schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


class Made:
    """A table's metadata, to which snapshots are added one after the other."""

    def __init__(self, *schemas: dict[str, Any]) -> None:
        self.metadata: dict[str, Any] = {
            "schemas": list(schemas or [SCHEMA]),
            "current-schema-id": (schemas or [SCHEMA])[-1]["schema-id"],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "snapshots": [],
            "snapshot-log": [],
            "refs": {},
        }
        self.rows = 0

    def commit(self, at: datetime, added: int = 0, deleted: int = 0, **how: Any) -> int:
        """Add a snapshot to main (or to the branch ``on``) and return its id."""
        snapshots, refs = self.metadata["snapshots"], self.metadata["refs"]
        ref, id = how.get("on", "main"), 100 + len(snapshots)
        head = refs.get(ref) or refs.get("main")
        parent = head["snapshot-id"] if head and not how.get("anew") else None
        self.rows = added if how.get("anew") else self.rows + added - deleted
        counts = {"added-records": added, "deleted-records": deleted}
        summary = {key: str(count) for key, count in counts.items() if count}
        summary |= {"operation": how.get("operation", "append"), "total-records": str(self.rows)}
        snapshot = {"snapshot-id": id, "timestamp-ms": int(at.timestamp() * 1000)}
        snapshot |= {"summary": summary | how.get("summary", {}), "schema-id": how.get("schema", 0)}
        snapshots.append(snapshot if parent is None else {**snapshot, "parent-snapshot-id": parent})
        refs[ref] = {"snapshot-id": id, "type": "branch"}
        if ref == "main":
            self.metadata["snapshot-log"].append({"snapshot-id": id})
        return id

    def rebuild(self, at: datetime, rows: int) -> int:
        """Replace all rows, as `insert overwrite` does."""
        return self.commit(at, rows, self.rows, operation="overwrite")

    def move_main(self, snapshot_id: int) -> None:
        """Roll main back, or publish."""
        self.metadata["refs"]["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
        self.metadata["snapshot-log"].append({"snapshot-id": snapshot_id})

    def expire(self, oldest: int) -> None:
        """Forget the snapshots before one."""
        for kind in ("snapshots", "snapshot-log"):
            kept = [entry for entry in self.metadata[kind] if entry["snapshot-id"] >= oldest]
            self.metadata[kind] = kept


def on_day(number: int, hour: float = 0) -> datetime:
    """Return 6:00 of a day, the first of which is a Monday, and hours later."""
    return MONDAY + timedelta(days=number, hours=hour)


def daily(*rows: int, every: int = 1) -> Made:
    """Return a table to which so many rows were appended, after a first load of 50,000."""
    made = Made()
    made.commit(on_day(-every), 50_000)
    for place, count in enumerate(rows):
        made.commit(on_day(place * every), count)
    return made
