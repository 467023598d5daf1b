"""Take tables back to an earlier release, let the tags of old ones go, and leave the gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from icegate.catalog import list_relations
from icegate.errors import GateError
from icegate.gate import ledger, refs, views
from icegate.gate.candidates import OWN, Candidate, read_lake
from icegate.gate.decision import Outcome
from icegate.gate.history import expired_tags, tables_of
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.publish import ReleaseRows
from icegate.gate.refs import MAIN, WAP_ENABLED, Metadata
from icegate.gate.releases import Edits, apply, check_idle, event, open_builds
from icegate.gate.store import StoredTable, drop_namespace
from icegate.settings import Lake
from icegate.tables.changes import MANAGED


def rollback(
    lake: Lake, number: int, chosen: Sequence[str], target: str, *, dry_run: bool
) -> tuple[int | None, list[dict[str, Any]]]:
    """Take tables, all or those chosen, back to what a release had, as a release of its own.

    Return its number, None when nothing has to move, and what moves.
    """
    names = [name.removeprefix(f"{lake.catalog}.") for name in chosen]
    shown = read_lake(lake, "view")
    found = tables_of(lake, number, [name for name in names if name not in shown])
    wanted = {name: row for name, row in found.items() if not names or name in names}
    build = f"rollback_to_{number}"

    def plan(tables: dict[str, StoredTable]) -> Edits:
        _check_there(number, wanted, tables)
        release = ledger.last_release(lake) + 1
        after = {
            n: _back(tables[n].metadata, row.snapshot_id, release) for n, row in wanted.items()
        }
        after = {n: edited for n, edited in after.items() if edited is not tables[n].metadata}
        of_views = _views_back(lake, number, release, names)
        if not (after or of_views):
            return Edits({}, result=(None, []))
        mains = {name: refs.head(tables[name].metadata) for name in after}
        moved = {n: Candidate(tables[n], mains[n], refs.head(after[n]), mains[n]) for n in after}
        rows = ReleaseRows(Outcome(build, release))
        for name, table in sorted(tables.items()):
            rows.add(name, after.get(name, table.metadata), moved.get(name))
        told = [*_told(moved), *_told_of_views(of_views)]
        detail = json.dumps({"to": number, "published": sorted(row["table"] for row in told)})
        done = event("rolled_back", build, target, "rollback", release=release, detail=detail)
        return Edits(after, [done], rows.found, views=of_views, result=(release, told))

    made: tuple[int | None, list[dict[str, Any]]] = apply(lake, plan, dry_run=dry_run)
    return made


def _told(moved: dict[str, Candidate]) -> list[dict[str, Any]]:
    return [
        {"table": name, "main": c.main, "to": c.head, "rows": c.added_rows}
        for name, c in moved.items()
    ]


def _told_of_views(moved: list[tuple[StoredTable, Metadata]]) -> list[dict[str, Any]]:
    return [
        {"table": v.name, "main": _version(v.metadata), "to": _version(edited), "rows": None}
        for v, edited in moved
    ]


def _views_back(
    lake: Lake, number: int, release: int, names: Sequence[str]
) -> list[tuple[StoredTable, Metadata]]:
    """Return the views whose text was another one in a release, and what they become."""
    chosen = [v for v in read_lake(lake, "view").values() if not names or v.name in names]
    found = [(view, views.back(view.metadata, number, release)) for view in chosen]
    return [(view, edited) for view, edited in found if edited is not view.metadata]


def _version(view: Metadata) -> str:
    return f"version {view['current-version-id']}"


def _check_there(
    number: int, wanted: dict[str, ReleaseTable], tables: dict[str, StoredTable]
) -> None:
    lost = {}
    for name, row in wanted.items():
        if name not in tables:
            lost[name] = "the table is gone"
        elif row.snapshot_id and not refs.snapshot(tables[name].metadata, row.snapshot_id):
            lost[name] = f"snapshot {row.snapshot_id} has expired, or the table was replaced"
    if lost:
        raise GateError(
            f"cannot roll back to release {number}: nothing was moved",
            why="; ".join(f"{name}: {why}" for name, why in lost.items()),
            fix="roll back to a later release, or name the tables that it's possible for",
        )


def _back(metadata: Metadata, snapshot_id: int | None, release: int) -> Metadata:
    """Return the metadata as of a snapshot; a column that got another type would read null."""
    current: int = metadata["current-schema-id"]
    schema_id = (refs.snapshot(metadata, snapshot_id) or {}).get("schema-id", current)
    if (refs.head(metadata), current) == (snapshot_id, schema_id):
        return metadata
    if snapshot_id is None:
        return refs.set_main(metadata, None)
    edited = refs.set_schema(metadata, schema_id) if schema_id != current else metadata
    return refs.release(edited, snapshot_id, release)


def expire(lake: Lake, keep: int, days: int, target: str, *, dry_run: bool) -> Any:
    """Drop the tags of releases that are neither among the last nor young; return them by table."""
    last = ledger.last_release(lake)

    def plan(tables: dict[str, StoredTable]) -> Edits:
        found = {n: expired_tags(t.metadata, last, keep, days) for n, t in tables.items()}
        dropped = {name: tags for name, tags in found.items() if tags}
        edited = {n: refs.without_refs(tables[n].metadata, tags) for n, tags in dropped.items()}
        done = event("expired", "", target, "expire", detail=json.dumps({"tags": dropped}))
        return Edits(edited, [done] if dropped else [], result=dropped)

    return apply(lake, plan, dry_run=dry_run)


def eject(lake: Lake, *, dry_run: bool) -> dict[str, Any]:
    """Take all of the gate out of the catalog; files, and what readers of `main` see, stay."""
    for build in open_builds(lake):
        check_idle(build, "take the gate out of this catalog")

    def plan(tables: dict[str, StoredTable]) -> Edits:
        own = [entry for entry in list_relations(lake) if entry.namespace in OWN]
        edited = {name: _ungated(table.metadata) for name, table in tables.items()}
        found = {name: _taken(tables[name].metadata, after) for name, after in edited.items()}
        names = {name: names for name, names in found.items() if names}
        taken = {"tables": names, "dropped": [entry.full_name for entry in own]}
        return Edits({name: edited[name] for name in names}, dropped=own, result=taken)

    taken: dict[str, Any] = apply(lake, plan, dry_run=dry_run)
    for namespace in OWN if any(taken.values()) and not dry_run else ():
        drop_namespace(lake, namespace)
    return taken


def _ungated(metadata: Metadata) -> Metadata:
    branches = [refs.branch_of(build) for build in refs.builds(metadata)]
    tags = [refs.tag_of(release) for release in refs.releases(metadata)]
    managed = (metadata.get("properties") or {}).get(MANAGED, "").split(",")
    left = ",".join(name for name in managed if name != WAP_ENABLED)
    edited = refs.without_refs(metadata, [*branches, *tags])
    added = {MANAGED: left} if left else {}
    return refs.with_properties(edited, added, gone=(WAP_ENABLED, MANAGED))


def _taken(before: Metadata, after: Metadata) -> list[str]:
    names = [{*(m.get("refs") or {}), *(m.get("properties") or {})} for m in (before, after)]
    return sorted(names[0] - names[1] - {MAIN})
