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
    """Return records with `_route`, `_deletes`, `_error`, and of each route `_row_<n>.<column>`.

    `_error` says what is wrong with a record, and holds nothing of its values; ``rules`` are the
    conditions, by table, on which a row is refused. Whoever filters what comes back has it computed
    before: Spark would put the whole text of a condition into the filter, and compute it twice.
    """
    skipped = "_value is not null" if stream.tombstones == "skip" else "true"
    paths = [path for route in stream.routes for path in route.paths]
    text = records.where(skipped).selectExpr(*KEPT, "cast(_value as string) as _text")
    # As the first of two in a list: what follows the object would be passed over otherwise.
    whole = f"concat('[', _text, ', {{\"{_END}\": \"\"}}]')"
    listed = literal(f"array<{_schema([*paths, f'$.{_END}'])}>")
    read = text.selectExpr("*", f"from_json({whole}, {listed}, {_STRICT}) as _all")
    # A step for each that others are made of: Spark computes a column of the step before it once.
    found = read.selectExpr(
        "*", "get(_all, 0) as _json", f"get(_all, 1).{_END} is not null as _is_whole"
    )
    each = [(n, route, name) for n, route in enumerate(stream.routes) for name in route.columns]
    raw = [f"{_raw(route, name)} as {_column('raw', n, name)}" for n, route, name in each]
    found = found.selectExpr("*", *raw)
    rows = [f"{_typed(route, n, name)} as {_column('row', n, name)}" for n, route, name in each]
    found = found.selectExpr("*", f"{_route(stream.routes)} as _route", *rows)
    found = found.selectExpr("*", f"{_by_route(stream.routes, _deletes)} as _deletes")
    found = found.selectExpr("*", f"{_error(stream, rules or {})} as _error")
    kept = [_column("row", n, name) for n, _, name in each]
    return found.selectExpr(*KEPT, "_route", "_deletes", "_error", *kept)


def rows_of(found: DataFrame, stream: Stream, number: int) -> DataFrame:
    """Return the good rows of a route, as its table has them, and `_deletes`."""
    good = found.where(f"_error is null and _route = {number}")
    names = stream.routes[number].columns
    columns = [f"{_column('row', number, name)} as {quote(name)}" for name in names]
    return good.selectExpr(*columns, *PLACE, "_deletes")


def _column(kind: str, number: int, name: str) -> str:
    return quote(f"_{kind}_{number}.{name}")


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
    is_long = f"octet_length({raw}) > 15 and {raw} rlike {literal(_LONG_NUMBER)}"
    return f"(case when {is_long} then coalesce({inside}, {raw}) else {raw} end)"


def _raw(route: Route, name: str) -> str:
    exact = route.columns[name].type.startswith(("decimal", "string"))
    texts = [_exact(path) if exact else _at(path) for path in route.paths_of(name)]
    return texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"


def _typed(route: Route, number: int, name: str) -> str:
    column, raw = route.columns[name], _column("raw", number, name)
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
        " when _json is null or not _is_whole then"
        " 'it is not one JSON object, or lacks one on the way to a value'"
        " when _route is null then 'no route takes it'"
        f" else {_by_route(stream.routes, wrong)} end"
    )


def _wrong(route: Route, number: int, rules: Sequence[Rule]) -> str:
    """Return the first that is wrong with a record of a route; of a delete only its key counts."""
    checks = {name: _check(route, number, name) for name in route.columns}
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
    """Return a condition on columns of a route's table as one on those of its rows."""
    tree, own = sqlglot.parse_one(condition, dialect=SPARK), {n.lower() for n in route.columns}
    for column in list(tree.find_all(exp.Column)):
        if not column.table and column.name.lower() in own:
            own_name = f"_row_{number}.{column.name}"
            column.replace(exp.column(exp.to_identifier(own_name, quoted=True)))
    return tree.sql(dialect=SPARK)


def _operation(route: Route) -> list[str]:
    operation = route.operation
    if operation is None:
        return []
    known = [*operation.insert, *operation.update, *operation.delete]
    said = literal(f"its operation at {operation.path} is unknown")
    return [f"when coalesce(not {_in(_at(operation.path), known)}, true) then {said}"]


def _check(route: Route, number: int, name: str) -> list[str]:
    column = route.columns[name]
    raw, typed = _column("raw", number, name), _column("row", number, name)
    cases = []
    if column.required or name in route.key:
        where = " or ".join(route.paths_of(name))
        cases.append(f"when {raw} is null then {literal(f'{name} is missing at {where}')}")
    if column.type != "string":
        said = literal(f"{name} can't be read as {column.type}")
        cases.append(f"when {raw} is not null and {typed} is null then {said}")
    if column.type.startswith("decimal"):
        said = literal(f"{name} has more digits than {column.type}")
        # The second is right by itself, and takes ten times as long.
        differs = f"cast({typed} as string) <> {raw} and {typed} <> "
        cases.append(f"when {differs}try_cast({raw} as decimal(38, 18)) then {said}")
    return cases
