"""Run a test's query by DuckDB, where that can only return what Spark would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import duckdb

from icegate.audits.rows import MIB, Rows, TooLarge, path_of
from icegate.audits.source import Source
from icegate.audits.tree import Undecided
from icegate.catalog import list_relations
from icegate.duck import open_duckdb, quoted, show_table, shut_in
from icegate.gate import refs
from icegate.settings import Lake

MEMORY = "1GB"  # what it needs beyond goes to the disk
WORTH_SORTING, SORTED_AT_ONCE = 1_000_000, 32_000_000  # hashes, of 8 bytes
LITTLE = 2_000_000  # rows
FEW = 100  # new rows: of more keys each file has one by mistake, of a hundred each
HASHED = {"long": "bigint", "int": "integer", "string": "varchar"}
FIRST = 2000  # rows, of which it's looked at whether their keys rise
# DuckDB leaves out files by bounds that NaN isn't in, though it is greater than all numbers, and
# may tell 0.0 from -0.0.
UNLIKE = ("double",)


class DuckDB:
    """Databases for the queries of tests: some read Parquet files, one Iceberg tables."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._fields: dict[str, dict[int, tuple[str, ...]]] = {}  # of Parquet files, by path

    @cached_property
    def parquet(self) -> duckdb.DuckDBPyConnection:
        """The one without extensions: it opens in no time."""
        return self._opened(open_duckdb(self.lake, []))

    @cached_property
    def frugal(self) -> duckdb.DuckDBPyConnection:
        """One like that, on one core: for few rows more cores cost more than they save."""
        database = open_duckdb(self.lake, [])
        database.execute("set threads = 1")
        return self._opened(database)

    @cached_property
    def iceberg(self) -> duckdb.DuckDBPyConnection:
        """The one with the Iceberg extension."""
        return self._opened(open_duckdb(self.lake))

    def _opened(self, database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        database.execute(f"set memory_limit = '{MEMORY}'")
        database.execute(f"set temp_directory = {quoted(str(self.lake.home / 'duckdb'))}")
        shut_in(database, self.lake, list_relations(self.lake))
        return database

    def run(self, sql: str, tables: Mapping[str, Rows] | None = None) -> list[tuple[object, ...]]:
        """Return the rows of a query of DuckDB's on these tables, `schema.name` or `name`.

        Raises ``Undecided``.
        """
        return self._run(sql, tables or {}, lambda database: database.fetchall())

    def all_differ(self, columns: Sequence[str], sql: str, tables: Mapping[str, Rows]) -> bool:
        """Tell whether no two rows of a query are equal in its columns; False if it isn't known.

        Keys that rise from row to row differ. Rows with different hashes differ, too, and to sort
        those takes half of what groups take.
        """
        rows = max(each.row_count for each in tables.values())
        if rows < WORTH_SORTING:
            return False
        some = f"{sql} limit {FIRST}"
        if len(columns) == 1 and all(self._rises(columns[0], q, tables) for q in (some, sql)):
            return True
        parts = rows // SORTED_AT_ONCE + 1
        for part in range(parts):
            hashes = f"select hash({', '.join(columns)}) as hash from ({sql})"
            chosen = f"select hash from ({hashes}) where hash % {parts} = {part}"
            found = self._run(chosen, tables, lambda database: database.fetchnumpy()["hash"])
            found.sort()
            if (found[1:] == found[:-1]).any():
                return False
        return True

    def _rises(self, column: str, sql: str, tables: Mapping[str, Rows]) -> bool:
        """Tell whether each row has more than one other in a column, but for a first one.

        Whatever the order in which DuckDB reads them: the chain goes through all rows.
        """
        before = f"select {column}, lag({column}) over () as before from ({sql})"
        asked = f"select count(*), count_if({column} > before) from ({before})"
        ((rows, risen),) = self._run(asked, tables, lambda database: database.fetchall())
        return bool(rows - risen <= 1)

    def _run(self, sql: str, tables: Mapping[str, Rows], fetch: Callable[[Any], Any]) -> Any:
        try:
            try:
                most = self.lake.audit_max_mb * MIB
                likely = {name: self._likely(rows, most) for name, rows in tables.items()}
                queries = {n: rows.in_parquet(self._fields_of, most) for n, rows in likely.items()}
            except TooLarge:
                raise
            except Undecided:
                return fetch(self._on_iceberg(sql, tables))
            is_little = sum(rows.row_count for rows in tables.values()) < LITTLE
            database = self.frugal if is_little else self.parquet
            for name, (query, lookup) in queries.items():
                if lookup:  # as part of a larger query it may cost five times as much
                    database.execute(f'create or replace table "{name}_alike" as {lookup}')
                    query += f' union all select * from "{name}_alike"'
                show(database, name, query)
            return fetch(database.execute(sql))
        except duckdb.Error as error:
            raise Undecided(f"DuckDB: {str(error).splitlines()[0]}") from error

    def _likely(self, rows: Rows, most: int) -> Rows:
        """Leave out old files whose Bloom filters say that they have none of a few new keys.

        What isn't null, written alike, has the same hash in each file.
        """
        if not rows.alike or sum(file.record_count for file in rows.files or ()) > FEW:
            return rows
        added, _ = rows._replace(alike=()).in_parquet(self._fields_of, most)
        paths = [path_of(file) for file in (*(rows.files or ()), *rows.alike)]
        left = {path_of(file): file for file in rows.alike}
        keys = {key.lower() for key in rows.keys}
        for field in (field for field in rows.fields() if field.name.lower() in keys):
            written = {found.get(field.field_id) for found in self._fields_of(paths)}
            kind = HASHED.get(str(field.field_type))
            if kind is None or len(written) > 1 or None in written or not left:
                continue
            told = self.frugal.execute(f'select distinct "{field.name}" from ({added})').fetchall()
            if (None,) in told:
                continue
            files = f"[{', '.join(map(quoted, left))}], {quoted(written.pop()[0])}"  # type: ignore[index]
            probes = (
                "select file_name from parquet_bloom_probe"
                f"({files}, {quoted(str(key))}::{kind}) where not bloom_filter_excludes"
                for (key,) in told
            )
            kept = self.frugal.execute(" union ".join(probes)).fetchall()
            left = {path: left[path] for (path,) in kept}
        return rows._replace(alike=[*left.values()])

    def _on_iceberg(self, sql: str, tables: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
        for name, rows in tables.items():
            if rows.files is None:
                check_readable(rows.source, self.lake.audit_max_mb * MIB)
                show_table(self.iceberg, rows.source.entry, rows.source.snapshot_id)
            else:
                self.iceberg.register(name, rows.in_arrow())
        return self.iceberg.execute(sql)

    def _fields_of(self, paths: Sequence[str]) -> Iterator[Mapping[int, tuple[str, ...]]]:
        """Yield name and type of the columns of each Parquet file, by field id.

        One whose name another column of the file has, too, is named by nothing.
        """
        new = [path for path in paths if path not in self._fields]
        if new:
            listed = ", ".join(map(quoted, new))
            asked = (
                "select file_name, field_id, if(count(*) over (partition by file_name,"
                " lower(name)) > 1, '', name), type, logical_type, scale, precision"
                f" from parquet_schema([{listed}])"
            )
            self._fields |= {path: {} for path in new}
            for path, id, name, *types in self.frugal.execute(asked).fetchall():
                self._fields[path][id] = (name, *map(str, types))
        return (self._fields[path] for path in paths)


def show(database: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    """Make a view of a query, `schema.name` or `name`."""
    schema, _, own = name.rpartition(".")
    if schema:
        database.execute(f'create schema if not exists "{schema}"')
    place = f'"{schema}".' if schema else ""
    database.execute(f'create or replace view {place}"{own}" as {query}')


def check_readable(source: Source, at_most: int) -> None:
    """Raise ``Undecided`` unless DuckDB's Iceberg extension reads a table as Spark does."""
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
    size = int(summary.get("total-files-size", at_most + 1))
    if size > at_most:
        raise TooLarge(f"{size / MIB:,.0f} MiB have to be read, over {at_most / MIB:,.0f}")
