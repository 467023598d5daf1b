"""What a table's or view's metadata file says: columns, totals, and when its rows last changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

# A key that is absent counts nothing; streams commit such snapshots to keep a checkpoint.
ROW_CHANGES = ("added-records", "deleted-records", "added-delete-files", "removed-delete-files")

# Where Spark has another name than Iceberg.
SPARK_TYPES = {
    "long": "bigint",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "uuid": "string",
    "fixed": "binary",
}


def current_snapshot(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the snapshot that `main` is at, or None for a table that never had rows."""
    return next(history(metadata), None)


def history(metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield `main`'s snapshots from the newest back, as far as they are kept; no other branch's."""
    return ancestry(metadata, metadata.get("current-snapshot-id"))


def ancestry(metadata: dict[str, Any], snapshot_id: int | None) -> Iterator[dict[str, Any]]:
    """Yield a snapshot and its ancestors, the newest first, as far as they are kept."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or []}
    found = by_id.get(snapshot_id)
    while found is not None:
        yield found
        found = by_id.get(found.get("parent-snapshot-id"))


def is_known_until_next(metadata: dict[str, Any], place: int) -> bool:
    """Tell whether the log's next version came after this one, with none between that has expired.

    Iceberg cuts the log at what it expires. PyIceberg takes such an entry out of its middle: the
    one before would then seem to have held for longer than it did.
    """
    log = metadata["snapshot-log"]
    here, after = (
        {snapshot["snapshot-id"] for snapshot in ancestry(metadata, entry["snapshot-id"])}
        for entry in (log[place], log[min(place + 1, len(log) - 1)])
    )
    return not here.isdisjoint(after)


def changed_rows(snapshot: dict[str, Any]) -> bool:
    """Tell whether a snapshot added or deleted rows; compaction only moves them."""
    summary = snapshot.get("summary", {})
    if summary.get("operation") == "replace":
        return False
    return any(int(summary.get(key, 0)) for key in ROW_CHANGES)


def last_change(metadata: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest snapshot on `main` that changed rows, if there is one (still)."""
    return next(filter(changed_rows, history(metadata)), None)


def view_version(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the version of a view that readers get."""
    wanted = metadata.get("current-version-id")
    return next((v for v in metadata.get("versions", []) if v["version-id"] == wanted), {})


def columns(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the columns of a table or view: name, type as Spark writes it, required, comment."""
    wanted = metadata.get("current-schema-id", view_version(metadata).get("schema-id"))
    schema = by_id(metadata["schemas"], "schema-id", wanted)
    return [
        {
            "name": field["name"],
            "type": type_name(field["type"]),
            "required": field["required"],
            "comment": field.get("doc"),
        }
        for field in schema.get("fields", [])
    ]


def type_name(kind: Any) -> str:
    """Return a type of Iceberg's JSON as Spark writes it."""
    if isinstance(kind, str):
        return SPARK_TYPES.get(kind.partition("[")[0], kind).replace(", ", ",")
    if kind["type"] == "list":
        return f"array<{type_name(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{type_name(kind['key'])},{type_name(kind['value'])}>"
    inner = (f"{field['name']}:{type_name(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(inner)}>"


def by_id(choices: list[dict[str, Any]], key: str, wanted: int | None) -> dict[str, Any]:
    """Return the schema, spec or sort order of that id, or one without fields."""
    return next((choice for choice in choices if choice[key] == wanted), {"fields": []})


def total(summary: dict[str, str], what: str) -> int | None:
    """Return a total of a snapshot's summary, such as `records`, or None when it isn't there."""
    value = summary.get(f"total-{what}")
    return None if value is None else int(value)


def row_count(summary: dict[str, str]) -> tuple[int | None, bool]:
    """Return the rows of a snapshot, and whether delete files make that an estimate.

    One row can be deleted twice, and an equality delete doesn't say how many it takes.
    """
    records = total(summary, "records")
    deleted = total(summary, "position-deletes") or 0
    rows = None if records is None else max(0, records - deleted)
    return rows, bool(deleted or total(summary, "equality-deletes"))


def moment(milliseconds: int | None) -> datetime | None:
    """Return a time of Iceberg's metadata, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, timezone.utc) if milliseconds else None
