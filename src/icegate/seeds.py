"""Seeds: all rows in one DataFrame, instead of literals in insert statements."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow
from pyspark.sql import SparkSession


def to_view(session: SparkSession, agate_table: Any, view: str) -> None:
    """Make the temporary view ``view`` of an agate table: every column a string, empty is null."""
    columns = {
        name: pyarrow.array([_text(row[number]) for row in agate_table.rows], pyarrow.string())
        for number, name in enumerate(agate_table.column_names)
    }
    # People's small tables: one file each, whatever number of cores reads the rows.
    session.createDataFrame(pyarrow.table(columns)).coalesce(1).createOrReplaceTempView(view)


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
