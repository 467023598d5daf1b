"""What the next run will change of the tables that are there, and what that does: without Spark."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlglot

from icegate.catalog import CatalogEntry, list_relations, read_metadata
from icegate.errors import CatalogError, ConfigError, IcegateError
from icegate.gate.refs import WAP_ENABLED, Metadata
from icegate.health.table import look
from icegate.maintenance.policy import Policy, policy_of
from icegate.properties import check_properties, isolation_properties
from icegate.settings import Lake
from icegate.tables.changes import (
    DESTRUCTIVE,
    MANAGED,
    REWRITE,
    SAFE,
    Change,
    Wanted,
    changes,
    renamed,
    wanted_table,
)
from icegate.tables.metadata import columns, current_snapshot, total
from icegate.tables.renames import check_returned, pending, renamed_state
from icegate.tables.schema import SchemaDiff, diff
from icegate.tables.selected import Columns, selected
from icegate.tables.state import TableState, state_from_metadata

ERROR = "error"
KEPT = ("incremental", "snapshot", "history")  # whose rows stay from run to run
WRITTEN = (*KEPT, "table", "seed")
CONSENT = "set `+allow_destructive: true`, or keep what the table has"
# What becomes of columns, by `on_schema_change`, and in a table that each run rebuilds.
_CAST = (SAFE, "the table keeps its type: Spark casts, or refuses")
_WIDER = (SAFE, "files stay as they are")
_NULL = (SAFE, "rows that are there have null")
_DIFFERS = (ERROR, "on_schema_change is 'fail': append_new_columns or sync_all_columns lets it be")
_LOST = (DESTRUCTIVE, "readers lose its values")
_LACKS = (ERROR, "the model lacks it, and on_schema_change is 'ignore'")
Told = dict[str, tuple[str, str]]
OF_REBUILT: Told = {"added": (SAFE, "a run writes all rows"), "dropped": _LOST,
                    "widened": (SAFE, "a run writes all rows"), "retyped": _LOST}  # fmt: skip
OF_KEPT: dict[str, Told] = {
    "ignore": {"added": (SAFE, "left out: on_schema_change is 'ignore'"), "dropped": _LACKS,
               "widened": _CAST, "retyped": _CAST},
    "append_new_columns": {"added": _NULL, "dropped": (SAFE, "it stays, with null in new rows"),
                           "widened": _WIDER, "retyped": _CAST},
    "sync_all_columns": {"added": _NULL, "dropped": _LOST, "widened": _WIDER, "retyped": _LOST},
    "fail": dict.fromkeys(("added", "dropped", "widened", "retyped"), _DIFFERS),
}  # fmt: skip


class Planned(NamedTuple):
    """A change of a table: as dbt's output will tell it, its class, and what it means.

    ``bytes`` are those of old files that stay as they are until they are rewritten.
    """

    table: str
    change: str
    effect: str
    why: str
    bytes: int | None = None
    stops_the_build: bool = False


class Target(NamedTuple):
    """The columns that a model will return; not ``is_whole`` where it may return more."""

    columns: Columns
    is_whole: bool
    why_not: str = ""


def evolution(
    lake: Lake, manifest: Mapping[str, Any], *, gate: bool
) -> tuple[list[Planned], dict[str, str]]:
    """Return what changes of which table, and of which tables the columns aren't known, and why."""
    entries = {entry.full_name.lower(): entry for entry in list_relations(lake)}

    @cache
    def columns_of(name: str) -> Columns:
        try:
            return {c["name"]: c["type"] for c in columns(read_metadata(entries[name]))}
        except (KeyError, CatalogError):
            return {}

    planned, unknown = list[Planned](), dict[str, str]()
    for node in manifest["nodes"].values():
        name = f"{node['schema']}.{node['alias']}".lower()
        if node["config"].get("materialized") not in WRITTEN or name not in entries:
            continue
        if entries[name].kind == "view":  # it gives way to a new table
            continue
        try:
            target = _target(node, lambda sql: selected(sql, columns_of, lake.catalog))
            planned += _Table(entries[name], node, target, gate=gate).changes()
        except CatalogError as error:
            target = Target({}, False, error.why)
        except (OSError, UnicodeDecodeError) as error:
            target = Target({}, False, f"its file can't be read: {error}")
        except sqlglot.errors.SqlglotError:
            target = Target({}, False, "a type of its YAML isn't understood")
        why = target.why_not or _untyped(node, target)
        if why:
            unknown[name] = why
    return sorted(planned, key=lambda each: each.table), unknown


