"""The order of proof: metadata, added rows, a scan by DuckDB; else Spark has to run the query."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from icegate.audits.added import Known, part_of
from icegate.audits.metadata import files_with, origins
from icegate.audits.proofs import Proofs
from icegate.audits.rows import Rows
from icegate.audits.scan import UNLIKE, DuckDB
from icegate.audits.shape import doubled_keys
from icegate.audits.source import Source, source_of
from icegate.audits.tree import Undecided, check_plain, column_names, parsed, resolved
from icegate.catalog import CatalogEntry, list_relations, read_metadata
from icegate.dialect import SPARK, moving_read, other_functions, table_names, to_duckdb, volatile
from icegate.errors import TableError
from icegate.gate import views
from icegate.gate.staging import NAMESPACE, final_names
from icegate.gate.store import StoredTable
from icegate.settings import Lake

if TYPE_CHECKING:
    from icegate.audits.points import Point  # with all of the gate


@dataclass(frozen=True)
class Asked:
    """A test's query, its tree, and the tables that it reads, also those below views."""

    question: str  # the query, however dbt and `icegate audit` lay it out, and the text of views
    tree: exp.Select
    sources: list[Source]
    views: Mapping[CatalogEntry, exp.Select]

    @cached_property
    def resolved(self) -> exp.Select:
        """The tree with each column under its table, or ``Undecided``."""
        return resolved(self.tree, self.sources)


Found = tuple[list[tuple[Any, ...]], str]  # the rows of a query, and what to say of the way


class Answer(NamedTuple):
    """The one row that a test's query returns, and how it was found."""

    columns: list[str]
    row: tuple[Any, ...]
    proof: str  # metadata, added rows (2 of 40 files), or scan (duckdb)
    tried: list[str]  # why cheaper proofs didn't do


class Left(NamedTuple):
    """A query that is left to Spark, and why."""

    tried: list[str]
    asked: Asked | None = None


