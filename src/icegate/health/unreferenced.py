"""Files in a table's folder that nothing refers to: they are counted, and never deleted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from icegate.catalog import CatalogEntry, read_metadata
from icegate.files import StoredFiles
from icegate.health.files import live, read_list, reading
from icegate.storage import is_remote, listed, local_path, shown


@dataclass(frozen=True)
class Unreferenced:
    """What nothing refers to; the ``young`` may be of a commit that hasn't ended yet."""

    files: int
    bytes: int
    young: int
    paths: tuple[str, ...]


def unreferenced(
    entry: CatalogEntry, entries: list[CatalogEntry], now: datetime, days: float
) -> Unreferenced:
    """Return the files below a table's location that no table of the catalog needs.

    Older than so many ``days``, that is. Raises ``CatalogError`` for a location that can't be
    listed and for a table that can't be read, ``TableError`` for one whose manifests can't.
    """
    table = read_metadata(entry)["location"].rstrip("/")
    left = {f"{_folder(table)}/{path}": told for path, told in listed(table).items()}
    # Files may be another table's: of a clone, of a table below this one, of one that was moved.
    for each in [entry, *(other for other in entries if other != entry)]:
        if left:
            left = {path: told for path, told in left.items() if path not in references(each)}
    since = (now - timedelta(days=days)).timestamp()
    old = {path: told.size for path, told in left.items() if told.written < since}
    return Unreferenced(len(old), sum(old.values()), len(left) - len(old), tuple(sorted(old)))


@cache
def references(entry: CatalogEntry) -> frozenset[str]:
    """Return the paths of all files that a table or view needs, for each snapshot that it keeps."""
    metadata, found = read_metadata(entry), {entry.metadata_location}
    found.update(log["metadata-file"] for log in metadata.get("metadata-log") or [])
    for kind in ("statistics", "partition-statistics"):
        found.update(each["statistics-path"] for each in metadata.get(kind) or [])
    io, snapshots = StoredFiles(), metadata.get("snapshots") or []
    found.update(snapshot["manifest-list"] for snapshot in snapshots)
    with reading(entry.full_name, f"what {entry.full_name} refers to"):
        manifests = {m.manifest_path: m for s in snapshots for m in read_list(s, io)}
        for path, manifest in manifests.items():
            found.update([path, *(entry.file.file_path for entry in live(manifest, io))])
    return frozenset(map(_normal, found))


def _normal(location: str) -> str:
    if is_remote(location):
        return shown(location)
    path = local_path(location)
    return f"{_real(str(path.parent))}/{path.name}"


def _folder(location: str) -> str:
    return shown(location) if is_remote(location) else _real(str(local_path(location)))


_real = cache(os.path.realpath)  # a warehouse may be reached through links
