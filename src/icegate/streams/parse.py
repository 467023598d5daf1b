"""Records into typed rows: which route takes one, what it does, and what is wrong with it.

All of it is SQL of Spark, so that no record passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from icegate.dialect import SPARK
from icegate.gate.quarantine import Rule
from icegate.streams import quick
from icegate.streams.config import PLACE, Column, Route, Stream
from icegate.streams.read import IS_QUICK, IS_WHOLE, TEXT, Cell, cells_of, steps, text_at
from icegate.tables.state import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RAW = ("_key", "_value")
KEPT = [*PLACE, *RAW]
_YEAR_9999 = {"s": 253402300799, "ms": 253402300799999, "us": 253402300799999999}
_FROM_EPOCH = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}


def parsed(
    records: DataFrame,
    stream: Stream,
    rules: Mapping[str, Sequence[Rule]] | None = None,
    quickly: bool = False,
) -> DataFrame:
    """Return records with `_route`, `_deletes`, `_error`, and of each route `_row_<n>.<column>`.

    `_error` says what is wrong with a record, and holds nothing of its values; ``rules`` are the
    conditions, by table, on which a row is refused. `_key` and `_value` are null where a record is
    neither wrong nor deletes. `_is_quick` says what was read the quick way; ``quickly`` tries it.

    Whoever filters what comes back has it computed before: Spark would put the whole text of a
    condition into the filter, and compute it twice.
    """
    skipped = "_value is not null" if stream.tombstones == "skip" else "true"
    found = records.where(skipped).selectExpr(*KEPT)
    cells = cells_of(stream, quickly)
    # A step for each that others are made of: Spark computes a column of the step before it once.
    for step in (*steps(stream, cells, quickly), *_judged(stream, cells, rules or {})):
        found = found.selectExpr("*", *step)
    raw = [f"case when _error is not null or _deletes then {name} end as {name}" for name in RAW]
    told = ("_route", "_deletes", "_error", f"{IS_QUICK} as _is_quick")
    return found.selectExpr(*PLACE, *raw, *told, *(cell.row for cell in cells))


def rows_of(found: DataFrame, stream: Stream, number: int) -> DataFrame:
    """Return the good rows of a route, as its table has them, and `_deletes`."""
    from pyspark.sql.functions import col

    # As columns: a batch would take text apart each time.
    good = found.where(col("_error").isNull() & (col("_route") == number))
    cells = [cell for cell in cells_of(stream) if cell.at == number]
    columns = [col(cell.row).alias(cell.name) for cell in cells]
    return good.select(*columns, *PLACE, "_deletes")


def _value(cell: Cell) -> str:
    value = _typed(cell.column, cell.raw)
    if not cell.kind:
        return value
    read = quick.decimal if cell.column.type.startswith("decimal") else _typed
    return f"case when {IS_QUICK} then {read(cell.column, cell.number)} else {value} end"


def _judged(
    stream: Stream, cells: Sequence[Cell], rules: Mapping[str, Sequence[Rule]]
) -> Iterator[list[str]]:
    """Yield the steps from there to rows, and to what is wrong with them."""
    yield [
        f"{_route(stream.routes)} as _route",
        *(f"{_value(cell)} as {cell.row}" for cell in cells),
    ]
    yield [f"{_by_route(stream.routes, _deletes)} as _deletes"]
    yield [f"{_error(stream, cells, rules)} as _error"]


def _typed(column: Column, raw: str) -> str:
    """Return the value of a text or a number, null where it can't be one."""
    if column.type == "string":
        return raw
    if column.epoch:
        epoch, most = f"try_cast({raw} as bigint)", _YEAR_9999[column.epoch]
        convert = _FROM_EPOCH[column.epoch]
        return f"(case when {epoch} between -{most} and {most} then {convert}({epoch}) end)"
    return f"try_cast({raw} as {column.type})"


def _in(text: str, values: Iterable[str]) -> str:
    return f"{text} in ({', '.join(map(literal, values))})"


