"""A table to which a file comes every five minutes, as Iceberg's metadata has it after that.

Each commit has its manifest, its list of them and its snapshot, as Spark writes them; what isn't
written is a `metadata.json` for each, since readers only find the last of a day. The data files are
links to one that was written for real, so that they can be read and compacted.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField, StringType

from icegate.catalog import local_path
from icegate.files import LocalFiles
from icegate.gate.refs import Metadata, head, set_main, snapshot
from icegate.gate.store import StoredTable, move, read_tables
from icegate.health.files import read_list
from icegate.settings import Lake

A_DAY = 288
FIRST = (date(2026, 10, 1) - date(1970, 1, 1)).days
MERGED_FROM = 100  # manifests: commit.manifest.min-count-to-merge
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "name", StringType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
    # A day of commits is kept: by number, since this month takes minutes.
    "history.expire.max-snapshot-age-ms": "1",
    "history.expire.min-snapshots-to-keep": str(A_DAY),
}


class Stream:
    """A table in the catalog of a lake, and how many commits it has until now."""

    def __init__(self, lake: Lake, name: str, catalog: SqlCatalog) -> None:
        self.lake, self.name, self.catalog, self.commits = lake, name, catalog, 0
        table = catalog.create_table(name, SCHEMA, partition_spec=BY_DAY, properties=PROPERTIES)
        days = pa.array([FIRST] * 10, pa.int32()).cast(pa.date32())
        ids = pa.array(range(10), pa.int64())
        table.append(pa.table({"id": ids, "day": days, "name": ["a"] * 10}))
        (task,) = table.scan().plan_files()
        self.file = lake.home / "file.parquet"
        self.file.unlink(missing_ok=True)
        os.link(local_path(task.file.file_path), self.file)
        table.delete()

    def day(self) -> None:
        """Append 288 times."""
        (stored,) = read_tables(self.lake, [self.name])
        metadata = {**stored.metadata, "snapshots": [*stored.metadata["snapshots"]]}
        last = snapshot(metadata, head(metadata))
        assert last is not None
        manifests = read_list(last, LocalFiles())
        for _ in range(A_DAY):
            last, manifests = self._commit(metadata, last, manifests)
            metadata["snapshots"].append(last)
            self.commits += 1
        metadata["last-sequence-number"] = last["sequence-number"]
        metadata["last-updated-ms"] = last["timestamp-ms"]
        move(self.lake, [StoredTable(stored.entry, stored.metadata).write(_at(metadata, last))])

    def _commit(
        self, metadata: Metadata, before: Metadata, manifests: list[ManifestFile]
    ) -> tuple[Metadata, list[ManifestFile]]:
        folder = local_path(metadata["location"])
        id, sequence = uuid.uuid4().int >> 65, before["sequence-number"] + 1
        path = folder / "data" / f"{self.commits}.parquet"
        os.link(self.file, path)
        manifest = self._manifest(folder, id, [self._entry(id, path)])
        kept = [m for m in manifests if m.has_added_files() or m.has_existing_files()]
        if len(kept) >= MERGED_FROM:
            entries = [entry for m in kept for entry in m.fetch_manifest_entry(LocalFiles())]
            kept = [self._manifest(folder, id, entries)]
        place = f"file://{folder}/metadata/snap-{id}.avro"
        output = LocalFiles().new_output(place)
        listing = write_manifest_list(2, output, id, before["snapshot-id"], sequence, "deflate")
        with listing:
            listing.add_manifests([manifest, *kept])
        told: dict[str, Any] = {
            "snapshot-id": id,
            "parent-snapshot-id": before["snapshot-id"],
            "sequence-number": sequence,
            "timestamp-ms": max(int(time.time() * 1000), before["timestamp-ms"] + 1),
            "manifest-list": place,
            "summary": self._summary(before["summary"]),
            "schema-id": 0,
        }
        return told, read_list(told, LocalFiles())

    def _summary(self, before: dict[str, str]) -> dict[str, str]:
        added = {"data-files": 1, "records": 10, "files-size": self.file.stat().st_size}
        totals = {f"total-{of}": int(before[f"total-{of}"]) + new for of, new in added.items()}
        none = ("delete-files", "position-deletes", "equality-deletes")
        summary = {"added-data-files": 1, "added-records": 10, **totals}
        summary |= {f"total-{of}": 0 for of in none}
        return {"operation": "append", **{name: str(value) for name, value in summary.items()}}

    def _manifest(self, folder: Path, id: int, entries: list[ManifestEntry]) -> ManifestFile:
        output = LocalFiles().new_output(f"file://{folder}/metadata/{uuid.uuid4()}-m0.avro")
        with write_manifest(2, BY_DAY, SCHEMA, output, id, "deflate") as manifest:
            for entry in entries:
                (manifest.add if entry.snapshot_id == id else manifest.existing)(entry)
        return manifest.to_manifest_file()

    def _entry(self, id: int, path: Path) -> ManifestEntry:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format=FileFormat.PARQUET,
            partition=Record(FIRST + self.commits // A_DAY),
            record_count=10,
            file_size_in_bytes=self.file.stat().st_size,
        )
        file.spec_id = 0
        added = ManifestEntryStatus.ADDED
        return ManifestEntry.from_args(status=added, snapshot_id=id, data_file=file)

    def look(self) -> dict[str, float]:
        """Return the size of metadata.json, and CPU seconds of a reader's planning."""
        took = []
        for _ in range(3):
            began = time.process_time()
            table = self.catalog.load_table(self.name)
            files = [*table.scan().plan_files()]
            took.append(time.process_time() - began)
        size = local_path(table.metadata_location).stat().st_size
        return {"bytes": size, "plan_s": sorted(took)[1], "files": len(files)}


def _at(metadata: Metadata, last: Metadata) -> Metadata:
    """Return the metadata with `main` at a snapshot, and its log as each commit writes it."""
    logged = metadata.get("snapshot-log") or []
    known = {entry["snapshot-id"] for entry in logged}
    new = [s for s in metadata["snapshots"][:-1] if s["snapshot-id"] not in known]
    log = [{"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in new]
    return set_main({**metadata, "snapshot-log": [*logged, *log]}, last["snapshot-id"])
