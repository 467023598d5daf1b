"""`icegate sql`: one read-only query, by DuckDB without a JVM, or by Spark."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from icegate.cli import output
from icegate.cli.common import Grid, Opened, Shown, on_lake
from icegate.errors import ConfigError


@on_lake
def sql(
    at: Opened,
    query: Annotated[str, typer.Argument(help="One query in Spark's dialect.")],
    spark: Annotated[bool, typer.Option("--spark", help="Run it on an embedded Spark.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Rows to print; 0 means all.")] = 1000,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> Shown:
    """Run one query on what readers see; it can only read."""
    from icegate.cli.query import parse, run_on_duckdb, run_on_spark

    if as_csv and at.as_json:
        raise ConfigError("cannot print JSON and CSV at once", fix="choose one")
    lake, tree = at.lake, parse(query)
    if spark:
        # What Python shows of a timestamp is in the zone of the process: UTC, as DuckDB has it.
        os.environ["TZ"] = "UTC"
        time.tzset()
        output.note("starting Spark and running the query …")
        result = run_on_spark(lake, query, limit)
    else:
        result = run_on_duckdb(lake, tree, limit)
    if as_csv:
        output.print_csv(result.columns, result.rows)
    rows = result.named_rows
    return Shown(
        {"columns": result.columns, "rows": rows, "cut": result.cut, "engine": result.engine},
        [] if as_csv else [Grid(result.columns, rows)],
        notes=[f"only the first {limit:,} rows: `--limit 0` prints all"] if result.cut else [],
    )
