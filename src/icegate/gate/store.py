"""Tables of the embedded catalog, and moving the pointers of many of them in one transaction."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from icegate.catalog import (
    CatalogEntry,
    database_of,
    list_relations,
    local_path,
    read_metadata,
)
from icegate.databases.run import Database, Run
from icegate.errors import CatalogError
from icegate.gate.refs import Metadata, next_metadata
from icegate.gate.steps import at_step
from icegate.settings import Lake

_WHERE = (
    "where catalog_name = ? and table_namespace = ? and table_name = ?"
    " and metadata_location = ? returning 1"
)


class Step(NamedTuple):
    """A move of one table or view from one metadata file to the next, and maybe to a new name.

    One that wasn't there has no old file, and one that goes no new one; its files stay.
    """

    namespace: str
    name: str
    old_location: str | None
    new_location: str | None
    new_name: tuple[str, str] | None = None

    def renamed(self, namespace: str, name: str) -> Step:
        """Return the same move to another name."""
        return self._replace(new_name=(namespace, name))

    def statement(self, catalog: str) -> tuple[str | None, ...]:
        """Return the SQL, which returns one row when it did its work, and its values."""
        now = catalog, *self[:3]
        if self.new_location is None:
            return f"delete from iceberg_tables {_WHERE}", *now
        if self.old_location is None:  # without a type it is a table
            text = (
                "insert into iceberg_tables"
                " (catalog_name, table_namespace, table_name, metadata_location)"
                " values (?, ?, ?, ?) on conflict do nothing returning 1"
            )
            return text, catalog, self.namespace, self.name, self.new_location
        to = self.new_name or (self.namespace, self.name)
        text = (
            "update iceberg_tables set metadata_location = ?, previous_metadata_location = ?,"
            f" table_namespace = ?, table_name = ? {_WHERE}"
        )
        return text, self.new_location, self.old_location, *to, *now


def dropped(entry: CatalogEntry) -> Step:
    """Return the step that takes a table or view away as it is now."""
    return Step(entry.namespace, entry.name, entry.metadata_location, None)


class Moved(Exception):
    """Someone else's commit came between reading tables and moving their pointers."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(table)


@dataclass(frozen=True)
class StoredTable:
    """A table as it was when it was read."""

    entry: CatalogEntry
    metadata: Metadata

    @property
    def name(self) -> str:
        """`schema.table`."""
        return self.entry.full_name

    def write(self, edited: Metadata) -> Step:
        """Write an edited metadata file beside the present one, which nothing points to yet."""
        location = self.entry.metadata_location
        folder, _, file = location.rpartition("/")
        number = file.partition("-")[0]
        following = int(number) + 1 if number.isdigit() else 0
        new = f"{folder}/{following:05d}-{uuid.uuid4()}.metadata.json"
        if self.entry.kind == "table":
            edited = next_metadata(edited, location)
        _write(new, edited)
        return Step(self.entry.namespace, self.entry.name, location, new)


def write_new(namespace: str, name: str, metadata: Metadata) -> Step:
    """Write the first metadata file of a table that isn't there yet."""
    location = f"{metadata['location']}/metadata/00000-{uuid.uuid4()}.metadata.json"
    _write(location, metadata)
    return Step(namespace, name, None, location)


def _write(location: str, metadata: Metadata) -> None:
    path = local_path(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(metadata))
    except OSError as error:
        raise CatalogError(
            "cannot write the metadata of a table",
            why=f"{path} can't be written: {error.strerror}",
            fix="give this user the right to write the warehouse, or free space there",
        ) from error


def read_tables(
    lake: Lake, names: Collection[str] | None = None, kind: str = "table"
) -> Iterator[StoredTable]:
    """Yield tables, or views, by name, `schema.table`, or all; one that is gone is left out."""
    for entry in list_relations(lake):
        if entry.kind == kind and (names is None or entry.full_name in names):
            with suppress(CatalogError):  # of a table that was dropped, or is broken
                yield StoredTable(entry, read_metadata(entry))


def move(lake: Lake, steps: Sequence[Step]) -> None:
    """Take all steps in one SQL transaction, or none: raise ``Moved``, naming who is in the way.

    Metadata files that nothing points to then are deleted; when the catalog gave no answer, only
    after it was asked what it did.
    """
    database = database_of(lake)
    try:
        with database.connected("rw") as run:
            for statement in database.begin:
                run(statement)
            for step in steps:
                if not _done(database, run, *step.statement(lake.catalog)):
                    run("rollback")
                    raise Moved(f"{step.namespace}.{step.name}")
            at_step("moving")
            run("commit")
            at_step("moved")
    except (Moved, CatalogError) as error:
        if not isinstance(error, Moved) and _took(lake, steps):
            return
        for step in steps:
            if step.new_location:
                local_path(step.new_location).unlink(missing_ok=True)
        raise


def _took(lake: Lake, steps: Sequence[Step]) -> bool:
    """Tell whether the catalog took the steps, of which one tells all."""
    new = [step.new_location for step in steps if step.new_location]
    old = [step.old_location for step in steps if not step.new_location]
    pointers = "metadata_location, previous_metadata_location"
    with database_of(lake).connected("ro") as run:
        found = any(
            run(f"select 1 from iceberg_tables where ? in ({pointers})", location)
            for location in new or old
        )
    return found if new else not found


def _done(database: Database, run: Run, statement: str | None, *values: str | None) -> bool:
    try:
        return bool(run(statement, *values))
    except database.Exists:  # someone made a table of that name meanwhile
        return False


def make_namespace(lake: Lake, namespace: str) -> None:
    """Make a schema unless it's there."""
    with database_of(lake).connected("rw") as run:
        run(
            "insert into iceberg_namespace_properties"
            " (catalog_name, namespace, property_key, property_value)"
            " values (?, ?, 'exists', 'true') on conflict do nothing",
            lake.catalog,
            namespace,
        )


def drop_namespace(lake: Lake, namespace: str) -> None:
    """Drop a schema that has no tables any more."""
    dropped = "delete from iceberg_namespace_properties where catalog_name = ? and namespace = ?"
    with database_of(lake).connected("rw") as run:
        run(dropped, lake.catalog, namespace)


def edit(lake: Lake, name: str, change: Callable[[Metadata], Metadata]) -> None:
    """Change the metadata of one table, `schema.table`, and again when it moved meanwhile.

    Nothing is written when ``change`` returns what it was given. A table that is gone stays so.
    """
    while tables := list(read_tables(lake, [name])):
        edited = change(tables[0].metadata)
        if edited is tables[0].metadata:
            return
        try:
            return move(lake, [tables[0].write(edited)])
        except Moved:
            continue
