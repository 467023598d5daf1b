"""Take tables back to an earlier release, let the tags of old ones go, and leave the gate."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from icegate.catalog import list_relations
from icegate.errors import ConfigError, GateError
from icegate.gate import ledger, refs, staging
from icegate.gate.candidates import Candidate
from icegate.gate.decision import Outcome
from icegate.gate.ledger import ReleaseTable
from icegate.gate.publish import ReleaseRows
from icegate.gate.refs import MAIN, WAP_ENABLED, Metadata
from icegate.gate.releases import Edits, apply, event, find, open_builds
from icegate.gate.store import StoredTable, drop_namespace
from icegate.settings import Lake
from icegate.tables.changes import MANAGED

OWN = (ledger.NAMESPACE, staging.NAMESPACE)
TAG = re.compile(rf"{refs.TAG_PREFIX}([0-9]+)")


def rollback(
    lake: Lake, number: int, chosen: Sequence[str], target: str, *, dry_run: bool
) -> tuple[int | None, list[dict[str, Any]]]:
    """Take tables, all or those chosen, back to what a release had, as a release of its own.

    Return its number, None when nothing has to move, and what moves.
    """
    wanted = _wanted(lake, number, [name.removeprefix(f"{lake.catalog}.") for name in chosen])
    moved: dict[str, Candidate] = {}
    outcome = Outcome(f"rollback_to_{number}")

    def plan(tables: dict[str, StoredTable]) -> Edits:
        _check_there(number, wanted, tables)
        after = {n: _back(tables[n].metadata, row.snapshot_id) for n, row in wanted.items()}
        moved.clear()
        for name, edited in after.items():
            if edited is not tables[name].metadata:
                main = refs.head(tables[name].metadata)
                moved[name] = Candidate(tables[name], main, refs.head(edited), main)
        if not moved:
            return Edits({})
        release = outcome.release = ledger.last_release(lake) + 1
        rows = ReleaseRows(outcome)
        for name, table in sorted(tables.items()):
            rows.add(name, after.get(name, table.metadata), moved.get(name))
        detail = json.dumps({"to": number, "published": sorted(moved)})
        done = event(
            "rolled_back", outcome.build, target, "rollback", release=release, detail=detail
        )
        return Edits({name: _tagged(after[name], release) for name in moved}, [done], rows.found)

    apply(lake, plan, dry_run=dry_run)
    return outcome.release, [
        {"table": name, "main": c.main, "to": c.head, "rows": c.added_rows}
        for name, c in moved.items()
    ]


def _wanted(lake: Lake, number: int, chosen: Collection[str]) -> dict[str, ReleaseTable]:
    find(lake, str(number))
    rows = {row.table_name: row for row in ledger.read_release_tables(lake, number)}
    for name in chosen:
        if name not in rows:
            raise ConfigError(
                f"cannot roll back {name} to release {number}",
                why="that release doesn't have it",
                fix=f"`icegate release show {number}` lists the tables that it has",
            )
    return {name: row for name, row in rows.items() if not chosen or name in chosen}


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


def _back(metadata: Metadata, snapshot_id: int | None) -> Metadata:
    """Return the metadata as of a snapshot; a column that got another type would read null."""
    edited = metadata
    if refs.head(metadata) != snapshot_id:
        edited = refs.set_main(metadata, snapshot_id)
    schema_id = (refs.snapshot(metadata, snapshot_id) or {}).get("schema-id")
    if schema_id is not None and schema_id != metadata["current-schema-id"]:
        edited = refs.set_schema(edited, schema_id)
    return edited


def _tagged(metadata: Metadata, release: int) -> Metadata:
    head = refs.head(metadata)
    return metadata if head is None else refs.set_tag(metadata, refs.tag_of(release), head)


def expire(lake: Lake, keep: int, days: int, target: str, *, dry_run: bool) -> dict[str, list[str]]:
    """Drop the tags of releases that are neither among the last nor young; return them by table.

    A tag stays while a release that is kept has its snapshot: the table hasn't moved since.
    """
    rows = ledger.read_release_tables(lake)
    made = {row.release: row.at for row in rows}
    oldest = datetime.now(timezone.utc) - timedelta(days=days)
    kept = {n for n, at in made.items() if at > oldest} | {*sorted(made, reverse=True)[:keep]}
    in_use = {(row.table_name, row.snapshot_id) for row in rows if row.release in kept}
    dropped: dict[str, list[str]] = {}

    def plan(tables: dict[str, StoredTable]) -> Edits:
        dropped.clear()
        for name, table in tables.items():
            for tag, number in _tags(table.metadata).items():
                used = (name, refs.head(table.metadata, tag)) in in_use
                if number in made.keys() - kept and not used:
                    dropped.setdefault(name, []).append(tag)
        if not dropped:
            return Edits({})
        done = event("expired", "", target, "expire", detail=json.dumps({"tags": dropped}))
        return Edits(
            {n: refs.without_refs(tables[n].metadata, tags) for n, tags in dropped.items()}, [done]
        )

    apply(lake, plan, dry_run=dry_run)
    return dropped


def _tags(metadata: Metadata) -> dict[str, int]:
    refs_ = (metadata.get("refs") or {}).items()
    found = {name: TAG.fullmatch(name) for name, ref in refs_ if ref["type"] == "tag"}
    return {name: int(match[1]) for name, match in found.items() if match}


def eject(lake: Lake, *, dry_run: bool) -> dict[str, Any]:
    """Take all of the gate out of the catalog; files, and what readers of `main` see, stay."""
    for build in open_builds(lake):
        if build.state == "running":
            raise GateError(
                "cannot take the gate out of this catalog",
                why=f"build {build.name} is running",
                fix="wait until it has ended",
            )
    taken: dict[str, Any] = {}

    def plan(tables: dict[str, StoredTable]) -> Edits:
        own = [entry for entry in list_relations(lake) if entry.namespace in OWN]
        edited = {name: _ungated(table.metadata) for name, table in tables.items()}
        found = {name: _taken(tables[name].metadata, after) for name, after in edited.items()}
        taken["tables"] = {name: names for name, names in found.items() if names}
        taken["dropped"] = [entry.full_name for entry in own]
        return Edits({name: edited[name] for name in taken["tables"]}, dropped=own)

    apply(lake, plan, dry_run=dry_run)
    if not dry_run:
        for namespace in OWN:
            drop_namespace(lake, namespace)
    return taken


def _ungated(metadata: Metadata) -> Metadata:
    branches = [refs.branch_of(build) for build in refs.builds(metadata)]
    properties = dict(metadata.get("properties") or {})
    properties.pop(WAP_ENABLED, None)
    managed = [name for name in properties.pop(MANAGED, "").split(",") if name != WAP_ENABLED]
    properties |= {MANAGED: ",".join(managed)} if any(managed) else {}
    edited = refs.without_refs(metadata, [*branches, *_tags(metadata)])
    return {**edited, "properties": properties}


def _taken(before: Metadata, after: Metadata) -> list[str]:
    names = [{*(m.get("refs") or {}), *(m.get("properties") or {})} for m in (before, after)]
    return sorted(names[0] - names[1] - {MAIN})
