"""Records into typed rows: which route takes one, what it does, and what is wrong with it.

All of it is SQL of Spark, so that no record passes through Python.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from icegate.dialect import SPARK
from icegate.gate.quarantine import Rule
from icegate.streams.config import PLACE, Route, Stream
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RAW = ("_key", "_value")
KEPT = [*PLACE, *RAW]
# Without PARTIAL a value of another form than its path needs would be null without a word.
PARTIAL = {"spark.sql.json.enablePartialResults": "false"}
_STRICT = "map('mode', 'PERMISSIVE', 'allowSingleQuotes', 'false')"
# What the second has: a name that no record can know, as one may close the list by itself.
_END = f"end_{uuid.uuid4().hex}"
# How Spark writes a number that had more digits than a double keeps.
_LONG_NUMBER = r"^-?[0-9.]+(E-?[0-9]+)?$"
_YEAR_9999 = {"s": 253402300799, "ms": 253402300799999, "us": 253402300799999999}
_FROM_EPOCH = {"s": "timestamp_seconds", "ms": "timestamp_millis", "us": "timestamp_micros"}


def parsed(
    records: DataFrame, stream: Stream, rules: Mapping[str, Sequence[Rule]] | None = None
) -> DataFrame:
    """Return records with `_route`, `_deletes`, `_error`, and for each route a struct `_row_<n>`.

    `_error` says what is wrong with a record, and holds nothing of its values; ``rules`` are the
    conditions, by table, on which a row is refused.
    """
    skipped = "_value is not null" if stream.tombstones == "skip" else "true"
    paths = [path for route in stream.routes for path in route.paths]
    text = records.where(skipped).selectExpr(*KEPT, "cast(_value as string) as _text")
    # As the first of two in a list: what follows the object would be passed over otherwise.
    whole = f"concat('[', _text, ', {{\"{_END}\": \"\"}}]')"
    listed = literal(f"array<{_schema([*paths, f'$.{_END}'])}>")
    read = _held(text, {"_all": f"from_json({whole}, {listed}, {_STRICT})"})
    read = read.selectExpr("*", "get(_all, 0) as _json")
    rows = {f"_row_{n}": _row(route) for n, route in enumerate(stream.routes)}
    routed = _held(read, {"_route": _route(stream.routes), **rows})
    deletes = routed.selectExpr("*", f"{_by_route(stream.routes, _deletes)} as _deletes")
    return deletes.selectExpr("*", f"{_error(stream, rules or {})} as _error").drop(
        "_text", "_all", "_json"
    )


def _held(frame: DataFrame, columns: dict[str, str]) -> DataFrame:
    """Add columns that are computed once: Spark would do so again for each place that has them."""
    fields = ", ".join(f"'{name}', {sql}" for name, sql in columns.items())
    return frame.selectExpr("*", f"inline(array(named_struct({fields})))")


def rows_of(found: DataFrame, stream: Stream, number: int) -> DataFrame:
    """Return the good rows of a route, as its table has them, and `_deletes`."""
    good = found.where(f"_error is null and _route = {number}")
    columns = [f"_row_{number}.{quote(name)} as {quote(name)}" for name in _names(stream, number)]
    return good.selectExpr(*columns, *PLACE, "_deletes")


def _names(stream: Stream, number: int) -> list[str]:
    return [*stream.routes[number].columns]


def _schema(paths: Iterable[str]) -> str:
    """Return the type of a record as Spark writes it: text at the end of each path."""
    tree: dict[str, Any] = {}
    for path in paths:
        at = tree
        for part in path.split(".")[1:]:
            at = at.setdefault(part, {})
    return _type(tree)


def _type(tree: dict[str, Any]) -> str:
    inside = ", ".join(f"{quote(name)}: {_type(inner)}" for name, inner in tree.items())
    return f"struct<{inside}>" if tree else "string"


def _at(path: str) -> str:
    """Return the text that a record has at a path."""
    parts = [quote(part) for part in path.split(".")[1:]]
    return ".".join(["_json", *parts]) if parts else "_text"


def _exact(path: str) -> str:
    """Return the same, and of a long number all digits: JSON's own reader makes it a double."""
    raw = _at(path)
    if path == "$":
        return raw
    inside = f"try_variant_get(try_parse_json(_text), {literal(path)}, 'string')"
    is_long = f"length({raw}) > 15 and {raw} rlike {literal(_LONG_NUMBER)}"
    return f"(case when {is_long} then coalesce({inside}, {raw}) else {raw} end)"