def _target(node: Mapping[str, Any], query: Any) -> Target:
    """Return the columns by the contract, which is checked, else by SQL, else by the YAML."""
    config = node["config"]
    kind, described = config["materialized"], (node.get("columns") or {}).values()
    declared = {column["name"]: column.get("data_type") or "" for column in described}
    if (config.get("contract") or {}).get("enforced") or config.get("enforce_schema"):
        return Target(declared, True)
    if kind == "history":
        return Target({}, False)  # they follow its source
    if kind == "seed":
        file = Path(node["root_path"], node["original_file_path"])
        with file.open(newline="") as lines:
            names = next(csv.reader(lines, delimiter=config.get("delimiter") or ","), [])
        return Target({n: (config.get("column_types") or {}).get(n, "") for n in names}, True)
    sql, is_python = node.get("compiled_code"), node.get("language") == "python"
    found = query(sql) if sql and not is_python else None
    if found is None:
        typed = {name: kind for name, kind in declared.items() if kind}
        why = "only Spark can tell what its SQL selects" if sql else "it isn't compiled yet"
        return Target(typed, False, "it's a Python model" if is_python else why)
    kinds = {name.lower(): kind for name, kind in declared.items()}
    return Target({n: k or kinds.get(n.lower(), "") for n, k in found.items()}, kind != "snapshot")


def _untyped(node: Mapping[str, Any], target: Target) -> str:
    """Return of which columns the type isn't known, where another one could stop the build."""
    config = node["config"]
    if config["materialized"] in KEPT:
        matters = config.get("on_schema_change") == "sync_all_columns"
    else:
        matters = config.get("allow_destructive") is False
    if not matters or config.get("allow_destructive"):
        return ""
    names = [name for name, kind in target.columns.items() if not kind]
    return f"only Spark can tell the type of {', '.join(names)}" if names else ""


