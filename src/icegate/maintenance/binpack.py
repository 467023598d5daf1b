"""Compact few bytes in this process: DuckDB reads the rows, PyIceberg writes them.

To start Spark for them takes ten times as long as all of it. What this can't do, or what is more
than one process should, is ``Elsewhere``'s: Iceberg's procedure on Spark.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from icegate.duck import FILES, IN_MEMORY, PATTERN, FileColumn, duckdb_type, quoted, reading
from icegate.files import StoredFiles
from icegate.gate.refs import Metadata
from icegate.gate.store import StoredTable
from icegate.health.files import (
    DATA,
    EQUALITY,
    SMALL,
    Entry,
    Key,
    key_of,
    live,
    named_file,
    read_list,
)
from icegate.health.limits import limits_of
from icegate.maintenance.action import Action
from icegate.settings import Lake
from icegate.storage import is_remote, shown
from icegate.tables.metadata import by_id, current_snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection as Database
    from pyiceberg.manifest import DataFile, ManifestFile

# All that Iceberg's writer does by properties and PyIceberg's doesn't: with one of them it's Spark.
CODEC = "write.parquet.compression-codec"
KNOWN = (CODEC, "write.parquet.compression-level")
CODECS = ("zstd", "gzip", "snappy", "uncompressed")
UNKNOWN = tuple(
    "write.parquet. write.object-storage. write.data. write.folder-storage. write.metadata.path "
    "write.location-provider. encryption. schema.name-mapping.".split()
)


class Elsewhere(Exception):
    """This is work for Spark; says why."""


@dataclass
class Part:
    """The files of a partition: those to be written anew, and the deletes that apply to them."""

    key: Key
    data: list[Entry] = field(default_factory=list)
    deletes: list[Entry] = field(default_factory=list)


def compact(lake: Lake, table: StoredTable, action: Action) -> list[Mapping[str, int]]:
    """Compact what an action names, in one commit; return how many files became how many.

    Raises ``Elsewhere`` before anything is written, ``Moved`` when somebody wrote meanwhile.
    """
    _check(table.metadata, action)
    return Compaction(table, action).run(lake)


def _check(metadata: Metadata, action: Action) -> None:
    """Raise ``Elsewhere`` for what only Spark does as it has to be."""
    properties = metadata.get("properties") or {}
    order = by_id(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"])
    why = {
        "it is in a bucket": is_remote(metadata["location"]),
        "it isn't of format 2": metadata["format-version"] != 2,
        "it is to be sorted": bool(order["fields"] or action.arguments),
        "not only whole partitions are meant": action.parts is None,
        "it is too much": action.rewrites > IN_MEMORY,
        "it isn't in Parquet": properties.get("write.format.default", "parquet") != "parquet",
        "its codec isn't known here": properties.get(CODEC, "zstd").lower() not in CODECS,
        "a property isn't known here": any(
            name.startswith(UNKNOWN) and name not in KNOWN for name in properties
        ),
    }
    if reason := next((said for said, is_so in why.items() if is_so), ""):
        raise Elsewhere(reason)


class Compaction:
    """One compaction of some partitions of a table."""

    def __init__(self, table: StoredTable, action: Action) -> None:
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema

        self.table, self.metadata, self.wanted = table, table.metadata, action.parts
        schemas, specs = self.metadata["schemas"], self.metadata["partition-specs"]
        schema = by_id(schemas, "schema-id", self.metadata["current-schema-id"])
        self.spec_id: int = self.metadata["default-spec-id"]
        self.schema = Schema.model_validate(schema)
        self.spec = PartitionSpec.model_validate(by_id(specs, "spec-id", self.spec_id))
        self.columns = [_column(each) for each in schema["fields"]]
        self.limits = limits_of(self.metadata)
        self.live: dict[ManifestFile, list[Entry]] = {}
        self.sequences: dict[str, int] = {}  # of all data files, by path
        self.oldest: dict[Key, int] = {}  # of these, by partition

    def run(self, lake: Lake) -> list[Mapping[str, int]]:
        """Do it."""
        from icegate.maintenance.replace import replacement, take, written

        parts, gone = self._parts(), set[str]()
        with written() as files:
            added = []
            for part in parts:
                rows, deletes = self._rows(part)
                gone.update(deletes, (entry.file.file_path for entry in part.data))
                added += [*self._written(rows, part, files)]
            step = None
            if gone:
                gone |= self._dangling()
                step = replacement(self.table, self.live, gone, added, files)
        if step:
            take(lake, step, files)
        old = sum(len(part.data) for part in parts)
        return [{"rewritten_data_files_count": old, "added_data_files_count": len(added)}]

    def _parts(self) -> list[Part]:
        """Return what is to be compacted, by what the manifests list."""
        io, parts = StoredFiles(), dict[Key, Part]()
        at = current_snapshot(self.metadata)
        for manifest in read_list(at, io) if at else []:
            self.live[manifest] = [*live(manifest, io)]
            for entry in self.live[manifest]:
                key = key_of(manifest, entry.file)
                part = parts.setdefault(key, Part(key))
                if entry.file.content == EQUALITY:
                    raise Elsewhere("it has equality deletes")
                if entry.file.content == DATA:
                    self.sequences[entry.file.file_path] = entry.sequence
                    self.oldest[key] = min(entry.sequence, self.oldest.get(key, entry.sequence))
                    part.data.append(entry)
                else:
                    part.deletes.append(entry)
        found = [part for key, part in parts.items() if not self.wanted or key in self.wanted]
        for part in found:
            if not part.deletes:
                part.data = [entry for entry in part.data if self._is_small(entry)]
        found = [part for part in found if part.data and (part.deletes or len(part.data) > 1)]
        self._check_files(found)
        return found

    def _is_small(self, entry: Entry) -> bool:
        return bool(entry.file.file_size_in_bytes < SMALL * self.limits.target)

    def _check_files(self, parts: Sequence[Part]) -> None:
        files = [entry.file for part in parts for entry in (*part.data, *part.deletes)]
        if any(part.key[0] != self.spec_id for part in parts):
            raise Elsewhere("it is of an earlier partitioning")
        if len(files) > FILES or sum(file.file_size_in_bytes for file in files) > IN_MEMORY:
            raise Elsewhere("it is too much")
        if any(str(file.file_format).upper() != "PARQUET" for file in files):
            raise Elsewhere("it isn't in Parquet")
        if any(PATTERN.search(file.file_path) for file in files):
            raise Elsewhere("it has a file whose name is a pattern")

    @cached_property
    def _database(self) -> Database:
        import duckdb

        database = duckdb.connect()
        database.execute("set threads = 1")  # of small files more cost more than they save
        database.execute("set parquet_metadata_cache = true")  # each file is asked for its ids
        database.execute("set TimeZone = 'UTC'")
        return database

    def _rows(self, part: Part) -> tuple[pa.Table, list[str]]:
        """Return the rows that a partition has, and the delete files that have no other."""
        import duckdb

        try:
            self._check_ids(part)
            deletes = self._read_deletes(part)
            files = [shown(entry.file.file_path) for entry in part.data]
            read = reading(self.columns, files, places=True)
            names = ", ".join(f'"{column.name}"' for column in self.columns)
            there = "anti join deleted using (filename, file_row_number)"
            found = self._database.execute(f"select {names} from ({read}) {there}")
            rows = found.to_arrow_table()
            (deleted,) = self._database.execute("select count(*) from deleted").fetchone() or (0,)
        except duckdb.Error as error:
            raise Elsewhere(f"DuckDB: {error}") from error
        if rows.num_rows + deleted != sum(entry.file.record_count for entry in part.data):
            raise Elsewhere("its files have other rows than its metadata says")
        return rows, deletes

    def _check_ids(self, part: Part) -> None:
        """Raise ``Elsewhere`` for a file whose columns aren't all found by their ids.

        It may lack one that was added later, but none whose values are its partition's.
        """
        listed = ", ".join(quoted(shown(entry.file.file_path)) for entry in part.data)
        asked = f"select file_name, list(field_id) from parquet_schema([{listed}]) group by 1"
        known = {column.id for column in self.columns}
        needed = {each.source_id for each in self.spec.fields}
        for _, ids in self._database.execute(asked).fetchall():
            if known.isdisjoint(ids) or not needed.issubset(ids):
                raise Elsewhere("it has a file that lacks ids of its columns")

    def _read_deletes(self, part: Part) -> list[str]:
        """Make the table `deleted`; return the delete files that are for nothing else."""
        data = {entry.file.file_path for entry in part.data}
        deletes = {shown(entry.file.file_path): entry for entry in part.deletes}
        source = "(select '' as file_path, 0::bigint as pos, '' as filename limit 0)"
        if deletes:
            source = f"read_parquet([{', '.join(map(quoted, deletes))}], filename = true)"
        self._database.execute(
            f"create or replace table positions as select file_path, pos, filename from {source}"
        )
        # As text: a value that is bound makes DuckDB import pandas.
        pairs = ", ".join(f"({quoted(path)}, {quoted(shown(path))})" for path in data)
        self._database.execute(
            "create or replace table deleted as select distinct files.filename, pos as"
            " file_row_number from positions"
            f" join (values {pairs}) as files(file_path, filename) using (file_path)"
        )
        asked = "select distinct filename, file_path from positions"
        of_others = set()
        for delete, path in self._database.execute(asked).fetchall():
            entry = deletes[delete]
            if self.sequences.get(path, 0) > entry.sequence:
                raise Elsewhere("it has deletes that are older than their data")
            if path in self.sequences and path not in data:
                of_others.add(delete)
        return [e.file.file_path for path, e in deletes.items() if path not in of_others]

    def _dangling(self) -> set[str]:
        """Return the position deletes that no data file has rows for."""
        return {
            entry.file.file_path
            for manifest, entries in self.live.items()
            for entry in entries
            if entry.file.content != DATA and self._is_dangling(manifest, entry)
        }

    def _is_dangling(self, manifest: ManifestFile, entry: Entry) -> bool:
        if only := named_file(entry.file):
            return only not in self.sequences
        oldest = self.oldest.get(key_of(manifest, entry.file))
        return oldest is None or oldest > entry.sequence

    def _written(self, rows: pa.Table, part: Part, files: list[str]) -> Iterator[DataFile]:
        """Yield the files of a partition's rows, each of no more than the target size."""
        from icegate.maintenance.replace import write_file

        size = sum(entry.file.file_size_in_bytes for entry in part.data)
        count = math.ceil(size / self.limits.target) if rows.num_rows else 0
        each = math.ceil(rows.num_rows / count) if count else 0
        partition = part.data[0].file.partition
        inside = self.spec.partition_to_path(partition, self.schema) if partition._data else ""
        folder = "/".join(filter(None, (f"{self.metadata['location']}/data", inside)))
        for number in range(count):
            path = f"{folder}/00000-{number}-{uuid.uuid4()}.parquet"
            files.append(path)
            some = rows.slice(number * each, each)
            properties = self.metadata.get("properties") or {}
            yield write_file(path, some, self.schema, properties, self.spec_id, partition)


def _column(told: Mapping[str, Any]) -> FileColumn:
    kind = str(told["type"])
    known = duckdb_type(kind)
    if not known:
        raise Elsewhere(f"it has a column of type {kind}")
    return FileColumn(told["id"], told["name"], known)
