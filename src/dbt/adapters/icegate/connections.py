"""Connections: the session in dbt's own process; other methods are dbt-spark's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark.connections import (
    SparkConnectionManager,
    SparkConnectionMethod,
    SparkConnectionWrapper,
)
from dbt.adapters.spark.session import SessionConnectionWrapper
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import DataFrame, Row, SparkSession

from dbt.adapters.icegate.explain import explain
from icegate.errors import IcegateError
from icegate.session import start_session

logger = AdapterLogger("Icegate")


class SessionCursor(SparkConnectionWrapper):
    """A cursor over the shared session: writes run when executed, queries when fetched."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._frame: DataFrame | None = None
        self._rows: list[Row] | None = None

    def cursor(self) -> SessionCursor:
        return SessionCursor(self.session)

    def execute(self, sql: str, bindings: list[Any] | None = None) -> None:
        if bindings:
            sql = sql % tuple(SessionConnectionWrapper._fix_binding(value) for value in bindings)
        self._rows = None
        self._frame = self.session.sql(sql.strip().rstrip(";"))

    def fetchall(self) -> list[Row]:
        if self._rows is None:
            self._rows = self._collect(self._frame) if self._frame is not None else []
        return self._rows

    def fetchone(self) -> Row | None:
        if self._rows is None and self._frame is not None:
            self._rows = self._collect(self._frame.limit(1))
        return self._rows.pop(0) if self._rows else None

    @staticmethod
    def _collect(frame: DataFrame) -> list[Row]:
        try:
            return frame.collect()
        except Exception as error:  # dbt fetches outside of its exception handler
            logger.debug(f"Error while fetching:\n{error}")
            raise DbtRuntimeError(explain(error)) from error

    @property
    def description(self) -> Sequence[tuple[Any, ...]]:
        if self._frame is None:
            return []
        return [
            (column.name, column.dataType.simpleString(), None, None, None, None, column.nullable)
            for column in self._frame.schema.fields
        ]

    def cancel(self) -> None:
        self.session.sparkContext.cancelAllJobs()

    def close(self) -> None:
        self._frame = self._rows = None

    def rollback(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: a statement on Iceberg commits or leaves the table as it was."""


class IcegateConnectionManager(SparkConnectionManager):
    """Opens the embedded session; turns Java's errors into what a model's author can act on."""

    TYPE = "icegate"

    project_root = Path.cwd()

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # `open` is a class method and gets the credentials only, which don't know the project.
        type(self).project_root = Path(getattr(config, "project_root", Path.cwd()))

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        credentials: Any = connection.credentials
        if credentials.method != SparkConnectionMethod.SESSION:
            return super().open(connection)
        if connection.state == ConnectionState.OPEN:
            return connection
        try:
            session = start_session(credentials.lake(cls.project_root))
        except IcegateError as error:
            raise FailedToConnectError(str(error)) from error
        except Exception as error:
            logger.debug(f"Error while starting Spark:\n{error}")
            raise FailedToConnectError(explain(error)) from error
        connection.handle = SessionCursor(session)
        connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except DbtRuntimeError:
            raise
        except IcegateError as error:
            raise DbtRuntimeError(str(error)) from error
        except Exception as error:
            logger.debug(f"Error while running:\n{sql}\n{error}")
            raise DbtRuntimeError(explain(error)) from error
