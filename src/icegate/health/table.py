"""The health of one table: its metadata file first, and manifests only where that can't tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from icegate.catalog import CatalogEntry, read_metadata
from icegate.errors import CatalogError, TableError
from icegate.gate.refs import Metadata
from icegate.health.files import Part, count_files, read_list, whole
from icegate.health.limits import DAY_MS, Limits, limits_of
from icegate.health.reasons import Around, Reason, of_part, of_table
from icegate.health.score import FEW, is_tiny, of_files
from icegate.health.snapshots import expired
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
    note: str = ""
    error: str = ""
    partitions: tuple[Health, ...] = ()  # as far as manifests were read
    unreferenced: Unreferenced | None = None  # as far as it was asked for


def look(entry: CatalogEntry, now: datetime, by_partition: bool = False) -> Health:
    """Return the health of a table of the catalog; why it can't be told is its ``error``."""
    from icegate.files import LocalFiles

    try:
        return health(
            read_metadata(entry),
            LocalFiles(),
            table=entry.full_name,
            now=now,
            metadata_bytes=entry.metadata_file.stat().st_size,
            by_partition=by_partition,
        )
    except (CatalogError, TableError) as error:
        return Health(entry.full_name, error=error.why)


def health(
    metadata: Metadata,
    files: FileIO,
    *,
    table: str,
    now: datetime,
    metadata_bytes: int | None = None,
    by_partition: bool = False,
) -> Health:
    """Return the health of what `main` of a table has; ``by_partition`` reads its manifests.

    Raises ``TableError`` for manifests that are gone or cut off, and for properties that can't be.
    """
    snapshot, limits = current_snapshot(metadata), limits_of(metadata)
    around = _around(metadata, limits, now, metadata_bytes)
    if snapshot is None:
        judged = _judged(table, SUMMARY, [], Part(), around, limits)
        return replace(judged, note="nothing written yet")
    told = _of_summary(snapshot.get("summary") or {})
    # Then there are few manifests, too: each of them has one file at least.
    if told and not by_partition and _is_small(told, limits):
        return _judged(table, SUMMARY, [], told, around, limits)
    try:
        manifests = read_list(snapshot, files)
        lengths = [manifest.manifest_length for manifest in manifests]
        around = replace(around, manifests=len(lengths), manifest_bytes=sum(lengths))
        if told and not by_partition and _is_well_packed(told, metadata, limits):
            return _judged(table, LIST, [], told, around, limits)
        parts = count_files(metadata, manifests, files, limits.target)
    except Exception as error:  # what bytes that were cut off happen to raise
        raise TableError(
            f"cannot tell how healthy {table} is",
            why=f"a manifest of its snapshot {snapshot['snapshot-id']} can't be read: {error}",
            fix="restore the file from a backup, or roll the table back",
        ) from error
    return _judged(table, MANIFESTS, parts, whole(parts), around, limits)


def _judged(
    table: str, read: str, parts: list[Part], files: Part, around: Around, limits: Limits
) -> Health:
    reasons = of_table(parts, files, around, limits, table)
    partitions = (
        Health(part.name, _score(found), found, part)
        for part in parts
        for found in [of_part(part, limits, table)]
    )
    found = sorted(partitions, key=lambda part: part.score or 0)
    return Health(table, _score(reasons), reasons, files, around, read, partitions=tuple(found))


def _score(reasons: tuple[Reason, ...]) -> int:
    return max(0, 100 - sum(reason.points for reason in reasons))


def _is_small(told: Part, limits: Limits) -> bool:
    return is_tiny(told, limits) or (told.files <= FEW and not told.deletes)


def _is_well_packed(told: Part, metadata: Metadata, limits: Limits) -> bool:
    """Tell whether a table without partitions and deletes has too few spare files to cost a point.

    At most all but one could be spared; partitions might be skewed, or one of them in pieces.
    """
    is_whole = not any(spec["fields"] for spec in metadata.get("partition-specs") or [])
    most = replace(told, spare=told.files - 1)
    return is_whole and not told.deletes and round(sum(of_files(most, limits).values())) == 0


def _of_summary(summary: dict[str, str]) -> Part | None:
    """Return what a snapshot says of its files; None where its writer left a total out."""
    wanted = ("data-files", "files-size", "records", "delete-files")
    found = [total(summary, what) for what in wanted]
    if None in found:
        return None
    files, size, rows, deletes = (number or 0 for number in found)
    return Part(files=files, bytes=size, rows=rows, delete_files=deletes)


def _around(metadata: Metadata, limits: Limits, now: datetime, size: int | None) -> Around:
    times = [snapshot["timestamp-ms"] for snapshot in metadata.get("snapshots") or []]
    now_ms = int(now.timestamp() * 1000)
    oldest_days = (now_ms - min(times, default=now_ms)) / DAY_MS
    gone = expired(metadata, limits, now_ms)
    return Around(
        metadata.get("default-spec-id", 0), len(times), len(gone), round(oldest_days, 1), size
    )
