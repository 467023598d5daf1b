"""What the manifests of many snapshots list, by DuckDB: a table of a month has thousands of them.

PyIceberg takes some twenty times as long, and reads what DuckDB can't: in a bucket, for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from icegate.duck import PATTERN, extension_file, quoted
from icegate.files import StoredFiles
from icegate.gate.refs import Metadata
from icegate.health.files import check_length, entries, read_list
from icegate.storage import is_remote, local_path, shown

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database
    from pyiceberg.manifest import ManifestFile

STATISTICS = "statistics", "partition-statistics"
LIVE, GONE = "status <> 2", "status = 2"  # of an entry


class Listed(NamedTuple):
    """A manifest as lists of them have it."""

    path: str
    bytes: int
    spec_id: int
    content: int
    added_by: int  # a snapshot
    deleted: int | None  # how many files the snapshot deleted that added it


def lists_of(metadata: Metadata) -> set[str]:
    """Return the lists of manifests that a table has, and its files of statistics."""
    told = (each for kind in STATISTICS for each in metadata.get(kind) or [])
    lists = {snapshot["manifest-list"] for snapshot in metadata.get("snapshots") or []}
    return lists.union(each["statistics-path"] for each in told)


def manifests_of(snapshots: Iterable[Metadata]) -> dict[str, Listed]:
    """Return the manifests of snapshots by path; raises what reading raises."""
    chosen = [*snapshots]
    asked = (
        "select distinct manifest_path, manifest_length, partition_spec_id, content,"
        " added_snapshot_id, deleted_files_count from {}"
    )
    rows = _read(asked, [each["manifest-list"] for each in chosen])
    if rows is None:
        lists = (read_list(snapshot, StoredFiles()) for snapshot in chosen)
        return {m.manifest_path: _listed(m) for found in lists for m in found}
    return {row[0]: Listed(*row) for row in rows}


def paths_of(manifests: Iterable[Listed], which: str = LIVE) -> set[str]:
    """Return the files that manifests list as ``LIVE``, or as ``GONE``; raises as above."""
    found = set[str]()
    for chosen in _alike([*manifests]):
        _check_lengths(chosen)
        asked = f"select distinct data_file.file_path from {{}} where {which}"
        rows = _read(asked, [each.path for each in chosen])
        if rows is None:
            found.update(path for each in chosen for path in _paths(each, which))
        else:
            found.update(row[0] for row in rows)
    return found


def _read(sql: str, files: list[str]) -> list[Any] | None:
    """Return the rows of a query on Avro files, or nothing where DuckDB can't read them."""
    import duckdb

    if not files:
        return []
    if any(is_remote(file) or PATTERN.search(file) for file in files):
        return None
    listed = ", ".join(quoted(shown(file)) for file in files)
    try:
        return _database().execute(sql.format(f"read_avro([{listed}])")).fetchall()
    except duckdb.Error:  # such as lists of two formats; PyIceberg tells what is broken
        return None


@cache
def _database() -> Database:
    """Return a database that reads Avro: to open one takes as long as to read a hundred files."""
    import duckdb

    database = duckdb.connect()
    database.execute("set threads = 1")  # for small files more cost more than they save
    database.execute(f"load {quoted(str(extension_file('avro')))}")
    return database


def _alike(manifests: Sequence[Listed]) -> Iterator[list[Listed]]:
    """Yield manifests whose entries have one schema, as far as their partitions make it."""
    for spec_id, content in sorted({(each.spec_id, each.content) for each in manifests}):
        yield [m for m in manifests if (m.spec_id, m.content) == (spec_id, content)]


def _check_lengths(manifests: Sequence[Listed]) -> None:
    """Raise ``EOFError`` for one on this machine that is cut off."""
    for each in manifests:
        if not is_remote(each.path):
            check_length(local_path(each.path).stat().st_size, each.bytes)


def _listed(manifest: ManifestFile) -> Listed:
    told = manifest.manifest_path, manifest.manifest_length, manifest.partition_spec_id
    return Listed(
        *told, manifest.content, manifest.added_snapshot_id or 0, manifest.deleted_files_count
    )


def _paths(listed: Listed, which: str) -> Iterator[str]:
    from pyiceberg.manifest import ManifestFile

    file = ManifestFile.from_args(
        manifest_path=listed.path, manifest_length=listed.bytes, partition_spec_id=listed.spec_id
    )
    for entry, is_live in entries(file, StoredFiles()):
        if is_live == (which == LIVE):
            yield entry.file.file_path
