"""The gate's ledger: what became of each build, in two Iceberg tables of the lake's own catalog."""

from __future__ import annotations

import json
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from icegate.catalog import CatalogEntry, connected, list_relations, local_path, read_metadata
from icegate.errors import CatalogError
from icegate.gate.ledger_files import Change, add_rows, begin, read_rows
from icegate.gate.ledger_schema import (
    LAST_RELEASE,
    NAMESPACE,
    ROWS,
    VERSION,
    Event,
    ReleaseTable,
    empty_table,
)
from icegate.gate.store import Moved, Pointer, StoredTable, move
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyiceberg.table import Transaction

ATTEMPTS = 10

# The first makes a ledger of version 2 of one of version 1, and so on, in the transaction that
# then appends: each is called for both tables, with the table's name.
MIGRATIONS: list[Callable[[Transaction, str], None]] = []


@dataclass(frozen=True)
class Staged:
    """An append that is written, and that nobody sees before its ``pointers`` move."""

    changes: list[Change]

    @property
    def pointers(self) -> list[Pointer]:
        """What is to move in the catalog, all in one transaction."""
        return [change.pointer for change in self.changes]

    def finish(self) -> None:
        """Delete, once the pointers have moved, what nothing needs any more."""
        for change in self.changes:
            with suppress(OSError, ValueError):  # litter must not fail what is done
                change.delete_outdated()

    def discard(self) -> None:
        """Delete what was written, as the pointers could not be moved."""
        for change in self.changes:
            change.delete_written()


def stage(lake: Lake, events: Sequence[Event], tables: Sequence[ReleaseTable] = ()) -> Staged:
    """Write rows and the metadata that has them, and leave the catalog as it is.

    Tables that are missing are made, empty, and are there at once: that harms nobody.
    """
    rows: dict[str, Sequence[Any]] = {"releases": events, "release_tables": tables}
    with _explained(lake, "write"):
        stored = _stored(lake)
        if len(stored) < len(rows):
            _create(lake)
            stored = _stored(lake)
        return Staged([_append(stored[name], added) for name, added in rows.items() if added])


def append(lake: Lake, events: Sequence[Event], tables: Sequence[ReleaseTable] = ()) -> None:
    """Add rows to the ledger, once more whenever another process came first."""
    for attempt in range(1, ATTEMPTS + 1):
        staged = stage(lake, events, tables)
        try:
            move(lake, staged.pointers, undo=staged.discard)
        except Moved:
            time.sleep(random.uniform(0, 0.05 * attempt))  # in step they would collide again
        else:
            return staged.finish()
    raise CatalogError(
        f"cannot write the gate's ledger in {lake.warehouse / NAMESPACE}",
        why=f"other processes came first, {ATTEMPTS} times in a row",
        fix="run the command again when they have ended",
    )


def read_events(lake: Lake, build: str | None = None) -> list[Event]:
    """Return the events of all builds or of one, the oldest first."""
    found = _read(lake, "releases", None if build is None else ("build", build))
    return sorted(found, key=lambda event: event.at)


def read_release_tables(lake: Lake, release: int | None = None) -> list[ReleaseTable]:
    """Return the tables of all releases or of one, by release and name."""
    found = _read(lake, "release_tables", None if release is None else ("release", release))
    return sorted(found, key=lambda table: (table.release, table.table_name))


def last_release(lake: Lake) -> int:
    """Return the number of the last release, 0 if there is none, without importing PyIceberg."""
    stored = _stored(lake).get("releases")
    return int(stored.metadata["properties"].get(LAST_RELEASE, 0)) if stored else 0


def warm_up() -> None:
    """Write rows to nowhere, so that all that a publish has to import is there."""
    row = Event(datetime.now(timezone.utc), "", "")
    with suppress(OSError), tempfile.TemporaryDirectory() as folder:
        entry = CatalogEntry(NAMESPACE, "releases", "table", f"{folder}/metadata/0.metadata.json")
        metadata = empty_table("releases", folder)
        for _ in range(2):  # the second append reads what the first one wrote
            metadata = _append(StoredTable(entry, metadata), [row]).after


def _stored(lake: Lake) -> dict[str, StoredTable]:
    """Return those of the ledger's tables that are there, none of a version not known here."""
    found = {}
    for entry in list_relations(lake, NAMESPACE):
        if entry.namespace == NAMESPACE and entry.name in ROWS:
            found[entry.name] = StoredTable(entry, read_metadata(entry))
            _version(found[entry.name])
    return found


def _newest() -> int:
    return len(MIGRATIONS) + 1


def _version(stored: StoredTable) -> int:
    version = int(stored.metadata.get("properties", {}).get(VERSION, 0))
    if version > _newest():
        raise CatalogError(
            f"cannot use the gate's ledger {stored.name}",
            why=f"a newer icegate wrote it: version {version}, and this one knows {_newest()}",
            fix="update icegate",
        )
    if version < 1:
        raise CatalogError(
            f"cannot use {stored.name} as the gate's ledger",
            why=f"it lacks the property {VERSION}, so something else made it",
            fix=f"rename it: the schema {NAMESPACE} is the gate's own",
        )
    return version


def _create(lake: Lake) -> None:
    """Make the tables that are missing; another process that makes them too is no conflict."""
    if not lake.catalog_db.exists():
        raise CatalogError(
            f"cannot write the gate's ledger to the catalog {lake.catalog_db}",
            why="there is no such file: nothing was built yet",
            fix="build something first",
        )
    with connected(lake, "rw") as run:
        run(_ADD_NAMESPACE, lake.catalog, NAMESPACE)
        for name in ROWS:
            location = f"file:{lake.warehouse}/{NAMESPACE}/{name}"
            file = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
            local_path(file).parent.mkdir(parents=True, exist_ok=True)
            local_path(file).write_text(json.dumps(empty_table(name, location)))
            if not run(_ADD_TABLE, lake.catalog, NAMESPACE, name, file):
                local_path(file).unlink()


# One without a type is a table; catalogs of before views have no column for it.
_ADD_TABLE = (
    "insert or ignore into iceberg_tables"
    " (catalog_name, table_namespace, table_name, metadata_location)"
    " values (?, ?, ?, ?) returning 1 as made"
)
_ADD_NAMESPACE = (
    "insert or ignore into iceberg_namespace_properties"
    " (catalog_name, namespace, property_key, property_value) values (?, ?, 'exists', 'true')"
)


def _append(stored: StoredTable, rows: Sequence[Any]) -> Change:
    txn = begin(stored)
    for step in MIGRATIONS[_version(stored) - 1 :]:
        step(txn, stored.entry.name)
    last = int(stored.metadata["properties"].get(LAST_RELEASE, 0))
    last = max(last, *(row.release or 0 for row in rows))
    txn.set_properties({VERSION: str(_newest()), LAST_RELEASE: str(last)})
    return add_rows(stored, txn, [asdict(row) for row in rows])


def _read(lake: Lake, name: str, equal: tuple[str, Any] | None) -> list[Any]:
    row = ROWS[name]
    with _explained(lake, "read"):
        stored = _stored(lake).get(name)
        if stored is None:
            return []
        columns = [field.name for field in fields(row)]
        return [row(**found) for found in read_rows(stored, columns, equal)]


@contextmanager
def _explained(lake: Lake, verb: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise CatalogError(
            f"cannot {verb} the gate's ledger in {lake.warehouse / NAMESPACE}",
            why=str(error),
            fix="give this user the permission, free space, or restore the files from a backup",
        ) from error
