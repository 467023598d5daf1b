"""`icegate show`: one table or view as its metadata has it, and some rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, find_entry, on_lake, personal
from icegate.errors import IcegateError
from icegate.gate.refs import MAIN, head
from icegate.tables.layout import as_terms, partition_fields, sort_fields
from icegate.tables.metadata import columns, moment, view_version
from icegate.tables.state import state_from_metadata

if TYPE_CHECKING:
    from icegate.settings import Lake

SNAPSHOTS = 10


@on_lake
def show(
    at: Opened,
    table: Annotated[str, typer.Argument(help="A table or view, as in `silver.curated_orders`.")],
    rows: Annotated[int, typer.Option(min=0, help="Sample rows to print.")] = 5,
    unmasked: Annotated[bool, typer.Option("--unmasked", help="Show personal data.")] = False,
) -> Shown:
    """Show a table's columns, partitioning, snapshots and some rows."""
    from icegate.catalog import list_relations, read_metadata

    entry = find_entry(list_relations(at.lake), table, at.lake.catalog)
    metadata = read_metadata(entry)
    facts = view_facts(metadata) if entry.kind == "view" else table_facts(metadata)
    facts = {"table": entry.full_name, "kind": entry.kind, **facts}
    notes = []
    if entry.kind == "table":
        facts["sample"] = sample = _sample(at.lake, entry.full_name, rows)
        notes = [] if unmasked or not sample["rows"] else [*_mask(sample, at, entry.full_name)]
    return Shown(facts, [*_blocks(facts)], notes=notes)


def table_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints of a table's metadata."""
    state = state_from_metadata(metadata)
    partitioning = partition_fields(state.partitions, "the table")
    sort_order = sort_fields(as_terms(state.properties.get("sort-order")), "the table")
    return {
        "location": metadata["location"],
        "format_version": metadata["format-version"],
        "columns": columns(metadata),
        "partitioning": [str(field) for field in partitioning],
        "sort_order": [str(field) for field in sort_order],
        "properties": dict(sorted(metadata.get("properties", {}).items())),
        "refs": _refs(metadata),
        "snapshots": _snapshots(metadata),
    }


def view_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints of a view's metadata."""
    version = view_version(metadata)
    return {
        "location": metadata["location"],
        "columns": columns(metadata),
        "properties": dict(sorted(metadata.get("properties", {}).items())),
        "changed_at": moment(version.get("timestamp-ms")),
        "sql": {r["dialect"]: r["sql"] for r in version.get("representations", [])},
    }


def _refs(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return branches and tags; format 1 has none, but `main` there too."""
    main = head(metadata)
    found = {MAIN: {"type": "branch", "snapshot-id": main}} if main is not None else {}
    return [
        {"name": name, "type": ref["type"], "snapshot_id": ref["snapshot-id"]}
        for name, ref in sorted((found | (metadata.get("refs") or {})).items())
    ]


def _snapshots(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest snapshots of all branches; copied rows count as added and removed."""
    refs = _refs(metadata)
    newest = sorted(metadata.get("snapshots") or [], key=lambda s: -s["timestamp-ms"])[:SNAPSHOTS]
    return [
        {
            "snapshot_id": snapshot["snapshot-id"],
            "committed_at": moment(snapshot["timestamp-ms"]),
            "operation": snapshot.get("summary", {}).get("operation"),
            "added_rows": int(snapshot.get("summary", {}).get("added-records", 0)),
            "removed_rows": _removed(snapshot.get("summary", {})),
            "refs": [r["name"] for r in refs if r["snapshot_id"] == snapshot["snapshot-id"]],
        }
        for snapshot in newest
    ]


def _removed(summary: dict[str, str]) -> int:
    """Return rows gone with their files, and rows that new delete files mark as gone."""
    gone, marked, unmarked = (
        int(summary.get(key, 0))
        for key in ("deleted-records", "added-position-deletes", "removed-position-deletes")
    )
    return gone + max(0, marked - unmarked)


def _sample(lake: Lake, name: str, rows: int) -> dict[str, Any]:
    from icegate.cli.query import parse, run_on_duckdb

    if rows == 0:
        return {"columns": [], "rows": [], "error": None}
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    try:
        result = run_on_duckdb(lake, parse(f"select * from {quoted}"), rows)
    except IcegateError as error:  # the metadata is still worth showing
        return {"columns": [], "rows": [], "error": error.why}
    return {"columns": result.columns, "rows": result.named_rows, "error": None}


def _mask(sample: dict[str, Any], at: Opened, name: str) -> Iterator[str]:
    """Mask the personal data in a sample; yield what there is to say of it."""
    from icegate.pii import masked

    found, notes = personal(at, name)
    yield from notes
    kinds = {column: found.get(column.lower()) for column in sample["columns"]}
    sample["masked"] = [column for column, kind in kinds.items() if kind]
    sample["rows"] = [
        {c: masked(value, kind) if (kind := kinds.get(c)) else value for c, value in row.items()}
        for row in sample["rows"]
    ]
    if sample["masked"]:
        yield f"masked: {', '.join(sample['masked'])}; `--unmasked` shows them"


def _blocks(facts: dict[str, Any]) -> Iterator[str | Line | Grid]:
    yield Line(f"{facts['kind']} {facts['table']}", "bold")
    yield f"location: {facts['location']}"
    for title in ("partitioning", "sort_order"):
        if facts.get(title):
            yield f"{title.replace('_', ' ')}: {', '.join(facts[title])}"
    yield Grid("name type required comment", facts["columns"], "columns")
    properties = [{"name": name, "value": value} for name, value in facts["properties"].items()]
    yield Grid("name value", properties, "properties")
    for dialect, text in facts.get("sql", {}).items():
        yield Line(f"\nSQL ({dialect}):", "bold")
        yield text
    counted = "snapshot_id committed_at operation added_rows removed_rows refs"
    yield Grid(counted, facts.get("snapshots", []), "snapshots")
    tags = [ref for ref in facts.get("refs", []) if ref["type"] == "tag"]
    yield Grid("name snapshot_id", tags, "tags")
    sample = facts.get("sample", {"error": None, "rows": []})
    if sample["error"]:
        yield f"no sample rows: {sample['error']}"
    elif sample["rows"]:
        yield Grid(sample["columns"], sample["rows"], "sample rows")
