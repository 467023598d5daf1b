"""Sessions on a Spark Thrift server, and the rows of what they run."""

from __future__ import annotations

import atexit
import datetime
import getpass
import threading
import time
from collections.abc import Iterator, Mapping, MutableSet
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from icegate.thrift.door import Door, StatementError, answer_of, no_session, transport_of

# Seconds between two looks whether a statement is done: most take some milliseconds.
FIRST_POLL_S, LAST_POLL_S, SLOWER = 0.002, 0.25, 1.4
ANSWER_S = 600  # a server that for so long doesn't even say that it's busy is gone

Row = tuple[Any, ...]


class GoneError(Exception):
    """A server went away in the middle of a statement: nobody knows what became of it."""


class Result:
    """The rows of a statement, by the methods of pyspark's `DataFrame` that callers need."""

    def __init__(self, description: list[Row], rows: list[Row]) -> None:
        self.description, self._rows = description, rows

    def collect(self) -> list[Row]:
        """Return all rows; nested values are JSON."""
        return self._rows

    def first(self) -> Row | None:
        """Return the first row."""
        return next(iter(self._rows), None)


class Conf:
    """The settings of a session, by the methods that pyspark's has."""

    def __init__(self, session: ThriftSession) -> None:
        self._session = session

    def set(self, name: str, value: str) -> None:
        """Set one of Spark's settings."""
        quoted = value.replace("`", "``")
        self._session.sql(f"set `{name}`=`{quoted}`")

    def unset(self, name: str) -> None:
        """Let it be what it was at the start; of a session that is gone nothing is left."""
        if not self._session.is_gone:
            with suppress(GoneError):
                self._session.sql(f"reset `{name}`")


class ThriftSession:
    """One session of a server, for one thread at a time: settings and temporary views of its own.

    ``conf`` is what it begins with, ``catalog`` what names without a catalog mean.
    """

    def __init__(self, door: Door, conf: Mapping[str, str], catalog: str | None) -> None:
        from pyhive import hive

        door.check()
        self.key = door, tuple(conf.items()), catalog
        self.is_gone, self.conf = False, Conf(self)
        self._speaking, self._running = threading.RLock(), None
        opened, transport = transport_of(door)
        try:
            self._connection = hive.Connection(
                thrift_transport=transport,
                username=door.user or getpass.getuser(),
                # Settings without this prefix are Hive's, and go nowhere.
                configuration={f"set:{name}": value for name, value in conf.items()},
                database=catalog or "default",
            )
        except Exception as error:
            raise no_session(door, error) from error
        opened.setTimeout(ANSWER_S * 1000)

    def sql(self, sql: str) -> Result:
        """Run a statement to its end. Raises ``StatementError`` and ``GoneError``."""
        with self._speak():
            cursor = self._connection.cursor()
            cursor.execute(sql, async_=True)
            self._running = cursor
        try:
            self._wait(cursor)
            with self._speak():
                described = [
                    (name, kind.removesuffix("_TYPE").lower(), *more)
                    for name, kind, *more in cursor.description or []
                ]
                return Result(described, _typed(described, cursor.fetchall() if described else []))
        finally:
            self._running = None
            # It's the statement's own error that is told.
            with suppress(Exception), self._speak():
                cursor.close()

    def cancel(self) -> None:
        """Stop what runs, without waiting for its end; another thread calls this."""
        running = self._running
        if running is not None:
            with suppress(Exception), self._speak():
                running.cancel()

    def close(self) -> None:
        """Give the session back to its server; one that is gone needs no answer."""
        with suppress(Exception):
            self._connection.close()

    def _wait(self, cursor: Any) -> None:
        from TCLIService.ttypes import TOperationState as State

        pause_s = FIRST_POLL_S
        while True:
            with self._speak():
                told = cursor.poll(get_progress_update=False)
            if told.operationState == State.FINISHED_STATE:
                return
            if told.operationState in (State.CANCELED_STATE, State.CLOSED_STATE):
                raise StatementError("[OPERATION_CANCELED] the statement was cancelled")
            if told.operationState == State.ERROR_STATE:
                raise StatementError(told.errorMessage or "the server doesn't say why")
            time.sleep(pause_s)
            pause_s = min(pause_s * SLOWER, LAST_POLL_S)

    @contextmanager
    def _speak(self) -> Iterator[None]:
        """Hold the connection for a question and its answer."""
        from pyhive.exc import Error
        from thrift.transport.TTransport import TTransportException

        with self._speaking:
            try:
                yield
            except Error as error:
                raise StatementError(answer_of(error) or str(error)) from error
            except (TTransportException, OSError, EOFError) as error:
                self.is_gone = True
                raise GoneError(f"[THRIFT_GONE] {error}") from error


class Pool:
    """Sessions that no thread uses: to begin one takes a server longer than most statements."""

    def __init__(self) -> None:
        self.opened: MutableSet[ThriftSession] = WeakSet()
        self._idle: dict[Any, list[ThriftSession]] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def take(self, door: Door, conf: Mapping[str, str], catalog: str | None) -> ThriftSession:
        """Return a session, of those that were given back or a new one."""
        key = door, tuple(conf.items()), catalog
        with self._lock:
            idle = self._idle.get(key)
            session = idle.pop() if idle else None
        if session is None:
            session = ThriftSession(door, conf, catalog)
            self.opened.add(session)
        return session

    def give_back(self, session: ThriftSession) -> None:
        """Keep a session for who comes next, unless its server is gone."""
        if session.is_gone:
            session.close()
            return
        with self._lock:
            idle = self._idle.setdefault(session.key, [])
            if session not in idle:
                idle.append(session)

    def close(self) -> None:
        """End what is idle: a server would keep it for days."""
        with self._lock:
            for session in [session for idle in self._idle.values() for session in idle]:
                session.close()
            self._idle.clear()


def _typed(description: list[Row], rows: list[Row]) -> list[Row]:
    """Make dates of their text, as pyspark does."""
    dates = {number for number, column in enumerate(description) if column[1] == "date"}
    if not dates:
        return rows
    parse = datetime.date.fromisoformat
    return [
        tuple(parse(cell) if n in dates and cell else cell for n, cell in enumerate(row))
        for row in rows
    ]
