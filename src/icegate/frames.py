"""Rows from elsewhere as DataFrames of Spark: cells of seeds, and what Python models return."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pyspark
from pyspark.sql import DataFrame, SparkSession

from icegate.errors import ConfigError


def as_frame(session: SparkSession, returned: Any) -> DataFrame:
    """Return the DataFrame of what a Python model returned, or raise ``ConfigError``."""
    frame = _as_frame(session, returned)
    if not frame.columns:
        raise ConfigError(
            "`model` returned a DataFrame without columns",
            why="it would take the columns and the rows of the table away",
            fix="name them, as in `pandas.DataFrame(rows, columns=[…])`",
        )
    return frame


def _as_frame(session: SparkSession, returned: Any) -> DataFrame:
    import pandas

    if isinstance(returned, DataFrame):
        return returned
    if isinstance(returned, pandas.DataFrame):
        # Spark's own way turns a missing string into the text 'nan'.
        returned = pyarrow.Table.from_pandas(returned, preserve_index=False)
    if isinstance(returned, pyarrow.Table):
        return _of_arrow(session, _typed(returned))
    if hasattr(returned, "to_spark"):  # pandas on Spark
        return returned.to_spark()
    raise ConfigError(
        f"`model` returned {type(returned).__name__}",
        why="a Python model returns a Spark or pandas DataFrame, or an Arrow table",
        fix="end `def model(dbt, session)` with `return` and the DataFrame",
    )


def _of_arrow(session: SparkSession, table: pyarrow.Table) -> DataFrame:
    """Return the DataFrame of an Arrow table, which to Spark 3.5 is rows with a schema."""
    if not pyspark.__version__.startswith("3."):
        return session.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.utils import is_timestamp_ntz_preferred

    # Python has a time zone of its own. Without one until they're in Spark, times are in the
    # session's, as later versions have it.
    rows, as_is = table.to_pylist(maps_as_pydicts="strict"), from_arrow_schema(table.schema, True)
    frame = session.createDataFrame(rows, as_is, verifySchema=False)
    return frame.to(from_arrow_schema(table.schema, is_timestamp_ntz_preferred()))


def _typed(table: pyarrow.Table) -> pyarrow.Table:
    """Make a column that is null throughout a string: a table has no column without a type."""
    fields = [
        field.with_type(pyarrow.string()) if pyarrow.types.is_null(field.type) else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields))


def seed_view(session: SparkSession, agate_table: Any, view: str) -> None:
    """Make a temporary view of a seed's cells, all in one: each a string, an empty one null."""
    columns = {
        name: pyarrow.array([_text(row[number]) for row in agate_table.rows], pyarrow.string())
        for number, name in enumerate(agate_table.column_names)
    }
    # People's small tables: one file each, whatever number of cores reads the rows.
    _of_arrow(session, pyarrow.table(columns)).coalesce(1).createOrReplaceTempView(view)


def _text(cell: Any) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, Decimal):
        return format(cell, "f")
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    return str(cell)
