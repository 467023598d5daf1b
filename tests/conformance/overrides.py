"""What is replaced in the suite's classes: its Postgres spelling, and rows and DDL it expects.

Fixtures and texts only, never a test's method. Each class is named after the suite's and stands in
front of it; ``spelling`` is replaced in the files of the project that the class writes.
"""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.basic.expected_catalog import (
    base_expected_catalog,
    expected_references_catalog,
    no_stats,
)
from dbt.tests.util import AnyFloat, AnyInteger, AnyString
from dbt_common.contracts.metadata import CatalogTable

# Types of a contract as Spark names them: value, type in YAML, type in dbt's message.
SPARK_TYPES = [
    ["1", "int", "int"],
    ["'1'", "string", "string"],
    ["true", "boolean", "boolean"],
    ["timestamp '2013-11-03 00:00:00-07'", "timestamp", "timestamp"],
    ["timestamp_ntz '2013-11-03 00:00:00'", "timestamp_ntz", "timestamp_ntz"],
    ["array('a', 'b', 'c')", "array<string>", "array<string>"],
    ["array(1, 2, 3)", "array<int>", "array<int>"],
    ["cast('1' as decimal(10, 2))", "decimal(10,2)", "decimal(10,2)"],
    ["""named_struct('bar', 'baz')""", "struct<bar:string>", "struct<bar:string>"],
]


class _SparkText:
    """Spark calls `text` `string`, and casts by a function rather than by `::`."""

    spelling = {"data_type: text": "data_type: string", "'::text": "'", "::text": ""}


class BaseAliases(_SparkText):
    """A literal needs no cast to text."""


class BaseSameAliasDifferentSchemas(_SparkText):
    """A literal needs no cast to text."""


class BaseSameAliasDifferentDatabases(_SparkText):
    """A literal needs no cast to text."""


class _Contract(_SparkText):
    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return SPARK_TYPES


class BaseTableConstraintsColumnsEqual(_Contract):
    """Types are Spark's."""


class BaseViewConstraintsColumnsEqual(_Contract):
    """Types are Spark's."""


class BaseIncrementalConstraintsColumnsEqual(_Contract):
    """Types are Spark's."""


class _SqlHeader(_SparkText):
    # UTC, since the setting stays in the session that all tests share.
    spelling = {
        **_SparkText.spelling,
        "set session time zone 'Asia/Kolkata';": "set time zone 'UTC'",
        "current_setting('timezone')": "current_timezone()",
    }


class BaseTableContractSqlHeader(_SqlHeader):
    """Spark spells `set time zone` otherwise."""


class BaseIncrementalContractSqlHeader(_SqlHeader):
    """Spark spells `set time zone` otherwise."""


class BaseShowDoesNotHandleDoubleLimit:
    """Spark's message has other quotes and capitals."""

    DATABASE_ERROR_MESSAGE = "Syntax error at or near"


class BaseSimpleCopyUppercase:
    """The suite names a Postgres server as target."""

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, home: Any) -> dict[str, Any]:
        return {"type": "icegate", "home": str(home), "threads": 4}


class BaseUnitTestingTypes:
    """Types are Spark's."""

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["date '2020-01-02'", "2020-01-02"],
            ["timestamp '2013-11-03 00:00:00-0'", "2013-11-03 00:00:00-0"],
            ["timestamp_ntz '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["cast('1' as decimal(10, 2))", "1"],
        ]


class BaseUnitTestQuotedReservedWordColumnNames:
    """Spark quotes names by backticks."""

    spelling = {'"GROUP"': "`GROUP`"}


class BaseCurrentTimestamps:
    """Spark's types and functions."""

    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, str]:
        return {
            "current_timestamp": "timestamp",
            "current_timestamp_in_utc_backcompat": "timestamp",
            "current_timestamp_backcompat": "timestamp",
        }

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return """
            select current_timestamp() as current_timestamp,
                   current_timestamp::timestamp as current_timestamp_in_utc_backcompat,
                   current_timestamp::timestamp as current_timestamp_backcompat
        """


class BaseTypeInt:
    """A whole number in a CSV file becomes a bigint."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"+column_types": {"int_col": "int"}}}


class BaseTypeFloat:
    """A number in a CSV file becomes a double."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"+column_types": {"float_col": "float"}}}


class BaseGetIntervalsBetween:
    """Spark reads dates as year, month, day only."""

    spelling = {"'09/01/2023'": "'2023-09-01'", "'09/12/2023'": "'2023-09-12'"}


class BaseSimpleSeedColumnOverride:
    """Types are Spark's."""

    spelling = {
        "type: text": "type: string",
        "type: integer": "type: bigint",
        "type: timestamp without time zone": "type: timestamp",
    }

    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        return dict.fromkeys(("seed_id_str", "looks_like_a_bool", "looks_like_a_date"), "string")


class _TwoPartNames:
    """`target.database` is empty: a name has schema and table, the catalog is the target's."""

    spelling = {"{{target.database}}.{{target.schema}}": "{{target.schema}}"}


