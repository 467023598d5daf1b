"""What a build would publish, and how two states of the tables differ: from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from icegate.errors import ConfigError, GateError
from icegate.gate import ledger, refs
from icegate.gate.candidates import Candidate, read_lake
from icegate.gate.decision import survey
from icegate.gate.ledger_files import local_files
from icegate.gate.refs import MAIN, Metadata
from icegate.gate.releases import find, open_builds, prepare
from icegate.gate.store import StoredTable
from icegate.gate.summary import cause
from icegate.settings import Lake
from icegate.tables.metadata import by_id, row_count, type_name

# How a listing names what a snapshot's summary counts.
COUNTED = {
    "rows_added": "added-records",
    "rows_removed": "deleted-records",
    "files_added": "added-data-files",
    "files_removed": "deleted-data-files",
}


def plan(
    lake: Lake, name: str | None, target: str, keys: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """Return a build and what `release publish` would do with it; without a name, the newest."""
    if name is None:
        waiting = [b.name for b in open_builds(lake) if b.state in ("held back", "open")]
        if not waiting:
            return "", []
        name = waiting[0]
    found = find(lake, name)
    if found.waits and found.waits.state == "running":
        raise GateError(
            f"cannot tell what build {found.build} would publish",
            why="it's half built: a process of it is running",
            fix="wait until that has ended",
        )
    report, request = prepare(lake, found, target, keys)
    _, candidates, outcome = survey(lake, report, request)
    why = {held.verdict.table: ("held back", cause(held)) for held in outcome.held}
    why |= {table: ("blocked", text) for table, text in outcome.blocked.items()}
    why |= dict.fromkeys(outcome.published, ("published", ""))
    return found.build, [
        _planned(table, candidate, *why.get(table, ("unchanged", "")))
        for table, candidate in sorted(candidates.items())
    ]


def _planned(table: str, candidate: Candidate, result: str, why: str) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTED, 0)
    for snapshot in refs.ancestry(candidate.table.metadata, candidate.head):
        if snapshot["snapshot-id"] == candidate.base:
            break
        for name, key in COUNTED.items():
            counts[name] += int(snapshot.get("summary", {}).get(key, 0))
    heads = {"main": candidate.main, "head": candidate.head}
    return {"table": table, **heads, **counts, "result": result, "why": why}


class Point(NamedTuple):
    """A table at some time; both are None when it wasn't there."""

    snapshot_id: int | None = None
    schema_id: int | None = None


def diff(lake: Lake, before: str, after: str, table: str | None) -> list[dict[str, Any]]:
    """Return how tables, or one, differ between two points, for those that do."""
    tables = read_lake(lake)
    wanted = table.removeprefix(f"{lake.catalog}.") if table else None
    if wanted and wanted not in tables:
        raise ConfigError(
            f"cannot find table {table!r}",
            why="the catalog has no such table",
            fix="`icegate tables` lists what is there",
        )
    old, new = (_points(lake, tables, point, wanted) for point in (before, after))
    return [
        _difference(name, tables[name].metadata, old.get(name, Point()), new.get(name, Point()))
        for name in sorted(old.keys() | new.keys())
        if wanted in (None, name) and name in tables and old.get(name) != new.get(name)
    ]


def _points(
    lake: Lake, tables: dict[str, StoredTable], name: str, table: str | None
) -> dict[str, Point]:
    """Return where each table is at `main`, a release or a build, or one of them at a snapshot."""
    if table and name.isdecimal() and refs.snapshot(tables[table].metadata, int(name)):
        return {table: _at(tables[table].metadata, int(name))}
    points = {
        name: Point(refs.head(stored.metadata), stored.metadata["current-schema-id"])
        for name, stored in tables.items()
    }
    if name == MAIN:
        return points
    found = find(lake, name)
    if found.release is not None:
        rows = ledger.read_release_tables(lake, found.release)
        return {row.table_name: Point(row.snapshot_id, row.schema_id) for row in rows}
    for name, stored in tables.items():
        head = refs.head(stored.metadata, refs.branch_of(found.build))
        points |= {name: _at(stored.metadata, head)} if head is not None else {}
    return points


def _at(metadata: Metadata, snapshot_id: int) -> Point:
    snapshot = refs.snapshot(metadata, snapshot_id) or {}
    return Point(snapshot_id, snapshot.get("schema-id", metadata["current-schema-id"]))


def _difference(name: str, metadata: Metadata, old: Point, new: Point) -> dict[str, Any]:
    snapshots = [_snapshot(name, metadata, point) for point in (old, new)]
    files_added, files_removed = _changed_files(*snapshots)
    was, now = (_columns(metadata, point.schema_id) for point in (old, new))
    kept = was.keys() & now.keys()
    return {
        "table": name,
        "rows": _rows_between(*snapshots),
        "files_added": files_added,
        "files_removed": files_removed,
        "columns_added": [column for column in now if column not in kept],
        "columns_dropped": [column for column in was if column not in kept],
        "columns_retyped": [
            f"{column}: {was[column][1]} -> {now[column][1]}"
            for column in now
            if column in kept and was[column] != now[column]
        ],
    }


def _snapshot(name: str, metadata: Metadata, point: Point) -> Metadata | None:
    found = refs.snapshot(metadata, point.snapshot_id)
    if found is None and point.snapshot_id is not None:
        raise GateError(
            f"cannot compare {name}",
            why=f"snapshot {point.snapshot_id} has expired, or the table was replaced",
            fix="compare with a later release, or name another table with --table",
        )
    return found


def _rows_between(old: Metadata | None, new: Metadata | None) -> int | None:
    """Return how many more rows one snapshot has than another, where their summaries tell."""
    counts = [row_count(s.get("summary", {}))[0] if s else 0 for s in (old, new)]
    return None if None in counts else counts[1] - counts[0]  # type: ignore[operator]


def _changed_files(old: Metadata | None, new: Metadata | None) -> tuple[int, int]:
    """Return how many files a snapshot has that another lacks, and the other way round."""
    from pyiceberg.manifest import read_manifest_list

    files = local_files()
    lists = [
        {m.manifest_path: m for m in read_manifest_list(files.new_input(s["manifest-list"]))}
        if s
        else {}
        for s in (old, new)
    ]
    was, now = (
        {
            entry.data_file.file_path
            for path in own.keys() - other.keys()  # what both have, neither changed
            for entry in own[path].fetch_manifest_entry(files)
        }
        for own, other in (lists, lists[::-1])
    )
    return len(now - was), len(was - now)


def _columns(metadata: Metadata, schema_id: int | None) -> dict[str, tuple[int, str]]:
    """Return id and type by name: with another id it's another column, null in older rows."""
    fields = by_id(metadata["schemas"], "schema-id", schema_id)["fields"]
    return {field["name"]: (field["id"], type_name(field["type"])) for field in fields}
