"""The health of one table: its metadata file first, and manifests only where that can't tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from icegate.catalog import CatalogEntry, read_metadata
from icegate.errors import CatalogError, TableError
from icegate.gate.refs import Metadata
from icegate.health.files import SMALL, Part, count_files, read_list, reading, whole
from icegate.health.limits import DAY_MS, Limits, limits_of
from icegate.health.reasons import Around, Reason, of_part, of_table
from icegate.health.score import FEW, is_tiny, of_files
from icegate.health.snapshots import expired
from icegate.storage import stat
from icegate.tables.metadata import current_snapshot, total

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from icegate.health.unreferenced import Unreferenced

SUMMARY, LIST, MANIFESTS = "summary", "manifest list", "manifests"  # how far was read


@dataclass(frozen=True)
class Health:
    """The health of a table or partition; ``error`` says why it isn't known."""

    name: str
    score: int | None = None
    reasons: tuple[Reason, ...] = ()
    files: Part | None = None
    around: Around | None = None  # None of a partition
    read: str = ""
    counts: bool | None = None  # `count(*)` is answered from metadata; None isn't known
    note: str = ""
    error: str = ""
    partitions: tuple[Health, ...] = ()  # as far as manifests were read
    unreferenced: Unreferenced | None = None  # as far as it was asked for


def look(
    entry: CatalogEntry,
    now: datetime,
    by_partition: bool = False,
    metadata: Metadata | None = None,
) -> Health:
    """Return the health of a table of the catalog; why it can't be told is its ``error``.

    Its ``metadata`` is read, unless that is known.
    """
    try:
        return health(
            metadata or read_metadata(entry),
            table=entry.full_name,
            now=now,
            metadata_bytes=stat(entry.metadata_location).size,
            by_partition=by_partition,
        )
    except (CatalogError, TableError) as error:
        return Health(entry.full_name, error=error.why)


def health(
    metadata: Metadata,
    files: FileIO | None = None,
    *,
    table: str,
    now: datetime,
    metadata_bytes: int | None = None,
    by_partition: bool = False,
) -> Health:
    """Return the health of what `main` of a table has; ``by_partition`` reads its manifests.

    They are read through ``files``, or as files of this machine. Raises ``TableError`` for
    manifests that are gone or cut off, and for properties that can't be right.
    """
    snapshot, limits = current_snapshot(metadata), limits_of(metadata)
    around = _around(metadata, limits, now, metadata_bytes)
    if snapshot is None:
        judged = _judged(table, SUMMARY, [], Part(), around, limits)
        return replace(judged, note="nothing written yet")
    is_whole = not any(spec["fields"] for spec in metadata.get("partition-specs") or [])
    told = _of_summary(snapshot.get("summary") or {}, is_whole, limits)
    # Then there are few manifests, too: each of them has one file at least.
    if told and not by_partition and _is_small(told, limits):
        return _judged(table, SUMMARY, [], told, around, limits)
    with reading(f"its snapshot {snapshot['snapshot-id']}", f"how healthy {table} is"):
        files = files or _local_files()
        manifests = read_list(snapshot, files)
        lengths = [manifest.manifest_length for manifest in manifests]
        around = replace(around, manifests=len(lengths), manifest_bytes=sum(lengths))
        if told and not by_partition and _is_known(told, is_whole, limits):
            return _judged(table, LIST, [], told, around, limits)
        parts = count_files(metadata, manifests, files, limits.target)
    return _judged(table, MANIFESTS, parts, whole(parts), around, limits)


def _local_files() -> FileIO:
    from icegate.files import StoredFiles

    return StoredFiles()


def _judged(
    table: str, read: str, parts: list[Part], files: Part, around: Around, limits: Limits
) -> Health:
    reasons = of_table(parts, files, around, limits, table)
    partitions = (
        Health(part.name, _score(found), found, part)
        for part in parts
        for found in [of_part(part, limits, table)]
    )
    found = tuple(sorted(partitions, key=lambda part: part.score or 0))
    # Of a summary's delete files it isn't known whether they are for data that is gone.
    counts = not files.deletes or (False if read == MANIFESTS else None)
    return Health(table, _score(reasons), reasons, files, around, read, counts, partitions=found)


def _score(reasons: tuple[Reason, ...]) -> int:
    return max(0, 100 - sum(reason.points for reason in reasons))


def _is_small(told: Part, limits: Limits) -> bool:
    return is_tiny(told, limits) or (told.files <= FEW and not told.deletes)


def _is_known(told: Part, is_whole: bool, limits: Limits) -> bool:
    """Tell whether a snapshot's totals decide: without partitions and deletes they often do.

    Either all files are small ones, or too few could be spared to cost a point.
    """
    most = replace(told, spare=told.files - 1)
    costs_nothing = round(sum(of_files(most, limits).values())) == 0
    return is_whole and not told.deletes and (told.small == told.files or costs_nothing)


def _of_summary(summary: dict[str, str], is_whole: bool, limits: Limits) -> Part | None:
    """Return what a snapshot says of its files; None where its writer left a total out."""
    wanted = ("data-files", "files-size", "records", "delete-files")
    found = [total(summary, what) for what in wanted]
    if None in found:
        return None
    files, size, rows, deletes = (number or 0 for number in found)
    told = Part(files=files, bytes=size, rows=rows, delete_files=deletes)
    if is_whole and size < SMALL * limits.target:  # then each of them is small
        return replace(told, small=files, small_bytes=size, spare=max(0, files - 1))
    return told


def _around(metadata: Metadata, limits: Limits, now: datetime, size: int | None) -> Around:
    times = [snapshot["timestamp-ms"] for snapshot in metadata.get("snapshots") or []]
    now_ms = int(now.timestamp() * 1000)
    oldest_days = (now_ms - min(times, default=now_ms)) / DAY_MS
    gone = expired(metadata, limits, now_ms)
    return Around(
        metadata.get("default-spec-id", 0), len(times), len(gone), round(oldest_days, 1), size
    )
