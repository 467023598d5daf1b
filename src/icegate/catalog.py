"""The catalog of the embedded lake without a JVM: list it, check it, read a table's metadata."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import os
import sqlite3
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from icegate.errors import CatalogError
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

log = logging.getLogger(__name__)

QUIET_WAIT_S = 2.0  # a commit takes milliseconds; who waits longer wants to know for what

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


def open_catalog(lake: Lake) -> SqlCatalog:
    """Open PyIceberg's catalog over the same file that Spark uses; it lists no views."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri = f"sqlite:///{lake.catalog_db}?timeout={lake.catalog_timeout_s}"
    return SqlCatalog(lake.catalog, uri=uri, warehouse=f"file://{lake.warehouse}")


def list_relations(lake: Lake, schema: str | None = None) -> list[CatalogEntry]:
    """Return all tables and views, of all schemas or of one in any case, sorted by name.

    None of them when nothing was built yet.
    """
    if not lake.catalog_db.exists():
        return []
    with connected(lake, "ro") as run:
        if not run("select 1 from sqlite_master where name = 'iceberg_tables'"):
            return []
        rows = run(
            "select * from iceberg_tables where catalog_name = ?"
            " and (? is null or lower(table_namespace) = lower(?))",
            lake.catalog,
            schema,
            schema,
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
    if not lake.catalog_db.exists():
        return []
    with connected(lake, "ro") as run:
        held = {row["name"] for row in run("select name from sqlite_master")}
        found = set()
        for table, column in NAMESPACE_COLUMNS.items():
            if table in held:
                rows = run(
                    f"select {column} as name from {table} where catalog_name = ?", lake.catalog
                )
                found |= {row["name"] for row in rows}
    return sorted(found)


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
    folder = next(f for f in (lake.home, *lake.home.parents) if f.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _read_only(lake.catalog_db, folder)
    if not lake.catalog_db.exists():
        return
    with connected(lake, "rw") as run:
        run("begin immediate")
        run("rollback")
    check_files(lake, list_relations(lake))


def check_files(lake: Lake, entries: list[CatalogEntry]) -> None:
    """Raise ``CatalogError`` when metadata files are gone: then the warehouse was moved."""
    gone = gone_entries(entries)
    if gone:  # a commit or a drop may have come between the listing and the look
        gone = gone_entries(sorted(set(gone) & set(list_relations(lake))))
    if not gone:
        return
    old, _ = Counter(_warehouse_of(entry) for entry in gone).most_common(1)[0]
    moved = old != lake.warehouse
    raise CatalogError(
        f"cannot use the catalog {lake.catalog_db}: the metadata files of {len(gone)} of "
        f"{len(entries)} tables are gone",
        why=f"the warehouse was moved: the catalog has it in {old}, the project in {lake.warehouse}"
        if moved
        else f"they are no longer in {old}, the first of {gone[0].full_name}",
        fix=f"{f'move it back to {old}' if moved else 'restore them from a backup'}, or start "
        f"anew: delete {lake.catalog_db} and {lake.warehouse}, and build again",
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


@contextlib.contextmanager
def connected(lake: Lake, mode: str) -> Iterator[Any]:
    """Yield a function that runs a statement and returns its rows, and waits out a lock."""
    db = _open(lake.catalog_db, mode)
    started = time.monotonic()

    def run(statement: str, *values: str) -> list[sqlite3.Row]:
        try:
            return db.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        rest_s = lake.catalog_timeout_s - (time.monotonic() - started)
        if rest_s > 0:
            log.warning("catalog=%s locked=yes waiting_s=%.0f", lake.catalog_db, rest_s)
            db.execute(f"pragma busy_timeout = {int(rest_s * 1000)}")
        return db.execute(statement, values).fetchall()

    try:
        db.execute(f"pragma busy_timeout = {int(min(QUIET_WAIT_S, lake.catalog_timeout_s) * 1000)}")
        yield run
    except sqlite3.Error as error:
        raise _explain(error, lake) from error
    finally:
        db.close()


def _open(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode={mode}"
    log_file = path.with_name(path.name + "-wal")
    if mode == "ro" and not os.access(path.parent, os.W_OK) and not log_file.exists():
        # A reader of a write-ahead log writes beside it; where nobody can, nobody changes it.
        uri += "&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    return db


def _read_only(path: Path, folder: Path) -> CatalogError:
    return CatalogError(
        f"cannot write the catalog {path}",
        why=f"this user may not write to {folder}",
        fix="give yourself the permission, or set `home:` of the target to a folder of your own",
    )


def _explain(error: sqlite3.Error, lake: Lake) -> CatalogError:
    said = str(error)
    if "readonly" in said or "unable to open" in said:
        return _read_only(lake.catalog_db, lake.home)
    what = f"cannot open the catalog {lake.catalog_db}"
    if "locked" in said:
        return CatalogError(
            what,
            why=f"another process has held its lock for over {lake.catalog_timeout_s} s",
            fix=f"wait until the other run has ended (`fuser '{lake.catalog_db}'` names it), or "
            "set a longer `catalog_timeout_s:` in the target",
        )
    if "full" in said or "disk I/O" in said:
        return CatalogError(what, why=said, fix="free space on the disk")
    return CatalogError(
        what,
        why=f"the file isn't a whole SQLite database: {said}",
        fix="restore it from a backup, or move it away and build again",
    )
