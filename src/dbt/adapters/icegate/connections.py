"""Connections: a session, in dbt's own process or on a server; other methods are dbt-spark's."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark.connections import SparkConnectionManager, SparkConnectionWrapper
from dbt.adapters.spark.session import SessionConnectionWrapper
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError
from pyspark.sql import DataFrame, SparkSession

from dbt.adapters.icegate.credentials import OURS, IcegateMethod
from icegate.emr.clusters import ended_meanwhile
from icegate.errors import IcegateError, ServerError
from icegate.explain import explain, is_gone
from icegate.hash_key import VIEW, with_key
from icegate.retries import FROM_SNAPSHOT, Meetings, settled, target
from icegate.session import cancel, start_session
from icegate.settings import Lake
from icegate.spark_conf import served_conf
from icegate.thrift.session import Pool, Result, ThriftSession

logger = AdapterLogger("Icegate")

# What another session doesn't see, or may not be sent as text.
NEEDS_SESSION = re.compile(
    rf"(?:\s|/\*.*?\*/|--[^\n]*\n)*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\b|.*\b{VIEW}\b",
    re.IGNORECASE | re.DOTALL,
)
CANCEL_EVERY_S = 0.5


class Work:
    """Where one connection of dbt has its statements run, and what runs, to cancel it.

    Over Thrift they are sent to ``engine`` until one needs a session, which ``enter`` opens.
    """

    def __init__(
        self,
        engine: SparkSession | ThriftSession,
        enter: Callable[[], SparkSession | None] = lambda: None,
    ) -> None:
        self.engine, self._enter = engine, enter
        self.cancelled = threading.Event()
        self._running = 0  # only the connection's own thread changes it

    @property
    def session(self) -> SparkSession | None:
        """The Spark session that statements run in; None while they are sent as text."""
        return None if isinstance(self.engine, ThriftSession) else self.engine

    def enter(self) -> SparkSession | None:
        """Run all that follows in a Spark session, with its temporary views; None without one."""
        if self.session is None:
            self.engine = self._enter() or self.engine
        return self.session

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold while a statement or a Python model runs; none begins after a cancel."""
        self._running += 1  # before the look: of two threads one sees what the other did
        try:
            if self.cancelled.is_set():
                raise DbtRuntimeError("cancelled before it began")
            yield
        except KeyboardInterrupt:  # in dbt's main thread, whose own work dbt doesn't cancel
            self._cancel()
            raise
        finally:
            self._running -= 1

    def cancel(self) -> None:
        """Cancel what runs, and what is still being planned once it has a job."""
        self.cancelled.set()
        self._cancel()
        threading.Thread(target=self._cancel_until_done, daemon=True).start()

    def _cancel_until_done(self) -> None:
        while self._running:
            time.sleep(CANCEL_EVERY_S)
            self._cancel()

    def _cancel(self) -> None:
        if isinstance(self.engine, ThriftSession):
            self.engine.cancel()
        else:
            cancel(self.engine)


@contextmanager
def explained(
    doing: str,
    refused: type[DbtRuntimeError] = DbtRuntimeError,
    failed: type[DbtRuntimeError] = DbtDatabaseError,
) -> Iterator[None]:
    """Raise every error as one of dbt's, with what a person can do.

    ``refused`` is for errors of ours, and passes as it is; ``failed`` is for all others.
    """
    try:
        yield
    except refused:
        raise
    except IcegateError as error:
        raise refused(str(error)) from error
    except Exception as error:
        logger.debug(f"Error while {doing}\n{error}")
        raise failed(explain(error)) from error


@contextmanager
def on_cluster(wanted: str | None) -> Iterator[None]:
    """Say of a cluster that it has ended, where all that is known is a broken connection to it."""
    try:
        yield
    except Exception as error:
        is_lost = wanted and (isinstance(error, ServerError) or is_gone(error))
        if is_lost and (ended := ended_meanwhile(str(wanted))):
            raise ended from error
        raise


@contextmanager
def opening(credentials: Any) -> Iterator[None]:
    """Raise what goes wrong on the way to a session as dbt's error for that."""
    failed = FailedToConnectError
    with explained("opening a Spark session", failed, failed), on_cluster(credentials.cluster):
        yield


