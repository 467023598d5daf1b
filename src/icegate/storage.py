"""Files by their location as Iceberg writes it: on a disk that this machine sees, or in S3."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from icegate import objects
from icegate.errors import CatalogError
from icegate.objects import Stat

S3 = ("s3://", "s3a://", "s3n://")


def is_remote(location: str) -> bool:
    """Tell whether a file is in S3."""
    return location.startswith(S3)


def local_path(location: str) -> Path:
    """Return the path of `file:/a b`, `file:///a b` or `/a b`; Iceberg quotes no character."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    if scheme != "file":
        raise CatalogError(
            f"cannot look at {location} here",
            why="this looks at files on a disk that this machine sees, and at none in a bucket",
            fix="query tables on Spark: `icegate sql --spark`; docs/targets.md says what works "
            "with a bucket",
        )
    return Path("/" + rest.lstrip("/"))


def shown(location: str) -> str:
    """Return where a file is as people and DuckDB write it."""
    if is_remote(location):
        return f"s3://{location.partition('://')[2]}"
    return str(local_path(location))


def read(location: str) -> bytes:
    """Return what a file says; raises ``FileNotFoundError`` and other ``OSError``s."""
    if is_remote(location):
        return objects.read(location)
    return local_path(location).read_bytes()


def write(location: str, data: bytes) -> None:
    """Write a file, with the folders above it; raises ``OSError``."""
    if is_remote(location):
        return objects.write(location, data)
    path = local_path(location)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return None


def delete(location: str) -> None:
    """Delete a file, if it's there."""
    if is_remote(location):
        return objects.delete(location)
    local_path(location).unlink(missing_ok=True)
    return None


def stat(location: str) -> Stat:
    """Return what is known of a file; raises ``FileNotFoundError``."""
    if is_remote(location):
        return objects.stat(location)
    told = local_path(location).stat()
    return Stat(told.st_size, told.st_mtime)


def listed(folder: str) -> dict[str, Stat]:
    """Return the files below a folder, by their paths within it, as Iceberg counts them.

    What it takes for hidden isn't among them, such as checksums.
    """
    if is_remote(folder):
        above = len(folder.rstrip("/")) + 1
        found = {path[above:]: told for path, told in objects.listed(folder).items()}
    else:
        top = str(local_path(folder))
        found = {path[len(top) + 1 :]: told for path, told in _files_below(top)}
    return {path: told for path, told in found.items() if not _is_hidden(path)}


def _files_below(folder: str) -> Iterator[tuple[str, Stat]]:
    """Yield files with what is known of them; by paths as text, of which there can be many."""
    with suppress(FileNotFoundError, PermissionError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path)
            elif entry.is_file():
                told = entry.stat()
                yield entry.path, Stat(told.st_size, told.st_mtime)


def _is_hidden(path: str) -> bool:
    return any(part[:1] in ("", ".", "_") and "=" not in part for part in path.split("/"))


class Sizes:
    """How many bytes files of a table have: those in a bucket are listed once, not asked for."""

    def __init__(self, table: str) -> None:
        self.table = table

    @cached_property
    def _listed(self) -> dict[str, Stat]:
        return objects.listed(self.table)

    def of(self, location: str) -> int:
        """Return the bytes of a file; raises ``FileNotFoundError``."""
        if is_remote(location) and location in self._listed:
            return self._listed[location].size
        return stat(location).size


@contextmanager
def on_disk(locations: Iterable[str]) -> Iterator[list[str]]:
    """Hold files where what reads no bucket finds them: those of one are fetched."""
    with TemporaryDirectory(prefix="icegate-") as folder:
        paths = []
        for number, location in enumerate(locations):
            path = Path(folder) / str(number) if is_remote(location) else local_path(location)
            if is_remote(location):
                path.write_bytes(read(location))
            paths.append(str(path))
        yield paths
