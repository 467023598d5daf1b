"""How the rows of two versions of a table differ, or of two tables: by key, in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from icegate.errors import ConfigError, TableError, did_you_mean
from icegate.gate.compare import Point, is_one_table, scope_of
from icegate.history.changes import came_back
from icegate.history.scope import Scope
from icegate.settings import Lake
from icegate.tables.metadata import type_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database
    from pyiceberg.types import NestedField

METADATA, FILES, ALL = "metadata", "changed files", "all rows"  # how two versions are compared
ADDED, REMOVED, CHANGED = KINDS = ("added", "removed", "changed")
MEMORY = "1GB"  # what it needs beyond goes to the disk
NO_FILE_HAS = 2_000_000_000  # an id of a column
# Types that DuckDB compares with each other as Spark does; other pairs are compared as text.
ALIKE = ({"int", "long", "float", "double", "decimal"}, {"date", "timestamp", "timestamptz"})


@dataclass(frozen=True)
class Pair:
    """A column of the newer version, and the same one in the older, if that has it.

    As Iceberg's JSON has them.
    """

    new: dict[str, Any]
    old: dict[str, Any] | None

    @property
    def name(self) -> str:
        """What it's called now."""
        return str(self.new["name"])

    @property
    def names(self) -> set[str]:
        """What it's called in either version."""
        return {str(side["name"]) for side in (self.old, self.new) if side}


