"""Locks between the processes of a machine: a file that one holds until it lets go, or ends."""

from __future__ import annotations

import fcntl
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from icegate.errors import IcegateError
from icegate.settings import Lake

log = logging.getLogger(__name__)


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
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("lock=%s waiting: another process holds it", path.name)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def held_alone(path: Path, what: str) -> Iterator[None]:
    """Hold while no other process does; raise ``IcegateError`` when one does."""
    with open_lock(path, what) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise IcegateError(
                f"cannot {what}",
                why=f"another process does: it holds {path}",
                fix="wait until it has ended",
            ) from error
        yield


def is_held(path: Path) -> bool:
    """Tell whether a process holds a lock."""
    if not path.exists():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class _Table:
    def __init__(self) -> None:
        self.mutex, self.nodes, self.lock = threading.Lock(), 0, ExitStack()

    def enter(self, path: Path) -> None:
        with self.mutex:
            if not self.nodes:
                self.lock.enter_context(alone(path, "load landing files"))
            self.nodes += 1

    def leave(self) -> None:
        with self.mutex:
            self.nodes -= 1
            if not self.nodes:
                self.lock.close()


class Loading:
    """Tables into which nodes of this process load files, and no other process meanwhile.

    A node looks which files its table has and appends the others: two at once would append twice.
    Threads share a table: the batches of a model are nodes of their own, and it waits for them.
    """

    def __init__(self) -> None:
        self._tables: dict[Path, _Table] = {}
        self._node = threading.local()

    def begin(self, lake: Lake | None, table: Any) -> None:
        """Hold a table for this thread's node until ``end``; on a server's catalog do nothing."""
        if lake is None or table is None:
            return
        path = lake.home / "builds" / f"loading.{table.schema}.{table.identifier}.lock"
        if path != getattr(self._node, "path", None):
            self.end()  # what a node left that didn't come to its end
            self._tables.setdefault(path, _Table()).enter(path)
            self._node.path = path

    def end(self) -> None:
        """Let go of what this thread's node holds."""
        path = self._node.__dict__.pop("path", None)
        if path is not None:
            self._tables[path].leave()


loading = Loading()
