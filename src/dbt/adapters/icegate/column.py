"""Columns: dbt-spark's, with the one common type name that Spark lacks."""

from __future__ import annotations

from dbt.adapters.spark.column import SparkColumn


class IcegateColumn(SparkColumn):
    """A column of a table or a query."""

    @classmethod
    def translate_type(cls, dtype: str) -> str:
        """Read `text` in a contract as `string`; `alias_types: false` switches it off."""
        return "string" if dtype.strip().lower() == "text" else dtype