def _raw(route: Route, name: str) -> str:
    exact = route.columns[name].type.startswith(("decimal", "string"))
    texts = [_exact(path) if exact else _at(path) for path in route.paths_of(name)]
    return texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"


def _typed(route: Route, name: str) -> str:
    column, raw = route.columns[name], _raw(route, name)
    if column.type == "string":
        return raw
    if column.epoch:
        number, most = f"try_cast({raw} as bigint)", _YEAR_9999[column.epoch]
        convert = _FROM_EPOCH[column.epoch]
        return f"(case when {number} between -{most} and {most} then {convert}({number}) end)"
    return f"try_cast({raw} as {column.type})"


def _row(route: Route) -> str:
    fields = [f"{literal(name)}, {_typed(route, name)}" for name in route.columns]
    return f"named_struct({', '.join(fields)})"


def _in(text: str, values: Iterable[str]) -> str:
    return f"{text} in ({', '.join(map(literal, values))})"


def _route(routes: Iterable[Route]) -> str:
    cases = []
    for number, route in enumerate(routes):
        tests = [_in("source_topic", route.topic)] if route.topic else []
        tests += [_in(_at(path), values) for path, values in route.when.items()]
        cases.append(f"when {' and '.join(tests) or 'true'} then {number}")
    return f"case {' '.join(cases)} end"


def _by_route(routes: Iterable[Route], sql: Any) -> str:
    cases = " ".join(f"when {n} then {sql(route, n)}" for n, route in enumerate(routes))
    return f"case _route {cases} end"


def _deletes(route: Route, _: int = 0) -> str:
    operation = route.operation
    if operation is None or not operation.delete:
        return "false"
    return f"coalesce({_in(_at(operation.path), operation.delete)}, false)"


def _error(stream: Stream, rules: Mapping[str, Sequence[Rule]]) -> str:
    def wrong(route: Route, number: int) -> str:
        return _wrong(route, number, rules.get(route.table, ()))

    return (
        "case when _value is null then 'it has no value'"
        " when not is_valid_utf8(_text) then 'it is not UTF-8'"
        f" when _json is null or get(_all, 1).{_END} is null then"
        " 'it is not one JSON object, or lacks one on the way to a value'"
        " when _route is null then 'no route takes it'"
        f" else {_by_route(stream.routes, wrong)} end"
    )


def _wrong(route: Route, number: int, rules: Sequence[Rule]) -> str:
    """Return the first that is wrong with a record of a route; of a delete only its key counts."""
    checks = {name: _check(route, name, f"_row_{number}.{quote(name)}") for name in route.columns}
    keys = [check for name in route.key for check in checks[name]]
    others = [check for name in route.columns if name not in route.key for check in checks[name]]
    for rule in rules:
        said = literal(f"it fails the test {rule.test}: {rule.reason}")
        others.append(f"when {_on_row(route, number, rule.condition)} then {said}")
    cases = _operation(route) + keys
    if others and _deletes(route) != "false":
        cases.append("when _deletes then null")
    cases += others
    return f"case {' '.join(cases)} end" if cases else "null"


def _on_row(route: Route, number: int, condition: str) -> str:
    """Return a condition on columns of a route's table as one on the struct of its row."""
    tree, own = sqlglot.parse_one(condition, dialect=SPARK), {n.lower() for n in route.columns}
    for column in list(tree.find_all(exp.Column)):
        if not column.table and column.name.lower() in own:
            row = exp.to_identifier(f"_row_{number}")
            column.replace(exp.column(column.this.copy(), table=row))
    return tree.sql(dialect=SPARK)


def _operation(route: Route) -> list[str]:
    operation = route.operation
    if operation is None:
        return []
    known = [*operation.insert, *operation.update, *operation.delete]
    said = literal(f"its operation at {operation.path} is unknown")
    return [f"when coalesce(not {_in(_at(operation.path), known)}, true) then {said}"]


def _check(route: Route, name: str, typed: str) -> list[str]:
    column, raw = route.columns[name], _raw(route, name)
    cases = []
    if column.required or name in route.key:
        where = " or ".join(route.paths_of(name))
        cases.append(f"when {raw} is null then {literal(f'{name} is missing at {where}')}")
    if column.type != "string":
        said = literal(f"{name} can't be read as {column.type}")
        cases.append(f"when {raw} is not null and {typed} is null then {said}")
    if column.type.startswith("decimal"):
        said = literal(f"{name} has more digits than {column.type}")
        cases.append(f"when {typed} <> try_cast({raw} as decimal(38, 18)) then {said}")
    return cases
