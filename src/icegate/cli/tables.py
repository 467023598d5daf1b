"""`icegate tables`: what the catalog holds and how large it is, from metadata only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from icegate.cli.common import Grid, Opened, Shown, on_lake, pick
from icegate.errors import CatalogError
from icegate.tables.metadata import current_snapshot, moment, row_count, total, view_version

if TYPE_CHECKING:
    from icegate.catalog import CatalogEntry


@dataclass(frozen=True)
class TableFacts:
    """One line of the listing; a view has no rows of its own, an empty table no snapshot."""

    namespace: str
    name: str
    kind: str
    rows: int | None = None
    rows_approximate: bool = False
    files: int | None = None
    delete_files: int | None = None
    bytes: int | None = None
    changed_at: datetime | None = None
    snapshot_id: int | None = None
    error: str | None = None


@on_lake
def tables(
    at: Opened,
    select: Annotated[
        list[str] | None, typer.Argument(help="Schemas or tables, as in `silver '*.dim_*'`.")
    ] = None,
) -> Shown:
    """List tables and views: rows, files, bytes and last change."""
    from icegate.catalog import check_files, list_relations

    entries = list_relations(at.lake)
    facts = [table_facts(entry) for entry in pick(entries, select or [])]
    columns, numbers = "table rows files bytes last_change_(UTC)", ("rows", "files", "bytes")
    blocks: list[str | Grid] = [Grid(columns, [_cells(fact) for fact in facts], right=numbers)]
    if any(fact.rows_approximate for fact in facts):
        blocks.append("~ delete files take rows away; only a scan counts them exactly")
    broken, notes = any(fact.error for fact in facts), []
    if broken:
        try:
            check_files(at.lake, entries)
        except CatalogError as error:
            notes = [f"error: {error.render()}"]
    listed = {"catalog": at.lake.catalog, "tables": [vars(fact) for fact in facts]}
    none = ["no tables yet: run `dbt build`"]
    return Shown(listed, blocks if facts else none, code=int(broken), notes=notes)


def table_facts(entry: CatalogEntry) -> TableFacts:
    """Return the numbers of one table as its current snapshot's summary has them."""
    from icegate.catalog import read_metadata

    named = TableFacts(entry.namespace, entry.name, entry.kind)
    try:
        metadata = read_metadata(entry)
    except CatalogError as error:
        return replace(named, error=error.why)
    if entry.kind == "view":
        return replace(named, changed_at=moment(view_version(metadata).get("timestamp-ms")))
    snapshot = current_snapshot(metadata)
    if snapshot is None:
        return replace(named, rows=0, files=0, delete_files=0, bytes=0)
    summary = snapshot.get("summary", {})
    rows, approximate = row_count(summary)
    return replace(
        named,
        rows=rows,
        rows_approximate=approximate,
        files=total(summary, "data-files"),
        delete_files=total(summary, "delete-files") or 0,
        bytes=total(summary, "files-size"),
        changed_at=moment(snapshot["timestamp-ms"]),
        snapshot_id=snapshot["snapshot-id"],
    )


def _cells(fact: TableFacts) -> dict[str, str]:
    cells = dict.fromkeys(("rows", "files", "bytes"), "")
    if fact.kind == "view":
        cells["rows"] = "view"
    elif not fact.error:
        cells["rows"] = "?" if fact.rows is None else f"{'~' * fact.rows_approximate}{fact.rows:,}"
        cells["files"] = "?" if fact.files is None else f"{fact.files:,}"
        cells["files"] += f" + {fact.delete_files:,} deletes" if fact.delete_files else ""
        cells["bytes"] = "?" if fact.bytes is None else decimal(fact.bytes)
    changed = f"{fact.changed_at:%F %T}" if fact.changed_at else ""
    last = f"error: {fact.error}" if fact.error else changed
    return {"table": f"{fact.namespace}.{fact.name}", **cells, "last_change_(UTC)": last}
