"""Where two versions of a table can differ, from the manifests that only one of them has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.health.files import DATA, EQUALITY, Part, live, read_list, reading

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile

OFFSET = 18  # the field of a data file that tells deletion vectors of one Puffin file apart

# A file of a snapshot: a path, and where in it a deletion vector begins.
File = tuple[str, int | None]


@dataclass
class Files:
    """Files that only one of two versions has, with their partitions."""

    data: dict[str, Part] = field(default_factory=dict)
    deletes: dict[File, Part] = field(default_factory=dict)
    equality: set[File] = field(default_factory=set)  # of the deletes, those without places

    @property
    def deletes_by_key(self) -> bool:
        """Tell whether a delete file among them says by values which rows it takes."""
        return not self.equality.isdisjoint(self.deletes)


@dataclass(frozen=True)
class Scope:
    """What is gone since the older version, and what has come with the newer one.

    Rows of a data file that both have, under the same deletes, are the same in both: data files
    never change.
    """

    gone: Files
    come: Files


def scope(metadata: Metadata, old: int | None, new: int | None, io: FileIO, table: str) -> Scope:
    """Return where two snapshots differ; None is a table without rows.

    Raises ``TableError`` where a manifest can't be read.
    """
    with reading(table, f"what changed in {table}"):
        before, after = (_manifests(metadata, id, io) for id in (old, new))
        gone, come = (
            _files([m for path, m in mine.items() if path not in other], io)
            for mine, other in ((before, after), (after, before))
        )
    _take_away(gone.data, come.data)
    _take_away(gone.deletes, come.deletes)
    return Scope(gone, come)


def _manifests(metadata: Metadata, id: int | None, io: FileIO) -> dict[str, ManifestFile]:
    snapshot = refs.snapshot(metadata, id)
    return {m.manifest_path: m for m in read_list(snapshot, io)} if snapshot else {}


def _files(manifests: Iterable[ManifestFile], io: FileIO) -> Files:
    found = Files()
    for manifest in manifests:
        for _, _, file, _ in live(manifest, io):
            part = Part(spec_id=manifest.partition_spec_id, values=tuple(file.partition._data))
            if file.content == DATA:
                found.data[file.file_path] = part
                continue
            name = file.file_path, file._data[OFFSET]
            found.deletes[name] = part
            found.equality |= {name} if file.content == EQUALITY else set()
    return found


def _take_away(one: dict[Any, Part], other: dict[Any, Part]) -> None:
    """Take away what both have: a manifest may be written anew with the files of old ones."""
    for name in one.keys() & other.keys():
        del one[name], other[name]