class Prover:
    """Answers the queries of tests, and remembers how many failing rows they had.

    ``points`` are tables that are read elsewhere than at `main`. With ``at_once`` all tests see the
    catalog as it is at the first.
    """

    def __init__(
        self, lake: Lake, points: Mapping[str, Point] | None = None, *, at_once: bool = False
    ) -> None:
        self.lake, self.points, self.at_once = lake, points or {}, at_once
        self._known: dict[tuple[str, str | None], Source] = {}
        self._rows: dict[str, list[tuple[Any, ...]]] = {}  # of queries without a table

    def answer(
        self, sql: str, branch: str | None = None, staged: Mapping[str, str] | None = None
    ) -> Answer | Left:
        """Return what a test's query returns, or why only Spark can tell.

        ``branch`` is where the writes of the running build go: Spark reads it, too; ``staged`` has
        the names, by final name, of what it built beside. Raises ``TableError`` where a table lacks
        a file: what is proved by metadata, and what Spark leaves out by it, would still pass.
        """
        try:
            asked = self._asked(final_names(sql, staged or {}), branch, staged or {})
            for source in asked.sources:
                source.check_files()
        except TableError:
            raise
        except Exception as why:  # whatever it is, Spark decides
            return Left([_said(why)])
        tree, tried = asked.tree, list[str]()
        columns = [item.alias_or_name for item in tree.expressions]
        known = self._of_same(asked)
        if known is not None:
            files = sum(source.total_files for source in asked.sources)
            return Answer(columns, known, f"added rows (0 of {files} files)", [])
        if asked.views or any(isinstance(t.this, exp.Func) for t in tree.find_all(exp.Table)):
            return Left(["it reads a view, or a function"], asked)
        for proof, find in (
            ("metadata", self._by_metadata),
            ("added rows", self._by_added),
            ("scan (duckdb)", self._by_scan),
        ):
            try:
                (row,), about = find(asked)
            except Exception as why:
                tried.append(f"{proof}: {_said(why)}")
                continue
            if _counts_rows(tree):
                self.proofs.keep(asked.question, asked.sources, row[0])
            return Answer(columns, row, f"{proof}{about}", tried)
        return Left(tried, asked)

    def learn(self, left: Left, failures: Any) -> None:
        """Remember how many failing rows Spark found by a query that was left to it.

        Unless a table moved meanwhile: then it isn't known which snapshot Spark read.
        """
        asked = left.asked
        if asked is None or not _counts_rows(asked.tree):
            return
        trees = (asked.tree, *asked.views.values())
        # A function that isn't Spark's own may be another one tomorrow.
        unsure = any(other_functions(tree) or moving_read(tree) for tree in trees)
        now = {entry.metadata_location for entry in list_relations(self.lake)}
        read = {*asked.views, *(source.entry for source in asked.sources)}
        if not unsure and all(entry.metadata_location in now for entry in read):
            self.proofs.keep(asked.question, asked.sources, int(failures))

    def save(self) -> None:
        """Keep what was proved for later audits."""
        self.proofs.save()

    @cached_property
    def _first(self) -> dict[str, CatalogEntry]:
        return self._now()

    def _now(self) -> dict[str, CatalogEntry]:
        return {entry.full_name: entry for entry in list_relations(self.lake)}

    @cached_property
    def proofs(self) -> Proofs:
        """What earlier audits found."""
        return Proofs(self.lake)

    @cached_property
    def duckdb(self) -> DuckDB:
        """The database of this prover, on its lake."""
        return DuckDB(self.lake)

    def _asked(self, sql: str, branch: str | None, staged: Mapping[str, str]) -> Asked:
        """Return what is asked: final names in the query, and tables as the build has them."""
        listed = self._first if self.at_once else self._now()
        beside = {
            final: listed[staging].renamed(final)
            for final, name in staged.items()
            if (staging := f"{NAMESPACE}.{name}") in listed
        }
        entries = ChainMap(beside, listed)
        tree, found = parsed(sql), dict[str, Source]()
        shown: dict[CatalogEntry, exp.Select] = {}
        waiting = table_names(tree, self.lake.catalog)
        while waiting:
            name = waiting.pop()
            entry = entries.get(name)
            if entry is None or entry.kind != "view" or self.points:
                found[name] = self._source(name, entry, branch)
            elif entry not in shown:
                view = parsed(final_names(views.sql_of(read_metadata(entry)), staged))
                shown[entry] = view
                waiting |= table_names(view, self.lake.catalog)
        texts = (each.sql(SPARK, comments=False) for each in (tree, *shown.values()))
        sources = [found[name] for name in sorted(found)]
        return Asked("\n".join(sorted(texts)), tree, sources, shown)

    def _source(self, name: str, entry: CatalogEntry | None, branch: str | None) -> Source:
        if name in self.points:
            if not self.points[name].is_like_now:
                raise Undecided(f"{name} had other columns then")
            return self.points[name].source
        if entry is None or entry.kind != "table":
            raise Undecided(f"{name} is no table of the catalog")
        key = entry.metadata_location, branch  # a file that never changes
        if key not in self._known:
            self._known[key] = source_of(StoredTable(entry, read_metadata(entry)), branch)
        return self._known[key]

    def _of_same(self, asked: Asked) -> tuple[Any, ...] | None:
        """Return the row of a query that was asked before of these very snapshots, if it was."""
        with suppress(Exception):  # whatever it is, the other ways decide
            now = {source.table.name.lower(): Known.of(source) for source in asked.sources}
            for failures, known in self.proofs.of(asked.question):
                if known == now and not volatile(asked.question):
                    return self._row(asked.tree, failures)[0]
        return None

    def _row(self, tree: exp.Select, failures: int) -> list[tuple[Any, ...]]:
        """Return the row of a query with so many failing rows, if it asks for no more of them."""
        told = exp.Select(expressions=[item.copy() for item in tree.expressions])
        for count in list(told.find_all(exp.Count)):
            if count.find_ancestor(exp.Select) is told and not count.find(exp.Column):
                count.replace(exp.Literal.number(failures))
        more = any(item.find(exp.AggFunc, exp.Column, exp.Query) for item in told.expressions)
        if more or tree.args.keys() & {"group", "having", "qualify", "joins", "laterals"}:
            raise Undecided("more than a count is asked of its failing rows")
        sql = told.sql("duckdb", copy=False)
        if sql not in self._rows:
            self._rows[sql] = self.duckdb.run(sql)
        return self._rows[sql]

    def _by_metadata(self, asked: Asked) -> Found:
        """Return the row of a query over failing rows, if metadata says that there are none."""
        tree = asked.resolved
        check_plain(tree)
        row = self._row(tree, 0)
        by_name = {source.table.name.lower(): source for source in asked.sources}
        for table, conditions in origins(tree.args["from_"].this):
            files = files_with(by_name[f"{table.db}.{table.name}".lower()], conditions)
            if files:
                raise Undecided(f"{files} files of {table.db}.{table.name} may have failing rows")
        return row, ""

    def _by_added(self, asked: Asked) -> Found:
        """Return the row of a query that was asked before, by the rows that can change it."""
        tree = asked.resolved
        check_plain(tree, UNLIKE)
        undecided = Undecided("how many rows failed before isn't known")
        for failures, tables in self.proofs.of(asked.question):
            try:
                part = part_of(tree, asked.sources, tables, failures)
            except Exception as why:
                undecided = Undecided(_said(why))
                continue
            rows = self.duckdb.run(to_duckdb(part.tree, 0), part.tables)
            return rows, f" ({part.read} of {part.of} files)"
        raise undecided

    def _by_scan(self, asked: Asked) -> Found:
        tree = asked.resolved
        check_plain(tree, UNLIKE)
        names = column_names(tree)
        tables = {source.table.name: Rows(source, names) for source in asked.sources}
        keys = doubled_keys(tree)
        if keys is not None:
            columns = [item.alias for item in keys.expressions]
            if self.duckdb.all_differ(columns, to_duckdb(keys, 0), tables):
                return self._row(tree, 0), ""
        return self.duckdb.run(to_duckdb(tree, 0), tables), ""


def _counts_rows(tree: exp.Select) -> bool:
    """Tell whether the first that a query asks is the number of all failing rows."""
    first = tree.expressions[0].unalias()
    is_all = {name for name, value in tree.args.items() if value} <= {"expressions", "from_"}
    return is_all and isinstance(first, exp.Count) and isinstance(first.this, exp.Star)


def _said(why: Exception) -> str:
    return str(why) or type(why).__name__
