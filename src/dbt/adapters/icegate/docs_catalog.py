"""Facts of tables and views as dbt's docs want them: a row for each column, with the statistics."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

from dbt.adapters.icegate.metadata import Facts
from icegate.tables.metadata import row_count, total

if TYPE_CHECKING:
    import agate  # type: ignore[import-untyped]

HEAD = (
    "table_database table_schema table_name table_type table_comment table_owner "
    "column_name column_index column_type column_comment"
).split()


class Stat(NamedTuple):
    """One statistic of a table; dbt shows it unless it's None."""

    id: str
    label: str
    description: str
    value: float | str | None


def stats(facts: Facts, now: datetime) -> list[Stat]:
    """Return what the docs show beside a table; a view and a table without snapshots have none."""
    summary = facts.summary or {}
    rows, estimated = row_count(summary)
    changed, age = None, None
    if facts.changed_at is not None:
        changed = facts.changed_at.strftime("%Y-%m-%d %H:%M:%S UTC")
        age = str(now - facts.changed_at).partition(".")[0]
    about = "an estimate: delete files take rows away" if estimated else "of the current snapshot"
    return [
        Stat("rows", "Rows", about, rows),
        Stat(
            "bytes", "Bytes", "data and delete files of the snapshot", total(summary, "files-size")
        ),
        Stat("files", "Data files", "of the current snapshot", total(summary, "data-files")),
        Stat("last_modified", "Last change", "of rows; compaction is none", changed),
        Stat("snapshot_age", "Snapshot age", "from the last change to these docs", age),
    ]


def to_agate(found: Iterable[Facts]) -> agate.Table:
    """Return dbt's catalog table, typed by us: a guess takes a column named `2024` for a number."""
    import agate

    now = datetime.now(timezone.utc)
    text, number = agate.Text(cast_nulls=False), agate.Number()
    types: dict[str, Any] = dict.fromkeys(HEAD, text) | {"column_index": number}
    for stat in stats(Facts("", "", "", []), now):
        for part in ("label", "value", "description"):
            types[f"stats:{stat.id}:{part}"] = text
        if stat.id in ("rows", "bytes", "files"):
            types[f"stats:{stat.id}:value"] = number
        types[f"stats:{stat.id}:include"] = agate.Boolean()
    rows = []
    for facts in found:
        head = (None, facts.schema, facts.name, facts.kind, facts.comment, facts.owner)
        tail: list[Any] = []
        for stat in stats(facts, now):
            tail += [stat.label, stat.value, stat.description, stat.value is not None]
        for number_, column in enumerate(facts.columns, start=1):
            own = (column["name"], number_, column["type"], column.get("comment"))
            rows.append((*head, *own, *tail))
    return agate.Table(rows, list(types), list(types.values()))


def to_catalog_table(facts: Facts) -> CatalogTable:
    """Return what `get_catalog_for_single_relation` gives, in the form of the docs."""
    shown = [stat for stat in stats(facts, datetime.now(timezone.utc)) if stat.value is not None]
    items = {s.id: StatsItem(s.id, s.label, s.value, True, s.description) for s in shown}
    items["has_stats"] = StatsItem(
        id="has_stats",
        label="Has Stats?",
        value=bool(shown),
        include=False,
        description="Indicates whether there are statistics for this table",
    )
    return CatalogTable(
        metadata=TableMetadata(
            type=facts.kind,
            schema=facts.schema,
            name=facts.name,
            comment=facts.comment,
            owner=facts.owner,
        ),
        columns={
            column["name"]: ColumnMetadata(
                column["type"], number, column["name"], column.get("comment")
            )
            for number, column in enumerate(facts.columns, start=1)
        },
        stats=items,
    )