class BaseSnapshotNewRecordTimestampMode(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotNewRecordCheckMode(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotNewRecordDbtValidToCurrent(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotColumnNames(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotColumnNamesFromDbtProject(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotInvalidColumnNames(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotDbtValidToCurrent(_TwoPartNames):
    """Names have two parts."""


class BaseSnapshotMultiUniqueKey(_TwoPartNames):
    """Names have two parts."""


class MetadataWithEmptyFlag:
    """Spark's `varchar` needs a length."""

    spelling = {'"varchar"': '"string"', "MY_VALUE": "my_value"}


STAYS = "the table is as it was"
FOREIGN = "-- depends_on: <foreign_key_model_identifier>"
ROW = "1 as id, '2019-01-01' as date_day"


def _checked(expression: str, column: str = "") -> str:
    where = f" of column {column}" if column else ""
    quoted = expression.replace("'", "\\'")
    return (
        f"when not ({expression}) then raise_error('a row of model <model_identifier> violates "
        f"check constraint{where} why: not ({quoted}) "
        f"fix: correct the row or the constraint; {STAYS}')"
    )


def _not_null(column: str) -> str:
    return (
        f'when `{column}` is null then raise_error(\'null value in column "{column}" of model '
        "<model_identifier> violates not-null constraint why: its YAML has a not_null constraint, "
        "and the model returned a null "
        f"fix: filter or fill the nulls, or remove the constraint; {STAYS}')"
    )


def _created_and_filled(columns: str, items: str, query: str) -> str:
    return (
        f"create or replace table <model_identifier> ({columns}) using iceberg ; "
        f"insert into <model_identifier> select {items} from ({query}) as model_subq"
    )


class _CheckedRows(_SparkText):
    """Not-null columns are in the table, the rest of it is checked as the rows are written."""

    column = ""

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        checks = " ".join(_checked(text, self.column) for text in ("(id > 0)", "id >= 1"))
        return _created_and_filled(
            "`id` int not null, `color` string, `date_day` string",
            f"case {checks} {_not_null('id')} else `id` end as `id`, `color`, `date_day`",
            f"{FOREIGN} select 'blue' as color, {ROW}",
        )


class BaseConstraintsRuntimeDdlEnforcement(_CheckedRows):
    """The DDL is ours."""

    column = "id"


class BaseIncrementalConstraintsRuntimeDdlEnforcement(_CheckedRows):
    """The DDL is ours."""

    column = "id"


class BaseModelConstraintsRuntimeEnforcement(_CheckedRows):
    """The DDL is ours."""


class BaseConstraintQuotedColumn(_SparkText):
    """The DDL is ours, and Spark quotes names by backticks."""

    spelling = {**_SparkText.spelling, '"from"': "`from`"}

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        check = _checked("(`from` = 'blue')")
        return _created_and_filled(
            "`id` int not null, `from` string not null, `date_day` string",
            f"case {check} {_not_null('id')} else `id` end as `id`, "
            f"case {_not_null('from')} else `from` end as `from`, `date_day`",
            f"select 'blue' as `from`, {ROW}",
        )


# What a table of Iceberg shows beside its columns.
TABLE_STATS = {
    "rows": ("Rows", AnyFloat(), "of the current snapshot"),
    "bytes": ("Bytes", AnyFloat(), "data and delete files of the snapshot"),
    "files": ("Data files", AnyFloat(), "of the current snapshot"),
    "last_modified": ("Last change", AnyString(), "of rows; compaction is none"),
    "snapshot_age": ("Snapshot age", AnyString(), "from the last change to these docs"),
}


def _table_stats() -> dict[str, Any]:
    stats = {
        name: {"id": name, "label": label, "value": value, "description": about, "include": True}
        for name, (label, value, about) in TABLE_STATS.items()
    }
    return {**stats, "has_stats": {**no_stats()["has_stats"], "value": True}}


def _of_iceberg(expected: Any, project: Any, **more: Any) -> dict[str, Any]:
    """Return the suite's catalog with Spark's types, and owner and statistics of tables."""
    spark = {"id_type": "bigint", "text_type": "string", "time_type": "timestamp"}
    kinds = {"view_type": "view", "table_type": "table", "model_stats": no_stats(), "role": None}
    catalog: dict[str, Any] = expected(project, **spark, **kinds, **more)
    for item in [*catalog["nodes"].values(), *catalog["sources"].values()]:
        if item["metadata"]["type"] == "table":
            item["metadata"] = {**item["metadata"], "owner": AnyString()}
            item["stats"] = _table_stats()
    return catalog


class BaseDocsGenerate:
    """Types are Spark's, and Iceberg's metadata has statistics."""

    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> dict[str, Any]:
        return _of_iceberg(base_expected_catalog, project)


class BaseDocsGenReferences:
    """Types are Spark's, and Iceberg's metadata has statistics."""

    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any) -> dict[str, Any]:
        return _of_iceberg(expected_references_catalog, project, bigint_type="bigint")


def _single(project: Any, name: str, kind: str) -> CatalogTable:
    types = {"id": "bigint", "updated_at": "timestamp"}
    names = ["id", "first_name", "email", "ip_address", "updated_at"]
    columns = {
        column: {"type": types.get(column, "string"), "index": index, "name": column}
        for index, column in enumerate(names, start=1)
    }
    metadata = {"type": kind, "schema": project.test_schema, "name": name}
    table = CatalogTable.from_dict({"metadata": metadata, "columns": columns, "stats": no_stats()})
    if kind == "table":
        table.metadata.owner = AnyString()
        stats = _table_stats()
        item = type(table.stats["has_stats"])
        table.stats = {key: item(**value) for key, value in stats.items()}
        for whole in ("rows", "bytes", "files"):
            table.stats[whole].value = AnyInteger()
    return table


class BaseGetCatalogForSingleRelation:
    """The suite leaves these to the adapter."""

    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project: Any) -> CatalogTable:
        return _single(project, "my_seed", "table")

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project: Any) -> CatalogTable:
        return _single(project, "my_view_model", "view")


class BaseIncrementalUniqueKey:
    """dbt-spark's default strategy appends, whatever the `unique_key`."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+incremental_strategy": "merge"}}


class BaseIncrementalOnSchemaChange:
    """A column is dropped by the model's word only."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+allow_destructive": True}}
