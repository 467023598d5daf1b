"""Tables of the catalog, and moving the pointers of many of them at once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from icegate import storage
from icegate.aws import AT_ONCE
from icegate.catalog import CatalogEntry, catalog_of, list_relations, read_metadata
from icegate.catalogs.entries import Moved as Moved
from icegate.catalogs.entries import Step as Step
from icegate.errors import CatalogError, StorageError
from icegate.gate.refs import Metadata, next_metadata
from icegate.settings import Lake


def dropped(entry: CatalogEntry) -> Step:
    """Return the step that takes a table or view away as it is now."""
    return Step(entry.namespace, entry.name, entry.metadata_location, None)


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
        return Step(self.entry.namespace, self.entry.name, location, new, edited)


def write_new(namespace: str, name: str, metadata: Metadata) -> Step:
    """Write the first metadata file of a table that isn't there yet."""
    location = f"{metadata['location']}/metadata/00000-{uuid.uuid4()}.metadata.json"
    _write(location, metadata)
    return Step(namespace, name, None, location, metadata)


def _write(location: str, metadata: Metadata) -> None:
    try:
        storage.write(location, json.dumps(metadata).encode())
    except OSError as error:
        raise CatalogError(
            "cannot write the metadata of a table",
            why=f"{storage.shown(location)} can't be written: {error.strerror}",
            fix="give this user the right to write the warehouse, or free space there",
        ) from error


def read_tables(
    lake: Lake, names: Collection[str] | None = None, kind: str = "table"
) -> Iterator[StoredTable]:
    """Yield tables, or views, by name, `schema.table`, or all; one that is gone is left out.

    Raises ``StorageError`` when a bucket can't be read: its tables aren't gone.
    """
    wanted = (
        entry
        for entry in list_relations(lake)
        if entry.kind == kind and (names is None or entry.full_name in names)
    )
    if not lake.bucket:
        yield from filter(None, map(_stored, wanted))
        return
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from filter(None, threads.map(_stored, wanted))


def _stored(entry: CatalogEntry) -> StoredTable | None:
    try:
        return StoredTable(entry, read_metadata(entry))
    except StorageError:
        raise
    except CatalogError:  # it was dropped, or is broken
        return None


def move(lake: Lake, steps: Sequence[Step]) -> None:
    """Take all steps at once, or none: raise ``Moved``, naming who is in the way.

    Metadata files that nothing can point to any more are deleted; when the catalog gave no answer,
    only after it was asked what it did.
    """
    catalog = catalog_of(lake)
    try:
        catalog.move(steps)
    except (Moved, CatalogError) as error:
        is_refused = isinstance(error, Moved)
        if not is_refused and catalog.took(steps):
            return
        if is_refused or not catalog.comes_late:
            for step in filter(lambda step: step.new_location, steps):
                with suppress(CatalogError, OSError):  # it stays as an orphan
                    storage.delete(str(step.new_location))
        raise


def make_namespace(lake: Lake, namespace: str) -> None:
    """Make a schema unless it's there."""
    catalog_of(lake).make_schema(namespace)


def drop_namespace(lake: Lake, namespace: str) -> None:
    """Drop a schema that has no tables any more."""
    catalog_of(lake).drop_schema(namespace)


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
