"""The catalog of a lake without a JVM: list it, check it, read a table's metadata."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from icegate.databases.postgres import Postgres
from icegate.databases.run import Database, Run
from icegate.databases.sqlite import Sqlite
from icegate.errors import CatalogError
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

NAMESPACE_COLUMNS = {
    "iceberg_namespace_properties": "namespace",
    "iceberg_tables": "table_namespace",
}


class CatalogEntry(NamedTuple):
    """One table or view as the catalog's own row has it."""

    namespace: str
    name: str
    kind: str  # table or view
    metadata_location: str

    @property
    def full_name(self) -> str:
        """The two-part name that people write."""
        return f"{self.namespace}.{self.name}"

    def renamed(self, full_name: str) -> CatalogEntry:
        """Return the same under another two-part name."""
        namespace, _, name = full_name.partition(".")
        return self._replace(namespace=namespace, name=name)

    @property
    def metadata_file(self) -> Path:
        """Where the metadata file lies on this machine."""
        return local_path(self.metadata_location)


def local_path(location: str) -> Path:
    """Return the path of `file:/a b`, `file:///a b` or `/a b`; Iceberg quotes no character."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return Path(location)
    if scheme != "file":
        raise CatalogError(
            f"cannot read {location}",
            why="this command reads local warehouses only",
            fix="query it on Spark: `icegate sql --spark`",
        )
    return Path("/" + rest.lstrip("/"))


def database_of(lake: Lake) -> Database:
    """Return the database that holds the catalog's rows."""
    return Postgres(lake) if lake.catalog_uri else Sqlite(lake)


def open_catalog(lake: Lake) -> SqlCatalog:
    """Open PyIceberg's catalog over the same rows that Spark uses; it lists no views."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = database_of(lake).pyiceberg_uri
    return SqlCatalog(lake.catalog, uri=uri, warehouse=f"file://{lake.warehouse}")


def list_relations(lake: Lake, schema: str | None = None) -> list[CatalogEntry]:
    """Return all tables and views, of all schemas or of one in any case, sorted by name.

    None of them when nothing was built yet.
    """
    one = "" if schema is None else " and lower(table_namespace) = lower(?)"
    with reading(lake, "iceberg_tables") as run:
        if run is None:
            return []
        rows = run(
            f"select * from iceberg_tables where catalog_name = ?{one}",
            *(value for value in (lake.catalog, schema) if value is not None),
        )
    # Catalogs of before views have no column iceberg_type, and it may be null.
    knows_views = bool(rows) and "iceberg_type" in rows[0].keys()  # noqa: SIM118
    return sorted(
        CatalogEntry(
            row["table_namespace"],
            row["table_name"],
            "view" if knows_views and row["iceberg_type"] == "VIEW" else "table",
            row["metadata_location"],
        )
        for row in rows
    )


def list_namespaces(lake: Lake) -> list[str]:
    """Return all schemas, those without a table too; none when nothing was built yet."""
    found = set()
    for table, column in NAMESPACE_COLUMNS.items():
        with reading(lake, table) as run:
            if run is not None:
                asked = f"select {column} as name from {table} where catalog_name = ?"
                found |= {row["name"] for row in run(asked, lake.catalog)}
    return sorted(found)


@contextmanager
def reading(lake: Lake, table: str) -> Iterator[Run | None]:
    """Hold a connection that reads one of the catalog's own tables; None before it's made."""
    database = database_of(lake)
    if not database.is_made:
        yield None
        return
    with database.connected("ro") as run:
        yield run if table in {row["name"] for row in run(database.tables)} else None


def read_metadata(entry: CatalogEntry) -> dict[str, Any]:
    """Return what the metadata file of a table or view says."""
    path = entry.metadata_file
    try:
        raw = path.read_bytes()
        return json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    except FileNotFoundError as error:
        raise CatalogError(
            f"cannot read {entry.full_name}",
            why=f"its metadata file isn't there: {path}",
            fix="`icegate doctor` says whether the warehouse was moved",
        ) from error
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise CatalogError(
            f"cannot read {entry.full_name}",
            why=f"its metadata file {path} can't be read: {error}",
            fix="restore the file from a backup, or drop the table and build it again",
        ) from error


def check_catalog(lake: Lake) -> None:
    """Raise ``CatalogError`` unless a run can write: unlocked, whole, and all its files there."""
    database = database_of(lake)
    database.check()
    with reading(lake, "iceberg_tables") as made:
        if made is None:
            return
    with database.connected("rw") as run:
        for statement in (*database.begin, "rollback"):
            run(statement)
    check_files(lake, list_relations(lake))


def check_files(lake: Lake, entries: list[CatalogEntry]) -> None:
    """Raise ``CatalogError`` when metadata files are gone: then the warehouse was moved."""
    gone = gone_entries(entries)
    if gone:  # a commit or a drop may have come between the listing and the look
        gone = gone_entries(sorted(set(gone) & set(list_relations(lake))))
    if not gone:
        return
    old, _ = Counter(_warehouse_of(entry) for entry in gone).most_common(1)[0]
    moved, database = old != lake.warehouse, database_of(lake)
    raise CatalogError(
        f"cannot use the catalog {database}: the metadata files of {len(gone)} of "
        f"{len(entries)} tables are gone",
        why=f"the warehouse was moved: the catalog has it in {old}, the project in {lake.warehouse}"
        if moved
        else f"they are no longer in {old}, the first of {gone[0].full_name}",
        fix=f"{f'move it back to {old}' if moved else 'restore them from a backup'}, or start "
        f"anew: {database.anew}",
    )


def gone_entries(entries: list[CatalogEntry]) -> list[CatalogEntry]:
    """Return the entries whose metadata file isn't there; remote ones count as there."""
    return [
        entry
        for entry in entries
        if entry.metadata_location.partition(":")[0] == "file" and not entry.metadata_file.is_file()
    ]


def _warehouse_of(entry: CatalogEntry) -> Path:
    """Return the warehouse above `<warehouse>/<namespace>/<table>/metadata/<file>`."""
    above = entry.metadata_file.parents
    return above[min(3 + entry.namespace.count("."), len(above) - 1)]
