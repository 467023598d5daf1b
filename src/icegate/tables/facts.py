"""What people ask of tables and views, from the catalog's file and metadata files alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from icegate.catalog import list_relations, read_metadata
from icegate.errors import CatalogError
from icegate.settings import Lake
from icegate.tables.metadata import (
    ROW_CHANGES,
    columns,
    current_snapshot,
    last_change,
    moment,
    row_count,
    total,
)
from icegate.tables.state import literal

Key = tuple[str, str]  # schema and name, in lower case: so dbt compares them


@dataclass(frozen=True)
class Facts:
    """One table or view; ``summary`` is its current snapshot's, None when it never had rows."""

    schema: str
    name: str
    kind: str
    columns: list[dict[str, Any]]
    comment: str | None = None
    owner: str | None = None
    summary: dict[str, str] | None = None
    changed_at: datetime | None = None

    @property
    def key(self) -> Key:
        return self.schema.lower(), self.name.lower()


def read_facts(
    lake: Lake, wanted: Collection[Key], unreadable: Callable[[str], Any]
) -> Iterator[Facts]:
    """Yield the facts of the ``wanted`` tables and views; ``unreadable`` is told of the others."""
    for entry in list_relations(lake):
        if (entry.namespace.lower(), entry.name.lower()) not in wanted:
            continue
        try:
            metadata = read_metadata(entry)
        except CatalogError as error:
            unreadable(str(error))
            continue
        current, change = current_snapshot(metadata), last_change(metadata)
        properties = metadata.get("properties") or {}
        yield Facts(
            schema=entry.namespace,
            name=entry.name,
            kind=entry.kind,
            columns=columns(metadata),
            comment=properties.get("comment"),
            owner=properties.get("owner"),
            summary=current.get("summary", {}) if current else None,
            changed_at=moment(change["timestamp-ms"] if change else None),
        )


def statistics(facts: Facts, now: datetime) -> list[tuple[str, str, str | int | None, str]]:
    """Return id, name, value and meaning of what is told beside a table; None isn't known."""
    summary = facts.summary or {}
    rows, estimated = row_count(summary)
    changed, age = None, None
    if facts.changed_at is not None:
        changed = facts.changed_at.strftime("%Y-%m-%d %H:%M:%S UTC")
        age = str(now - facts.changed_at).partition(".")[0]
    about = "an estimate: delete files take rows away" if estimated else "of the current snapshot"
    size, files = total(summary, "files-size"), total(summary, "data-files")
    return [
        ("rows", "Rows", rows, about),
        ("bytes", "Bytes", size, "data and delete files of the snapshot"),
        ("files", "Data files", files, "of the current snapshot"),
        ("last_modified", "Last change", changed, "of rows; compaction is none"),
        ("snapshot_age", "Snapshot age", age, "from the last change to these docs"),
    ]


def history_sql(table: Any) -> str:
    """Return what selects one row: the current snapshot's summary, and when rows last changed.

    ``table`` is written as SQL by ``str``. Compaction (`replace`) and snapshots without rows change
    nothing.
    """
    counts = (f"coalesce(cast(snapshots.summary['{key}'] as bigint), 0)" for key in ROW_CHANGES)
    changed = f"snapshots.operation <> 'replace' and greatest({', '.join(counts)}) > 0"
    return f"""
        select
            {literal(str(table.schema))} as table_schema,
            {literal(str(table.identifier))} as table_name,
            to_json(max_by(snapshots.summary, history.made_current_at)) as summary,
            unix_millis(max(snapshots.committed_at) filter (where {changed})) as changed_ms
        from {table}.history as history
        inner join {table}.snapshots as snapshots on history.snapshot_id = snapshots.snapshot_id
        where history.is_current_ancestor
    """
