"""Connections: a session, in dbt's own process or on a server; other methods are dbt-spark's."""

from __future__ import annotations

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
from pyspark.sql import DataFrame, Row, SparkSession

from dbt.adapters.icegate.credentials import IcegateMethod
from icegate.errors import IcegateError
from icegate.explain import explain
from icegate.hash_key import with_key
from icegate.retries import FROM_SNAPSHOT, Meetings, settled, target
from icegate.session import cancel, start_session

logger = AdapterLogger("Icegate")

WITH_SESSION = (IcegateMethod.SESSION, IcegateMethod.CONNECT)
CANCEL_EVERY_S = 0.5


class Work:
    """What one connection of dbt has running on the session, so that it can be cancelled."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.cancelled = threading.Event()
        self._running = 0  # only the connection's own thread changes it

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold while a statement or a Python model runs; none begins after a cancel."""
        if self.cancelled.is_set():
            raise DbtRuntimeError("cancelled before it began")
        self._running += 1
        try:
            yield
        except KeyboardInterrupt:  # in dbt's main thread, whose own work dbt doesn't cancel
            cancel(self.session)
            raise
        finally:
            self._running -= 1

    def cancel(self) -> None:
        """Cancel what runs, and what is still being planned once it has a job."""
        self.cancelled.set()
        cancel(self.session)
        threading.Thread(target=self._cancel_until_done, daemon=True).start()

    def _cancel_until_done(self) -> None:
        while self._running:
            time.sleep(CANCEL_EVERY_S)
            cancel(self.session)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise every error as one of dbt's, with what a person can do."""
    try:
        yield
    except DbtRuntimeError:
        raise
    except IcegateError as error:
        raise DbtRuntimeError(str(error)) from error
    except Exception as error:
        logger.debug(f"Error while {doing}\n{error}")
        raise DbtDatabaseError(explain(error)) from error


class SessionCursor(SparkConnectionWrapper):
    """A cursor over the shared session: writes run when executed, queries when fetched."""

    def __init__(self, session: SparkSession, work: Work | None = None) -> None:
        self.session = session
        self.work = work or Work(session)
        self.held: list[str] = []  # temporary views whose rows Spark keeps until dbt closes this
        self._frame: DataFrame | None = None
        self._rows: list[Row] | None = None

    def cursor(self) -> SessionCursor:
        return SessionCursor(self.session, self.work)

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        if bindings:
            sql = sql % tuple(SessionConnectionWrapper._fix_binding(value) for value in bindings)
        self._rows = self._frame = None
        with self.work.running(), settled(self.session, sql):
            self._frame = self.session.sql(with_key(self.session, sql.strip().rstrip(";")))

    def fetchall(self) -> list[Row]:
        if self._rows is None:
            self._rows = self._collect(self._frame) if self._frame is not None else []
        return self._rows

    def fetchone(self) -> Row | None:
        if self._rows is None and self._frame is not None:
            self._rows = self._collect(self._frame.limit(1))
        return self._rows.pop(0) if self._rows else None

    def _collect(self, frame: DataFrame) -> list[Row]:
        with explained("fetching"), self.work.running():  # outside of dbt's exception handler
            return frame.collect()

    @property
    def description(self) -> Sequence[tuple[Any, ...]]:
        if self._frame is None:
            return []
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
                self.session.catalog.dropTempView(view)

    def rollback(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a statement on Iceberg commits or leaves the table as it was."""


class IcegateConnectionManager(SparkConnectionManager):
    """Opens the session that all threads share; turns errors into what people can act on."""

    TYPE = "icegate"

    project_root = Path.cwd()
    at_session: Callable[[SparkSession], None] | None = None  # called with what a thread gets
    _opening = threading.Lock()

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        self.met = Meetings()
        # `open` is a class method and gets the credentials only, which don't know the project.
        type(self).project_root = Path(getattr(config, "project_root", Path.cwd()))

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials: Any = connection.credentials
        if credentials.method not in WITH_SESSION:
            return super().open(connection)
        # On Ctrl-C the main thread opens what another one is about to: to cancel its statement it
        # must get the same handle.
        with cls._opening:
            if connection.state != ConnectionState.OPEN:
                session = cls._session(credentials)
                if cls.at_session is not None:
                    cls.at_session(session)
                connection.handle, connection.state = SessionCursor(session), ConnectionState.OPEN
        return connection

    @classmethod
    def _session(cls, credentials: Any) -> SparkSession:
        try:
            lake = credentials.lake(cls.project_root)
            return start_session(lake, credentials.server(lake))
        except IcegateError as error:
            raise FailedToConnectError(str(error)) from error
        except Exception as error:
            logger.debug(f"Error while opening a Spark session:\n{error}")
            raise FailedToConnectError(explain(error)) from error

    def add_query(self, sql: str, *args: Any, **kwargs: Any) -> Any:
        """Run a statement; a write that meets another writer is run again, until a cancel."""
        run, table = partial(super().add_query, sql, *args, **kwargs), target(sql)
        if not table or FROM_SNAPSHOT in sql:
            return run()
        work = getattr(self.get_thread_connection().handle, "work", None)
        sleep = work.cancelled.wait if work else time.sleep
        return self.met.again(run, table, sleep, tell=logger.info)

    def begin(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there are no transactions, and dbt would open Spark to roll one back."""

    add_begin_query = add_commit_query = commit = rollback = begin

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        with explained(f"running:\n{sql}"):
            yield
