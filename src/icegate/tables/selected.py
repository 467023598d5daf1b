"""The columns of a model's compiled SQL, as far as they can be told without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from icegate.dialect import SPARK, name_in, tables_in

OWN = re.compile(r"_col_\d+|\*")
Columns = dict[str, str]  # name and type; no type where only Spark can tell


def selected(sql: str, columns_of: Callable[[str], Columns], catalog: str) -> Columns | None:
    """Return the columns of a query in their order, None where only Spark can tell.

    ``columns_of`` returns those of a table or view, by `schema.table` in lower case.
    """
    try:
        tree = sqlglot.parse_one(sql, dialect=SPARK)
        schema: dict[str, Any] = {}
        for table in tables_in(tree):
            if table.catalog == catalog:
                table.set("catalog", None)
            if table.db and (held := columns_of(name_in(table))):
                schema.setdefault(table.db, {})[table.name] = held
        names = [column.alias_or_name for column in getattr(tree, "selects", ())]
        tree = qualify(tree, dialect=SPARK, schema=schema, validate_qualify_columns=False)
        found = [*getattr(tree, "selects", ())]
    except sqlglot.errors.SqlglotError:
        return None
    expanded = [column.alias_or_name for column in found]
    # Without an alias only Spark knows how a column is named; sqlglot calls it `_col_1`.
    if not found or not all(names) or any(OWN.fullmatch(name) for name in expanded):
        return None
    if "*" in names:
        names = expanded
    scope = build_scope(tree)
    return {name: _type(c, scope, columns_of) for name, c in zip(names, found, strict=True)}


def _type(column: exp.Expr, scope: Any, columns_of: Callable[[str], Columns]) -> str:
    """Return the type of a cast, or of a column of a table, through all queries between."""
    column = column.unalias()
    if not isinstance(scope, Scope) or not isinstance(scope.expression, exp.Select):
        return ""  # the types of a union's sides meet in a third one
    if isinstance(column, exp.Cast):
        return str(column.to.sql(SPARK)).lower()
    if not isinstance(column, exp.Column):
        return ""
    source = scope.sources.get(column.table)
    if isinstance(source, exp.Table):
        held = columns_of(name_in(source))
        return next((kind for name, kind in held.items() if name.lower() == column.name), "")
    if isinstance(source, Scope):
        below = getattr(source.expression, "selects", ())
        inner = next((c for c in below if c.alias_or_name == column.name), None)
        return _type(inner, source, columns_of) if inner is not None else ""
    return ""
