"""Tables of many small commits, as Iceberg's metadata has them after that.

Each commit has its manifests, its list of them and its snapshot, as Spark writes them; what isn't
written is a `metadata.json` for each, since readers only find the last. All data files are there:
they can be read and compacted.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest_list,
)
from pyiceberg.partitioning import (
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField, StringType

from icegate.catalog import local_path
from icegate.files import StoredFiles
from icegate.gate.refs import Metadata, head, set_main, snapshot
from icegate.gate.store import StoredTable, move, read_tables
from icegate.health.files import read_list
from icegate.maintenance.replace import Manifest
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


DATA, DELETES = ManifestContent.DATA, ManifestContent.DELETES
# The columns of a file of position deletes: which file, and which of its rows.
PATH, POSITION = 2147483546, 2147483545
DELETED = Schema(
    NestedField(PATH, "file_path", StringType(), required=True),
    NestedField(POSITION, "pos", LongType(), required=True),
)


class Stream:
    """A table to which ten rows come every five minutes, partitioned by day.

    Its data files are links to one.
    """

    spec, properties = BY_DAY, PROPERTIES
    rows = 10  # of a file

    def __init__(self, lake: Lake, name: str, catalog: SqlCatalog) -> None:
        self.lake, self.name, self.catalog, self.commits = lake, name, catalog, 0
        spec, properties = self.spec, self.properties
        catalog.create_table(name, SCHEMA, partition_spec=spec, properties=properties)
        self.file = lake.home / "file.parquet"
        ids = pa.array(range(self.rows), pa.int64())
        days = pa.array([FIRST] * self.rows, pa.int32()).cast(pa.date32())
        write(self.file, SCHEMA, [ids, days, pa.array(["a"] * self.rows)])

    def commit(self, times: int) -> None:
        """Commit so many times."""
        (stored,) = read_tables(self.lake, [self.name])
        metadata = {**stored.metadata, "snapshots": [*(stored.metadata.get("snapshots") or [])]}
        last = snapshot(metadata, head(metadata))
        manifests = read_list(last, StoredFiles()) if last else []
        for _ in range(times):
            last, manifests = self._commit(metadata, last, manifests)
            metadata["snapshots"].append(last)
            self.commits += 1
        assert last is not None
        metadata["last-sequence-number"] = last["sequence-number"]
        metadata["last-updated-ms"] = last["timestamp-ms"]
        move(self.lake, [StoredTable(stored.entry, stored.metadata).write(_at(metadata, last))])

    def written(self, folder: Path) -> dict[ManifestContent, DataFile]:
        """Write what a commit adds: a data file, and maybe one of deletes."""
        path = folder / f"{self.commits}.parquet"
        os.link(self.file, path)
        return {DATA: self.described(path, self.rows, FIRST + self.commits // A_DAY)}

    def now_ms(self) -> int:
        """Return when a commit is made."""
        return int(time.time() * 1000)

    def _commit(
        self, metadata: Metadata, before: Metadata | None, manifests: list[ManifestFile]
    ) -> tuple[Metadata, list[ManifestFile]]:
        folder = local_path(metadata["location"])
        for name in ("data", "metadata"):
            (folder / name).mkdir(exist_ok=True)
        id, parent = uuid.uuid4().int >> 65, before["snapshot-id"] if before else None
        sequence = before["sequence-number"] + 1 if before else 1
        files = self.written(folder / "data")
        for content, file in files.items():
            added = ManifestEntryStatus.ADDED
            entry = ManifestEntry.from_args(status=added, snapshot_id=id, data_file=file)
            others = [m for m in manifests if m.content != content]
            own = self._merged(folder, id, [m for m in manifests if m.content == content])
            manifests = [self._manifest(folder, id, [entry], content), *own, *others]
        place = f"file://{folder}/metadata/snap-{id}.avro"
        output = StoredFiles().new_output(place)
        with write_manifest_list(2, output, id, parent, sequence, "deflate") as listing:
            listing.add_manifests(manifests)
        told: dict[str, Any] = {
            "snapshot-id": id,
            **({"parent-snapshot-id": parent} if parent else {}),
            "sequence-number": sequence,
            "timestamp-ms": max(self.now_ms(), before["timestamp-ms"] + 1 if before else 0),
            "manifest-list": place,
            "summary": _summary(before["summary"] if before else {}, files),
            "schema-id": 0,
        }
        return told, read_list(told, StoredFiles())

    def _merged(self, folder: Path, id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        kept = [m for m in manifests if m.has_added_files() or m.has_existing_files()]
        if len(kept) < MERGED_FROM:
            return kept
        entries = [entry for m in kept for entry in m.fetch_manifest_entry(StoredFiles())]
        return [self._manifest(folder, id, entries, kept[0].content)]

    def _manifest(
        self, folder: Path, id: int, entries: list[ManifestEntry], of: ManifestContent
    ) -> ManifestFile:
        output = StoredFiles().new_output(f"file://{folder}/metadata/{uuid.uuid4()}-m0.avro")
        manifest = Manifest(self.spec, SCHEMA, output, id, "deflate")
        manifest.kind = of
        with manifest:
            for entry in entries:
                (manifest.add if entry.snapshot_id == id else manifest.existing)(entry)
        return manifest.to_manifest_file()

    def described(self, path: Path, rows: int, *partition: int, **more: Any) -> DataFile:
        """Return a file as manifests have it."""
        told: dict[str, Any] = {
            "content": DataFileContent.DATA,
            "file_path": f"file://{path}",
            "file_format": FileFormat.PARQUET,
            "partition": Record(*partition),
            "record_count": rows,
            "file_size_in_bytes": path.stat().st_size,
        }
        file = DataFile.from_args(**{**told, **more})
        file.spec_id = 0
        return file

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


class Month(Stream):
    """A table of a month of small merges, merge-on-read, without partitions.

    Each adds a file of 200 rows, a part of them new versions of rows of the file before: a delete
    file takes each seventh of those.
    """

    spec, properties = UNPARTITIONED_PARTITION_SPEC, {"write.merge.mode": "merge-on-read"}
    rows = 200
    every_ms = 43 * 60 * 1000

    def month(self, commits: int) -> None:
        """Commit so many times, the last time now."""
        self.began_ms = int(time.time() * 1000) - commits * self.every_ms
        self.commit(commits)

    def now_ms(self) -> int:
        return self.began_ms + self.commits * self.every_ms

    def written(self, folder: Path) -> dict[ManifestContent, DataFile]:
        number, first = self.commits, self.commits * self.rows
        path, before = (folder / f"{n}.parquet" for n in (number, number - 1))
        days = pa.array([FIRST + number // 34] * self.rows, pa.int32()).cast(pa.date32())
        ids = range(first, first + self.rows)
        write(path, SCHEMA, [pa.array(ids), days, pa.array([f"name {id % 1000}" for id in ids])])
        files = {DATA: self.described(path, self.rows)}
        if number:
            gone, name = range(0, self.rows, 7), f"file://{before}"
            deletes = folder / f"{number}-deletes.parquet"
            write(deletes, DELETED, [pa.array([name] * len(gone)), pa.array(gone)])
            # By these bounds Iceberg sees that it is for one data file only.
            bounds = {bound: {PATH: name.encode()} for bound in ("lower_bounds", "upper_bounds")}
            of = DataFileContent.POSITION_DELETES
            files[DELETES] = self.described(deletes, len(gone), content=of, **bounds)
        return files


def write(path: Path, schema: Schema, columns: list[pa.Array]) -> None:
    """Write a file of a table's columns, which Iceberg finds by their ids."""
    path.unlink(missing_ok=True)
    pq.write_table(pa.table(columns, schema=schema_to_pyarrow(schema)), path)


