"""`icegate refs`: the tags and branches of tables, what holds each, and those that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, on_lake, pick_tables
from icegate.errors import ConfigError
from icegate.gate.refs import BRANCH_PREFIX, FOR_EVER_MS, MAIN, Metadata, releases, snapshot, tag_of
from icegate.tables.metadata import moment

if TYPE_CHECKING:
    from icegate.catalog import CatalogEntry
    from icegate.maintenance.policy import Policy
    from icegate.maintenance.tags import Tag

PERIOD_END = re.compile(r"(day|week|month|quarter|year)_end_[0-9].*")


@on_lake
def refs(
    at: Opened,
    select: Annotated[
        list[str] | None, typer.Argument(help="Schemas or tables, as in `silver '*.dim_*'`.")
    ] = None,
    make: Annotated[
        bool, typer.Option("--make", help="Make the tags that the tables' policies ask for.")
    ] = False,
) -> Shown:
    """List tags and branches: what each is for, when it ends, and which are missing."""
    from icegate.catalog import list_relations, read_metadata
    from icegate.gate.releases import open_builds
    from icegate.maintenance.tags import Tag, make_tags, wanted_tags

    policies, notes = _policies(at, make)
    now, tags = datetime.now(timezone.utc), list[Tag]()
    states = {build.name: build.state for build in open_builds(at.lake)}
    chosen = pick_tables(list_relations(at.lake), select or [])
    if make:
        for entry in chosen:
            tags += make_tags(at.lake, entry.full_name, _of(entry, policies), now)
        chosen = pick_tables(list_relations(at.lake), select or [])
    listed: list[dict[str, Any]] = []
    for entry in chosen:
        metadata, policy = read_metadata(entry), _of(entry, policies)
        tags += [] if make else wanted_tags(entry.full_name, metadata, policy, now)
        listed += _refs(entry.full_name, metadata, policy, states)
        if policy.keeps and not metadata.get("snapshots"):
            notes.append(f"{entry.full_name}: nothing to tag: it has no rows yet; build it first")
    return _shown(listed, tags, make, notes)


def _of(entry: CatalogEntry, policies: Mapping[str, Policy]) -> Policy:
    from icegate.maintenance.policy import policy_for

    return policy_for(entry.full_name, policies)


def _policies(at: Opened, make: bool) -> tuple[Mapping[str, Policy], list[str]]:
    from icegate.maintenance.lake import read_policies

    try:
        policies, note = read_policies(at.project)
    except ConfigError:
        if make:
            raise
        return {}, ["tags that are missing aren't known before `dbt parse`"]
    return policies, [note] if note else []


def _refs(
    table: str, metadata: Metadata, policy: Policy, states: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for name, ref in sorted((metadata.get("refs") or {}).items()):
        if name == MAIN:
            continue
        at = snapshot(metadata, ref["snapshot-id"]) or {}
        kind, holds = _kind(name, ref["type"], metadata, policy, states)
        committed = moment(at.get("timestamp-ms"))
        yield {
            "table": table,
            "name": name,
            "type": ref["type"],
            "kind": kind,
            "snapshot_id": ref["snapshot-id"],
            "committed_at": committed,
            "age_days": (datetime.now(timezone.utc) - committed).days if committed else None,
            "ends_at": _ends_at(ref, at, metadata),
            "held_by": holds,
        }


def _kind(
    name: str, type: str, metadata: Metadata, policy: Policy, states: Mapping[str, str]
) -> tuple[str, str]:
    """Return what a branch or tag is for, and what keeps it there."""
    from icegate.history.steps import TAG
    from icegate.maintenance.run import BRANCH

    period = PERIOD_END.fullmatch(name)
    if name in map(tag_of, releases(metadata)):
        return "release", "`icegate release expire`"
    if type == "branch" and name.startswith(BRANCH_PREFIX):
        return "build", states.get(name.removeprefix(BRANCH_PREFIX), "")
    if type == "tag" and name.startswith(TAG):
        return "history", f"model {name.removeprefix(TAG)} goes on from it"
    if type == "branch" and name == BRANCH:
        return "maintenance", "`icegate maintain`"
    protects = [p for p in policy.protect if fnmatchcase(name, p)]
    holds = f"maintenance_protect: {protects[0]}" if protects else ""
    if type == "tag" and period:
        kept = policy.keeps.get(period[1])
        return "period end", f"maintenance_keep_{period[1]}_end: {kept}" if kept else holds
    return f"other {type}", holds


def _ends_at(ref: Metadata, at: Metadata, metadata: Metadata) -> datetime | None:
    from icegate.health.limits import limits_of

    age_ms = ref.get("max-ref-age-ms", limits_of(metadata).ref_age)
    return None if age_ms == FOR_EVER_MS or not at else moment(at["timestamp-ms"] + age_ms)


def _shown(listed: list[dict[str, Any]], tags: list[Tag], make: bool, notes: list[str]) -> Shown:
    verb = "made" if make else "would be made"
    wrong = [tag for tag in tags if not tag.can_be_made]
    lines: list[str | Line] = [
        f"{tag.table}: {tag.name} {verb}, at snapshot {tag.snapshot_id}"
        for tag in tags
        if tag.can_be_made
    ]
    lines += [Line(f"{tag.table}: {tag}", "bold red") for tag in wrong]
    grid = Grid("table name kind snapshot_id age_days ends_at held_by", listed, right=("age_days",))
    none = [] if listed or tags else ["no tags or branches but main"]
    told = [{**asdict(tag), "made": make and tag.can_be_made} for tag in tags]
    return Shown({"refs": listed, "tags": told}, [grid, *lines, *none], int(bool(wrong)), notes)