def _route(routes: Iterable[Route]) -> str:
    cases = []
    for number, route in enumerate(routes):
        tests = [_in("source_topic", route.topic)] if route.topic else []
        tests += [_in(text_at(path), values) for path, values in route.when.items()]
        cases.append(f"when {' and '.join(tests) or 'true'} then {number}")
    return f"case {' '.join(cases)} end"


def _by_route(routes: Iterable[Route], sql: Any) -> str:
    cases = " ".join(f"when {n} then {sql(route, n)}" for n, route in enumerate(routes))
    return f"case _route {cases} end"


def _deletes(route: Route, _: int = 0) -> str:
    operation = route.operation
    if operation is None or not operation.delete:
        return "false"
    return f"coalesce({_in(text_at(operation.path), operation.delete)}, false)"


def _error(stream: Stream, cells: Sequence[Cell], rules: Mapping[str, Sequence[Rule]]) -> str:
    def wrong(route: Route, number: int) -> str:
        own = [cell for cell in cells if cell.at == number]
        return _wrong(route, own, rules.get(route.table, ()))

    return (
        "case when _value is null then 'it has no value'"
        f" when not is_valid_utf8({TEXT}) then 'it is not UTF-8'"
        f" when not ({IS_QUICK} or {IS_WHOLE}) then"
        " 'it is not one JSON object, or lacks one on the way to a value'"
        " when _route is null then 'no route takes it'"
        f" else {_by_route(stream.routes, wrong)} end"
    )


def _wrong(route: Route, cells: Sequence[Cell], rules: Sequence[Rule]) -> str:
    """Return the first that is wrong with a record of a route; of a delete only its key counts."""
    checks = {cell.name: _check(cell) for cell in cells}
    keys = [check for name in route.key for check in checks[name]]
    others = [check for name in route.columns if name not in route.key for check in checks[name]]
    for rule in rules:
        said = literal(f"it fails the test {rule.test}: {rule.reason}")
        others.append(f"when {_on_row(cells, rule.condition)} then {said}")
    cases = _operation(route) + keys
    if others and _deletes(route) != "false":
        cases.append("when _deletes then null")
    cases += others
    return f"case {' '.join(cases)} end" if cases else "null"


def _on_row(cells: Sequence[Cell], condition: str) -> str:
    """Return a condition on columns of a route's table as one on those of its rows."""
    tree, rows = sqlglot.parse_one(condition, dialect=SPARK), {c.name.lower(): c.row for c in cells}
    for column in list(tree.find_all(exp.Column)):
        if not column.table and column.name.lower() in rows:
            column.replace(sqlglot.parse_one(rows[column.name.lower()], dialect=SPARK))
    return tree.sql(dialect=SPARK)


def _operation(route: Route) -> list[str]:
    operation = route.operation
    if operation is None:
        return []
    known = [*operation.insert, *operation.update, *operation.delete]
    said = literal(f"its operation at {operation.path} is unknown")
    return [f"when coalesce(not {_in(text_at(operation.path), known)}, true) then {said}"]


def _check(cell: Cell) -> list[str]:
    column, raw, typed, name = cell.column, cell.raw, cell.row, cell.name
    given = [raw, cell.number] if cell.kind else [raw]
    is_given = f"({' or '.join(f'{each} is not null' for each in given)})"
    cases = []
    if column.required or name in cell.route.key:
        said = literal(f"{name} is missing at {' or '.join(cell.paths)}")
        cases.append(f"when not {is_given} then {said}")
    if column.type != "string":
        said = literal(f"{name} can't be read as {column.type}")
        cases.append(f"when {typed} is null and {is_given} then {said}")
    if column.type.startswith("decimal"):
        said = literal(f"{name} has more digits than {column.type}")
        # The second is right by itself, and takes ten times as long.
        differs = f"{raw} is not null and cast({typed} as string) <> {raw} and {typed} <> "
        cases.append(f"when {differs}try_cast({raw} as decimal(38, 18)) then {said}")
    return cases
