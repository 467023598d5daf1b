"""Count data files and delete files by partition, as the manifests of a snapshot list them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from icegate.errors import TableError
from icegate.gate.refs import Metadata
from icegate.tables.metadata import by_id

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

Key = tuple[int, tuple[Any, ...]]  # of a partition: its spec, and its values

SMALL = 0.75  # of the target: what is below it, compaction rewrites, Spark's and others
DATA, POSITION, EQUALITY = range(3)  # what a file's content is
PATH = 2147483546  # the column of position deletes that names the data file
REFERENCED, LOWER, UPPER = 17, 10, 11  # fields of a data file for which PyIceberg has no names


@dataclass
class Part:
    """The files of a partition, or of a whole table. A summary tells nothing of small ones."""

    name: str = ""
    spec_id: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    small: int = 0
    small_bytes: int = 0
    spare: int = 0  # files that there would be less after compaction
    delete_files: int = 0  # of positions; of any kind where only a summary was read
    vectors: int = 0
    equality_deletes: int = 0
    dangling: int = 0  # delete files that no data file of the snapshot has rows for
    deleted_rows: int = 0  # by positions and vectors that aren't dangling
    equality_rows: int = 0
    newest_ms: int = 0  # when its newest file came, as far as snapshots are kept
    oldest_ms: int = 0  # when the oldest came that is small or a delete file; 0 without one
    values: tuple[Any, ...] = ()  # of the partition, as Iceberg's manifests have them

    @property
    def deletes(self) -> int:
        """How many delete files and vectors readers merge."""
        return self.delete_files + self.vectors + self.equality_deletes

    def add(self, size: int, rows: int, target: int, came_ms: int) -> None:
        """Count a data file."""
        self.files, self.bytes, self.rows = self.files + 1, self.bytes + size, self.rows + rows
        is_small = size < SMALL * target
        self.came(came_ms, is_small)
        if is_small:
            self.small, self.small_bytes = self.small + 1, self.small_bytes + size
            self.spare = self.small - max(1, math.ceil(self.small_bytes / target))

    def came(self, ms: int, to_mend: bool) -> None:
        """Count when a file came."""
        self.newest_ms = max(self.newest_ms, ms)
        if to_mend:
            self.oldest_ms = min(self.oldest_ms or ms, ms)


def whole(parts: Iterable[Part]) -> Part:
    """Return the sum of partitions."""
    total = Part()
    for part in parts:
        for name, value in vars(part).items():
            if name not in ("name", "spec_id", "values", "newest_ms", "oldest_ms"):
                setattr(total, name, getattr(total, name) + value)
        total.came(part.newest_ms, to_mend=False)
        if part.oldest_ms:
            total.came(part.oldest_ms, to_mend=True)
    return total


class Entry(NamedTuple):
    """A file of a snapshot: its sequence numbers, the snapshot that added it, and itself."""

    sequence: int  # of its rows: what deletes of them go by
    added_by: int
    file: Any
    file_sequence: int


class _Delete(NamedTuple):
    """A delete file; ``only`` is the one data file that it's for, if it is for one."""

    key: Key
    came_ms: int
    content: int
    sequence: int
    rows: int
    only: str | None
    is_vector: bool


def count_files(
    metadata: Metadata, manifests: Iterable[ManifestFile], io: FileIO, target: int
) -> list[Part]:
    """Return the partitions of a snapshot with their files, by its list of manifests.

    Raises what reading a manifest raises that is gone or cut off.
    """
    parts: dict[Key, Part] = {}
    oldest: dict[Key, int] = {}  # data sequence number in a partition
    deletes: list[_Delete] = []
    paths: dict[str, int] = {}  # of data files, with their sequence numbers
    named, came = _namer(metadata), _times(metadata)
    # Deletes come first: paths of data files are kept only where one is asked for.
    for manifest in sorted(manifests, key=lambda m: -m.content):
        for sequence, added_by, file, _ in live(manifest, io):
            key = key_of(manifest, file)
            if file.content != DATA:
                deletes.append(_delete(key, came(added_by), sequence, file))
                continue
            if key not in parts:
                parts[key], oldest[key] = _part(named, key), sequence
            parts[key].add(file.file_size_in_bytes, file.record_count, target, came(added_by))
            oldest[key] = min(oldest[key], sequence)
            if deletes:
                paths[file.file_path] = sequence
    everywhere = {spec["spec-id"] for spec in metadata["partition-specs"] if not spec["fields"]}
    first = min(oldest.values(), default=None)
    for delete in deletes:
        # An equality delete of no partition is for the data of all of them.
        is_global = delete.content == EQUALITY and delete.key[0] in everywhere
        since = paths.get(delete.only) if delete.only else None
        if delete.only is None:
            since = first if is_global else oldest.get(delete.key)
        part = parts.setdefault(delete.key, _part(named, delete.key))
        part.came(delete.came_ms, to_mend=True)
        _count(part, delete, since)
    return [part for _, part in sorted(parts.items(), key=lambda item: str(item[0]))]


