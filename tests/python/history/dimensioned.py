"""The history of a table that changes at random, and what a naive program says of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from history.versioned import Kept, Versioned
from icegate.errors import TableError
from icegate.history.config import Asked
from icegate.history.past import Past
from icegate.history.reads import Source
from icegate.tables.state import state_from_metadata

Values = dict[int, Any]


class Session:
    """What writes a history, on Spark without dbt."""

    has_options = True

    def __init__(self, table: Versioned) -> None:
        self.spark = table.spark

    def ask(self, sql: str) -> Sequence[Sequence[Any]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def hold(self, view: str, sql: str) -> None:
        self.spark.sql(sql).localCheckpoint().createOrReplaceTempView(view)

    def touched(self, bounds: Any) -> None:
        return None

    def set_modes(self, modes: dict[str, str]) -> None:
        pairs = ", ".join(f"'{name}' = '{mode}'" for name, mode in modes.items())
        self.spark.sql(f"alter table {self.target} set tblproperties ({pairs})")

    target = ""


class Dimensioned:
    """The table `past` of a table, and its versions in memory."""

    def __init__(self, table: Versioned, random: Random) -> None:
        self.table, self.random = table, random
        self.name = table.name.replace(".t", ".past")
        self.is_new, self.done = True, 0
        self.versions: list[tuple[Values, list[Any]]] = []  # values; is_current, is_deleted, change
        self.open: dict[Any, list[Any]] = {}

    def run(self) -> None:
        """Bring the history to where the table is; begin anew where the table's has a gap."""
        try:
            self._run()
        except TableError as error:
            if "has a gap" not in str(error):
                raise
            left = {snapshot["snapshot-id"] for snapshot in self.table.metadata["snapshots"]}
            later = self.table.past[self.done :]
            assert not all(version.snapshot_id in left for version in later)
            self.table.spark.sql(f"drop table {self.name}")
            self.is_new, self.done, self.versions, self.open = True, 0, [], {}
            self._run()
        self._tell()

    def told(self) -> list[tuple[Any, ...]]:
        """Return what the history says, in the order in which it was."""
        names = ", ".join(f"`{name}`" for name in self.table.columns.values())
        told = f"select {names}, is_current, is_deleted, change from {self.name} order by id"
        return [tuple(row) for row in self.table.spark.sql(f"{told}, valid_from").collect()]

    def naive(self) -> list[tuple[Any, ...]]:
        """Return what it has to say."""
        rows = [
            (*(values.get(id) for id in self.table.columns), *marks)
            for values, marks in self.versions
        ]
        return sorted(rows, key=lambda row: (row[0] is not None, row[0]))

    def _run(self) -> None:
        table, spark = self.table, self.table.spark
        mode = self.random.choice([None, None, "diff"])
        asked = Asked("past", ["id"], [], mode, "error", None)
        session = Session(table)
        session.target = self.name
        source = Source(table.lake, table.name, table.name)
        past = Past(session, source, self.name, self.name, asked)
        parts = past.begin(self.is_new)
        if self.is_new:
            first = past.first(parts[0] if parts else None)
            spark.sql(f"create table {self.name} using iceberg as {first}")
        for number, part in enumerate(parts[self.is_new :]):
            view = f"events_{number}"
            versions = past.hold(part, view)
            self._reconcile(past, spark.sql(versions))
            state = state_from_metadata(self._metadata())
            spark.sql(past.statement(view, state, None))
        past.end(True)
        self.is_new = False

    def _metadata(self) -> dict[str, Any]:
        from history.versioned import metadata_of

        return metadata_of(self.table.lake, self.name)

    def _reconcile(self, past: Past, batch: Any) -> None:
        spark, state = self.table.spark, state_from_metadata(self._metadata())
        for old, new in past.renames(state):
            spark.sql(f"alter table {self.name} rename column `{old}` to `{new}`")
        has = {column.name: column.type for column in state_from_metadata(self._metadata()).columns}
        for field in batch.schema.fields:
            kind = field.dataType.simpleString()
            if field.name not in has:
                spark.sql(f"alter table {self.name} add column `{field.name}` {kind}")
            elif kind != has[field.name]:
                spark.sql(f"alter table {self.name} alter column `{field.name}` type {kind}")

    def _tell(self) -> None:
        past, shown = self.table.past, self.table.columns
        left = {snapshot["snapshot-id"] for snapshot in self.table.metadata["snapshots"]}
        if not self.done:
            gone = [n for n, kept in enumerate(past) if kept.snapshot_id not in left]
            self.done = gone[-1] + 1 if gone else 0
            self._step(None, past[self.done], shown, whole=not gone)
            self.done += 1
        for number in range(self.done, len(past)):
            self._step(past[number - 1], past[number], shown, whole=True)
        self.done = len(past)

    def _step(self, old: Kept | None, new: Kept, shown: dict[int, str], whole: bool) -> None:
        ids = [id for id in shown if id in new.columns]
        before, after = (
            {row[1]: {id: row.get(id) for id in ids} for row in kept.shown()} if kept else {}
            for kept in (old, new)
        )
        for key in before.keys() | after.keys():
            if before.get(key) == after.get(key):
                continue
            if key in before:
                self.open[key][:2] = [False, key not in after]
            if key in after:
                change = "update" if key in before else "insert" if whole else "first known"
                marks = [True, False, change]
                self.open[key] = marks
                self.versions.append((after[key], marks))
