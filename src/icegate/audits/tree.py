"""The query of a test as a tree whose columns have their tables and types, by sqlglot."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from icegate.dialect import SPARK, dialect_of
from icegate.tables.metadata import columns

if TYPE_CHECKING:
    from icegate.audits.source import Source

Type = exp.DataType.Type
# Kinds of values whose comparison means the same to Spark and to Iceberg's metrics.
KINDS = {
    **dict.fromkeys((Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT), "integer"),
    **dict.fromkeys((Type.TEXT, Type.VARCHAR), "text"),
    **{Type.DECIMAL: "decimal", Type.DOUBLE: "double", Type.DATE: "date", Type.BOOLEAN: "boolean"},
    **{Type.TIMESTAMPTZ: "timestamp", Type.TIMESTAMPNTZ: "timestamp_ntz"},
}
NUMBERS = {"integer", "decimal", "double", "number"}
DIGITS, MOST_DIGITS = 18, 38
# Digits before the point that a whole number may have.
WHOLE = {Type.TINYINT: 3, Type.SMALLINT: 5, Type.INT: 10, Type.BIGINT: 20}
DAY = re.compile(r"\d{4}-\d\d-\d\d")
SHOWN = 60  # characters of an expression in a message
PLAIN_NUMBER = re.compile(rf"(?=.{{1,{DIGITS}}}$)\d+(\.\d*)?")


Ctes = Mapping[str, tuple[exp.Expr, Any]]  # the query of each, and what that one sees


class Undecided(Exception):
    """A proof that can't be had, and why not."""


def parsed(sql: str) -> exp.Select:
    """Return the tree of a test's query: what dbt asks of its failing rows."""
    try:
        tree = sqlglot.parse_one(sql, dialect=dialect_of(sql))
    except sqlglot.errors.SqlglotError as error:
        raise Undecided("its SQL can't be parsed") from error
    if not isinstance(tree, exp.Select):
        raise Undecided("it's no SELECT")
    return tree


def resolved(tree: exp.Select, sources: Iterable[Source]) -> exp.Select:
    """Return the tree with each column under its table and each value with its type."""
    known = _schema(tuple(sources))
    try:
        whole = qualify(tree.copy(), schema=known, dialect=SPARK, quote_identifiers=True)
        return annotate_types(whole, schema=known, dialect=SPARK)
    except sqlglot.errors.SqlglotError as error:
        raise Undecided("its columns can't be told apart") from error


@lru_cache(maxsize=4)  # a model's tests come one after the other
def _schema(sources: tuple[Source, ...]) -> MappingSchema:
    found: dict[str, Any] = {}
    for source in sources:
        listed = columns(source.table.metadata)
        kinds = {
            column["name"].lower(): exp.DataType.build(column["type"], dialect=SPARK)
            for column in listed
        }
        tables = found.setdefault(source.entry.namespace.lower(), {})
        if len(kinds) < len(listed) or source.entry.name.lower() in tables:
            raise Undecided("names differ by upper and lower case only")
        tables[source.entry.name.lower()] = kinds
    return MappingSchema(found, dialect=SPARK, normalize=False)


def column_names(tree: exp.Expr) -> set[str]:
    """Return the names of all columns in a query, of whatever table, in lower case."""
    return {column.name.lower() for column in tree.find_all(exp.Column)}


def entered(query: exp.Expr, ctes: Ctes) -> tuple[exp.Expr, Ctes]:
    """Return what a subquery stands for, and the CTEs that it sees."""
    while isinstance(query, exp.Subquery):
        if any(v for k, v in query.args.items() if k not in ("this", "alias")):
            raise Undecided("it reads more than the rows of a query")
        query = query.this
    clause = query.args.get("with_")
    for cte in clause.expressions if clause else ():
        ctes = {**ctes, cte.alias: (cte.this, ctes)}
    return query, ctes


def cte_of(source: exp.Table, ctes: Ctes) -> tuple[exp.Expr, Ctes] | None:
    """Return the query that a name in `from` stands for and what that sees; None for a table."""
    if not source.db and source.name in ctes:
        return ctes[source.name]
    if any(v for k, v in source.args.items() if k not in ("this", "db", "catalog", "alias")):
        raise Undecided("it doesn't read the table as it is")
    return None


def grouping(query: exp.Select) -> list[exp.Expr]:
    """Return the columns that a select groups its rows by, if it does."""
    group = query.args.get("group")
    if group is None:
        over_all = (item.find_all(exp.AggFunc) for item in query.expressions)
        own = (n for nodes in over_all for n in nodes if n.find_ancestor(exp.Select) is query)
        if query.args.get("having") or any(not isinstance(n.parent, exp.Window) for n in own):
            raise Undecided("it returns a row of no rows")
        return []
    others = any(value for name, value in group.args.items() if name != "expressions")
    keys: list[exp.Expr] = group.expressions
    if others or not keys or not all(isinstance(key, exp.Column) for key in keys):
        raise Undecided("it groups in more than one way")
    return keys


def null_column(condition: exp.Expr) -> exp.Column | None:
    """Return the column of which a condition says that it is null."""
    is_null = isinstance(condition, exp.Is) and isinstance(condition.expression, exp.Null)
    return condition.this if is_null and isinstance(condition.this, exp.Column) else None


