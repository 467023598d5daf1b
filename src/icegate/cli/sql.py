"""`icegate sql`: one read-only query, by DuckDB without a JVM, or by Spark."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from icegate.cli import output
from icegate.cli.common import AsJson, ProfilesDir, ProjectDir, Target, open_lake
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.cli.query import Result


def sql(
    query: Annotated[str, typer.Argument(help="One query in Spark's dialect.")],
    spark: Annotated[bool, typer.Option("--spark", help="Run it on an embedded Spark.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Rows to print; 0 means all.")] = 1000,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Run one query on what readers see; it can only read."""
    from icegate.cli.query import parse, run_on_duckdb, run_on_spark

    if as_csv and as_json:
        raise ConfigError("cannot print JSON and CSV at once", fix="choose one")
    lake = open_lake(project_dir, profiles_dir, target)
    tree = parse(query)
    if spark:
        # What Python shows of a timestamp is in the zone of the process: UTC, as DuckDB has it.
        os.environ["TZ"] = "UTC"
        time.tzset()
        with _waiting("starting Spark and running the query …"):
            result = run_on_spark(lake, query, limit)
    else:
        result = run_on_duckdb(lake, tree, limit)
    if as_json:
        _print_json(result)
        return
    if as_csv:
        output.print_csv(result.columns, result.rows)
    else:
        output.print_values(result.columns, result.rows)
    if result.cut:
        output.note(f"only the first {limit:,} rows: `--limit 0` prints all")


def _print_json(result: Result) -> None:
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    output.print_json(
        {"columns": result.columns, "rows": rows, "cut": result.cut, "engine": result.engine}
    )


@contextlib.contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Show that something runs: a spinner in a terminal, one line elsewhere."""
    if not sys.stderr.isatty():
        output.note(what)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
