"""The catalog of a lake without a JVM: list it, check it, read a table's metadata."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate import objects
from icegate.catalogs.entries import CatalogEntry as CatalogEntry
from icegate.catalogs.kind import Kind
from icegate.catalogs.postgres import Postgres
from icegate.catalogs.sqlite import Sqlite
from icegate.errors import CatalogError
from icegate.settings import Lake
from icegate.storage import local_path as local_path
from icegate.storage import read

if TYPE_CHECKING:
    import pyiceberg.catalog


def catalog_of(lake: Lake) -> Kind:
    """Return the catalog of a lake, of whichever kind."""
    if lake.catalog_type == "nessie":
        from icegate.catalogs.nessie import Nessie

        return Nessie(lake)
    if lake.catalog_type == "glue":
        from icegate.catalogs.glue import Glue

        return Glue(lake)
    if lake.catalog_type == "rest":
        from icegate.catalogs.rest import Rest

        return Rest(lake)
    return Postgres(lake) if lake.catalog_uri else Sqlite(lake)


def open_catalog(lake: Lake) -> pyiceberg.catalog.Catalog:
    """Open PyIceberg's catalog over the same tables that Spark uses; it lists no views."""
    return catalog_of(lake).tables()


def list_relations(lake: Lake, schema: str | None = None) -> list[CatalogEntry]:
    """Return all tables and views, of all schemas or of one in any case, sorted by name.

    None of them when nothing was built yet.
    """
    return sorted(catalog_of(lake).relations(schema))


def list_namespaces(lake: Lake) -> list[str]:
    """Return all schemas, those without a table too; none when nothing was built yet."""
    return sorted(catalog_of(lake).schemas())


def read_metadata(entry: CatalogEntry) -> dict[str, Any]:
    """Return what the metadata file of a table or view says."""
    path = entry.shown_file
    try:
        raw = read(entry.metadata_location)
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


def keeps_files(lake: Lake, metadata: dict[str, Any]) -> bool:
    """Tell whether no file of a table may be deleted, whatever its own snapshots say."""
    said = (metadata.get("properties") or {}).get("gc.enabled")
    return catalog_of(lake).keeps_files if said is None else str(said).lower() == "false"


def check_catalog(lake: Lake) -> None:
    """Raise ``CatalogError`` unless a run can write: unlocked, whole, and all its files there."""
    catalog_of(lake).check()
    if lake.bucket:
        objects.check(lake.bucket)
    check_files(lake, list_relations(lake))


def check_files(lake: Lake, entries: list[CatalogEntry]) -> None:
    """Raise ``CatalogError`` when metadata files are gone: then the warehouse was moved."""
    gone = gone_entries(entries)
    if gone:  # a commit or a drop may have come between the listing and the look
        gone = gone_entries(sorted(set(gone) & set(list_relations(lake))))
    if not gone:
        return
    old, _ = Counter(_warehouse_of(entry) for entry in gone).most_common(1)[0]
    moved, catalog = old != lake.warehouse, catalog_of(lake)
    raise CatalogError(
        f"cannot use the catalog {catalog}: the metadata files of {len(gone)} of "
        f"{len(entries)} tables are gone",
        why=f"the warehouse was moved: the catalog has it in {old}, the project in {lake.warehouse}"
        if moved
        else f"they are no longer in {old}, the first of {gone[0].full_name}",
        fix=f"{f'move it back to {old}' if moved else 'restore them from a backup'}, or start "
        f"anew: {catalog.anew}",
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
