"""The order of proof: metadata, then a scan by DuckDB, else nothing, and Spark runs the query."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from sqlglot import exp

from icegate.audits.metadata import files_with, origins
from icegate.audits.scan import DuckDB, scannable
from icegate.audits.tree import (
    Source,
    Undecided,
    check_plain,
    parsed,
    resolved,
    source_of,
    table_names,
)
from icegate.gate.store import read_tables
from icegate.settings import Lake


class Answer(NamedTuple):
    """The one row that a test's query returns, and how it was found."""

    columns: list[str]
    row: tuple[Any, ...]
    proof: str  # metadata, or scan (duckdb)
    tried: list[str]  # why cheaper proofs didn't do


class Prover:
    """Answers the queries of tests; one DuckDB serves them all."""

    def __init__(self, lake: Lake | None) -> None:
        self.lake = lake

    def answer(self, sql: str, branch: str | None = None) -> Answer | list[str]:
        """Return what a test's query returns, or why only Spark can tell.

        ``branch`` is where the writes of the running build go: Spark reads it, too.
        """
        if self.lake is None:
            return ["its tables aren't in an embedded catalog"]
        tried: list[str] = []
        try:
            tree = parsed(sql)
            sources = list(_sources(self.lake, tree, branch))
            tree = resolved(tree, sources)
        except Exception as why:  # whatever it is, Spark decides
            return [_said(why)]
        columns = [item.alias_or_name for item in tree.expressions]
        for proof, find in (("metadata", self._by_metadata), ("scan (duckdb)", self._by_scan)):
            try:
                (row,) = find(tree, sources)
                return Answer(columns, row, proof, tried)
            except Exception as why:
                tried.append(f"{proof}: {_said(why)}")
        return tried

    @cached_property
    def duckdb(self) -> DuckDB:
        """The database of this prover, on its lake."""
        assert self.lake is not None
        return DuckDB(self.lake)

    def _by_metadata(self, tree: exp.Select, sources: list[Source]) -> list[tuple[Any, ...]]:
        """Return the row of a query over failing rows, if metadata says that there are none."""
        check_plain(tree)
        told = tree.copy()
        for count in list(told.find_all(exp.Count)):
            if count.find_ancestor(exp.Select) is told and not count.find(exp.Column):
                count.replace(exp.Literal.number(0))
        asked = any(item.find(exp.AggFunc, exp.Column, exp.Query) for item in told.expressions)
        if asked or told.args.keys() & {"group", "having", "qualify", "joins", "laterals"}:
            raise Undecided("more than a count is asked of its failing rows")
        by_name = {source.table.name.lower(): source for source in sources}
        for table, conditions in origins(told.args["from_"].this):
            files = files_with(by_name[f"{table.db}.{table.name}".lower()], conditions)
            if files:
                raise Undecided(f"{files} files of {table.db}.{table.name} may have failing rows")
        return self.duckdb.run(exp.Select(expressions=told.expressions).sql("duckdb"))

    def _by_scan(self, tree: exp.Select, sources: list[Source]) -> list[tuple[Any, ...]]:
        return self.duckdb.run(scannable(tree, sources), sources)


def _said(why: Exception) -> str:
    return str(why) or type(why).__name__


def _sources(lake: Lake, tree: exp.Select, branch: str | None) -> Iterator[Source]:
    names = table_names(tree, lake.catalog)
    found = {table.name: table for table in read_tables(lake, names)}
    for name in sorted(names):
        if name not in found:
            raise Undecided(f"{name} is no table of the catalog")
        yield source_of(found[name], branch)
