"""Prove from Iceberg's metadata that a test can have no failing row: no data file is read.

What a query returns is followed down to the tables that its rows come from, with the conditions
that they have met on the way. Where no data file may hold a row that meets them, by its partition
and its metrics, there is none. A condition that isn't understood counts as met, and delete files
only take rows away, so that neither can turn a failing row into none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from pyiceberg import expressions as pyiceberg_expressions
from sqlglot import exp

from icegate.audits.source import Source
from icegate.audits.tree import Ctes, Undecided, cte_of, entered, grouping, kind_of, null_column

on: Any = pyiceberg_expressions  # their constructors, as pydantic has them, take no names
COMPARED = {
    exp.EQ: on.EqualTo,
    exp.NEQ: on.NotEqualTo,
    exp.LT: on.LessThan,
    exp.LTE: on.LessThanOrEqual,
    exp.GT: on.GreaterThan,
    exp.GTE: on.GreaterThanOrEqual,
}
OPPOSITE = {exp.EQ: exp.NEQ, exp.LT: exp.GTE, exp.GT: exp.LTE}
OPPOSITE |= {after: before for before, after in OPPOSITE.items()}
TURNED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


class Origin(NamedTuple):
    """A table that rows come from, and what each of them meets: conditions on its columns."""

    table: exp.Table
    conditions: list[exp.Expr]


def origins(query: exp.Expr) -> Iterator[Origin]:
    """Yield where the rows of a resolved query come from; without a row there it has none."""
    return _follow(query, [], {})


def _follow(query: exp.Expr, wanted: list[exp.Expr], ctes: Ctes) -> Iterator[Origin]:
    """Yield the origins of a query's rows; ``wanted`` are conditions on its own columns."""
    query, ctes = entered(query, ctes)
    if isinstance(query, exp.Union):
        yield from _follow(query.left, [], ctes)
        yield from _follow(query.right, [], ctes)
    elif isinstance(query, exp.SetOperation):  # rows of the left side, if any
        yield from _follow(query.left, [], ctes)
    elif isinstance(query, exp.Select):
        yield from _follow_select(query, wanted, ctes)
    else:
        raise Undecided(f"{query.key} isn't understood")


def _follow_select(query: exp.Select, wanted: list[exp.Expr], ctes: Ctes) -> Iterator[Origin]:
    grouping(query)
    start = query.args.get("from_")
    if start is None:
        raise Undecided("it reads no table")
    if any(join.side in ("RIGHT", "FULL") for join in query.args.get("joins") or []):
        raise Undecided("its rows may come from either side of a join")
    computed = {item.alias_or_name: item.unalias() for item in query.expressions}
    met = [c for c in (_instead(w, computed) for w in wanted) if c is not None]
    where, source = query.args.get("where"), start.this
    if where is not None:
        met += where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    met = [_unqualified(c) for c in met if _is_about(c, source.alias_or_name)]
    if not isinstance(source, exp.Table):
        yield from _follow(source, met, ctes)
    elif (found := cte_of(source, ctes)) is not None:
        yield from _follow(found[0], met, found[1])
    else:
        yield Origin(source, met)


