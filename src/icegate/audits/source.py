"""A table as a test reads it: its metadata, its snapshot, and the files of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.table.metadata import TableMetadataUtil

from icegate.audits.tree import Undecided
from icegate.catalog import CatalogEntry
from icegate.errors import TableError
from icegate.files import StoredFiles
from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.gate.store import StoredTable
from icegate.storage import Sizes, shown

KEPT = 200_000  # files of a snapshot whose entries are kept in memory for the next test


@dataclass(frozen=True, eq=False)
class Source:
    """A table as a test reads it: its metadata, and the snapshot, None if it has no rows."""

    table: StoredTable
    snapshot_id: int | None

    @property
    def entry(self) -> CatalogEntry:
        """The catalog's row."""
        return self.table.entry

    @property
    def summary(self) -> Mapping[str, str]:
        """What the snapshot says of itself; nothing without one."""
        return (refs.snapshot(self.table.metadata, self.snapshot_id) or {}).get("summary", {})

    @property
    def total_files(self) -> int:
        """How many data files the snapshot has."""
        return int(self.summary.get("total-data-files", 0))

    @cached_property
    def files(self) -> Files:
        """The files of the snapshot."""
        return Files(self)

    def check_files(self) -> None:
        """Raise ``TableError`` unless each file is there, and as long as metadata says."""
        if self._wrong_file:
            raise TableError(
                f"cannot test {self.table.name}: {self._wrong_file}",
                why="something other than Iceberg has changed its data",
                fix="restore the file from a backup, or make the table anew: `--full-refresh`",
            )

    @cached_property
    def _wrong_file(self) -> str:
        sizes = Sizes(self.table.metadata["location"])
        for manifest in self.files.manifests:
            for entry in manifest.fetch_manifest_entry(self.files.io):
                file = entry.data_file
                path, told = shown(file.file_path), file.file_size_in_bytes
                try:
                    size = sizes.of(file.file_path)
                except FileNotFoundError:
                    return f"{path} is gone"
                if size != told:
                    return f"{path} has {size:,} bytes, and its metadata says {told:,}"
        return ""


def source_of(table: StoredTable, branch: str | None) -> Source:
    """Return what Spark reads of a table while its writes go to ``branch``.

    As ``main`` and branches are read: with the columns that the table has now.
    """
    metadata: Metadata = table.metadata
    on_branch = refs.head(metadata, branch) if branch and refs.is_gated(metadata) else None
    return Source(table, refs.head(metadata) if on_branch is None else on_branch)


class Files:
    """The files of a table at a snapshot, as PyIceberg plans to read them."""

    def __init__(self, source: Source) -> None:
        self.metadata, self.io = TableMetadataUtil.parse_obj(source.table.metadata), StoredFiles()
        self._read: dict[str, Any] = {}
        self._keeps = source.total_files <= KEPT
        self.manifests = self.manifests_at(source.snapshot_id)

    @cached_property
    def has_deletes(self) -> bool:
        """Tell whether the snapshot has delete files."""
        deletes = (m for m in self.manifests if m.content == ManifestContent.DELETES)
        return any(m.has_added_files() or m.has_existing_files() for m in deletes)

    @cached_property
    def all_data(self) -> list[DataFile]:
        """All data files of the snapshot."""
        return self.data(AlwaysTrue(), self.manifests)

    def manifests_at(self, snapshot_id: int | None) -> list[ManifestFile]:
        """Return the manifests of a snapshot; none where the table had no rows yet."""
        if snapshot_id is None:
            return []
        snapshot = self.metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise Undecided("a snapshot has expired")
        found = snapshot.manifests(self.io)
        if not self._keeps:
            return found
        return [self._read.setdefault(m.manifest_path, _Kept(m)) for m in found]

    def planner(self, row_filter: Any = None) -> ManifestGroupPlanner:
        """Return what finds the files that may hold a row that meets a filter."""
        row_filter = AlwaysTrue() if row_filter is None else row_filter
        return ManifestGroupPlanner(self.metadata, self.io, row_filter, case_sensitive=False)

    def data(self, row_filter: Any, manifests: Iterable[ManifestFile]) -> list[DataFile]:
        """Return the data files in manifests that may hold a row that meets a filter."""
        found = [m for m in manifests if m.content == ManifestContent.DATA]
        listed = self.planner(row_filter).plan_manifest_entries(found)
        return [entry.data_file for entries in listed for entry in entries]


class _Kept:
    """A manifest that is read once, whatever number of tests ask for its entries."""

    def __init__(self, manifest: ManifestFile) -> None:
        self._manifest, self._entries = manifest, dict[bool, list[ManifestEntry]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manifest, name)

    def fetch_manifest_entry(self, io: Any, discard_deleted: bool = True) -> list[ManifestEntry]:
        if discard_deleted not in self._entries:
            found = self._manifest.fetch_manifest_entry(io, discard_deleted)
            self._entries[discard_deleted] = found
        return self._entries[discard_deleted]
