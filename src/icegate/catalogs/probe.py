"""What a catalog can do, found by trying it on tables that are dropped again."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from icegate import objects, storage
from icegate.catalog import catalog_of
from icegate.catalogs.entries import Moved, Step
from icegate.errors import CatalogError
from icegate.explain import explain
from icegate.gate.refs import with_properties
from icegate.gate.store import StoredTable, read_tables
from icegate.settings import Lake
from icegate.storage import is_remote, listed, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAID = "icegate.probe"


class Ability(NamedTuple):
    """One thing that a catalog can do or can't: what that means, or why, and what to do then."""

    name: str
    can: bool
    said: str
    fix: str = ""


class _Cannot(Exception):
    """What was tried had no error, and not the outcome that it should have."""


def probe(session: SparkSession, lake: Lake) -> list[Ability]:
    """Try what the gate and dbt ask of a lake's catalog, in a schema that is dropped again.

    Raises ``CatalogError`` where not even a table can be made.
    """
    at_once = not lake.has_own_catalog or catalog_of(lake).at_once
    moves = "several tables move at once" if at_once else "several tables move in turn"
    with _schema(session, lake) as (schema, folders):
        tried = _Probe(session, lake, schema, folders)
        return [
            tried.of(tried.views, "views can be made and read", _TABLES),
            tried.of(tried.branches, "what is written to a branch is seen there alone", _NO_GATE),
            tried.of(tried.commits, f"{moves}, or none of them does", _NO_GATE),
            tried.of(tried.rename, "a table can get another name", "a renamed model is built anew"),
            tried.of(tried.purge, "a dropped table's files go with it", _STAY),
        ]


_TABLES = "build tables in their place: on Glue dbt's models become such by themselves"
_NO_GATE = "leave `gate` out of the target, or take another catalog: docs/targets.md"
_STAY = "whoever runs the catalog deletes them: for Nessie that is its own nessie-gc"


@contextmanager
def _schema(session: SparkSession, lake: Lake) -> Iterator[tuple[str, dict[str, str]]]:
    """Make a schema with three tables of two commits each, and leave nothing of it.

    Yields its name, and the tables' folders as the catalog has them.
    """
    schema = f"icegate_probe_{uuid.uuid4().hex[:8]}"
    folders: dict[str, str] = {}
    try:
        try:
            session.sql(f"create namespace {schema}")
            for name in ("a", "b", "c"):
                session.sql(f"create table {schema}.{name} (id bigint) using iceberg")
                log = session.sql(f"select file from {schema}.{name}.metadata_log_entries").first()
                folders[name] = str(log[0]).rpartition("/metadata/")[0] if log else ""
                session.sql(f"insert into {schema}.{name} values (1)")
        except Exception as error:
            raise CatalogError(
                f"cannot make a table in the catalog of {lake.home}",
                why=explain(error).splitlines()[0],
                fix="let this user make schemas and tables there, or ask somebody who may",
            ) from error
        yield schema, folders
    finally:
        _drop(session, schema, folders.values())


def _drop(session: SparkSession, schema: str, folders: Iterable[str]) -> None:
    for statement in (
        f"drop view if exists {schema}.v",
        *(f"drop table if exists {schema}.{name} purge" for name in ("a", "b", "c", "d")),
        f"drop namespace if exists {schema}",
    ):
        with suppress(Exception):  # what it is has been said where it was tried
            session.sql(statement)
    for folder in folders:
        if f"/{schema}/" not in folder:
            continue
        if is_remote(folder):
            objects.delete_below(folder)
        else:
            shutil.rmtree(local_path(folder).parent, ignore_errors=True)


class _Probe:
    def __init__(
        self, session: SparkSession, lake: Lake, schema: str, folders: dict[str, str]
    ) -> None:
        self.session, self.lake, self.schema, self.folders = session, lake, schema, folders

    def of(self, tried: Callable[[], None], said: str, fix: str) -> Ability:
        """Try one thing; what it says or raises is the answer."""
        name = tried.__name__
        try:
            tried()
        except _Cannot as why:
            return Ability(name, False, str(why), fix)
        except Exception as error:
            return Ability(name, False, explain(error).splitlines()[0], fix)
        return Ability(name, True, said)

    def views(self) -> None:
        """Make a view, and read it."""
        self.session.sql(f"create view {self.schema}.v as select id from {self.schema}.a")
        self._has("v", 1)

    def branches(self) -> None:
        """Write to a branch, look at both, and bring main up to it."""
        table = f"{self.schema}.a"
        self.session.sql(f"alter table {table} create branch audit")
        self.session.sql(f"insert into {table}.branch_audit values (2)")
        self._has("a.branch_audit", 2)
        self._has("a", 1)
        self.session.sql(
            f"call {self.lake.catalog}.system.fast_forward('{table}', 'main', 'audit')"
        )
        self._has("a", 2)

    def commits(self) -> None:
        """Change two tables at once, and then again, where one was changed meanwhile."""
        if not self.lake.has_own_catalog:
            raise _Cannot("the catalog is one that Icegate knows by Spark alone")
        catalog, old = catalog_of(self.lake), self._tables()
        catalog.move([_said(table, "once") for table in old])
        now = self._tables()
        if [_says(table) for table in now] != ["once", "once"]:
            raise _Cannot("two tables were to move, and didn't")
        late = [_said(now[0], "twice"), _said(old[1], "twice")]
        try:
            catalog.move(late)
        except Moved:
            storage.delete(str(late[1].new_location))
        else:
            raise _Cannot("a commit was taken that was made on metadata of another time")
        if [_says(table) for table in self._tables()] != ["once", "once"]:
            raise _Cannot("of several tables one moved, another didn't")

    def rename(self) -> None:
        """Give a table another name, and read it."""
        self.session.sql(f"alter table {self.schema}.b rename to {self.schema}.d")
        self._has("d", 1)

    def purge(self) -> None:
        """Drop a table with its files, and look whether they are gone."""
        self.session.sql(f"drop table {self.schema}.c purge")
        if left := len(listed(self.folders["c"])):
            raise _Cannot(f"a dropped table's files stay: {left} of them are still there")

    def _has(self, relation: str, rows: int) -> None:
        found = self.session.sql(f"select count(*) from {self.schema}.{relation}").first()
        if found is None or found[0] != rows:
            seen = found[0] if found else "none"
            raise _Cannot(f"{relation} has {seen} rows and should have {rows}")

    def _tables(self) -> list[StoredTable]:
        return [*read_tables(self.lake, {f"{self.schema}.{name}" for name in ("b", "c")})]


def _said(table: StoredTable, word: str) -> Step:
    """Write a table's next state, in which a property says a word."""
    return table.write(with_properties(table.metadata, {SAID: word}))


def _says(table: StoredTable) -> str | None:
    return (table.metadata.get("properties") or {}).get(SAID)
