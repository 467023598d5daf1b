"""The tables of a lake with their policies: what there is to plan for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from icegate.catalog import CatalogEntry, keeps_files, list_relations, read_metadata
from icegate.errors import CatalogError, TableError
from icegate.gate.build import writing_builds
from icegate.gate.refs import Metadata
from icegate.maintenance.orphans import Listed
from icegate.maintenance.plan import Around, TablePlan, plan, ranked
from icegate.maintenance.policy import Policy, policies_of, policy_for
from icegate.nodes import changed_since, read_manifest
from icegate.settings import Lake


def read_policies(project: Path) -> tuple[dict[str, Policy], str]:
    """Return the policies of dbt's last parse, by `schema.table`, and a note if that is old.

    Raises ``ConfigError`` where dbt hasn't parsed yet: without policies all tables would have the
    default one, also those that must not be touched.
    """
    nodes = read_manifest(project, "the tables' policies")["nodes"].values()
    newer = changed_since(project)
    note = "policies are those of dbt's last parse; since then {} changed: `dbt parse`"
    return policies_of(nodes), note.format(newer) if newer else ""


def plan_lake(
    lake: Lake,
    chosen: Collection[CatalogEntry],
    policies: Mapping[str, Policy],
    now: datetime,
    orphans: bool = False,
    keep: bool = False,
) -> list[TablePlan]:
    """Return the plans of some tables, in the order in which they pay.

    With ``orphans`` files that nothing refers to are listed, too; ``keep`` keeps that list, from
    which a later run deletes.
    """
    entries = list_relations(lake)
    read = {entry: _read(entry) for entry in entries if entry.kind == "table"}
    places = defaultdict(list)  # a table in staging has its files where those of its table are
    for entry, metadata in read.items():
        if not isinstance(metadata, CatalogError):
            places[metadata["location"]].append(entry.full_name)
    plans = []
    for entry in chosen:
        name, policy = entry.full_name, policy_for(entry.full_name, policies)
        metadata = read.get(entry) or _read(entry)
        try:
            if isinstance(metadata, CatalogError):
                raise metadata
            sharing = [other for other in places[metadata["location"]] if other != name]
            builds, keeps = writing_builds(lake, metadata), keeps_files(lake, metadata)
            plans.append(plan(entry, metadata, policy, now, Around(builds, sharing, keeps)))
        except (CatalogError, TableError) as error:
            plans.append(TablePlan(name, policy, refused=(error.why or error.what,)))
    if orphans:
        listed = Listed(lake)
        by_name = {entry.full_name: entry for entry in chosen}
        plans = [_with_orphans(each, listed, by_name[each.table], entries, now) for each in plans]
        if keep:
            listed.save()
    return ranked(plans)


def _read(entry: CatalogEntry) -> Metadata | CatalogError:
    try:
        return read_metadata(entry)
    except CatalogError as error:
        return error


def _with_orphans(
    each: TablePlan,
    listed: Listed,
    entry: CatalogEntry,
    entries: list[CatalogEntry],
    now: datetime,
) -> TablePlan:
    if each.keeps_files or each.policy.service or not each.policy.enabled or each.refused:
        return each
    try:
        action, said = listed.plan(entry, entries, each.policy, now)
    except (CatalogError, TableError) as error:
        return replace(each, refused=(*each.refused, f"orphans: {error.what}: {error.why}"))
    left = (*each.left, said) if said else each.left
    return replace(each, actions=(*each.actions, *([action] if action else [])), left=left)
