"""DuckDB in this process as a reader of the lake's tables, each as of one snapshot."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from icegate import objects
from icegate.catalog import CatalogEntry
from icegate.errors import IcegateError
from icegate.settings import Lake
from icegate.storage import shown

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database

EXTENSIONS = ("avro", "iceberg")  # manifests are Avro, so that one comes first
PATTERN = re.compile(r"[*?\[]")  # DuckDB takes such a path for those of many files
DUCKDB_TYPES = {  # by Iceberg's names
    **{"int": "integer", "long": "bigint", "float": "float", "double": "double"},
    **{"string": "varchar", "boolean": "boolean", "date": "date"},
    **{"timestamp": "timestamp", "timestamptz": "timestamptz"},
}
DECIMAL = re.compile(r"decimal\(\d+, \d+\)")
FILES = 10_000  # to name one by one
IN_MEMORY = 128 * 2**20  # bytes in Parquet, of rows that are held as Arrow


def open_duckdb(lake: Lake, entries: Collection[CatalogEntry] | None = None) -> Database:
    """Return a database that can read tables, and has a view of `main` of each of these."""
    import duckdb

    database = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    )
    extensions = () if entries == [] else EXTENSIONS
    for name in (*extensions, *(["httpfs"] if lake.bucket else [])):
        database.execute(f"load {quoted(str(extension_file(name)))}")
    if lake.bucket:
        database.execute(objects.duckdb_secret())
    # The lake's own name, so that three-part names work as they stand.
    database.execute(f"attach ':memory:' as \"{lake.catalog}\"")
    database.execute(f'use "{lake.catalog}"')
    database.execute("set TimeZone = 'UTC'")
    for entry in entries or []:
        show_table(database, entry)
    return database


def show_table(database: Database, entry: CatalogEntry, snapshot_id: int | None = None) -> None:
    """Make a view of a table, by the name in the catalog: at a snapshot, else at `main`."""
    schema, name = (f'"{part}"' for part in (entry.namespace, entry.name))
    at = "" if snapshot_id is None else f", snapshot_from_id => {snapshot_id}"
    database.execute(f"create schema if not exists {schema}")
    # A metadata file, unlike a table's folder, means exactly what the catalog means.
    database.execute(
        f"create or replace view {schema}.{name} as "
        f"select * from iceberg_scan({quoted(entry.shown_file)}{at})"
    )


def duckdb_type(kind: str) -> str:
    """Return DuckDB's name of an Iceberg type that it has alike, else nothing."""
    return DUCKDB_TYPES.get(kind) or (kind if DECIMAL.fullmatch(kind) else "")


class FileColumn(NamedTuple):
    """A column of Parquet files: its field id, its name to give, and DuckDB's type."""

    id: int
    name: str
    type: str


def reading(
    columns: Iterable[FileColumn],
    files: Iterable[str],
    *,
    by_name: bool = False,
    places: bool = False,
) -> str:
    """Return the SQL that reads columns of Parquet files, null where a file doesn't have one.

    ``by_name`` where all files have them by their names, alike and once. With ``places`` each row
    has its `filename` and `file_row_number`, too.
    """
    listed = [*columns]
    paths = ", ".join(map(quoted, files))
    if by_name:
        typed = ", ".join(f'cast("{name}" as {type}) as "{name}"' for _, name, type in listed)
        return f"select {typed} from read_parquet([{paths}], hive_partitioning = false)"
    names = ", ".join(f'"{column.name}"' for column in listed)
    told = ", ".join(
        f"{id}: {{name: {quoted(name)}, type: '{type}', default_value: null}}"
        for id, name, type in listed
    )
    options = f"schema = map {{{told}}}, hive_partitioning = false"
    if places:
        names += ", filename, file_row_number"
        options += ", filename = true, file_row_number = true"
    return f"select {names} from read_parquet([{paths}], {options})"


def read_parquet(columns: Iterable[FileColumn], files: Iterable[str]) -> list[tuple[Any, ...]]:
    """Return the rows of Parquet files, moments in UTC; raises ``OSError``."""
    with _alone() as database:
        database.execute("set TimeZone = 'UTC'")
        return database.execute(reading(columns, files)).fetchall()


def write_parquet(file: Path, columns: Iterable[FileColumn], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows, whose values are in the order of columns, to a new Parquet file.

    There must be a row. Raises ``OSError``.
    """
    listed = [*columns]
    # As text: a value that is bound makes DuckDB import pandas.
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    typed = ", ".join(f'cast("{name}" as {type}) as "{name}"' for _, name, type in listed)
    names = ", ".join(f'"{column.name}"' for column in listed)
    ids = ", ".join(f'"{column.name}": {column.id}' for column in listed)
    with _alone() as database:
        database.execute(
            f"copy (select {typed} from (values {values}) as given({names}))"
            f" to {quoted(str(file))} (format parquet, field_ids {{{ids}}})"
        )


@contextmanager
def _alone() -> Iterator[Database]:
    import duckdb

    try:
        with duckdb.connect() as database:
            yield database
    except duckdb.Error as error:
        raise OSError(str(error)) from error


def _literal(value: datetime | str | int | bool | None) -> str:
    if value is None:
        return "null"
    return quoted(str(value)) if isinstance(value, str | datetime) else str(value)


def shut_in(database: Database, lake: Lake, entries: Iterable[CatalogEntry]) -> None:
    """Let queries read files of the lake and of its tables, and nothing else."""
    tables = (entry.shown_file.rpartition("/metadata/")[0] for entry in entries)
    folders = {shown(lake.root), *tables}
    allowed = ", ".join(quoted(f"{folder}/") for folder in sorted(folders))
    database.execute(f"set allowed_directories = [{allowed}]")
    database.execute("set enable_external_access = false")
    database.execute("set lock_configuration = true")


def extension_file(name: str) -> Path:
    """Return where an extension of DuckDB was installed."""
    package = find_spec(f"duckdb_extension_{name}")
    roots = package.submodule_search_locations if package else None
    for root in roots or []:
        for file in Path(root).rglob(f"{name}.duckdb_extension"):
            return file
    raise IcegateError(
        f"cannot read tables by DuckDB: its extension {name} isn't installed",
        fix=f"`pip install duckdb-extension-{name}` in the version of duckdb, or add `--spark`",
    )


def quoted(text: str) -> str:
    """Return a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"
