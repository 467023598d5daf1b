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
from icegate.gate.summary import cause
from icegate.history.scope import Scope, scope
from icegate.settings import Lake
from icegate.tables.metadata import by_id, type_name


class Point(NamedTuple):
    """A table at some time: its metadata, its snapshot if it had rows, and its schema."""

    metadata: Metadata
    snapshot_id: int | None
    schema_id: int

    @property
    def columns(self) -> list[dict[str, Any]]:
        """Its columns then, as Iceberg's JSON has them."""
        found: list[dict[str, Any]]
        found = by_id(self.metadata["schemas"], "schema-id", self.schema_id)["fields"]
        return found


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
        old = at_main(tables[table].metadata) if table in tables else None
        is_moved = candidate.changed and candidate.head is not None
        new = _at(candidate.table.metadata, candidate.head) if is_moved else old
        heads = {"main": candidate.main, "head": candidate.head}
        result, reason = why.get(table, ("unchanged", ""))
        planned.append({**difference(table, old, new), **heads, "result": result, "why": reason})
    return found.build, planned


def diff(lake: Lake, before: str, after: str) -> list[dict[str, Any]]:
    """Return how gated tables differ between two points, for those that do."""
    return [difference(name, *sides) for name, sides in moved(lake, before, after).items()]


def moved(lake: Lake, before: str, after: str) -> dict[str, tuple[Point | None, Point | None]]:
    """Return where the gated tables are at two points, those that aren't the same in both."""
    old, new = (points(lake, point) for point in (before, after))
    return {
        name: (old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def points(lake: Lake, name: str) -> dict[str, Point]:
    """Return where each gated table is at `main`, in a release, or for who reads a build."""
    tables = {n: t for n, t in read_lake(lake).items() if refs.is_gated(t.metadata)}
    points = {name: at_main(stored.metadata) for name, stored in tables.items()}
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


def at_main(metadata: Metadata) -> Point:
    """Return what readers have of a table."""
    return Point(metadata, refs.head(metadata), metadata["current-schema-id"])


def _at(metadata: Metadata, snapshot_id: int | None) -> Point:
    schema_id = (refs.snapshot(metadata, snapshot_id) or {}).get("schema-id")
    current = metadata["current-schema-id"]
    return Point(metadata, snapshot_id, current if schema_id is None else schema_id)


def difference(name: str, old: Point | None, new: Point | None) -> dict[str, Any]:
    """Return how a table differs between two points; None is where it wasn't there."""
    for point in (old, new):
        check_kept(name, point)
    found = scope_of(name, old, new) if is_one_table(old, new) else None
    before, after = (
        refs.rows_between(point.metadata, None, point.snapshot_id) if point else 0
        for point in (old, new)
    )
    return {
        "table": name,
        "rows": None if before is None or after is None else after - before,
        "files_added": len(found.come.data) + len(found.come.deletes) if found else None,
        "files_removed": len(found.gone.data) + len(found.gone.deletes) if found else None,
        **columns_changed(old, new),
    }


def columns_changed(old: Point | None, new: Point | None) -> dict[str, list[str]]:
    """Return how columns differ, of one table by their ids, of two by their names.

    One that was dropped and added again is another column, null in older rows: it's retyped.
    """
    was, now = (
        {c["name"]: (c["id"], type_name(c["type"])) for c in point.columns} if point else {}
        for point in (old, new)
    )
    if not is_one_table(old, new):
        was, now = ({n: (n, kind) for n, (_, kind) in side.items()} for side in (was, now))
    names = {id: name for name, (id, _) in was.items()}
    kept = was.keys() & now.keys()
    moved = {name: names[id] for name, (id, _) in now.items()
             if name not in kept and id in names and names[id] not in kept}  # fmt: skip
    pairs = [(moved.get(name, name), name) for name in now if name in kept | moved.keys()]
    return {
        "columns_added": [name for name in now if name not in kept | moved.keys()],
        "columns_dropped": [name for name in was if name not in kept | {*moved.values()}],
        "columns_renamed": [f"{before} -> {name}" for name, before in moved.items()],
        "columns_retyped": [
            f"{name}: {was[before][1]} -> {now[name][1]}"
            for before, name in pairs
            if was[before] != now[name]
        ],
    }


def is_one_table(old: Point | None, new: Point | None) -> bool:
    """Tell whether field ids and files of two points mean the same."""
    if old is None or new is None:
        return True
    one, other = (point.metadata.get("table-uuid") for point in (old, new))
    return one is not None and one == other


def scope_of(name: str, old: Point | None, new: Point | None) -> Scope:
    """Return the files that only one of two points has."""
    from icegate.files import StoredFiles

    # A build may have a copy of the metadata, with snapshots of its own.
    kept = [s for point in (old, new) if point for s in point.metadata.get("snapshots") or []]
    was, now = (point.snapshot_id if point else None for point in (old, new))
    return scope({"snapshots": kept}, was, now, StoredFiles(), name)


def check_kept(name: str, point: Point | None) -> None:
    """Raise ``GateError`` where what a table had at a point has expired."""
    if point is None or point.snapshot_id is None:
        return
    if refs.snapshot(point.metadata, point.snapshot_id) is None:
        raise GateError(
            f"cannot compare {name}",
            why=f"snapshot {point.snapshot_id} has expired, or the table was replaced",
            fix="compare with a later release",
        )
