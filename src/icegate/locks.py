"""Locks between the processes of a machine: a file that one holds until it lets go, or ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from icegate.errors import IcegateError


def open_lock(path: Path, what: str) -> IO[str]:
    """Return the file of a lock; ``what`` can't be done where it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w")
    except OSError as error:
        raise IcegateError(
            f"cannot {what}",
            why=f"its lock {path} can't be written: {error.strerror}",
            fix="give yourself the permission, or set `home:` of the target to a folder of yours",
        ) from error


@contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """Hold while no other process does; wait for one that does."""
    with open_lock(path, what) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
