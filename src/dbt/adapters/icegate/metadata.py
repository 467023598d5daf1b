"""What dbt asks about tables, from metadata: the embedded catalog's own files, or Spark's tables.

Of the embedded catalog nothing here is a statement, and Spark needn't even be running.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.impl import SCHEMA_NOT_FOUND_MESSAGES, TABLE_OR_VIEW_NOT_FOUND_MESSAGES
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.catalog import list_relations, read_metadata
from icegate.errors import CatalogError
from icegate.settings import Lake
from icegate.tables.facts import Facts, Key, history_sql, read_facts
from icegate.tables.metadata import columns, moment

logger = AdapterLogger("Icegate")

CHUNK = 50  # tables in one statement: a plan of a thousand takes longer to make than to run

CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps the length of such a column


def key_of(relation: BaseRelation) -> Key:
    return str(relation.schema).lower(), str(relation.identifier).lower()


def embedded_lake(credentials: Any, project_root: Path) -> Lake | None:
    """Return the lake that has this target's tables, or None where Spark alone knows them."""
    lake = credentials.lake(project_root) if credentials.knows_lake else None
    return lake if lake is not None and lake.has_own_catalog else None


def list_kinds(adapter: Any, schema_relation: BaseRelation) -> dict[str, str]:
    """Return the kind (table or view) of everything in a schema, by name."""
    lake, schema = adapter.embedded_lake, str(schema_relation.schema)
    if lake is not None and "." not in schema:  # with a dot it may be another catalog's
        with as_dbt_error():
            return {e.name: e.kind for e in list_relations(lake, schema) if e.namespace == schema}
    tables = _names(adapter, f"show tables in {schema}")
    views = _names(adapter, f"show views in {schema}")
    return {**dict.fromkeys(tables, "table"), **dict.fromkeys(views, "view")}


def embedded_metadata(adapter: Any, relation: BaseRelation) -> dict[str, Any] | None:
    """Return what a table's metadata file says, or None where the catalog isn't ours to read."""
    if adapter.embedded_lake is None or not relation.schema or "." in relation.schema:
        return None  # a temporary view has no schema
    relation = relation.stored  # type: ignore[attr-defined]
    for entry in list_relations(adapter.embedded_lake, str(relation.schema)):
        if (entry.namespace.lower(), entry.name.lower()) == key_of(relation):
            with suppress(CatalogError):  # Spark will say what is wrong with the whole catalog
                return read_metadata(entry)
    return None


def _names(adapter: Any, sql: str) -> list[str]:
    try:
        rows = adapter.execute(sql, fetch=True)[1]
    except DbtRuntimeError as error:
        gone = SCHEMA_NOT_FOUND_MESSAGES + TABLE_OR_VIEW_NOT_FOUND_MESSAGES
        no_views = ("MISSING_CATALOG_ABILITY", "does not support views")
        if any(text in str(error.msg) for text in (*gone, *no_views)):
            return []
        raise
    return [row[1] for row in rows if row[0]]  # a temporary view has no namespace


def facts(adapter: Any, wanted: list[BaseRelation]) -> list[Facts]:
    """Return the facts of those of the ``wanted`` relations that exist."""
    keys = {key_of(relation) for relation in wanted}
    if adapter.embedded_lake is not None and not any("." in schema for schema, _ in keys):
        with as_dbt_error():
            return list(read_facts(adapter.embedded_lake, keys, logger.warning))
    schemas = {str(r.schema).lower(): r.without_identifier() for r in wanted}
    with adapter.connection_named("icegate_metadata"):
        listed = [r for s in schemas.values() for r in adapter.list_relations_without_caching(s)]
        return list(_on_spark(adapter, [r for r in listed if key_of(r) in keys]))


def _on_spark(adapter: Any, found: list[BaseRelation]) -> Iterator[Facts]:
    """Yield the facts of relations of any other catalog: a statement for each chunk of tables."""
    tables = [relation for relation in found if not relation.is_view]
    histories: dict[Key, Any] = {}
    for start in range(0, len(tables), CHUNK):
        histories.update(_histories(adapter, tables[start : start + CHUNK]))
    for relation in found:
        try:
            described = describe(adapter, relation)
        except DbtRuntimeError as error:  # such as a view whose table is gone
            logger.debug(f"no columns of {relation}: {error.msg}")
            described = []
        row = histories.get(key_of(relation))
        yield Facts(
            schema=str(relation.schema),
            name=str(relation.identifier),
            kind=str(relation.type or "table"),
            columns=described,
            summary=json.loads(row["summary"]) if row and row["summary"] else None,
            changed_at=moment(row["changed_ms"] if row else None),
        )


def spark_columns(adapter: Any, relation: BaseRelation) -> list[SparkColumn]:
    """Return the columns as dbt-spark's class, or none when there is no such relation."""
    try:
        described = describe(adapter, relation)
    except DbtRuntimeError as error:
        if any(text in str(error.msg) for text in TABLE_OR_VIEW_NOT_FOUND_MESSAGES):
            return []
        raise
    return [
        adapter.Column(
            table_schema=relation.schema,
            table_name=relation.identifier,
            table_type=relation.type,
            column_index=index,
            column=column["name"],
            dtype=column["type"],
        )
        for index, column in enumerate(described)
    ]


def describe(adapter: Any, relation: BaseRelation) -> list[dict[str, Any]]:
    """Return name, type and comment of each column, without a statement where that can be.

    What a view returns follows the tables below it, so only Spark knows that.
    """
    known = embedded_metadata(adapter, relation)
    if known and "table-uuid" in known:
        return columns(known)
    if getattr(relation, "limit", None) is not None:
        relation = relation.replace(limit=None)  # `--empty` reads through a subquery
    connection = adapter.connections.get_thread_connection()
    session = getattr(connection.handle, "session", None)
    if session is None:
        rows = adapter.execute_macro("get_columns_in_relation_raw", kwargs={"relation": relation})
        return [
            {"name": column.column, "type": column.dtype}
            for column in adapter.parse_describe_extended(relation, rows)
        ]
    with adapter.connections.exception_handler(f"columns of {relation}"):
        schema = session.table(str(relation)).schema
    return [
        {
            "name": field.name,
            "type": field.metadata.get(CHAR_OR_VARCHAR, field.dataType.simpleString()),
            "comment": field.metadata.get("comment"),
        }
        for field in schema.fields
    ]


def _histories(adapter: Any, tables: list[BaseRelation]) -> dict[Key, Any]:
    try:
        rows = adapter.execute(" union all ".join(map(history_sql, tables)), fetch=True)[1]
    except DbtRuntimeError as error:
        if len(tables) > 1:  # one that isn't Iceberg's, or isn't there, must not hide the others
            halves = tables[: len(tables) // 2], tables[len(tables) // 2 :]
            return {k: row for half in halves for k, row in _histories(adapter, half).items()}
        logger.debug(f"no history of {tables[0]}: {error.msg}")
        return {}
    return {(row["table_schema"].lower(), row["table_name"].lower()): row for row in rows}
