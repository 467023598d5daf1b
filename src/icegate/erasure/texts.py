"""Reports, logs and results on the disk that name a subject, and files of the project that do."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

from icegate.erasure.subject import Subject, is_distinctive

OUTPUT = ("target", "logs")  # dbt makes all of it again
OWN = ("models", "seeds", "snapshots", "tests", "macros", "analyses", "python_jobs", "reports")
MADE_AGAIN = {".html", ".svg"}  # of reports


def naming(project: Path, subject: Subject) -> Iterator[tuple[Path, bool]]:
    """Yield the files that name a subject, and whether they are only output, made again anytime.

    Of a key that is no more than a few characters nobody can tell, and none is found.
    """
    if not is_distinctive(subject.key):
        return
    found = re.compile(subject.own_word().pattern.encode())
    for folder in (*OUTPUT, *OWN):
        for path in sorted((project / folder).rglob("*")):
            if path.is_file() and not path.is_symlink() and _has(path, found):
                yield path, folder in OUTPUT or path.suffix in MADE_AGAIN


def _has(path: Path, found: re.Pattern[bytes]) -> bool:
    if not os.path.getsize(path):
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        return found.search(held) is not None
