"""Facts of tables and views as dbt's docs want them: a row for each column, with the statistics."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

from icegate.tables.facts import Facts, statistics

if TYPE_CHECKING:
    import agate  # type: ignore[import-untyped]

HEAD = (
    "table_database table_schema table_name table_type table_comment table_owner "
    "column_name column_index column_type column_comment"
).split()


def stats(facts: Facts, now: datetime) -> list[StatsItem]:
    """Return what the docs show beside a table; a view and a table without snapshots have none."""
    found = statistics(facts, now)
    return [StatsItem(id, name, value, value is not None, text) for id, name, value, text in found]


def to_agate(found: Iterable[Facts]) -> agate.Table:
    """Return dbt's catalog table, typed by us: a guess takes a column named `2024` for a number."""
    import agate

    now = datetime.now(timezone.utc)
    text, number = agate.Text(cast_nulls=False), agate.Number()
    types: dict[str, Any] = dict.fromkeys(HEAD, text) | {"column_index": number}
    for stat in stats(Facts("", "", "", []), now):
        value = number if stat.id in ("rows", "bytes", "files") else text
        parts = {"label": text, "value": value, "description": text, "include": agate.Boolean()}
        types |= {f"stats:{stat.id}:{part}": kind for part, kind in parts.items()}
    rows = []
    for facts in found:
        head = (None, facts.schema, facts.name, facts.kind, facts.comment, facts.owner)
        tail: list[Any] = []
        for stat in stats(facts, now):
            tail += [stat.label, stat.value, stat.description, stat.include]
        for number_, column in enumerate(facts.columns, start=1):
            own = (column["name"], number_, column["type"], column.get("comment"))
            rows.append((*head, *own, *tail))
    return agate.Table(rows, list(types), list(types.values()))


def to_catalog_table(facts: Facts) -> CatalogTable:
    """Return what `get_catalog_for_single_relation` gives, in the form of the docs."""
    items = {s.id: s for s in stats(facts, datetime.now(timezone.utc)) if s.include}
    about = "Indicates whether there are statistics for this table"
    items["has_stats"] = StatsItem("has_stats", "Has Stats?", bool(items), False, about)
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
