"""A commit that puts data files in the place of others, and no row changes: without Java.

PyIceberg has none, and writes no manifests of delete files.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table.snapshots import Operation, Summary, UpdateMetrics, update_snapshot_summaries

from icegate import storage
from icegate.files import StoredFiles
from icegate.gate.refs import Metadata, head, now_ms, set_main, snapshot
from icegate.gate.store import Moved, Step, StoredTable, move
from icegate.health.files import Entry
from icegate.settings import Lake
from icegate.tables.metadata import by_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.typedef import Record

VERSION: Final = 3  # of the format: its entries have all fields that those of 2 may have
ENTRIES = 10_000  # of a manifest: of usual files these are 2 to 8 MiB
STATISTICS = range(6, 12)  # fields of a data file that only readers of it need

Live = Mapping[ManifestFile, Sequence[Entry]]  # what the manifests of a snapshot list
Group = tuple[int, ManifestContent]  # a manifest has files of one partitioning, and of one kind


def replacement(
    table: StoredTable,
    live: Live,
    gone: Collection[str],
    added: Sequence[DataFile],
    files: list[str],
) -> Step:
    """Return the step by which ``added`` data files come in the place of those ``gone``, on `main`.

    They are of the table's partitioning. What is written for the commit is added to ``files``.
    """
    return table.write(_metadata(table.metadata, live, gone, added, files))


@contextmanager
def written() -> Iterator[list[str]]:
    """Collect the files that are written for a step; none is left where it doesn't come to one."""
    files: list[str] = []
    try:
        yield files
    except BaseException:
        discard(files)
        raise


def take(lake: Lake, step: Step, files: Sequence[str]) -> None:
    """Take a step for which files were written; raises ``Moved``, and then none of them is left.

    After any other error they stay: the catalog may have done it, and not come to say so.
    """
    try:
        move(lake, [step])
    except Moved:
        discard(files)
        raise


def discard(files: Sequence[str]) -> None:
    """Delete files that nothing refers to."""
    for file in files:
        with suppress(OSError):  # it stays as an orphan
            storage.delete(file)


