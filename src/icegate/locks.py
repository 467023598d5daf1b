"""Locks between processes: each is held until its process lets go, or ends."""

from __future__ import annotations

import fcntl
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Protocol

from icegate.errors import IcegateError

log = logging.getLogger(__name__)


class Held(Protocol):
    """A lock that is held until it's closed, or its process ends."""

    def close(self) -> None:
        """Let go of it."""


class Lock(Protocol):
    """A lock between processes; as text, where it is."""

    name: str

    def take(self, what: str, *, shared: bool = False) -> Held:
        """Wait for the lock and return it; those who share it hold it together.

        ``what`` can't be done where there can be no lock.
        """

    def try_take(self, what: str) -> Held | None:
        """Return the lock, or None where someone holds it."""

    @property
    def is_held(self) -> bool:
        """Tell whether a process holds it."""


class FileLock:
    """A lock of a file, between the processes of a machine."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name

    def __str__(self) -> str:
        return str(self.path)

    def take(self, what: str, *, shared: bool = False) -> IO[str]:
        """Wait for the lock and return it."""
        file = self._open(what)
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        return file

    def try_take(self, what: str) -> IO[str] | None:
        """Return the lock, or None where someone holds it."""
        file = self._open(what)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def _open(self, what: str) -> IO[str]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return self.path.open("w")
        except OSError as error:
            raise IcegateError(
                f"cannot {what}",
                why=f"its lock {self.path} can't be written: {error.strerror}",
                fix="give yourself the permission, or set `home:` of the target to a folder of "
                "yours",
            ) from error

    @property
    def is_held(self) -> bool:
        """Tell whether a process holds it."""
        if not self.path.exists():
            return False
        with self.path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


@contextmanager
def alone(lock: Lock, what: str) -> Iterator[None]:
    """Hold while no other process does; wait for one that does."""
    held = lock.try_take(what)
    if held is None:
        log.info("lock=%s waiting: another process holds it", lock.name)
        held = lock.take(what)
    with closing(held):
        yield


@contextmanager
def held_alone(lock: Lock, what: str) -> Iterator[None]:
    """Hold while no other process does; raise ``IcegateError`` when one does."""
    held = lock.try_take(what)
    if held is None:
        raise IcegateError(
            f"cannot {what}",
            why=f"another process does: it holds {lock}",
            fix="wait until it has ended",
        )
    with closing(held):
        yield


class _Table:
    def __init__(self) -> None:
        self.mutex, self.nodes, self.lock = threading.Lock(), 0, ExitStack()

    def enter(self, lock: Lock) -> None:
        with self.mutex:
            if not self.nodes:
                self.lock.enter_context(alone(lock, "load landing files"))
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
        self._tables: dict[str, _Table] = {}
        self._node = threading.local()

    def begin(self, lock: Lock) -> None:
        """Hold a table, by its lock, for this thread's node until ``end``."""
        name = str(lock)
        if name != getattr(self._node, "lock", None):
            self.end()  # what a node left that didn't come to its end
            self._tables.setdefault(name, _Table()).enter(lock)
            self._node.lock = name

    def end(self) -> None:
        """Let go of what this thread's node holds."""
        name = self._node.__dict__.pop("lock", None)
        if name is not None:
            self._tables[name].leave()


loading = Loading()
