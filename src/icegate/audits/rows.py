"""Rows of a table for DuckDB: straight from its Parquet files where Iceberg would add nothing.

That is so where no delete file touches them and each file has each column by its field id: then
none is renamed, of a partition's value, of a default, or matched by name. It takes neither DuckDB's
extension nor Arrow, which cost more to load than a small batch to read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.types import NestedField

from icegate.audits.source import Source
from icegate.audits.tree import Undecided
from icegate.duck import FILES, IN_MEMORY, PATTERN, FileColumn, duckdb_type, reading
from icegate.storage import shown

MIB = 1024**2

# Of each of some Parquet files: by field id the name of a column and how it's written.
Fields = Callable[[Sequence[str]], Iterable[Mapping[int, tuple[str, ...]]]]


class TooLarge(Undecided):
    """More than DuckDB may read."""


class Rows(NamedTuple):
    """Some columns of a table's rows: those of ``files``, and of ``alike`` where keys are equal.

    Without ``files`` they are all rows of the snapshot.
    """

    source: Source
    columns: Collection[str]  # in lower case
    files: Sequence[DataFile] | None = None
    alike: Sequence[DataFile] = ()
    keys: Sequence[str] = ()

    @property
    def row_count(self) -> int:
        """How many rows there are in its files."""
        if self.files is None:
            return int(self.source.summary.get("total-records", 0))
        return sum(file.record_count for file in (*self.files, *self.alike))

    def fields(self) -> list[NestedField]:
        """Return the columns as the table has them now, at least one."""
        fields = self.source.files.metadata.schema().fields
        return [field for field in fields if field.name.lower() in self.columns] or [fields[0]]

    def in_parquet(self, fields_of: Fields, at_most: int) -> tuple[str, str]:
        """Return queries on Parquet files, of so many bytes in all, or raise ``Undecided``.

        Of the rows of ``files``, and of those that are looked up for them, if there are such.
        """
        fields = self.fields()
        columns = [FileColumn(field.field_id, field.name, _type(field)) for field in fields]
        if self.files is None and self.source.total_files > FILES:
            raise Undecided("it has too many files")
        files = _rising(self.source.files.all_data, fields) if self.files is None else self.files
        chosen = [*files, *self.alike]
        self._check(chosen, fields, at_most)
        if self.source.files.has_deletes and any(task.delete_files for task in self._tasks(chosen)):
            raise Undecided("it has deleted rows")
        paths = {file.file_path: path_of(file) for file in chosen}
        written = [*fields_of(list(paths.values()))]
        if any(column.id not in found for found in written for column in columns):
            raise Undecided("it has files without one of the columns")
        # Read by name, DuckDB knows how many rows there are, and plans its joins by that.
        ways = [{found[column.id] for found in written} for column in columns]
        by_name = all(
            len(way) == 1 and next(iter(way))[0] == column.name
            for way, column in zip(ways, columns, strict=True)
        )
        if not files:
            nulls = (f'cast(null as {column.type}) as "{column.name}"' for column in columns)
            return f"select {', '.join(nulls)} where false", ""
        added = reading(columns, (paths[file.file_path] for file in files), by_name=by_name)
        if not self.alike:
            return added, ""
        others = (paths[file.file_path] for file in self.alike)
        alike = reading(columns, others, by_name=by_name)
        equal = " and ".join(f'a."{k}" is not distinct from b."{k}"' for k in self.keys) or "true"
        return added, f"select a.* from ({alike}) a semi join ({added}) b on {equal}"

    def in_arrow(self) -> Any:
        """Return these rows as an Arrow table, or raise ``Undecided``; all of what is alike."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan  # imports pandas, too: most of a second

        chosen, fields, files = [*(self.files or ()), *self.alike], self.fields(), self.source.files
        self._check(chosen, fields, IN_MEMORY)
        columns = files.metadata.schema().select(*(field.name for field in fields))
        scan = ArrowScan(files.metadata, files.io, columns, AlwaysTrue())
        return scan.to_table(self._tasks(chosen))

    def _tasks(self, chosen: Iterable[DataFile]) -> Iterable[Any]:
        paths = {file.file_path for file in chosen}

        def is_read(entry: ManifestEntry) -> bool:
            file = entry.data_file
            return file.content != DataFileContent.DATA or file.file_path in paths

        return self.source.files.planner().plan_files(self.source.files.manifests, is_read)

    @staticmethod
    def _check(chosen: Iterable[DataFile], fields: Iterable[NestedField], at_most: int) -> None:
        ids = [field.field_id for field in fields]
        size = sum(_bytes(file, ids) for file in chosen)
        if size > at_most:
            raise TooLarge(f"{size / MIB:,.0f} MiB have to be read, over {at_most / MIB:,.0f}")


def _type(field: NestedField) -> str:
    """Return DuckDB's type of a column."""
    told = str(field.field_type)
    if kind := duckdb_type(told):
        return kind
    raise Undecided(f"it has a column of type {told}")


def _rising(files: Sequence[DataFile], fields: Sequence[NestedField]) -> Sequence[DataFile]:
    """Return files by the least value that each has in the only column, where all tell it."""
    field, *more = fields
    least = [(file.lower_bounds or {}).get(field.field_id) for file in files]
    known = [from_bytes(field.field_type, bound) for bound in least if bound is not None]  # type: ignore[arg-type]
    if more or len(known) < len(files):
        return files
    return [file for _, file in sorted(zip(known, files, strict=True), key=lambda both: both[0])]


def path_of(file: DataFile) -> str:
    """Return where DuckDB finds a file, or raise ``Undecided``."""
    path = shown(file.file_path)
    if PATTERN.search(path):
        raise Undecided("it has a file whose name is a pattern")
    return path


def _bytes(file: DataFile, ids: Iterable[int]) -> int:
    """Return how much of a file some columns are, or how much it is if it doesn't say."""
    sizes = [(file.column_sizes or {}).get(id) for id in ids]
    return file.file_size_in_bytes if None in sizes else sum(filter(None, sizes))
