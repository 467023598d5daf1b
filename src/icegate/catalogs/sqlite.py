"""An Iceberg JDBC catalog in a SQLite file: the embedded lake's own."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from icegate.catalogs.rows import Rows, Run
from icegate.errors import CatalogError
from icegate.locks import FileLock
from icegate.settings import Lake
from icegate.storage import shown

log = logging.getLogger(__name__)

QUIET_WAIT_S = 2.0  # a commit takes milliseconds; who waits longer wants to know for what


class Sqlite(Rows):
    """The file ``catalog.db`` of a home."""

    # No other process writes from here on, until the end of the transaction.
    begin = ("begin immediate",)
    listing = "select name from sqlite_master"
    Exists = sqlite3.IntegrityError  # what an insert raises for a row that another one made

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    def __str__(self) -> str:
        return str(self.lake.catalog_db)

    @property
    def is_made(self) -> bool:
        """Tell whether there is something to read."""
        return self.lake.catalog_db.exists()

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""
        return f"delete {self} and {shown(self.lake.root)}, and build again"

    @property
    def pyiceberg_uri(self) -> str:
        """Where PyIceberg's ``SqlCatalog`` finds it."""
        return f"sqlite:///{self.lake.catalog_db}?timeout={self.lake.catalog_timeout_s}"

    def where(self) -> dict[str, str]:
        """Return what Spark's catalog is told of where the rows are.

        Write-ahead log, waiting and retries are what lets parallel writers lose no row.
        """
        wait_ms = self.lake.catalog_timeout_s * 1000
        options = f"busy_timeout={wait_ms}&journal_mode=WAL"
        return {"uri": f"jdbc:sqlite:{self.lake.catalog_db}?{options}"}

    def secrets(self) -> dict[str, str]:
        """Return what has to be set as well, and is shown nowhere."""
        return {}

    def lock(self, name: str) -> FileLock:
        """Return a lock between the processes that use this home."""
        return FileLock(self.lake.home / f"{name}.lock")

    @contextmanager
    def connected(self, mode: str) -> Iterator[Run]:
        """Yield a function that runs a statement and returns its rows, and waits out a lock."""
        wait_s = self.lake.catalog_timeout_s
        try:
            with closing(_open(self.lake.catalog_db, mode)) as db:
                started = time.monotonic()

                def run(statement: str, *values: str | None) -> list[sqlite3.Row]:
                    try:
                        return db.execute(statement, values).fetchall()
                    except sqlite3.OperationalError as error:
                        if "locked" not in str(error):
                            raise
                    rest_s = wait_s - (time.monotonic() - started)
                    if rest_s > 0:
                        log.warning("catalog=%s locked=yes waiting_s=%.0f", self, rest_s)
                        db.execute(f"pragma busy_timeout = {int(rest_s * 1000)}")
                    return db.execute(statement, values).fetchall()

                db.execute(f"pragma busy_timeout = {int(min(QUIET_WAIT_S, wait_s) * 1000)}")
                yield run
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def check_rights(self) -> None:
        """Raise ``CatalogError`` unless this user may write it."""
        folder = next(f for f in (self.lake.home, *self.lake.home.parents) if f.exists())
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._read_only(folder)

    def _read_only(self, folder: Path) -> CatalogError:
        return CatalogError(
            f"cannot write the catalog {self}",
            why=f"this user may not write to {folder}",
            fix="give yourself the permission, or set `home:` of the target to another folder",
        )

    def _explained(self, error: sqlite3.Error) -> CatalogError:
        said = str(error)
        if "readonly" in said or "unable to open" in said:
            return self._read_only(self.lake.home)
        what = f"cannot open the catalog {self}"
        if "locked" in said:
            return CatalogError(
                what,
                why=f"another process has held its lock for over {self.lake.catalog_timeout_s} s",
                fix=f"wait until the other run has ended (`fuser '{self}'` names it), or set a "
                "longer `catalog_timeout_s:` in the target",
            )
        if "full" in said or "disk I/O" in said:
            return CatalogError(what, why=said, fix="free space on the disk")
        return CatalogError(
            what,
            why=f"the file isn't a whole SQLite database: {said}",
            fix="restore it from a backup, or move it away and build again",
        )


def _open(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode={mode}"
    log_file = path.with_name(path.name + "-wal")
    if mode == "ro" and not os.access(path.parent, os.W_OK) and not log_file.exists():
        # A reader of a write-ahead log writes beside it; where nobody can, nobody changes it.
        uri += "&immutable=1"
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    return db
