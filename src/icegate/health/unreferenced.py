"""Files in a table's folder that nothing refers to: they are counted, and never deleted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from icegate.catalog import CatalogEntry, read_metadata
from icegate.files import StoredFiles
from icegate.health.files import read_list, reading
from icegate.objects import Stat
from icegate.storage import is_remote, listed, local_path, shown
from icegate.tables.manifests import lists_of, manifests_of, paths_of


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
            left = references(each).without(left)
    since = (now - timedelta(days=days)).timestamp()
    old = {path: told.size for path, told in left.items() if told.written < since}
    return Unreferenced(len(old), sum(old.values()), len(left) - len(old), tuple(sorted(old)))


@cache
def references(entry: CatalogEntry) -> References:
    """Return what a table or view refers to, as far as it's asked."""
    return References(entry)


class References:
    """The paths of all files that a table or view needs, for each snapshot that it keeps.

    Those of the newest snapshot list nearly all that there is, so that the manifests of the others
    are read only where files are left that nobody knows.
    """

    def __init__(self, entry: CatalogEntry) -> None:
        metadata, found = read_metadata(entry), {entry.metadata_location}
        found.update(log["metadata-file"] for log in metadata.get("metadata-log") or [])
        snapshots = metadata.get("snapshots") or []
        self._name, self._known = entry.full_name, set[str]()
        with self._reading():
            every = manifests_of(snapshots)
            lists = (read_list(each, StoredFiles()) for each in snapshots[-1:])
            newest = {manifest.manifest_path for each in lists for manifest in each}
        older = [manifest for path, manifest in every.items() if path not in newest]
        self._unread = [older, [every[path] for path in newest]]
        self._add([*found, *lists_of(metadata), *every])

    def without(self, files: dict[str, Stat]) -> dict[str, Stat]:
        """Return those of some files, by path, that it doesn't refer to."""
        left = self._unknown(files)
        while left and self._unread:
            with self._reading():
                self._add(paths_of(self._unread.pop()))
            left = self._unknown(left)
        return left

    def _unknown(self, files: dict[str, Stat]) -> dict[str, Stat]:
        return {path: told for path, told in files.items() if path not in self._known}

    def _add(self, locations: Iterable[str]) -> None:
        self._known.update(map(_normal, locations))

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self._name, f"what {self._name} refers to")


def _normal(location: str) -> str:
    if is_remote(location):
        return shown(location)
    folder, _, name = location.rpartition("/")
    return f"{_folder(folder)}/{name}"


@cache  # a warehouse may be reached through links
def _folder(location: str) -> str:
    return shown(location) if is_remote(location) else os.path.realpath(local_path(location))
