"""What a model wants of its table beside rows, and the changes that bring the table there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from icegate.tables.layout import (
    SortField,
    Transform,
    as_terms,
    check_columns,
    partition_fields,
    sort_fields,
)
from icegate.tables.renames import declared
from icegate.tables.state import TableState, literal, quote

# Names of what the model set: only these are ever taken away, never what a person set by hand.
MANAGED = "icegate.managed"
DISTRIBUTION = "write.distribution-mode"
# Iceberg can't take it back.
KEPT = ("format-version",)
# What a change does to the rows that are there: nothing; it is for new files only, until the old
# ones are rewritten; readers lose values.
SAFE, REWRITE, DESTRUCTIVE = "safe", "rewrite", "destructive"


class Change(NamedTuple):
    """What follows `alter table <name>`, and the line that tells of it (or none).

    ``is_seen`` by readers is what no branch isolates: they would lose a column, or fail.
    """

    sql: str
    log: str
    is_seen: bool = False
    effect: str = SAFE


def renamed(names: tuple[str, str]) -> Change:
    """Return the change of a column's name from the first to the second."""
    old, new = names
    return Change(f"rename column {quote(old)} to {quote(new)}", f"column={new} was={old}", True)


@dataclass(frozen=True)
class Wanted:
    """A model's table as its configs say."""

    model: str
    properties: dict[str, str]
    partitions: list[Transform]
    sort: list[SortField]
    comment: str
    comments: dict[str, str]
    # The catalog's own values of what the model no longer sets.
    defaults: dict[str, str] = dataclasses.field(default_factory=dict)
    renames: dict[str, str] = dataclasses.field(default_factory=dict)  # new name: old name
    # True may lose columns; False neither when the table is rebuilt; None then only.
    allow_destructive: bool | None = None

    @property
    def managed(self) -> str:
        """The names of what the model sets, for the property that remembers them."""
        layout = ["partition_by"] * bool(self.partitions) + ["sort_by"] * bool(self.sort)
        return ",".join([*sorted(self.properties), *layout])

    def all_properties(self) -> dict[str, str]:
        """What to set on a new table."""
        managed = {MANAGED: self.managed} if self.managed else {}
        return {**self.defaults, **self.properties, **managed}

    def properties_sql(self) -> str:
        """Return the clause for `create table`, or nothing."""
        pairs = (f"{literal(k)} = {literal(v)}" for k, v in self.all_properties().items())
        listed = ", ".join(pairs)
        return f"tblproperties ({listed})" if listed else ""

    def partitions_sql(self, label: str) -> str:
        """Return the clause for `create table`, or nothing."""
        listed = ", ".join(field.render() for field in self.partitions)
        return f"{label} ({listed})" if listed else ""

    def missing(self, columns: Iterable[str]) -> list[str]:
        """Return the described columns that aren't there."""
        found = {key for name in columns for key in (f'"{name}', name.lower())}
        return sorted(name.lstrip('"') for name in set(self.comments) - found)

    def comment_of(self, column: str) -> str:
        """Return the description of a column, or nothing."""
        return self.comments.get(f'"{column}') or self.comments.get(column.lower(), "")

    def check(self, columns: Iterable[str]) -> None:
        """Raise for partitioning or sorting by a column that isn't there."""
        names = list(columns)
        check_columns(self.partitions, names, f"partition_by of model {self.model}")
        check_columns(
            (field.transform for field in self.sort), names, f"sort_by of model {self.model}"
        )


def wanted_table(model: dict[str, Any], properties: dict[str, str]) -> Wanted:
    """Read a model's configs; raises ``ConfigError`` for an unknown transform."""
    config, name = model["config"], model["name"]
    docs = config.get("persist_docs") or {}
    described = {}
    for column in (model.get("columns") or {}).values():
        if column.get("description"):
            # dbt compares a quoted name as it is written.
            key = f'"{column["name"]}' if column.get("quote") else column["name"].lower()
            described[key] = column["description"]
    return Wanted(
        model=name,
        properties=properties,
        partitions=partition_fields(
            as_terms(config.get("partition_by")), f"partition_by of model {name}"
        ),
        sort=sort_fields(as_terms(config.get("sort_by")), f"sort_by of model {name}"),
        comment=model.get("description") or "" if docs.get("relation") else "",
        comments=described if docs.get("columns") else {},
        renames=declared(model),
        allow_destructive=config.get("allow_destructive"),
    )


def changes(state: TableState, wanted: Wanted) -> list[Change]:
    """Return what `alter table` has to do; nothing when the table is as wanted."""
    if state.provider != "iceberg":
        return []
    wanted.check(column.name for column in state.columns)
    partitions, sort = layout_after(state, wanted)
    return [
        *_partition_changes(state, partitions),
        *_sort_changes(state, sort),
        *_property_changes(state, wanted),
        *comment_changes(state, wanted),
    ]


