"""`icegate show`: one table or view as its metadata has it, and some rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli import output
from icegate.cli.common import AsJson, ProfilesDir, ProjectDir, Target, find_entry, open_lake
from icegate.errors import IcegateError
from icegate.tables.metadata import by_id, columns, current_snapshot, view_version

if TYPE_CHECKING:
    from icegate.settings import Lake

SNAPSHOTS = 10


def show(
    table: Annotated[str, typer.Argument(help="A table or view, as in `silver.curated_orders`.")],
    rows: Annotated[int, typer.Option(min=0, help="Sample rows to print.")] = 5,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show a table's columns, partitioning, snapshots and some rows."""
    from icegate.catalog import list_relations, read_metadata

    lake = open_lake(project_dir, profiles_dir, target)
    entry = find_entry(list_relations(lake), table, lake.catalog)
    metadata = read_metadata(entry)
    facts = view_facts(metadata) if entry.kind == "view" else table_facts(metadata)
    facts = {"table": entry.full_name, "kind": entry.kind, **facts}
    if entry.kind == "table":
        facts["sample"] = _sample(lake, entry.full_name, rows)
    if as_json:
        output.print_json(facts)
    else:
        _print_people(facts)


def table_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what `--json` prints of a table's metadata."""
    schema = by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])
    names = _field_names(schema)
    spec = by_id(metadata["partition-specs"], "spec-id", metadata["default-spec-id"])
    order = by_id(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"])
    return {
        "location": metadata["location"],
        "format_version": metadata["format-version"],
        "columns": columns(metadata),
        "partitioning": [_transform(f, names) for f in spec["fields"]],
        "sort_order": [
            f"{_transform(f, names)} {f['direction']} {f['null-order'].replace('-', ' ')}"
            for f in order["fields"]
        ],
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
        "changed_at": output.instant(version.get("timestamp-ms")),
        "sql": {r["dialect"]: r["sql"] for r in version.get("representations", [])},
    }


def _field_names(schema: dict[str, Any], above: str = "") -> dict[int, str]:
    """Return the dotted name of each field, those inside structs too, by its id."""
    names = {}
    for field in schema["fields"]:
        names[field["id"]] = above + field["name"]
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            names |= _field_names(field["type"], f"{above}{field['name']}.")
    return names


def _transform(field: dict[str, Any], names: dict[int, str]) -> str:
    """Return a partition or sort field as `partition_by` takes it, as in `bucket(16, id)`."""
    column = names.get(field["source-id"], "a dropped column")
    name, bracket, width = field["transform"].partition("[")
    if name == "identity":
        return column
    plural = {"year", "month", "day", "hour"}
    function = f"{name}s" if name in plural else name
    return f"{function}({width.rstrip(']') + ', ' if bracket else ''}{column})"


def _refs(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": ref["type"], "snapshot_id": ref["snapshot-id"]}
        for name, ref in sorted(metadata.get("refs", {}).items())
    ]


def _snapshots(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the newest snapshots of all branches; copied rows count as added and removed."""
    refs: dict[int, list[str]] = {}
    for ref in _refs(metadata):
        refs.setdefault(ref["snapshot_id"], []).append(ref["name"])
    main = (current_snapshot(metadata) or {}).get("snapshot-id")
    if main is not None and "main" not in refs.get(main, []):  # format 1 has no refs
        refs.setdefault(main, []).append("main")
    newest = sorted(metadata.get("snapshots") or [], key=lambda s: -s["timestamp-ms"])[:SNAPSHOTS]
    return [
        {
            "snapshot_id": snapshot["snapshot-id"],
            "committed_at": output.instant(snapshot["timestamp-ms"]),
            "operation": snapshot.get("summary", {}).get("operation"),
            "added_rows": int(snapshot.get("summary", {}).get("added-records", 0)),
            "removed_rows": _removed(snapshot.get("summary", {})),
            "refs": refs.get(snapshot["snapshot-id"], []),
        }
        for snapshot in newest
    ]


def _removed(summary: dict[str, str]) -> int:
    """Return rows gone with their files, and rows that new delete files mark as gone."""
    count = {
        key: int(summary.get(key, 0))
        for key in ("deleted-records", "added-position-deletes", "removed-position-deletes")
    }
    marked = count["added-position-deletes"] - count["removed-position-deletes"]
    return count["deleted-records"] + max(0, marked)


def _sample(lake: Lake, name: str, rows: int) -> dict[str, Any]:
    from icegate.cli.query import parse, run_on_duckdb

    if rows == 0:
        return {"columns": [], "rows": [], "error": None}
    quoted = ".".join(f"`{part}`" for part in name.split("."))
    try:
        result = run_on_duckdb(lake, parse(f"select * from {quoted}"), rows)
    except IcegateError as error:  # the metadata is still worth showing
        return {"columns": [], "rows": [], "error": error.why}
    named = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    return {"columns": result.columns, "rows": named, "error": None}


def _print_people(facts: dict[str, Any]) -> None:
    output.print_line(f"{facts['kind']} {facts['table']}", style="bold")
    output.print_line(f"location: {facts['location']}")
    for title in ("partitioning", "sort_order"):
        if facts.get(title):
            output.print_line(f"{title.replace('_', ' ')}: {', '.join(facts[title])}")
    cells = [
        (c["name"], c["type"] + " not null" * c["required"], c["comment"] or "")
        for c in facts["columns"]
    ]
    output.print_table(("column", "type", "comment"), cells, title="columns")
    if facts["properties"]:
        output.print_table(
            ("property", "value"), list(facts["properties"].items()), title="properties"
        )
    for dialect, text in facts.get("sql", {}).items():
        output.print_line(f"\nSQL ({dialect}):", style="bold")
        output.print_line(text)
    if facts["kind"] == "table":
        _print_history(facts)


def _print_history(facts: dict[str, Any]) -> None:
    tags = [
        f"{ref['name']} -> {ref['snapshot_id']}" for ref in facts["refs"] if ref["type"] == "tag"
    ]
    snapshots = [
        (
            str(s["snapshot_id"]),
            s["committed_at"].replace("T", " ").removesuffix("Z"),
            s["operation"] or "?",
            f"{s['added_rows']:,}",
            f"{s['removed_rows']:,}",
            ", ".join(s["refs"]),
        )
        for s in facts["snapshots"]
    ]
    header = ("snapshot", "committed (UTC)", "operation", "added", "removed", "refs")
    output.print_table(header, snapshots, right=("added", "removed"), title="snapshots")
    if tags:
        output.print_line(f"tags: {', '.join(tags)}")
    sample = facts["sample"]
    if sample["error"]:
        output.print_line(f"no sample rows: {sample['error']}")
    elif sample["rows"]:
        rows = [list(row.values()) for row in sample["rows"]]
        output.print_values(sample["columns"], rows, title="sample rows")
