"""A catalog whose rows are in a database, as Iceberg's JDBC catalog writes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from icegate.catalogs.entries import CatalogEntry, Moved, Step
from icegate.gate.steps import at_step

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

    from icegate.settings import Lake

# Runs a statement, with a `?` for each value, and returns its rows, by name of column.
Run = Callable[..., Sequence[Any]]

SCHEMA_COLUMNS = {
    "iceberg_namespace_properties": "namespace",
    "iceberg_tables": "table_namespace",
}
_WHERE = (
    "where catalog_name = ? and table_namespace = ? and table_name = ?"
    " and metadata_location = ? returning 1"
)


class Rows(ABC):
    """The rows of a catalog in a database, which a subclass knows how to reach."""

    lake: Lake
    begin: Sequence[str]  # statements of a transaction in which nobody else moves a pointer
    listing: str  # a statement that names the tables
    keeps_files = False
    has_views = at_once = True
    comes_late = False  # a transaction ends with its connection
    publishes = "moves all its tables in one transaction of the catalog, views too"

    @property
    @abstractmethod
    def Exists(self) -> type[Exception]:
        """What is raised for a row that another process made."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """Tell whether there may be something to read."""

    @property
    @abstractmethod
    def pyiceberg_uri(self) -> str:
        """Where PyIceberg's ``SqlCatalog`` finds it."""

    @abstractmethod
    def where(self) -> dict[str, str]:
        """Return what Spark's catalog is told of where the rows are."""

    @abstractmethod
    def connected(self, mode: str) -> AbstractContextManager[Run]:
        """Hold a connection, `ro` or `rw`; raise ``CatalogError`` for what the database says."""

    @abstractmethod
    def check_rights(self) -> None:
        """Raise ``CatalogError`` unless this user may write it."""

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to; without V1 there are no views."""
        return {"type": "jdbc", "jdbc.schema-version": "V1", **self.where()}

    def check(self) -> None:
        """Raise unless this user may write it, and nobody keeps it locked."""
        self.check_rights()
        with self._reading("iceberg_tables") as made:
            if made is None:
                return
        with self.connected("rw") as run:
            for statement in (*self.begin, "rollback"):
                run(statement)

    def relations(self, schema: str | None) -> list[CatalogEntry]:
        """Return tables and views, of all schemas or of one in any case."""
        one = "" if schema is None else " and lower(table_namespace) = lower(?)"
        with self._reading("iceberg_tables") as run:
            if run is None:
                return []
            rows = run(
                f"select * from iceberg_tables where catalog_name = ?{one}",
                *(value for value in (self.lake.catalog, schema) if value is not None),
            )
        # Catalogs of before views have no column iceberg_type, and it may be null.
        knows_views = bool(rows) and "iceberg_type" in rows[0].keys()  # noqa: SIM118
        return [
            CatalogEntry(
                row["table_namespace"],
                row["table_name"],
                "view" if knows_views and row["iceberg_type"] == "VIEW" else "table",
                row["metadata_location"],
            )
            for row in rows
        ]

    def schemas(self) -> set[str]:
        """Return all schemas, those without a table too."""
        found = set()
        for table, column in SCHEMA_COLUMNS.items():
            with self._reading(table) as run:
                if run is not None:
                    asked = f"select {column} as name from {table} where catalog_name = ?"
                    found |= {row["name"] for row in run(asked, self.lake.catalog)}
        return found

    def marked(self, key: str) -> dict[str, str]:
        """Return the value of a property by the schemas that have it."""
        with self._reading("iceberg_namespace_properties") as run:
            if run is None:
                return {}
            rows = run(
                "select namespace, property_value from iceberg_namespace_properties"
                " where catalog_name = ? and property_key = ? order by namespace",
                self.lake.catalog,
                key,
            )
        return {row["namespace"]: row["property_value"] for row in rows}

    def mark(self, schema: str, key: str, value: str) -> None:
        """Give a schema a property, unless it has it."""
        with self.connected("rw") as run:
            run(
                "insert into iceberg_namespace_properties"
                " (catalog_name, namespace, property_key, property_value) values (?, ?, ?, ?)"
                " on conflict do nothing",
                self.lake.catalog,
                schema,
                key,
                value,
            )

    def make_schema(self, schema: str) -> None:
        """Make a schema unless it's there."""
        self.mark(schema, "exists", "true")

    def drop_schema(self, schema: str) -> None:
        """Drop a schema that has no tables any more."""
        dropped = (
            "delete from iceberg_namespace_properties where catalog_name = ? and namespace = ?"
        )
        with self.connected("rw") as run:
            run(dropped, self.lake.catalog, schema)

    def move(self, steps: Sequence[Step]) -> None:
        """Take all steps in one SQL transaction, or none: raise ``Moved``."""
        with self.connected("rw") as run:
            for statement in self.begin:
                run(statement)
            for step in steps:
                if not self._done(run, _statement(step, self.lake.catalog)):
                    run("rollback")
                    raise Moved(step.full_name)
            at_step("moving")
            run("commit")
            at_step("moved")

    def took(self, steps: Sequence[Step]) -> bool:
        """Tell whether the transaction was committed, of whose steps one tells all."""
        new = [step.new_location for step in steps if step.new_location]
        old = [step.old_location for step in steps if not step.new_location]
        pointers = "metadata_location, previous_metadata_location"
        with self.connected("ro") as run:
            found = any(
                run(f"select 1 from iceberg_tables where ? in ({pointers})", location)
                for location in new or old
            )
        return found if new else not found

    def tables(self) -> SqlCatalog:
        """Return PyIceberg's catalog over the same rows."""
        from pyiceberg.catalog.sql import SqlCatalog

        options = {"py-io-impl": "icegate.files.StoredFiles"} if self.lake.bucket else {}
        where = {"uri": self.pyiceberg_uri, "warehouse": self.lake.root}
        return SqlCatalog(self.lake.catalog, **where, **options)

    @contextmanager
    def _reading(self, table: str) -> Iterator[Run | None]:
        """Hold a connection that reads one of the catalog's own tables; None before it's made."""
        if not self.is_made:
            yield None
            return
        with self.connected("ro") as run:
            yield run if table in {row["name"] for row in run(self.listing)} else None

    def _done(self, run: Run, statement: Sequence[str | None]) -> bool:
        try:
            return bool(run(*statement))
        except self.Exists:  # someone made a table of that name meanwhile
            return False


def _statement(step: Step, catalog: str) -> tuple[str | None, ...]:
    """Return the SQL, which returns one row when it did its work, and its values."""
    now = catalog, step.namespace, step.name, step.old_location
    if step.new_location is None:
        return f"delete from iceberg_tables {_WHERE}", *now
    if step.old_location is None:  # without a type it is a table
        text = (
            "insert into iceberg_tables"
            " (catalog_name, table_namespace, table_name, metadata_location)"
            " values (?, ?, ?, ?) on conflict do nothing returning 1"
        )
        return text, catalog, step.namespace, step.name, step.new_location
    text = (
        "update iceberg_tables set metadata_location = ?, previous_metadata_location = ?,"
        f" table_namespace = ?, table_name = ? {_WHERE}"
    )
    return text, step.new_location, step.old_location, *step.final_name, *now
