"""Run a test's query by DuckDB, where that can only return what Spark would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import duckdb
from sqlglot import exp

from icegate.audits.source import Source
from icegate.audits.tree import Undecided, check_plain
from icegate.catalog import list_relations
from icegate.dialect import to_duckdb
from icegate.duck import open_duckdb, quoted, show_table, shut_in
from icegate.gate import refs
from icegate.settings import Lake

# More than that is for Spark to read: on a cluster it has more machines than this one.
MAX_BYTES = 4 * 1024**3

MEMORY = "1GB"  # what it needs beyond goes to the disk
# DuckDB leaves out files by bounds that NaN isn't in, though it is greater than all numbers, and
# may tell 0.0 from -0.0.
UNLIKE = ("double",)


class DuckDB:
    """A database that shows the tables of queries, each as of a snapshot."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._shown: dict[str, tuple[str, int | None]] = {}  # what its views are of, by name

    @cached_property
    def small(self) -> duckdb.DuckDBPyConnection:
        """A database that reads no table: it opens in no time."""
        return open_duckdb(self.lake, [])

    @cached_property
    def database(self) -> duckdb.DuckDBPyConnection:
        """The database, opened when the first query needs it."""
        opened = open_duckdb(self.lake)
        opened.execute(f"set memory_limit = '{MEMORY}'")
        opened.execute(f"set temp_directory = {quoted(str(self.lake.home / 'duckdb'))}")
        shut_in(opened, self.lake, list_relations(self.lake))
        return opened

    def run(
        self, sql: str, sources: Sequence[Source] = (), rows: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query of DuckDB's on these tables; raises ``Undecided``.

        ``rows`` are Arrow tables, by the name that the query has for them.
        """
        database = self.database if sources else self.small
        try:
            for name, table in (rows or {}).items():
                database.register(name, table)
            for source in sources:
                version = source.entry.metadata_location, source.snapshot_id
                if self._shown.get(source.table.name) != version:
                    show_table(self.database, source.entry, source.snapshot_id)
                    self._shown[source.table.name] = version
            return database.execute(sql).fetchall()
        except duckdb.Error as error:
            raise Undecided(f"DuckDB: {str(error).splitlines()[0]}") from error
        finally:
            for name in rows or {}:
                database.unregister(name)


def scannable(tree: exp.Select, sources: Iterable[Source]) -> str:
    """Return a resolved query in DuckDB's SQL, which returns what Spark does; or raise."""
    check_plain(tree, UNLIKE)
    for source in sources:
        _check(source)
    return to_duckdb(tree, 0)


def _check(source: Source) -> None:
    metadata = source.table.metadata
    found = refs.snapshot(metadata, source.snapshot_id)
    if found is None:
        raise Undecided("one of its tables has no rows")
    if metadata["format-version"] > 2:
        raise Undecided("one of its tables is of format 3")
    if found.get("schema-id") != metadata["current-schema-id"]:
        raise Undecided("one of its tables has got other columns since")
    summary = source.summary
    if int(summary.get("total-equality-deletes", 0)):
        raise Undecided("one of its tables has equality deletes")
    if int(summary.get("total-files-size", MAX_BYTES + 1)) > MAX_BYTES:
        raise Undecided("one of its tables is too large for one machine")