def _summary(before: dict[str, str], files: dict[ManifestContent, DataFile]) -> dict[str, str]:
    added = {"data-files": 1, "records": files[DATA].record_count}
    added |= {"files-size": sum(file.file_size_in_bytes for file in files.values())}
    deletes = files.get(DELETES)
    added |= {"delete-files": int(deletes is not None), "equality-deletes": 0}
    added |= {"position-deletes": deletes.record_count if deletes else 0}
    told = {"added-data-files": 1, "added-records": added["records"]}
    if deletes:
        told |= {"added-delete-files": 1, "added-position-deletes": deletes.record_count}
    told |= {f"total-{of}": int(before.get(f"total-{of}", 0)) + new for of, new in added.items()}
    operation = "overwrite" if deletes else "append"
    return {"operation": operation, **{name: str(value) for name, value in told.items()}}


def _at(metadata: Metadata, last: Metadata) -> Metadata:
    """Return the metadata with `main` at a snapshot, and its log as each commit writes it."""
    logged = metadata.get("snapshot-log") or []
    known = {entry["snapshot-id"] for entry in logged}
    new = [s for s in metadata["snapshots"][:-1] if s["snapshot-id"] not in known]
    log = [{"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in new]
    return set_main({**metadata, "snapshot-log": [*logged, *log]}, last["snapshot-id"])