def write_file(
    path: str,
    rows: pa.Table,
    schema: Schema,
    properties: Mapping[str, str],
    spec_id: int,
    partition: Record,
) -> DataFile:
    """Write rows, with a schema's columns, as Iceberg has them in Parquet; describe the file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    in_file = sanitize_column_names(schema)
    arrow, output = schema_to_pyarrow(in_file), StoredFiles().new_output(path)
    columns = [c.cast(f.type) for c, f in zip(rows.columns, arrow, strict=True)]
    parquet = FileFormatFactory.get(FileFormat.PARQUET)
    with parquet.create_writer(output, in_file, dict(properties)) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=arrow))
    told = writer.result().to_serialized_dict()
    told["nan_value_counts"] = {  # which Parquet doesn't count
        field.field_id: pc.sum(pc.is_nan(column)).as_py() or 0
        for field, column in zip(schema.fields, columns, strict=True)
        if pa.types.is_floating(column.type)
    }
    return DataFile.from_args(
        VERSION,
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=len(output),
        spec_id=spec_id,
        **told,
    )


def _metadata(
    metadata: Metadata,
    live: Live,
    gone: Collection[str],
    added: Sequence[DataFile],
    files: list[str],
) -> Metadata:
    before = snapshot(metadata, head(metadata)) or {}
    id, sequence = uuid.uuid4().int >> 65, metadata["last-sequence-number"] + 1
    groups, kept, removed = _groups(live, gone)
    groups[metadata["default-spec-id"], ManifestContent.DATA] += [
        ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file) for file in added
    ]
    manifests = [
        _manifest(metadata, id, group, entries[start : start + ENTRIES], files)
        for group, entries in groups.items()
        for start in range(0, len(entries), ENTRIES)
    ]
    place = f"{metadata['location']}/metadata/snap-{id}-1-{uuid.uuid4()}.avro"
    files.append(place)
    output, parent = StoredFiles().new_output(place), before["snapshot-id"]
    with write_manifest_list(2, output, id, parent, sequence, "deflate") as listing:
        listing.add_manifests([*manifests, *kept])
    at_ms = now_ms(metadata)
    new = {
        "snapshot-id": id,
        "parent-snapshot-id": parent,
        "sequence-number": sequence,
        "timestamp-ms": at_ms,
        "manifest-list": place,
        "summary": _summary(before["summary"], added, removed),
        "schema-id": metadata["current-schema-id"],
    }
    edited = {**metadata, "snapshots": [*metadata["snapshots"], new]}
    edited |= {"last-sequence-number": sequence, "last-updated-ms": at_ms}
    return set_main(edited, id)


def _groups(
    live: Live, gone: Collection[str]
) -> tuple[dict[Group, list[ManifestEntry]], list[ManifestFile], list[DataFile]]:
    """Return what is to be listed anew, manifests that stay, and the files that are gone."""
    anew: dict[Group, list[ManifestEntry]] = defaultdict(list)
    kept, removed = [], []
    for manifest, entries in live.items():
        paths = {entry.file.file_path for entry in entries}
        if paths.isdisjoint(gone):
            kept.append(manifest)
            continue
        for entry in entries:
            is_gone = entry.file.file_path in gone
            if is_gone:
                removed.append(entry.file)
            anew[manifest.partition_spec_id, manifest.content].append(_entry(entry, is_gone))
    return anew, kept, removed


def _entry(entry: Entry, is_gone: bool) -> ManifestEntry:
    if is_gone:  # whoever cleans up needs its path; of erased rows its bounds may tell
        for field in STATISTICS:
            entry.file._data[field] = None
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.DELETED if is_gone else ManifestEntryStatus.EXISTING,
        snapshot_id=entry.added_by,
        sequence_number=entry.sequence,
        file_sequence_number=entry.file_sequence,
        data_file=entry.file,
    )


class Manifest(ManifestWriterV2):
    """A manifest of data files or of delete files: PyIceberg writes only the former."""

    kind = ManifestContent.DATA

    def content(self) -> ManifestContent:
        return self.kind

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": ManifestContent(self.kind).name.lower()}


class _Whole(Manifest):
    """A manifest with all fields of an entry, such as which data file a delete file is for."""

    def _with_partition(self, format_version: Any) -> Schema:
        return super()._with_partition(VERSION)


def _manifest(
    metadata: Metadata, id: int, group: Group, entries: list[ManifestEntry], files: list[str]
) -> ManifestFile:
    spec_id, kind = group
    schema = by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])
    spec = by_id(metadata["partition-specs"], "spec-id", spec_id)
    place = f"{metadata['location']}/metadata/{uuid.uuid4()}-m0.avro"
    files.append(place)
    manifest = _Whole(
        PartitionSpec.model_validate(spec),
        Schema.model_validate(schema),
        StoredFiles().new_output(place),
        id,
        "deflate",
    )
    manifest.kind = kind
    put = {
        ManifestEntryStatus.ADDED: manifest.add,
        ManifestEntryStatus.EXISTING: manifest.existing,
        ManifestEntryStatus.DELETED: manifest.delete,
    }
    with manifest:
        for entry in entries:
            put[entry.status](entry)
    return manifest.to_manifest_file()


def _summary(
    before: Mapping[str, str], added: Sequence[DataFile], removed: Sequence[DataFile]
) -> dict[str, str]:
    counted = UpdateMetrics()
    for file in added:
        counted.add_file(file)
    for file in removed:
        counted.remove_file(file)
    # PyIceberg sums up no `replace`; what it does to totals is what an overwrite does.
    told = Summary(Operation.OVERWRITE, **counted.to_dict())
    summed = update_snapshot_summaries(told, before).additional_properties
    return {"operation": Operation.REPLACE.value, **summed}
