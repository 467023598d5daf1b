"""What a build would publish, and how two states of the tables differ: from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from icegate.errors import GateError
from icegate.gate import ledger, refs
from icegate.gate.candidates import candidates, read_lake
from icegate.gate.decision import survey
from icegate.gate.publish import reports_of
from icegate.gate.refs import MAIN, Metadata
from icegate.gate.releases import check_idle, find, open_builds, prepare
from icegate.gate.report import merge
from icegate.gate.store import StoredTable
from icegate.gate.summary import cause
from icegate.settings import Lake
from icegate.tables.metadata import by_id, type_name


class Point(NamedTuple):
    """A table at some time: its metadata, its snapshot if it had rows, and its schema."""

    metadata: Metadata
    snapshot_id: int | None
    schema_id: int


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
    if found.waits:
        check_idle(found.waits, f"tell what build {found.build} would publish")
    report, request = prepare(lake, found, target, keys)
    tables, of_build, outcome = survey(lake, report, request)
    why = {held.verdict.table: ("held back", cause(held)) for held in outcome.held}
    why |= {table: ("blocked", text) for table, text in outcome.blocked.items()}
    why |= dict.fromkeys(outcome.published, ("published", ""))
    planned = []
    for table, candidate in sorted(of_build.items()):
        old = _main(tables[table].metadata) if table in tables else None
        is_moved = candidate.changed and candidate.head is not None
        new = _at(candidate.table.metadata, candidate.head) if is_moved else old
        heads = {"main": candidate.main, "head": candidate.head}
        result, reason = why.get(table, ("unchanged", ""))
        planned.append({**_difference(table, old, new), **heads, "result": result, "why": reason})
    return found.build, planned


def diff(lake: Lake, before: str, after: str) -> list[dict[str, Any]]:
    """Return how gated tables differ between two points, for those that do."""
    tables = {n: t for n, t in read_lake(lake).items() if refs.is_gated(t.metadata)}
    old, new = (_points(lake, tables, point) for point in (before, after))
    return [
        _difference(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _points(lake: Lake, tables: dict[str, StoredTable], name: str) -> dict[str, Point]:
    """Return where each table is at `main`, in a release, or for who reads a build."""
    points = {name: _main(stored.metadata) for name, stored in tables.items()}
    if name == MAIN:
        return points
    found = find(lake, name)
    if found.release is not None:
        return {
            row.table_name: Point(tables[row.table_name].metadata, row.snapshot_id, row.schema_id)
            for row in ledger.read_release_tables(lake, found.release)
            if row.table_name in tables
        }
    report = merge(reports_of(found.events))
    for name, candidate in candidates(lake, found.build, tables, report).items():
        if candidate.head is not None:
            points[name] = _at(candidate.table.metadata, candidate.head)
    return points


def _main(metadata: Metadata) -> Point:
    return Point(metadata, refs.head(metadata), metadata["current-schema-id"])


def _at(metadata: Metadata, snapshot_id: int | None) -> Point:
    schema_id = (refs.snapshot(metadata, snapshot_id) or {}).get("schema-id")
    current = metadata["current-schema-id"]
    return Point(metadata, snapshot_id, current if schema_id is None else schema_id)


def _difference(name: str, old: Point | None, new: Point | None) -> dict[str, Any]:
    """Return how a table differs between two points; None is where it wasn't there."""
    files_added, files_removed = _changed_files(_snapshot(name, old), _snapshot(name, new))
    before, after = (
        refs.rows_between(point.metadata, None, point.snapshot_id) if point else 0
        for point in (old, new)
    )
    was, now = _columns(old), _columns(new)
    kept = was.keys() & now.keys()
    names = {id: name for name, (id, _) in was.items() if name not in kept}
    renamed = {name: names[id] for name, (id, _) in now.items() if id in names and name not in kept}
    return {
        "table": name,
        "rows": None if before is None or after is None else after - before,
        "files_added": files_added,
        "files_removed": files_removed,
        "columns_added": [c for c in now if c not in kept and c not in renamed],
        "columns_dropped": [c for c in was if c not in kept and c not in renamed.values()],
        "columns_renamed": [f"{old} -> {new}" for new, old in renamed.items()],
        "columns_retyped": [
            f"{column}: {was[column][1]} -> {now[column][1]}"
            for column in now
            if column in kept and was[column] != now[column]
        ],
    }


def _snapshot(name: str, point: Point | None) -> Metadata | None:
    if point is None or point.snapshot_id is None:
        return None
    found = refs.snapshot(point.metadata, point.snapshot_id)
    if found is None:
        raise GateError(
            f"cannot compare {name}",
            why=f"snapshot {point.snapshot_id} has expired, or the table was replaced",
            fix="compare with a later release",
        )
    return found


def _changed_files(old: Metadata | None, new: Metadata | None) -> tuple[int, int]:
    """Return how many files a snapshot has that another lacks, and the other way round."""
    from pyiceberg.manifest import read_manifest_list

    from icegate.files import LocalFiles

    files = LocalFiles()
    lists = []
    for snapshot in (old, new):
        listed = snapshot and read_manifest_list(files.new_input(snapshot["manifest-list"]))
        lists.append({manifest.manifest_path: manifest for manifest in listed or ()})
    was, now = (
        {
            entry.data_file.file_path
            for path in own.keys() - other.keys()  # what both have, neither changed
            for entry in own[path].fetch_manifest_entry(files)
        }
        for own, other in (lists, lists[::-1])
    )
    return len(now - was), len(was - now)


def _columns(point: Point | None) -> dict[str, tuple[int, str]]:
    """Return id and type by name: with another id it's another column, null in older rows."""
    fields = (
        by_id(point.metadata["schemas"], "schema-id", point.schema_id)["fields"] if point else []
    )
    return {field["name"]: (field["id"], type_name(field["type"])) for field in fields}