class _Table:
    """One table, and what its node will make of it."""

    def __init__(
        self, entry: CatalogEntry, node: Mapping[str, Any], target: Target, *, gate: bool
    ) -> None:
        self.name, self.entry, self.node, self.target = entry.full_name, entry, node, target
        self.metadata: Metadata = read_metadata(entry)
        self.config = node["config"]
        self.is_kept = self.config["materialized"] in KEPT
        self.is_gated = gate and self.config.get("gate") is not False

    def changes(self) -> Iterator[Planned]:
        """Yield the changes in the order in which the run makes them, and what would stop it."""
        state = state_from_metadata(self.metadata)
        try:
            policy = policy_of(self.config, self.node["name"])
            wanted = wanted_table(dict(self.node), self._properties(state))
            names = pending(state, wanted.renames, wanted.model)
            if self.target.is_whole:
                check_returned(names, self.target.columns, wanted.model)
            state = renamed_state(state, names)
            found = diff(self._typed(state), [(c.name, c.type) for c in state.columns])
            layout = changes(self._after(state, found), wanted)
        except ConfigError as error:
            said = "; ".join(filter(None, (error.why, error.fix)))
            yield Planned(self.name, error.what, ERROR, said, stops_the_build=True)
            return
        for change in map(renamed, names):
            yield self._told(change, "the same column: rows and old snapshots keep its values")
        yield from self._columns(found, wanted)
        yield from (self._layout(change, policy) for change in layout if change.log)
        if not any(change.effect == REWRITE and change.is_seen for change in layout):
            yield from self._old_files(policy)

    def _properties(self, state: TableState) -> dict[str, str]:
        """Return the model's properties; those of a profile are as the last run set them."""
        own = {
            **isolation_properties(self.config.get("isolation")),
            **(self.config.get("tblproperties") or {}),
        }
        held = [n for n in state.properties.get(MANAGED, "").split(",") if n in state.properties]
        kept = held if self.config.get("table_profile") else {WAP_ENABLED} & {*held}
        try:
            return {**{n: state.properties[n] for n in kept}, **check_properties(own)}
        except IcegateError as error:
            raise ConfigError(error.what, why=error.why, fix=error.fix) from error

    def _typed(self, state: TableState) -> list[tuple[str, str]]:
        """Return the columns to come; of a type that isn't known the table's own is taken."""
        now = {column.name.lower(): column.type for column in state.columns}
        found = [(n, k or now.get(n.lower(), "?")) for n, k in self.target.columns.items()]
        has = {name.lower() for name, _ in found}
        rest = [(c.name, c.type) for c in state.columns if c.name.lower() not in has]
        return found if self.target.is_whole else [*found, *rest]

    def _after(self, state: TableState, found: SchemaDiff) -> TableState:
        """Return what the layout has to fit: of a rebuilt table only the columns to come."""
        after = state.with_columns(found.added)
        lost = () if self.is_kept else found.dropped
        return replace(after, columns=tuple(c for c in after.columns if c.name not in lost))

    def _columns(self, found: SchemaDiff, wanted: Wanted) -> Iterator[Planned]:
        mode = self.config.get("on_schema_change") or "ignore"
        if self.config["materialized"] == "snapshot":
            mode = "append_new_columns"
        told = OF_KEPT[mode] if self.is_kept else OF_REBUILT
        may_lose = wanted.allow_destructive
        if may_lose is None:
            may_lose = not self.is_kept
        kinds = {
            "added": [f"added={kind}" for kind in found.added.values()],
            "dropped": ["dropped" for _ in found.dropped],
            "widened": [f"type={new} was={old}" for old, new in found.widened.values()],
            "retyped": [f"type={new} was={old}" for old, new in found.retyped.values()],
        }
        for kind, lines in kinds.items():
            effect, why = told[kind]
            stops = effect == ERROR or (effect == DESTRUCTIVE and not may_lose)
            why += f": {CONSENT}" * (stops and effect == DESTRUCTIVE)
            for name, line in zip(getattr(found, kind), lines, strict=True):
                change = Change("", f"column={name} {line}", effect == DESTRUCTIVE, effect)
                yield self._told(change, why, stops=stops)

    def _layout(self, change: Change, policy: Policy) -> Planned:
        if change.effect != REWRITE:
            return self._told(change, "metadata only")
        size = total((current_snapshot(self.metadata) or {}).get("summary", {}), "files-size")
        if not self.is_kept:
            return self._told(change, "each run writes all rows anyway", size)
        of_order = "for new files; `+maintenance_strategy: sort` sorts old ones it compacts"
        why = f"for new files; {_budget(policy)}" if change.is_seen else of_order
        return self._told(change, why, size)

    def _old_files(self, policy: Policy) -> Iterator[Planned]:
        """Yield how much still lies in an earlier partitioning."""
        if len(self.metadata["partition-specs"]) < 2:
            return
        found = look(self.entry, datetime.now(timezone.utc), by_partition=True)
        parts = [part.files for part in found.partitions if part.files]
        today = self.metadata["default-spec-id"]
        old = sum(part.bytes for part in parts if part.spec_id != today)
        if old:
            yield self._told(Change("", "old_partitions", effect=REWRITE), _budget(policy), old)

    def _told(
        self, change: Change, why: str, size: int | None = None, *, stops: bool = False
    ) -> Planned:
        later = "; readers see it at publish" * (self.is_gated and change.is_seen and not stops)
        return Planned(self.name, change.log, change.effect, why + later, size, stops)


def _budget(policy: Policy) -> str:
    most = policy.old_partitions_max_gb
    if most is None:
        return "old ones stay; `+maintenance_old_partitions_max_gb` has them moved"
    return f"`icegate maintain` moves old ones, {most:g} GiB in a run"
