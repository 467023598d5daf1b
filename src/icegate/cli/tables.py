"""`icegate tables`: what the catalog holds and how large it is, from metadata only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from icegate.cli import output
from icegate.cli.common import AsJson, ProfilesDir, ProjectDir, Target, open_lake, pick
from icegate.errors import CatalogError
from icegate.tables.metadata import current_snapshot, row_count, total, view_version

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
    changed_at: str | None = None
    snapshot_id: int | None = None
    error: str | None = None


def tables(
    select: Annotated[
        list[str] | None, typer.Argument(help="Schemas or tables, as in `silver '*.dim_*'`.")
    ] = None,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """List tables and views: rows, files, bytes and last change."""
    from icegate.catalog import check_files, gone_entries, list_relations

    lake = open_lake(project_dir, profiles_dir, target)
    entries = pick(list_relations(lake), select or [])
    facts = [table_facts(entry) for entry in entries]
    if as_json:
        output.print_json({"catalog": lake.catalog, "tables": [asdict(fact) for fact in facts]})
    elif facts:
        _print_people(facts)
    else:
        output.print_line("no tables yet: run `dbt build`")
    if any(fact.error for fact in facts):
        if not as_json and gone_entries(entries):
            check_files(lake, list_relations(lake))
        raise typer.Exit(1)


def table_facts(entry: CatalogEntry) -> TableFacts:
    """Return the numbers of one table as its current snapshot's summary has them."""
    from icegate.catalog import read_metadata

    named = TableFacts(entry.namespace, entry.name, entry.kind)
    try:
        metadata = read_metadata(entry)
    except CatalogError as error:
        return replace(named, error=error.why)
    if entry.kind == "view":
        changed_ms = view_version(metadata).get("timestamp-ms")
        return replace(named, changed_at=output.instant(changed_ms))
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
        changed_at=output.instant(snapshot["timestamp-ms"]),
        snapshot_id=snapshot["snapshot-id"],
    )


def _print_people(facts: list[TableFacts]) -> None:
    columns = ("table", "rows", "files", "bytes", "last change (UTC)")
    output.print_table(columns, [_cells(fact) for fact in facts], right=("rows", "files", "bytes"))
    if any(fact.rows_approximate for fact in facts):
        output.print_line("~ delete files take rows away; only a scan counts them exactly")


def _cells(fact: TableFacts) -> tuple[str, ...]:
    name = f"{fact.namespace}.{fact.name}"
    if fact.error:
        return name, "", "", "", f"error: {fact.error}"
    changed = (fact.changed_at or "").replace("T", " ").removesuffix("Z")
    if fact.kind == "view":
        return name, "view", "", "", changed
    rows = "?" if fact.rows is None else f"{'~' * fact.rows_approximate}{fact.rows:,}"
    files = "?" if fact.files is None else f"{fact.files:,}"
    if fact.delete_files:
        files += f" + {fact.delete_files:,} deletes"
    return name, rows, files, "?" if fact.bytes is None else output.size(fact.bytes), changed
