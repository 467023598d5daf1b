"""Columns that a model's YAML says are renamed: the table keeps the column, under its new name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from icegate.errors import ConfigError, did_you_mean
from icegate.pii import meta_of
from icegate.tables.layout import Transform, as_terms, partition_fields, sort_fields
from icegate.tables.state import TableState

KEY = "renamed_from"
Rename = tuple[str, str]  # the name before, and the one from now on


def declared(model: Mapping[str, Any]) -> dict[str, str]:
    """Return the earlier names of a model's columns, by what they are called now."""
    found: dict[str, str] = {}
    for column in (model.get("columns") or {}).values():
        name, old = column["name"], meta_of(column).get(KEY)
        if old is None:
            continue
        if not isinstance(old, str) or not old or old.lower() == name.lower():
            raise _wrong(
                f"{old!r} to {name}",
                model["name"],
                f"`{KEY}` is to be another name, and Spark doesn't tell upper from lower case",
                f"say `meta: {{{KEY}: <the column's name until now>}}`",
            )
        other = next((new for new, of in found.items() if of.lower() == old.lower()), None)
        if other is not None:
            raise _wrong(
                f"{old} to both {other} and {name}",
                model["name"],
                "one column of the table can become one column only",
                f"take `{KEY}` from one of them",
            )
        found[name] = old
    return found


def pending(state: TableState, renames: Mapping[str, str], model: str) -> list[Rename]:
    """Return the renames that a table still lacks; raise ``ConfigError`` for one that can't be."""
    now = {column.name.lower(): column.name for column in state.columns}
    found = []
    for new, old in renames.items():
        if new.lower() in now and old.lower() in now:
            raise _wrong(
                f"{old} to {new}",
                model,
                "its table has both columns",
                f"take `{KEY}` away, if the rename is done, or one of the columns out of the model "
                "and its table",
            )
        if new.lower() in now:
            continue  # an earlier run did it
        if old.lower() not in now:
            raise _wrong(
                f"{old} to {new}",
                model,
                f"its table has neither; it has: {', '.join(now.values())}",
                did_you_mean(old, now.values(), f"name one of these, or take `{KEY}` away"),
            )
        found.append((now[old.lower()], new))
    return found


def check_returned(renames: Iterable[Rename], names: Collection[str], model: str) -> None:
    """Raise ``ConfigError`` where the model's query doesn't have the new name, or has the old."""
    has = {name.lower() for name in names}
    for old, new in renames:
        if new.lower() not in has:
            fix = f"select `{old} as {new}`, or take `{KEY}` away"
            raise _wrong(f"{old} to {new}", model, f"its query returns no {new}", fix)
        if old.lower() in has:
            fix = f"take it out of the query, or take `{KEY}` away"
            raise _wrong(f"{old} to {new}", model, f"its query still returns {old}", fix)


def renamed_state(state: TableState, renames: Iterable[Rename]) -> TableState:
    """Return the state as it is once columns are renamed; partitioning and order follow them."""
    for old, new in renames:
        columns = (replace(c, name=new) if c.name == old else c for c in state.columns)
        fields = partition_fields(state.partitions, "the table")
        properties = dict(state.properties)
        if "sort-order" in properties:
            order = sort_fields(as_terms(properties["sort-order"]), "the table")
            order = [f._replace(transform=_renamed(f.transform, old, new)) for f in order]
            properties["sort-order"] = ", ".join(field.render() for field in order)
        state = replace(
            state,
            columns=tuple(columns),
            partitions=tuple(_renamed(field, old, new).render() for field in fields),
            properties=properties,
        )
    return state


def _renamed(field: Transform, old: str, new: str) -> Transform:
    first, dot, rest = field.column.partition(".")
    return field._replace(column=new.lower() + dot + rest) if first == old.lower() else field


def _wrong(what: str, model: str, why: str, fix: str) -> ConfigError:
    return ConfigError(f"cannot rename column {what} of model {model}", why=why, fix=fix)
