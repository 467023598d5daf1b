"""Where a key may stand besides rows: in old metadata, names of folders, files that were left."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import unquote

from pyiceberg.avro.file import AvroFile

from icegate.catalog import local_path
from icegate.files import StoredFiles
from icegate.gate.refs import Metadata
from icegate.gate.store import StoredTable, edit
from icegate.settings import Lake

YOUNG_S = 3600  # a file that nothing refers to may be of a commit that goes on, for so long
SAID = ("properties", "schemas", "partition-specs")  # parts of metadata that people write


def is_young(path: Path) -> bool:
    """Tell whether a file may be of a commit that goes on."""
    return time.time() - path.stat().st_mtime < YOUNG_S


def old_metadata(metadata: Metadata, words: re.Pattern[str]) -> list[str]:
    """Return the earlier metadata files that name a key, as summaries of snapshots may.

    As locations, as the log has them.
    """
    logged = [entry["metadata-file"] for entry in metadata.get("metadata-log") or []]
    paths = {at: local_path(at) for at in logged}
    return [at for at, path in paths.items() if path.is_file() and names(path, words)]


def forget_metadata(lake: Lake, table: StoredTable, old: Collection[str]) -> None:
    """Take earlier metadata files out of the log of a table, and delete them."""

    def change(metadata: Metadata) -> Metadata:
        log = metadata.get("metadata-log") or []
        return {**metadata, "metadata-log": [e for e in log if e["metadata-file"] not in old]}

    if old:
        edit(lake, table.name, change)
        for path in map(local_path, old):
            path.unlink(missing_ok=True)


def says_so(metadata: Metadata, words: re.Pattern[str]) -> bool:
    """Tell whether a table's properties, comments or defaults name a key."""
    return words.search(json.dumps([metadata.get(part) for part in SAID])) is not None


def folders(table: Path, words: re.Pattern[str]) -> Iterator[Path]:
    """Yield the folders of partitions that have a key as their name; the innermost come first."""
    for path in sorted(table.rglob("*=*"), reverse=True):
        if path.is_dir() and words.search(unquote(path.name)):
            yield path


def strays(warehouse: Path, tables: Collection[Path]) -> Iterator[Path]:
    """Yield the files of a warehouse in no table's folder: of tables that were dropped."""
    for folder, below, files in os.walk(warehouse):
        here = Path(folder)
        below[:] = [name for name in sorted(below) if (here / name).resolve() not in tables]
        yield from (here / name for name in sorted(files) if not name.startswith("."))


def names(path: Path, words: re.Pattern[str]) -> bool:
    """Tell whether a file of metadata names a key: also in the bounds of a column."""
    if path.suffix != ".avro":
        return words.search(path.read_bytes().decode(errors="replace")) is not None
    with AvroFile(StoredFiles().new_input(str(path))) as records:  # type: ignore[var-annotated]
        return any(words.search(repr(record)) for record in records)
