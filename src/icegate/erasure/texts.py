"""Reports, logs and results on the disk that name a subject."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

from icegate.erasure.subject import LETTERS, Subject, is_distinctive

MADE_AGAIN = {".html", ".log", ".txt", ".md", ".csv", ".svg"}  # and dbt's results, by a next run
RESULTS = {"run_results.json", "sources.json"}


def naming(folders: list[Path], subject: Subject) -> Iterator[tuple[Path, bool]]:
    """Yield the files that name a subject, and whether they are only output, made again anytime.

    Of a key that is no more than a few characters nobody can tell, and none is found.
    """
    if not is_distinctive(subject.key):
        return
    key = re.escape(subject.key.encode())
    letters = LETTERS.encode()
    found = re.compile(b"(?<![" + letters + b"])" + key + b"(?![" + letters + b"])")
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and _has(path, found):
                is_log = ".log" in path.suffixes or path.suffix in MADE_AGAIN
                yield path, is_log or path.name in RESULTS


def _has(path: Path, found: re.Pattern[bytes]) -> bool:
    if not os.path.getsize(path):
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        return found.search(held) is not None
