"""Run one read-only query on `main` of the lake: by DuckDB in this process, or by Spark."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from datetime import timezone
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp

from icegate.catalog import CatalogEntry, check_files, gone_entries, list_relations
from icegate.cli.common import find_entry
from icegate.dialect import ON_SPARK, SPARK, not_by_duckdb, tables_in, to_duckdb
from icegate.duck import open_duckdb, shut_in
from icegate.errors import ConfigError, IcegateError
from icegate.settings import Lake

# These take a query but call a program or any method of the JVM.
NOT_READING = ("reflect", "java_method", "try_reflect")


class Result(NamedTuple):
    """What a query returned; ``cut`` says that there were more rows than asked for."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    cut: bool
    engine: str

    @property
    def named_rows(self) -> list[dict[str, Any]]:
        """The rows as JSON has them."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def parse(text: str) -> exp.Expr:
    """Return the syntax tree of one query that only reads, or raise ``ConfigError``."""
    # What it can't parse it warns about and hands over as a command, which is refused below.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=SPARK) if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        why = str(error)
        for where in getattr(error, "errors", [])[:1]:
            place = f"line {where['line']}, column {where['col']}"
            # Its classes are no help to who wrote the query.
            said = re.sub(r" for <class .*>", "", where["description"])
            why = f"{said} at {where['highlight']!r} ({place})"
        raise ConfigError(
            "cannot parse the query", why=why, fix="correct it; the dialect is Spark's"
        ) from error
    if len(trees) != 1:
        raise ConfigError(
            f"cannot run {len(trees)} statements",
            why="this command takes one query",
            fix="run them one by one" if trees else "give a query, as in `select 1`",
        )
    _refuse_writes(trees[0], text)
    return trees[0]


def is_query(tree: exp.Expr) -> bool:
    """Tell a query from SHOW, DESCRIBE and EXPLAIN, which only Spark can answer."""
    return isinstance(tree, exp.Query)


def _refuse_writes(tree: exp.Expr, text: str) -> None:
    writing = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.QueryTransform, exp.Set, exp.Use)
    looks = isinstance(tree, exp.Show | exp.Describe) or (
        isinstance(tree, exp.Command) and tree.name.upper() in ("SHOW", "DESCRIBE", "EXPLAIN")
    )
    if looks:
        return
    found = next((n for n in tree.walk() if isinstance(n, writing) and not is_query(n)), None)
    called = next((f.name for f in tree.find_all(exp.Func) if f.name.lower() in NOT_READING), None)
    if is_query(tree) and found is None and called is None:
        return
    inner = found if found not in (None, tree) else None
    raise ConfigError(
        f"cannot run {called or (inner.key if inner else text.split()[0]).upper()}",
        why="this command only reads: SELECT, WITH, SHOW, DESCRIBE and EXPLAIN",
        fix="change tables by a model and `dbt build`",
    )


def run_on_duckdb(lake: Lake, tree: exp.Expr, limit: int) -> Result:
    """Run the query in this process on the tables that it names; ``limit`` 0 means all rows."""
    import duckdb

    if not is_query(tree):
        raise not_by_duckdb("only Spark answers SHOW, DESCRIBE and EXPLAIN")
    entries = _named_tables(lake, tree)
    translated = to_duckdb(tree, limit and limit + 1)
    try:
        database = open_duckdb(lake, entries)
        shut_in(database, lake, entries)
        cursor = database.execute(translated)
        rows = cursor.fetchmany(limit + 1) if limit else cursor.fetchall()
    except duckdb.Error as error:
        raise IcegateError(
            "cannot run the query by DuckDB",
            why=_first_lines(error),
            fix=f"correct it, or {ON_SPARK}",
        ) from error
    columns = unique([name for name, *_ in cursor.description or []])
    return Result(columns, rows[: limit or None], bool(limit and len(rows) > limit), "duckdb")


def run_on_spark(lake: Lake, text: str, limit: int) -> Result:
    """Run the query on an embedded Spark session; ``limit`` 0 means all rows."""
    from pyspark.errors import PySparkException

    from icegate.session import start_session

    spark = start_session(lake)
    try:
        answer = spark.sql(text)
        rows = answer.limit(limit + 1).collect() if limit else answer.collect()
    except PySparkException as error:
        raise IcegateError(
            "cannot run the query on Spark", why=_first_lines(error), fix="correct the query"
        ) from error
    zoned = {i for i, (_, kind) in enumerate(answer.dtypes) if kind == "timestamp"}
    values = [
        tuple(v.replace(tzinfo=timezone.utc) if i in zoned and v else v for i, v in enumerate(row))
        for row in rows[: limit or None]
    ]
    return Result(unique(answer.columns), values, bool(limit and len(rows) > limit), "spark")


def _named_tables(lake: Lake, tree: exp.Expr) -> list[CatalogEntry]:
    """Return the tables that the query reads; names of CTEs and table functions aren't any."""
    known = list_relations(lake)
    found: dict[str, CatalogEntry] = {}
    for table in list(tables_in(tree)):
        if isinstance(table.this, exp.Func):
            continue
        name = ".".join(part.name for part in table.parts)
        if table.args.get("version") or table.args.get("when"):
            why = "it asks for an older version, and DuckDB reads `main` as it is now"
            raise not_by_duckdb(why, f"read {name}")
        above = name.removeprefix(f"{lake.catalog}.").rpartition(".")[0]
        if above in {entry.full_name for entry in known}:
            raise not_by_duckdb("it is one of Iceberg's metadata tables", f"read {name}")
        entry = find_entry(known, name, lake.catalog)
        if entry.kind == "view":
            raise not_by_duckdb("it is a view, whose SQL is Spark's", f"read {name}")
        found[entry.full_name] = entry
        if "." in entry.namespace:  # DuckDB has one level of schemas
            table.set("db", exp.to_identifier(entry.namespace, quoted=True))
            table.set("catalog", exp.to_identifier(lake.catalog, quoted=True))
            table.set("this", exp.to_identifier(entry.name, quoted=True))
    if gone_entries(list(found.values())):
        check_files(lake, known)
    return list(found.values())


def unique(names: Sequence[str]) -> list[str]:
    """Give the second column of a name a number, since rows of JSON have one value a name."""
    unique: list[str] = []
    for name in names:
        number, free = 2, name
        while free in unique:
            free, number = f"{name}_{number}", number + 1
        unique.append(free)
    return unique


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])