def _instead(condition: exp.Expr, computed: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """Return a condition on a query's columns as one on what they are computed from, if it can."""
    if any(column.name not in computed for column in condition.find_all(exp.Column)):
        return None

    def inner(node: exp.Expr) -> exp.Expr:
        return computed[node.name].copy() if isinstance(node, exp.Column) else node

    return condition.transform(inner)


def _is_about(condition: exp.Expr, source: str) -> bool:
    return all(column.table == source for column in condition.find_all(exp.Column))


def _unqualified(condition: exp.Expr) -> exp.Expr:
    condition = condition.copy()
    for column in condition.find_all(exp.Column):
        column.set("table", None)
    return condition


def all_of(conditions: Iterable[exp.Expr]) -> Any:
    """Return what each row meets that meets all conditions."""
    row_filter: Any = on.AlwaysTrue()
    for condition in conditions:
        row_filter = on.And(row_filter, may(condition))
    return row_filter


def files_with(source: Source, conditions: list[exp.Expr]) -> int:
    """Return how many data files of a snapshot may hold a row that meets the conditions."""
    return len(source.files.data(all_of(conditions), source.files.manifests))


def may(condition: exp.Expr, *, false: bool = False) -> Any:
    """Return what each row meets for which a condition is true, or with ``false`` is false."""
    if isinstance(condition, exp.Paren):
        return may(condition.this, false=false)
    if isinstance(condition, exp.Boolean):
        return on.AlwaysTrue() if condition.this is not false else on.AlwaysFalse()
    if isinstance(condition, exp.Not):
        return may(condition.this, false=not false)
    if isinstance(condition, exp.And | exp.Or):
        sides = (may(side, false=false) for side in (condition.this, condition.expression))
        return (on.And if isinstance(condition, exp.And) is not false else on.Or)(*sides)
    if isinstance(condition, exp.Between):
        low = exp.GTE(this=condition.this, expression=condition.args["low"])
        high = exp.LTE(this=condition.this, expression=condition.args["high"])
        return may(exp.And(this=low, expression=high), false=false)
    if (column := null_column(condition)) is not None:
        return (on.NotNull if false else on.IsNull)(column.name)
    if isinstance(condition, exp.In):
        return _among(condition, false)
    kind: Any = type(condition)
    if kind in COMPARED:
        kind = OPPOSITE[kind] if false else kind
        return _compared(kind, condition.this, condition.expression)
    return on.AlwaysTrue()


def _compared(kind: Any, left: exp.Expr, right: exp.Expr) -> Any:
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        kind, left, right = TURNED.get(kind, kind), right, left
    numbers = [_number(side) for side in (left, right)]
    if None not in numbers and kind in (exp.EQ, exp.NEQ):  # `1 = 2`, as dbt_utils has it
        holds = (numbers[0] == numbers[1]) is (kind is exp.EQ)
        return on.AlwaysTrue() if holds else on.AlwaysFalse()
    value = _value(left, right) if isinstance(left, exp.Column) else None
    if value is None:
        return on.AlwaysTrue()
    found = COMPARED[kind](left.name, value)
    return found if kind in (exp.EQ, exp.LT, exp.LTE) else _with_nan(found, left.name, value)


def _among(condition: exp.In, false: bool) -> Any:
    column, items = condition.this, condition.expressions
    values = [_value(column, item) for item in items if not isinstance(item, exp.Null)]
    if not isinstance(column, exp.Column) or not values or None in values:
        return on.AlwaysTrue()
    if not false:
        return on.In(column.name, values)
    # What is none of them lies below, above or between two of them.
    values = sorted(set(values))
    gaps: Any = on.Or(on.LessThan(column.name, values[0]), _above(column.name, values[-1]))
    for low, high in zip(values, values[1:], strict=False):
        gaps = on.Or(gaps, on.And(on.GreaterThan(column.name, low), on.LessThan(column.name, high)))
    return gaps


def _above(name: str, value: Any) -> Any:
    return _with_nan(on.GreaterThan(name, value), name, value)


def _with_nan(condition: Any, name: str, value: Any) -> Any:
    """NaN is greater than all numbers to Spark, and in no bounds of Iceberg's."""
    return on.Or(condition, on.IsNaN(name)) if isinstance(value, float) else condition


def _value(column: exp.Expr, literal: exp.Expr) -> Any:
    """Return a literal in the type of a column, or None where it doesn't fit exactly."""
    kind, number = kind_of(column), _number(literal)
    if kind == "text" and isinstance(literal, exp.Literal) and literal.is_string:
        return None if "\\" in literal.name else literal.name
    if kind == "date" and isinstance(literal, exp.Cast) and literal.is_type("date"):
        try:
            return date.fromisoformat(literal.this.name).isoformat()
        except ValueError:
            return None
    if number is None:
        return None
    if kind == "integer":
        return int(number) if number == int(number) else None
    if kind == "double":
        return float(number)
    if kind in ("decimal", "wide"):
        scale = [int(part.name) for part in column.type.expressions][1:] or [0]  # type: ignore
        exact = number.quantize(Decimal(1).scaleb(-scale[0]))
        return exact if exact == number else None
    return None


def _number(node: exp.Expr) -> Decimal | None:
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Neg):
        number = _number(node.this)
        return None if number is None else -number
    return Decimal(node.name) if kind_of(node) == "number" else None