def kind_of(value: Any) -> str | None:
    """Return the kind of a value; a literal number and null fit with more than one."""
    if isinstance(value, exp.Paren | exp.Neg):
        return kind_of(value.this)
    if isinstance(value, exp.Null):
        return "null"
    if isinstance(value, exp.Literal):
        if value.is_string:
            return "text"
        # One with an exponent is a double; of a long one the engines' decimals may lose digits.
        return "number" if PLAIN_NUMBER.fullmatch(value.name) else None
    kind = value.type
    if kind is not None and kind.is_type("decimal") and sum(_digits(kind)) > DIGITS:
        return "wide" if isinstance(value, exp.Column) else None
    return None if kind is None else KINDS.get(kind.this)


def _digits(kind: exp.DataType) -> tuple[int, int]:
    """Return how many digits a decimal has before the point, and after it."""
    told = [int(part.name) for part in kind.expressions] or [10]
    precision, scale = [*told, 0][:2]
    return precision - scale, scale


# What a query may consist of, beside what `_is_plain` looks into; all else is Spark's to judge,
# also whether it makes sense.
PLAIN = (
    exp.Select, exp.From, exp.Join, exp.Limit, exp.Subquery, exp.CTE, exp.Table,
    exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Literal, exp.Null,
    exp.Boolean, exp.Paren, exp.Is, exp.Count, exp.Neg, exp.DataType, exp.DataTypeParam,
)  # fmt: skip
COMPARING = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)


def check_plain(tree: exp.Select, unlike: Collection[str] = ()) -> None:
    """Raise ``Undecided`` unless Spark surely takes the query, and it means what it seems to.

    ``unlike`` are the kinds of values that another engine compares in its own way.
    """
    for node in tree.walk():
        if not _is_plain(node, unlike):
            raise Undecided(f"`{_shortened(node)}` may mean something else there than to Spark")


def _shortened(node: exp.Expr) -> str:
    text = node.sql(SPARK).replace("`", "")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"


def _is_plain(node: exp.Expr, unlike: Collection[str]) -> bool:
    if isinstance(node, PLAIN):
        return True
    if isinstance(node, exp.And | exp.Or):
        return {kind_of(node.this), kind_of(node.expression)} <= {"boolean", "null"}
    if isinstance(node, exp.Not | exp.Where | exp.Having):
        return kind_of(node.this) in ("boolean", "null")
    if isinstance(node, COMPARING):
        return _fit([node.this, node.expression], unlike)
    if isinstance(node, exp.In):
        return bool(node.expressions) and _fit([node.this, *node.expressions], unlike)
    if isinstance(node, exp.Coalesce):
        return _fit([node.this, *node.expressions], unlike)
    if isinstance(node, exp.Between):
        return _fit([node.this, node.args["low"], node.args["high"]], unlike)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return _is_exact(node)
    if isinstance(node, exp.Sum):  # of integers it overflows, at another place in each engine
        return kind_of(node.this) == "decimal"
    if isinstance(node, exp.Min | exp.Max):
        return kind_of(node.this) in ("integer", "decimal")
    if isinstance(node, exp.Cast):  # `20260101`, `epoch` and the like only some engines know
        return node.is_type("date") and DAY.fullmatch(node.this.name) is not None
    if isinstance(node, exp.Group):
        return _are_keys(node.expressions, unlike)
    if isinstance(node, exp.Distinct):  # of a count, or of a select
        over = node.parent if isinstance(node.parent, exp.Select) else node
        return _are_keys(over.expressions, unlike)
    if isinstance(node, exp.With):  # Spark ends a recursion after so many levels
        return not node.recursive
    return isinstance(node, exp.Union) and not node.args["distinct"]


def _is_exact(node: exp.Expr) -> bool:
    """Tell whether a sum or product can't overflow: Spark may raise then, or not look at it.

    A product of two decimals of ``DIGITS`` has fewer than the 38 that there can be, one of three
    or of a decimal and a whole number may have more.
    """
    kinds = {kind_of(node.this), kind_of(node.expression)}
    if isinstance(node, exp.Mul):
        inner = node.this.find(exp.Mul) or node.expression.find(exp.Mul)
        return not inner and "decimal" in kinds and kinds <= {"decimal", "number"}
    return "decimal" in kinds and kinds <= {"integer", "decimal", "number"}


def _are_keys(values: list[exp.Expr], unlike: Collection[str]) -> bool:
    return not {kind_of(value.unalias()) for value in values} & {None, "null", *unlike}


def _fit(values: list[exp.Expr], unlike: Collection[str]) -> bool:
    """Tell whether values can be compared without a change of their type that isn't exact."""
    kinds = {kind_of(value) for value in values} - {"null"}
    if kinds & {None, *unlike}:
        return False
    if "wide" in kinds:
        return kinds <= {"wide", "decimal", "integer", "number"} and _fits_all(values)
    return kinds <= NUMBERS or len(kinds) == 1


def _fits_all(values: Iterable[exp.Expr]) -> bool:
    """Tell whether there is a decimal type in which none of these numbers loses a digit."""
    digits = [_digits_of(value) for value in values]
    return sum(max(places) for places in zip(*digits, strict=True)) <= MOST_DIGITS


def _digits_of(value: exp.Expr) -> tuple[int, int]:
    if isinstance(value, exp.Paren | exp.Neg):
        return _digits_of(value.this)
    if isinstance(value, exp.Literal):
        before, _, after = value.name.partition(".")
        return len(before), len(after)
    kind = value.type
    if kind is None or isinstance(value, exp.Null):
        return 0, 0
    return (WHOLE[kind.this], 0) if kind.this in WHOLE else _digits(kind)
