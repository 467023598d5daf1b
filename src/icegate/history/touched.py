"""Rows of a version of a table, all or those that another lacks, from its files without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadataUtil

from icegate.files import StoredFiles
from icegate.gate import refs
from icegate.gate.compare import Point
from icegate.health.files import read_list
from icegate.history.scope import Files, Scope

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

Positions = Mapping[str, "np.ndarray[Any, Any]"]  # of rows, rising, by the path of a data file


class Reader:
    """A version of a table, of which ``fields`` are read; by PyIceberg, which knows columns by id.

    Whatever it raises for what it can't read, it raises on.
    """

    def __init__(self, point: Point, fields: Sequence[NestedField]) -> None:
        self.io, self.files = StoredFiles(), 0
        self.metadata = TableMetadataUtil.parse_obj(
            refs.set_schema(point.metadata, point.schema_id)
        )
        snapshot = refs.snapshot(point.metadata, point.snapshot_id)
        self.manifests = read_list(snapshot, self.io) if snapshot else []
        self.planner = ManifestGroupPlanner(self.metadata, self.io)
        schema = Schema(*fields)
        self.schema = schema_to_pyarrow(schema, include_field_ids=False)
        self.scan = ArrowScan(self.metadata, self.io, schema, AlwaysTrue())

    def all(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        tasks = [*self.planner.plan_files(self.manifests)]
        return self._rows(tasks, self._deleted(tasks), {})

    def some(self, mine: Files, taken: Positions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files that this version alone has, and those that another has deleted.

        Those it may have deleted, too.
        """
        wanted = mine.data.keys() | taken.keys()

        def is_read(entry: ManifestEntry) -> bool:
            file = entry.data_file
            return file.content != DataFileContent.DATA or file.file_path in wanted

        tasks = [*self.planner.plan_files(self.manifests, is_read)]
        return self._rows(
            tasks,
            self._deleted(tasks),
            {path: rows for path, rows in taken.items() if path not in mine.data},
        )

    def taken(self, mine: Files) -> Positions:
        """Return which rows of data files are deleted by files that this version alone has."""
        if not mine.deletes:
            return {}
        names = {path for path, _ in mine.deletes}
        listed = self.planner.plan_manifest_entries(
            m for m in self.manifests if m.content == ManifestContent.DELETES
        )
        files = (entry.data_file for entries in listed for entry in entries)
        own = [file for file in files if file.file_path in names]
        return self._deleted([FileScanTask(file, {file}) for file in own])

    def _deleted(self, tasks: Sequence[FileScanTask]) -> Positions:
        return {
            path: np.unique(np.concatenate([found.to_numpy() for found in several]))
            for path, several in _read_all_delete_files(self.io, tasks).items()
        }

    def _rows(
        self, tasks: Iterable[FileScanTask], gone: Positions, only: Positions
    ) -> Iterator[pa.RecordBatch]:
        none = np.array([], dtype=np.int64)
        for task in tasks:
            path, self.files = task.file.file_path, self.files + 1
            # One after the other, so that no more than a batch is in memory.
            batches = self.scan._record_batches_from_scan_tasks_and_deletes([task], {})
            at = 0
            for batch in batches:
                deleted = _within(gone.get(path, none), at, len(batch))
                rows = (
                    _within(only[path], at, len(batch)) if path in only else np.arange(len(batch))
                )
                at += len(batch)
                left = np.setdiff1d(rows, deleted, assume_unique=True)
                if len(left):
                    some = batch if len(left) == len(batch) else batch.take(pa.array(left))
                    # Files may have other types for one column: large ones, or narrower ones.
                    yield from pa.Table.from_batches([some]).cast(self.schema).to_batches()


def touched(found: Scope, old: Reader, new: Reader) -> tuple[Iterator[Any], Iterator[Any]]:
    """Return the rows in which two versions can differ, as each of them has them.

    Others lie in the same file of both, under the same deletes.
    """
    return (
        old.some(found.gone, new.taken(found.come)),
        new.some(found.come, old.taken(found.gone)),
    )


def _within(rows: np.ndarray[Any, Any], at: int, length: int) -> np.ndarray[Any, Any]:
    """Return which rows of a batch are among those of its file."""
    first, last = np.searchsorted(rows, [at, at + length])
    return rows[first:last] - at
