"""What the manifests of a table list, of all its versions, and what they say of files that went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from icegate.files import StoredFiles
from icegate.gate.store import StoredTable
from icegate.health.files import (
    DATA,
    LOWER,
    POSITION,
    REFERENCED,
    UPPER,
    entries,
    read_list,
    reading,
)

CUT = 16  # characters: longer bounds are cut by Iceberg
NAMING = ("identity", "truncate")  # transforms that leave in a partition's name what was said
Part = tuple[int, tuple[Any, ...]]  # a partition: the spec that it's of, and its values
Name = tuple[str, "str | None"]  # of a delete file: vectors for many data files are in one


class Deletes(NamedTuple):
    """A live delete file: the snapshot that added it, the partition, and its content."""

    added_by: int
    part: Part
    content: int


class Files:
    """The data files of a table, and the versions that need each.

    With equality deletes, and with vectors where partitions have keys as their names.
    """

    def __init__(self, table: StoredTable, keys: Collection[str] = ()) -> None:
        """Read them; where ``keys``, columns, are what the table is partitioned by, it counts."""
        self.paths: dict[str, int] = {}  # with their bytes
        self.deletes: dict[str, dict[Name, Deletes]] = defaultdict(dict)  # live, by manifest
        self._of: dict[int, list[str]] = {}  # manifests by snapshot
        self._live: dict[str, set[str]] = defaultdict(set)  # by manifest, as all below
        self._gone: dict[str, set[str]] = defaultdict(set)
        self._said: dict[str, set[str]] = defaultdict(set)  # bounds of what is gone, and partitions
        self._parts: dict[str, set[Part]] = defaultdict(set)  # that have live data
        self._by = _keyed(table.metadata, keys)
        io = StoredFiles()
        with reading(table.name, f"which files {table.name} has"):
            for snapshot in table.metadata.get("snapshots") or []:
                lists = read_list(snapshot, io)
                self._of[snapshot["snapshot-id"]] = [m.manifest_path for m in lists]
                for manifest in lists:
                    if manifest.manifest_path not in self._live:
                        self._read(manifest, io)

    def _read(self, manifest: Any, io: StoredFiles) -> None:
        path, spec = manifest.manifest_path, manifest.partition_spec_id
        self._live[path] = set()
        for entry, is_live in entries(manifest, io):
            file = entry.file
            part = spec, tuple(file.partition._data)
            if is_live and file.content == DATA:
                self._parts[path].add(part)
            elif is_live:
                name = file.file_path, file._data[REFERENCED]
                self.deletes[path][name] = Deletes(entry.added_by, part, file.content)
            if file.content == POSITION:
                # Positions say nothing of anyone, but the partition does that they are in.
                self._said[path].update(str(part[1][n])[:CUT] for n in self._by.get(spec, ()))
            if file.content == POSITION and not (self._by.get(spec) and is_vectors(file.file_path)):
                continue
            if is_live:
                self._live[path].add(file.file_path)
                self.paths[file.file_path] = file.file_size_in_bytes
            else:
                self._gone[path].add(file.file_path)
                self._said[path].update(_bounds(file))

    def of(self, snapshot_id: int | None) -> set[str]:
        """Return the files of a version."""
        return {path for manifest in self._manifests(snapshot_id) for path in self._live[manifest]}

    def dangling(self, snapshot_id: int | None) -> set[Name]:
        """Return the position deletes of partitions in which a version has no data."""
        manifests = self._manifests(snapshot_id)
        full = {part for manifest in manifests for part in self._parts[manifest]}
        return {
            name
            for manifest in manifests
            for name, file in self.deletes[manifest].items()
            if file.content == POSITION and file.part not in full
        }

    def with_any(self, files: Collection[str], values: Collection[str]) -> set[int]:
        """Return the versions whose manifests name any of these files, or have bounds like these.

        Also as deleted: the entry has the file's lowest and highest values.
        """
        bad = self.naming(files, values)
        return {id for id, manifests in self._of.items() if bad.intersection(manifests)}

    def naming(self, files: Collection[str], values: Collection[str]) -> set[str]:
        """Return the manifests that do."""
        wanted, known = {*files}, {*values}
        return {
            manifest
            for manifest in self._live
            if (self._live[manifest] | self._gone[manifest]) & wanted
            or self._said[manifest] & known
        }

    def _manifests(self, snapshot_id: int | None) -> list[str]:
        return self._of.get(snapshot_id or -1, [])


def is_vectors(path: str) -> bool:
    """Tell whether a file holds deletion vectors: with the paths of the data files."""
    return path.endswith(".puffin")


def _keyed(metadata: dict[str, Any], keys: Collection[str]) -> dict[int, list[int]]:
    """Return which values of a partition are keys, by partitioning."""
    ids = {f["id"] for schema in metadata["schemas"] for f in schema["fields"] if f["name"] in keys}
    return {
        spec["spec-id"]: [
            n
            for n, field in enumerate(spec["fields"])
            if field["source-id"] in ids and field["transform"].startswith(NAMING)
        ]
        for spec in metadata["partition-specs"]
    }


def _bounds(file: Any) -> Iterator[str]:
    for bounds in (file._data[LOWER], file._data[UPPER]):
        for value in (bounds or {}).values():
            yield value.decode(errors="replace")