class SessionCursor(SparkConnectionWrapper):
    """A cursor over a session: writes run when executed, queries when fetched."""

    def __init__(self, work: Work, end: Callable[[], None] = lambda: None) -> None:
        self.work, self._end = work, end
        self.held: list[str] = []  # temporary views whose rows Spark keeps until dbt closes this
        self._frame: DataFrame | Result | None = None
        self._rows: list[Any] | None = None

    @property
    def session(self) -> SparkSession | None:
        return self.work.session

    def cursor(self) -> SessionCursor:
        return SessionCursor(self.work)

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        if bindings:
            sql = sql % tuple(SessionConnectionWrapper._fix_binding(value) for value in bindings)
        self._rows = self._frame = None
        if NEEDS_SESSION.match(sql):
            self.work.enter()
        engine = self.work.engine
        with self.work.running(), settled(engine, sql):
            self._frame = engine.sql(with_key(engine, sql.strip().rstrip(";")))

    def fetchall(self) -> list[Any]:
        if self._rows is None:
            self._rows = self._collect(self._frame) if self._frame is not None else []
        return self._rows

    def fetchone(self) -> Any:
        if self._rows is None and self._frame is not None:
            frame = self._frame
            self._rows = self._collect(frame if isinstance(frame, Result) else frame.limit(1))
        return self._rows.pop(0) if self._rows else None

    def _collect(self, frame: DataFrame | Result) -> list[Any]:
        with explained("fetching"), self.work.running():  # outside of dbt's exception handler
            return frame.collect()

    @property
    def description(self) -> Sequence[tuple[Any, ...]]:
        if self._frame is None:
            return []
        if isinstance(self._frame, Result):
            return self._frame.description
        return [
            (column.name, column.dataType.simpleString(), None, None, None, None, column.nullable)
            for column in self._frame.schema.fields
        ]

    def cancel(self) -> None:
        self.work.cancel()

    def close(self) -> None:
        self._frame = self._rows = None
        held, self.held = self.held, []
        for view in held:
            with suppress(Exception):  # a session that is gone has freed them
                self.work.session.catalog.dropTempView(view)  # type: ignore[union-attr]
        self._end()

    def rollback(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a statement on Iceberg commits or leaves the table as it was."""


class IcegateConnectionManager(SparkConnectionManager):
    """Opens the session that all threads share; turns errors into what people can act on."""

    TYPE = "icegate"

    project_root = Path.cwd()
    at_session: Callable[[SparkSession], None] | None = None  # called with what a thread gets
    _opening = threading.Lock()
    thrift = Pool()

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self.met = Meetings()
        # `open` is a class method and gets the credentials only, which don't know the project.
        type(self).project_root = Path(getattr(config, "project_root", Path.cwd()))

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials: Any = connection.credentials
        if credentials.method not in OURS:
            return super().open(connection)
        # On Ctrl-C the main thread opens what another one is about to: to cancel its statement it
        # must get the same handle.
        with cls._opening:
            if connection.state != ConnectionState.OPEN:
                connection.handle = cls._cursor(credentials)
                connection.state = ConnectionState.OPEN
        return connection

    @classmethod
    def _cursor(cls, credentials: Any) -> SessionCursor:
        with opening(credentials):
            lake = credentials.lake(cls.project_root)
            session = partial(cls._session, credentials, lake)
            if credentials.method != IcegateMethod.THRIFT:
                return SessionCursor(Work(session()))
            conf = served_conf(lake, credentials.catalog, is_local=not credentials.is_remote)
            thrift = cls.thrift.take(credentials.door(lake), conf, credentials.catalog)
            cls._told(thrift)
            return SessionCursor(Work(thrift, session), partial(cls.thrift.give_back, thrift))

    @classmethod
    def _session(cls, credentials: Any, lake: Lake) -> Any:
        with opening(credentials):
            endpoint = credentials.server(lake)
            if credentials.method == IcegateMethod.THRIFT and endpoint is None:
                return None
            return cls._told(start_session(lake, endpoint))

    @classmethod
    def _told(cls, session: Any) -> Any:
        if cls.at_session is not None:
            cls.at_session(session)
        return session

    def add_query(self, sql: str, *args: Any, **kwargs: Any) -> Any:
        """Run a statement; a write that meets another writer is run again, until a cancel."""
        run, table = partial(super().add_query, sql, *args, **kwargs), target(sql)
        if not table or FROM_SNAPSHOT in sql:
            return run()
        work = getattr(self.get_thread_connection().handle, "work", None)
        sleep = work.cancelled.wait if work else time.sleep
        return self.met.again(run, table, sleep, tell=logger.info)

    def add_select_query(self, sql: str) -> tuple[Connection, Any]:
        """Run a query for its columns; Thrift says `array` of one, and not of what."""
        work = getattr(self.get_thread_connection().handle, "work", None)
        if work is None or work.session is not None:
            return super().add_select_query(sql)
        connection, cursor = self.add_query(f"describe query {sql}", auto_begin=False)
        nothing = (None,) * 4
        return connection, Result([(*row[:2], *nothing, True) for row in cursor.fetchall()], [])

    def begin(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there are no transactions, and dbt would open Spark to roll one back."""

    add_begin_query = add_commit_query = commit = rollback = begin

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        credentials: Any = self.profile.credentials
        with explained(f"running:\n{sql}"), on_cluster(credentials.cluster):
            yield