@dataclass
class Difference:
    """Two versions of a table to compare by ``key``; the rows that differ are found when asked for.

    Of one table, columns are the same by field id, else by their names.
    """

    lake: Lake
    table: str
    old: Point
    new: Point
    key: Sequence[str]
    files: int = field(default=0, init=False)  # data files that were read

    @cached_property
    def pairs(self) -> list[Pair]:
        """The columns that are compared."""
        if is_one_table(self.old, self.new):
            by_id = {column["id"]: column for column in self.old.columns}
            return [Pair(column, by_id.get(column["id"])) for column in self.new.columns]
        had = {column["name"].lower(): column for column in self.old.columns}
        pairs = (Pair(column, had.get(column["name"].lower())) for column in self.new.columns)
        return [pair for pair in pairs if pair.old]

    @cached_property
    def _scope(self) -> Scope | None:
        """Where the two can differ; None for everywhere."""
        old, new = self.old, self.new
        ids, columns = (old.snapshot_id, new.snapshot_id), (old.columns, new.columns)
        if not is_one_table(old, new) or came_back(new.metadata, *ids, *columns):
            return None
        return scope_of(self.table, old, new)

    @cached_property
    def by(self) -> str:
        """How the two are compared: their files are the same, or those that changed, or all."""
        if self._scope is None:
            return ALL
        sides = self._scope.gone, self._scope.come
        return FILES if any(side.data or side.deletes for side in sides) else METADATA

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows were added, removed and changed."""
        if self.by == METADATA:
            return dict.fromkeys(KINDS, 0)
        asked = ", ".join(f"count(*) filter (kind = '{kind}')" for kind in KINDS)
        (found,) = self._database.execute(f"select {asked} from told").fetchall()
        return dict(zip(KINDS, found, strict=True))

    @cached_property
    def changed(self) -> dict[str, int]:
        """In how many of the changed rows each column has changed, most first."""
        if not self.counts[CHANGED]:
            return {}
        asked = ", ".join(f"count(*) filter ({self._differs(n)})" for n in range(len(self.pairs)))
        query = f"select {asked} from told where kind = '{CHANGED}'"
        (found,) = self._database.execute(query).fetchall()
        told = zip((pair.name for pair in self.pairs), found, strict=True)
        return {name: many for name, many in sorted(told, key=lambda at: -at[1]) if many}

    def rows(self, kind: str, limit: int = -1, of: str = "") -> list[tuple[list[Any], list[Any]]]:
        """Return the first rows of a kind by their key: as the older and as the newer has them.

        Those in which the column ``of`` has changed, if one is given.
        """
        if not self.counts[kind]:
            return []
        at = next((n for n, pair in enumerate(self.pairs) if pair.name == of), None)
        where = f"kind = '{kind}'" if at is None else f"kind = '{kind}' and {self._differs(at)}"
        order = ", ".join(f"coalesce(n{n}, o{n}::{self._kind(n)})" for n in self._key)
        most = "" if limit < 0 else f" limit {limit}"
        found = self._database.execute(f"select * from told where {where} order by {order}{most}")
        # By Arrow: DuckDB's own values of Python need a library of time zones, and lose digits.
        return [
            (
                [row[f"o{n}"] for n in range(len(self.pairs))],
                [row[f"n{n}"] for n in range(len(self.pairs))],
            )
            for row in found.to_arrow_table().to_pylist()
        ]

    @property
    def _key(self) -> list[int]:
        names = [pair.name.lower() for pair in self.pairs]
        return [names.index(column.lower()) for column in self.key]

    def _kind(self, at: int) -> str:
        found = self._database.execute(f"select typeof(n{at}) from told limit 1").fetchall()
        return str(found[0][0]) if found else "varchar"

    def _differs(self, at: int) -> str:
        sides = f"o{at}", f"n{at}"
        if not _is_alike(self.pairs[at]):
            sides = f"o{at}::varchar", f"n{at}::varchar"
        return " is distinct from ".join(sides)

    def check_key(self) -> None:
        """Raise ``ConfigError`` unless both versions have the columns of a key."""
        what = f"cannot compare the rows of {self.table}"
        if not self.key:
            raise ConfigError(
                what,
                why="no key of it is known: it has no unique_key, and no test for a unique one",
                fix="say what names a row, as in --key order_id, or test that with `unique`",
            )
        pairs = {pair.name.lower(): pair for pair in self.pairs}
        names = [pair.name for pair in self.pairs if pair.old]
        for name in self.key:
            pair = pairs.get(name.lower())
            why = f"it has no column {name!r} that both have"
            if pair is None or pair.old is None:
                asked = did_you_mean(name, names, f"those of both are {', '.join(names)}")
                raise ConfigError(what, why=why, fix=asked)

    @cached_property
    def _database(self) -> Database:
        """A database with the table `told` of all rows that differ, as o0, … and n0, …"""
        from icegate.duck import open_duckdb, quoted

        self.check_key()
        database = open_duckdb(self.lake, [])
        database.execute(f"set memory_limit = '{MEMORY}'")
        database.execute(f"set temp_directory = {quoted(str(self.lake.home / 'duckdb'))}")
        self._load(database)
        self._check_unique(database)
        same = " and ".join(f"o{n} is not distinct from n{n}" for n in self._key)
        others = [n for n in range(len(self.pairs)) if n not in self._key]
        differs = " or ".join(self._differs(n) for n in others) or "false"
        database.execute(
            f"create table told as select case when was is null then '{ADDED}'"
            f" when now is null then '{REMOVED}' else '{CHANGED}' end as kind,"
            " * exclude (was, now) from (select *, true as was from old) o"
            f" full join (select *, true as now from new) n on {same}"
            f" where was is null or now is null or {differs}"
        )
        return database

    def _load(self, database: Database) -> None:
        """Read the rows that may differ into the tables `old` and `new`."""
        import pyarrow as pa

        from icegate.history.touched import Reader, touched

        with _reading(self.table):
            readers = [
                Reader(point, [*self._fields(side)])
                for side, point in (("o", self.old), ("n", self.new))
            ]
            sides = (
                [reader.all() for reader in readers]
                if self._scope is None
                else touched(self._scope, *readers)
            )
            for name, reader, rows in zip(("old", "new"), readers, sides, strict=True):
                source = pa.RecordBatchReader.from_batches(reader.schema, rows)
                database.register("source", source)
                database.execute(f'create table "{name}" as select * from source')
                database.unregister("source")
                self.files += reader.files

    def _fields(self, side: str) -> Iterator[NestedField]:
        """Yield the columns as a version has them; one that it lacks is read as its default."""
        from pyiceberg.types import NestedField

        for number, pair in enumerate(self.pairs):
            column = pair.new if side == "n" else pair.old
            column = column or {**pair.new, "id": NO_FILE_HAS + number}
            kind = column["type"]
            if not isinstance(kind, str) and is_one_table(self.old, self.new):
                kind = pair.new["type"]  # what is nested may have grown
            told = {"type": kind, "name": f"{side}{number}", "required": False}
            yield NestedField.model_validate({**column, **told})

    def _check_unique(self, database: Database) -> None:
        for side, table in (("o", "old"), ("n", "new")):
            keys = ", ".join(f"{side}{n}" for n in self._key)
            found = database.execute(
                f'select count(*) from (select 1 from "{table}" group by {keys}'
                " having count(*) > 1)"
            ).fetchall()
            if found[0][0]:
                point = self.old if table == "old" else self.new
                raise TableError(
                    f"cannot compare the rows of {self.table} by {', '.join(self.key)}",
                    why=f"keys that more than one row has in snapshot {point.snapshot_id}: "
                    f"{found[0][0]:,}",
                    fix="add the other columns of the key by more --key, or repair the rows",
                )


def _is_alike(pair: Pair) -> bool:
    kinds = [column["type"] for column in (pair.old, pair.new) if column]
    if len({type_name(kind) for kind in kinds}) == 1:
        return True
    stems = {kind.partition("(")[0] if isinstance(kind, str) else kind["type"] for kind in kinds}
    return any(stems <= alike for alike in ALIKE)


@contextmanager
def _reading(table: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "equality deletes" in said:
            said = "it has deletes by values, which only Spark reads"
        raise TableError(
            f"cannot compare the rows of {table}",
            why=f"its files can't be read here: {said}",
            fix="compare them on Spark, by the macro `changes_between`; `icegate doctor` says "
            "whether files are gone",
        ) from error