@contextmanager
def reading(manifests_of: str, what: str) -> Iterator[None]:
    """Raise ``TableError`` for manifests that are gone or cut off: ``what`` can't be told then."""
    try:
        yield
    except Exception as error:  # what bytes that were cut off happen to raise
        raise TableError(
            f"cannot tell {what}",
            why=f"a manifest of {manifests_of} can't be read: {error}",
            fix="restore the file from a backup, or roll the table back",
        ) from error


def read_list(snapshot: dict[str, Any], io: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot."""
    from pyiceberg.manifest import read_manifest_list

    return [*read_manifest_list(io.new_input(snapshot["manifest-list"]))]


def _count(part: Part, delete: _Delete, since: int | None) -> None:
    """Count a delete file; ``since`` is the oldest sequence number of what it could be for."""
    is_equality = delete.content == EQUALITY
    # Of a commit's own rows, equality deletes take none, and position deletes may.
    if since is None or (since >= delete.sequence if is_equality else since > delete.sequence):
        part.dangling += 1
    elif is_equality:
        part.equality_deletes += 1
        part.equality_rows += delete.rows
    else:
        part.vectors += delete.is_vector
        part.delete_files += not delete.is_vector
        part.deleted_rows += delete.rows


def live(manifest: ManifestFile, io: FileIO) -> Iterator[Entry]:
    """Yield what a manifest lists and isn't deleted."""
    return (entry for entry, is_live in entries(manifest, io) if is_live)


def entries(manifest: ManifestFile, io: FileIO) -> Iterator[tuple[Entry, bool]]:
    """Yield all that a manifest lists, and whether it's still there."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        ManifestEntry,
        ManifestEntryStatus,
    )

    # PyIceberg's own reading leaves out which data file a deletion vector is for.
    schema, file = MANIFEST_ENTRY_SCHEMAS[3], io.new_input(manifest.manifest_path)
    # Of one that is cut off PyIceberg reads on in memory, where another file's bytes may be.
    check_length(len(file), manifest.manifest_length)
    with AvroFile[ManifestEntry](file, schema, {-1: ManifestEntry, 2: DataFile}) as listed:
        for entry in listed:
            own = entry.sequence_number, entry.file_sequence_number
            inherited = manifest.sequence_number or 0
            sequence, of_file = (inherited if each is None else each for each in own)
            added_by = entry.snapshot_id or manifest.added_snapshot_id or 0
            is_live = entry.status != ManifestEntryStatus.DELETED
            yield Entry(sequence, added_by, entry.data_file, of_file), is_live


def check_length(has: int, told: int) -> None:
    """Raise ``EOFError`` for a manifest that is cut off: what is left can look whole."""
    if has != told:
        raise EOFError(f"it has {has:,} of {told:,} bytes")


def key_of(manifest: ManifestFile, file: Any) -> Key:
    """Return the partition of a file that a manifest lists."""
    return manifest.partition_spec_id, tuple(file.partition._data)


def _times(metadata: Metadata) -> Callable[[int], int]:
    """Return what tells when a snapshot was made; one that expired was before those kept."""
    snapshots = metadata.get("snapshots") or []
    times = {snapshot["snapshot-id"]: snapshot["timestamp-ms"] for snapshot in snapshots}
    oldest = min(times.values(), default=0)
    return lambda id: times.get(id, oldest)


def _part(named: Callable[[Key], str], key: Key) -> Part:
    return Part(named(key), key[0], values=key[1])


def _delete(key: Key, came_ms: int, sequence: int, file: Any) -> _Delete:
    only, is_vector = named_file(file), str(file.file_format).upper() == "PUFFIN"
    return _Delete(key, came_ms, int(file.content), sequence, file.record_count, only, is_vector)


def named_file(file: Any) -> str | None:
    """Return the only data file that a delete file is for, if it's for one."""
    only: str | None = file._data[REFERENCED]
    if only is None and file.content == POSITION:
        low, high = ((file._data[bound] or {}).get(PATH) for bound in (LOWER, UPPER))
        only = low.decode() if low is not None and low == high else None
    return only


def _namer(metadata: Metadata) -> Callable[[Key], str]:
    """Return what names a partition, `day=2026-11-23/country=AT`; nothing without partitions."""
    from pyiceberg.transforms import parse_transform
    from pyiceberg.types import IcebergType, StringType

    types = {
        field["id"]: IcebergType.model_validate(field["type"])
        for schema in metadata["schemas"]
        for field in schema["fields"]
        if isinstance(field["type"], str)
    }

    def named(key: Key) -> str:
        fields = by_id(metadata["partition-specs"], "spec-id", key[0])["fields"]
        told = []
        for field, value in zip(fields, key[1], strict=False):
            kind = types.get(field.get("source-id"), StringType())
            transform = parse_transform(field["transform"])
            told.append(f"{field['name']}={transform.to_human_string(kind, value)}")
        return "/".join(told)

    return named
