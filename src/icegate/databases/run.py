"""What reads and writes the rows of a catalog, whichever database they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from icegate.locks import Lock

# Runs a statement, with a `?` for each value, and returns its rows, by name of column.
Run = Callable[..., Sequence[Any]]


class Database(Protocol):
    """A database with an Iceberg JDBC catalog; as text, what people know it by."""

    @property
    def begin(self) -> Sequence[str]:
        """Statements of a transaction in which nobody else moves a pointer."""

    @property
    def tables(self) -> str:
        """A statement that names the tables."""

    @property
    def Exists(self) -> type[Exception]:
        """What is raised for a row that another process made."""

    @property
    def is_made(self) -> bool:
        """Tell whether there may be something to read."""

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""

    @property
    def pyiceberg_uri(self) -> str:
        """Where PyIceberg's ``SqlCatalog`` finds it."""

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to, below its name."""

    def secrets(self) -> dict[str, str]:
        """Return what has to be set as well, once Spark runs, and is shown nowhere."""

    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that use the catalog."""

    def connected(self, mode: str) -> AbstractContextManager[Run]:
        """Hold a connection, `ro` or `rw`; raise ``CatalogError`` for what the database says."""

    def check(self) -> None:
        """Raise ``CatalogError`` unless this user may write it."""