def changes_after_replace(
    state: TableState | None, wanted: Wanted, names: Iterable[str] = ()
) -> list[Change]:
    """Return what `create or replace table … as` left undone: a replace keeps old properties."""
    old = state or TableState("iceberg", (), (), {})
    properties = {**old.properties, **wanted.all_properties()}
    properties.pop("sort-order", None)
    columns = [
        Change(f"alter column {quote(name)} comment {literal(comment)}", "")
        for name in names
        if (comment := wanted.comment_of(name))
    ]
    return [
        *_sort_changes(replace(old, properties=properties), wanted.sort),
        *_unset(old, wanted),
        *columns,
    ]


def comment_changes(state: TableState, wanted: Wanted) -> list[Change]:
    """Return the comments that differ; one that the YAML doesn't have stays as it is."""
    found = []
    if wanted.comment and wanted.comment != state.comment:
        sql = f"set tblproperties ('comment' = {literal(wanted.comment)})"
        found.append(Change(sql, "comment=changed"))
    for column in state.columns:
        comment = wanted.comment_of(column.name)
        if comment and comment != column.comment:
            sql = f"alter column {quote(column.name)} comment {literal(comment)}"
            found.append(Change(sql, f"column={column.name} comment=changed"))
    return found


def same_layout(state: TableState, wanted: Wanted) -> bool:
    """Tell whether new rows can go into the table's present partitions."""
    now = partition_fields(state.partitions, "the table")
    return state.provider == "iceberg" and set(now) == set(wanted.partitions)


def layout_after(state: TableState, wanted: Wanted) -> tuple[list[Transform], list[SortField]]:
    """Return partitioning and sort order as they will be: what a person set by hand stays."""
    managed = state.properties.get(MANAGED, "").split(",")
    partitions, sort = wanted.partitions, wanted.sort
    if not partitions and "partition_by" not in managed:
        partitions = partition_fields(state.partitions, "the table")
    if not sort and "sort_by" not in managed:
        sort = sort_fields(as_terms(state.properties.get("sort-order")), "the table")
    return partitions, sort


def _partition_changes(state: TableState, target: list[Transform]) -> list[Change]:
    now = partition_fields(state.partitions, "the table")
    gone = [field for field in now if field not in target]
    found = []
    for field in (field for field in target if field not in now):
        old = next((other for other in gone if other.column == field.column), None)
        sql, log = f"add partition field {field.render()}", f"partition_added={field}"
        if old is not None:
            gone.remove(old)
            sql = f"replace partition field {old.render()} with {field.render()}"
            log = f"partition_replaced={old} by={field}"
        found.append(Change(sql, log, True, REWRITE))
    dropped = [
        Change(
            f"drop partition field {field.render()}", f"partition_dropped={field}", True, REWRITE
        )
        for field in gone
    ]
    return [*dropped, *found]


def _sort_changes(state: TableState, target: list[SortField]) -> list[Change]:
    properties = state.properties
    if sort_fields(as_terms(properties.get("sort-order")), "the table") == target:
        return []
    if target:
        # `locally` leaves `write.distribution-mode` alone.
        terms = ", ".join(field.render() for field in target)
        log = f"sort_order={'|'.join(str(field) for field in target)}"
        return [Change(f"write locally ordered by {terms}", log, effect=REWRITE)]
    mode, restored = properties.get(DISTRIBUTION), f"unset tblproperties ('{DISTRIBUTION}')"
    if mode is not None:  # `unordered` sets it to none
        restored = f"set tblproperties ('{DISTRIBUTION}' = {literal(mode)})"
    return [Change("write unordered", "sort_order=none"), Change(restored, "")]


def _property_changes(state: TableState, wanted: Wanted) -> list[Change]:
    now, target = state.properties, wanted.all_properties()
    changed = {name: value for name, value in target.items() if now.get(name) != value}
    found = []
    if changed:
        pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in changed.items())
        logged = {name: value for name, value in changed.items() if name != MANAGED}
        log = " ".join(f"{k}={v} was={now.get(k, 'unset')}" for k, v in logged.items())
        found.append(Change(f"set tblproperties ({pairs})", log))
    return found + _unset(state, wanted)


def forgotten(state: TableState, wanted: Wanted) -> list[str]:
    """Return the properties that the model once set and sets no more."""
    managed = [*state.properties.get(MANAGED, "").split(","), MANAGED]
    kept = (*wanted.all_properties(), *KEPT)
    return [name for name in managed if name in state.properties and name not in kept]


def _unset(state: TableState, wanted: Wanted) -> list[Change]:
    names, now = forgotten(state, wanted), state.properties
    if not names:
        return []
    log = " ".join(f"{name}=unset was={now[name]}" for name in names if name != MANAGED)
    return [Change(f"unset tblproperties ({', '.join(map(literal, names))})", log)]
