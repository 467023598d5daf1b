"""Turns the suite's Postgres statements, with which it sets its tables up, into Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlglot
from sqlglot import exp


def to_spark(project: Any, sql: str) -> Iterator[str]:
    """Yield the statements of ``sql`` in Spark's dialect, one at a time, without a database."""
    sql = sql.format(database="no_database", schema=project.test_schema)
    for statement in sqlglot.parse(sql, read="postgres"):
        if statement is None:
            continue
        if isinstance(statement, exp.Drop) and statement.args.get("cascade"):
            _drop_schema(project, statement.find(exp.Table).db)
            continue
        for table in statement.find_all(exp.Table):
            if table.catalog:
                table.set("catalog", None)
        for column in statement.find_all(exp.ColumnDef):
            column.set("constraints", None)
            if column.kind is not None and column.kind.sql().upper() in ("SERIAL", "BIGSERIAL"):
                column.set("kind", exp.DataType.build("int"))
        if isinstance(statement, exp.Insert) and isinstance(statement.expression, exp.Values):
            _cast_values(project, statement)
        yield statement.sql(dialect="spark")


def _cast_values(project: Any, insert: exp.Insert) -> None:
    """Give each value its column's type: Postgres casts text on insert, Iceberg refuses to."""
    target = insert.this
    table = target.this if isinstance(target, exp.Schema) else target
    with project.adapter.connection_named("_test"):
        relation = project.adapter.Relation.create(schema=table.db, identifier=table.name)
        columns = project.adapter.get_columns_in_relation(relation)
    types = {column.name.lower(): column.dtype for column in columns}
    named = [column.name for column in target.expressions] if target is not table else list(types)
    for row in insert.expression.expressions:
        for position, value in enumerate(row.expressions):
            type_name = types.get(named[position].lower(), "string")
            row.expressions[position].replace(exp.cast(value.copy(), type_name, dialect="spark"))


def _drop_schema(project: Any, schema: str) -> None:
    """Drop a schema with what is in it: this catalog has no CASCADE."""
    with project.adapter.connection_named("_test"):
        project.adapter.drop_schema(project.adapter.Relation.create(schema=schema))
