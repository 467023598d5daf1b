"""An Iceberg JDBC catalog on PostgreSQL: what the builds of a team share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from icegate.catalogs.rows import Rows, Run
from icegate.errors import CatalogError, ConfigError
from icegate.locks import Held
from icegate.storage import shown

if TYPE_CHECKING:
    import psycopg

    from icegate.settings import Lake

CONNECT_TIMEOUT_S = 10
# A lock is its connection: one that a firewall forgets would be lost, and nobody told.
ALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10}
# By PostgreSQL's own code of an error, or by its words where there is no connection yet.
CAUSES = (
    (
        r"28P01|28000|authentication failed|no password supplied|role .* does not exist",
        "the server refuses this user",
        "correct the user in `catalog_uri:` or the variable that `catalog_password:` reads",
    ),
    (
        r"3D000|database .* does not exist",
        "there is no such database",
        "make it: `createdb`, or correct `catalog_uri:`",
    ),
    (
        r"42501",
        "this user may not do that there",
        "grant it `create` on the schema, and all on the tables that begin with iceberg_",
    ),
    (
        r"55P03",
        "another process has held its lock for too long",
        "wait until the other run has ended (`pg_stat_activity` names it), or set a longer "
        "`catalog_timeout_s:` in the target",
    ),
    (
        r"53300|too many (?:clients|connections)|remaining connection slots",
        "it has no connection left",
        "raise `max_connections` of the server, or run fewer builds at once",
    ),
    (r"53100", "its disk is full", "free space there"),
    (
        r"25006",
        "the server is a replica, or read-only",
        "name the primary in `catalog_uri:`",
    ),
)


class Postgres(Rows):
    """The database that a target's ``catalog_uri`` names."""

    # Waits for those who write now; who reads needn't wait.
    begin = ("begin", "lock table iceberg_tables in share row exclusive mode")
    listing = (
        "select table_name as name from information_schema.tables"
        " where table_schema = any (current_schemas(false))"
    )
    is_made = True

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        url = urlsplit(str(lake.catalog_uri))
        self._place = f"{url.netloc.rpartition('@')[2]}{url.path}"
        self._user, self._options = url.username and unquote(url.username), url.query
        secret = lake.catalog_password
        self._password = secret.get_secret_value() if secret else None

    def __str__(self) -> str:
        return f"postgresql://{self._place}"

    @cached_property
    def Exists(self) -> type[Exception]:
        """What an insert raises for a row that another one made."""
        return _psycopg().errors.UniqueViolation

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""
        return (
            f"drop the tables iceberg_tables and iceberg_namespace_properties of {self}, delete "
            f"{shown(self.lake.root)}, and build again"
        )

    @property
    def pyiceberg_uri(self) -> str:
        """Where PyIceberg's ``SqlCatalog`` finds it, password and all."""
        _psycopg()
        given = [part for part in (self._user, self._password) if part is not None]
        who = ":".join(quote(part, safe="") for part in given)
        return f"postgresql+psycopg://{f'{who}@' if who else ''}{self._place}?{self._options}"

    def where(self) -> dict[str, str]:
        """Return what Spark's catalog is told of where the rows are."""
        found = {"uri": f"jdbc:postgresql://{self._place}?{self._options}"}
        return found | ({"jdbc.user": self._user} if self._user else {})

    def secrets(self) -> dict[str, str]:
        """Return the password, which the arguments of a process would show to everyone."""
        return {"jdbc.password": self._password} if self._password else {}

    def lock(self, name: str) -> AdvisoryLock:
        """Return a lock between all processes that use this catalog, on any machine."""
        return AdvisoryLock(self, f"icegate {self.lake.catalog} {name}")

    @contextmanager
    def connected(self, mode: str) -> Iterator[Run]:
        """Yield a function that runs a statement and returns its rows."""
        with self.explained(), closing(self.connect()) as db:

            def run(statement: str, *values: str | None) -> Sequence[Any]:
                cursor = db.execute(statement.replace("?", "%s"), values)
                return cursor.fetchall() if cursor.description else []

            run(f"set lock_timeout = '{self.lake.catalog_timeout_s}s'")
            if mode == "ro":
                run("set default_transaction_read_only = on")
            yield run

    def check_rights(self) -> None:
        """Raise ``CatalogError`` unless this user may write it, or make its tables."""
        with self.connected("rw") as run:
            held = {row["name"] for row in run(self.listing)}
            if "iceberg_tables" not in held:
                run("begin")
                run("create table icegate_probe (n int)")
                run("rollback")

    def connect(self) -> psycopg.Connection[dict[str, Any]]:
        """Return a new connection, each of whose statements is a transaction of its own."""
        psycopg = _psycopg()
        from psycopg.rows import dict_row

        return psycopg.connect(
            f"postgresql://{self._place}?{self._options}",
            user=self._user,
            password=self._password,
            autocommit=True,
            row_factory=dict_row,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="icegate",
            **ALIVE,
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise what the database says as ``CatalogError``."""
        try:
            yield
        except _psycopg().Error as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            told = f"{error.sqlstate} {said}"
            known = ((why, fix) for mark, why, fix in CAUSES if re.search(mark, told))
            unknown = said, "see that the server runs and is reached from here: `psql`"
            why, fix = next(known, unknown)
            raise CatalogError(f"cannot use the catalog {self}", why=why, fix=fix) from error


class AdvisoryLock:
    """A lock that PostgreSQL holds for a connection, until it's closed or its process ends."""

    def __init__(self, database: Postgres, name: str) -> None:
        self.database, self.name = database, name
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        self._key = int.from_bytes(digest, "big", signed=True)

    def __str__(self) -> str:
        return f"{self.name} in {self.database}"

    def take(self, what: str, *, shared: bool = False) -> Held:
        """Wait for the lock and return it."""
        return _Taken(self._called(f"pg_advisory_lock{'_shared' if shared else ''}")[0])

    def try_take(self, what: str) -> Held | None:
        """Return the lock, or None where someone holds it."""
        db, held = self._called("pg_try_advisory_lock")
        if held:
            return _Taken(db)
        db.close()
        return None

    def _called(self, call: str) -> tuple[psycopg.Connection[dict[str, Any]], Any]:
        with self.database.explained():
            db = self.database.connect()
            try:
                (row,) = db.execute(f"select {call}(%s) as held", [self._key]).fetchall()
            except BaseException:
                db.close()
                raise
        return db, row["held"]

    @property
    def is_held(self) -> bool:
        """Tell whether a process holds it."""
        held = self.try_take("look")
        if held is not None:
            held.close()
        return held is None


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError(
            "cannot use a catalog on PostgreSQL",
            why="its driver isn't installed",
            fix="`pip install 'icegate[postgres]'`",
        ) from error
    return psycopg


class _Taken:
    """A lock that this process holds, by a connection of its own."""

    def __init__(self, db: psycopg.Connection[dict[str, Any]]) -> None:
        self._db = db

    def close(self) -> None:
        """Give it back now: the server ends a connection that was closed only by and by."""
        import psycopg

        with suppress(psycopg.Error):  # it has gone, and the lock with it
            self._db.execute("select pg_advisory_unlock_all()")
        self._db.close()
