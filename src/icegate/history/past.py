"""The history of a model's rows: what its table lacks of it, and the statements that add that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from icegate.errors import ConfigError, did_you_mean
from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.gate.store import edit, read_tables
from icegate.history.config import Asked
from icegate.history.dimension import CHANGELOG, DIFF, OWN, ROW_LINEAGE, Dimension, mode_of
from icegate.history.reads import Source
from icegate.history.steps import (
    TAG,
    Bookmark,
    Step,
    goes_on,
    going_on,
    looked_at,
    steps,
    to_head,
)
from icegate.merge import facts
from icegate.merge.bounds import bounded, conditions, with_uuids
from icegate.merge.plans import LITTLE, MODE, ON_READ, ON_WRITE
from icegate.settings import Lake
from icegate.tables.metadata import by_id, type_name
from icegate.tables.state import TableState, quote

MOST_STEPS = 100  # in one statement


class Engine(Protocol):
    """Where a history is written."""

    @property
    def has_options(self) -> bool:
        """Tell whether SQL has `with (…)` behind a table, which Spark 3.5 hasn't."""

    def ask(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""

    def hold(self, view: str, sql: str) -> None:
        """Compute a query once, and put a view over its rows."""

    def touched(self, bounds: Sequence[Any]) -> facts.Touched | None:
        """Return the files of the table within bounds, None where that isn't known."""

    def set_modes(self, modes: dict[str, str]) -> None:
        """See that the table has these properties."""


def told_up_to(ask: Callable[[str], Sequence[Sequence[Any]]], history: str) -> Bookmark | None:
    """Return the version up to which the rows of a history tell; ``ask`` runs a query."""
    row = ask(
        "select unix_micros(max(valid_from)), max_by(snapshot_id, valid_from),\n"
        "    unix_micros(max(valid_to)), max_by(ended_by, valid_to)\n"
        f"from {history}"
    )[0]
    found = [Bookmark(int(id), int(at)) for at, id in (row[:2], row[2:]) if at is not None]
    return max(found, key=lambda mark: mark.at, default=None)


@dataclass(frozen=True)
class Part:
    """Some steps of a table, whose versions one statement writes."""

    dimension: Dimension
    steps: Sequence[Step]

    def events(self) -> str:
        """Return the query of what happened."""
        from icegate.files import StoredFiles

        return self.dimension.events(StoredFiles(), self.steps)


class Past:
    """One run of a history: ``table`` is its own `schema.table`, ``source`` what it tells of.

    ``target`` is what SQL calls the table, as text: that may change where a build stages it.
    """

    def __init__(
        self, engine: Engine, source: Source, table: str, target: object, asked: Asked
    ) -> None:
        self.engine, self.source, self.asked = engine, source, asked
        self.table, self.target = table, target
        self.told = ""
        self.mark: Bookmark | None = None  # of the rows, before
        self._looked_up_to: tuple[int, Metadata] | None = None  # of the source
        self._kinds: tuple[dict[str, str], dict[str, str]] = {}, {}

    def begin(self, is_new: bool) -> list[Part]:
        """Return what the table lacks, as much at a time as one statement has.

        Raises for a gap, and for columns that aren't there.
        """
        self.mark = None if is_new else self._told_up_to()
        self.since = self._bookmark(self.mark)
        self._keep(self.since)
        tables = [*self._tables()]
        newest = tables[-1][1]
        self.fields = by_id(newest["schemas"], "schema-id", newest["current-schema-id"])["fields"]
        self.metadata = newest
        parts = [part for table in tables for part in self._parts(*table)]
        self.dimension = parts[-1].dimension if parts else self._dimension(*tables[-1])
        mode, number = self.dimension.mode, sum(len(part.steps) for part in parts)
        self.told = f"history={self.table} of={self.source.name} mode={mode} steps={number}"
        return parts

    def _tables(self) -> Iterator[tuple[str, Metadata, list[Step]]]:
        """Yield the source with what happened to it, and then its clone that a build stages.

        The clone has no version but the one that it was made of, and its own.
        """
        name, sql, branch = self.source.name, self.source.sql, self.source.branch
        what, since, gap = f"cannot keep the history of {name}", self.since, self.asked.gap
        _, metadata = self.source.known(sql, what)
        if name != sql:
            ids = {snapshot["snapshot-id"] for snapshot in metadata.get("snapshots") or []}
            is_in_clone = since is not None and since.snapshot_id in ids
            stored = next(read_tables(self._lake, [name]), None) if self._lake else None
            if stored is not None and refs.head(stored.metadata) is not None and not is_in_clone:
                found = steps(name, stored.metadata, branch, since, gap)
                yield self.source.with_past(name) if found else name, stored.metadata, found
                since = Bookmark(found[-1].new, found[-1].at) if found else since
            self._look(refs.head(metadata), {})
            yield sql, metadata, to_head(metadata, since)
            return
        on_branch = refs.head(metadata, branch) if branch else None
        self._look(on_branch or refs.head(metadata), metadata)
        found = steps(name, metadata, branch, since, gap)
        yield self.source.with_past(sql) if found else sql, metadata, found

    def _look(self, snapshot_id: int | None, source: Metadata) -> None:
        self._looked_up_to = (snapshot_id, source) if snapshot_id is not None else None

    def _parts(self, table: str, metadata: Metadata, found: list[Step]) -> Iterator[Part]:
        for at in range(0, len(found), MOST_STEPS):
            some = found[at : at + MOST_STEPS]
            yield Part(self._dimension(table, metadata, some), some)

    def _dimension(self, table: str, metadata: Metadata, found: list[Step]) -> Dimension:
        columns = self._columns()
        names = [field["name"] for field in columns]
        track = self.asked.track or [name for name in names if name not in self.asked.key]
        self._check(track, names, "track_columns")
        usual = mode_of(metadata, found)
        if usual == CHANGELOG and not self.engine.has_options:
            usual = DIFF
        mode = self.asked.mode or usual
        if mode not in (DIFF, usual):
            self._refuse(mode, usual)
        return Dimension(table, metadata, self.asked.key, columns, track, mode)

    @property
    def _lake(self) -> Lake | None:
        return self.source.lake

    def end(self, is_final: bool) -> None:
        """Keep what the next run goes on from; of a build that may be rejected, its start.

        Versions in which nothing changed leave no row. They were looked at all the same, and may
        expire.
        """
        mark, looked = self._told_up_to(), self._looked_up_to
        if mark is None:
            return
        if looked is not None and self._lake is not None:
            up_to = looked_at(mark, *looked)
            edit(self._lake, self.table, lambda old: going_on(old, mark, up_to))
        if is_final or mark == self.mark:
            self._keep(self._bookmark(mark))

    def _told_up_to(self) -> Bookmark | None:
        """Return up to where the table tells, from its rows: these go where it goes."""
        return told_up_to(self.engine.ask, str(self.target))

    def _bookmark(self, mark: Bookmark | None) -> Bookmark | None:
        if mark is None or self._lake is None:
            return mark
        stored = {t.name: t.metadata for t in read_tables(self._lake, self._names)}
        known = [stored[name] for name in self._names if name in stored]
        return goes_on(known[0], mark, known[1]) if len(known) == 2 else mark

    @property
    def _names(self) -> tuple[str, str]:
        return self.table, self.source.name

    def renames(self, state: TableState) -> list[tuple[str, str]]:
        """Return the columns of the table whose source has another name now: old and new name."""
        has = {column.name.lower() for column in state.columns}
        shown = {field["id"]: field["name"] for field in self.dimension.columns}
        taken = {name.lower() for name in shown.values()}
        found = {
            shown[field["id"]]: field["name"]
            for schema in self.metadata["schemas"]
            for field in schema["fields"]
            if field["id"] in shown and field["name"].lower() in has - taken
        }
        return [(old, new) for new, old in found.items() if new.lower() not in has]

    def first(self, part: Part | None) -> str:
        """Return the query of a new table's rows."""
        events = (part or Part(self.dimension, [])).events()
        return self.dimension.versions(f"({events})")

    def hold(self, part: Part, view: str) -> str:
        """Compute the events of some steps behind a view; return the query of their versions."""
        self.engine.hold(view, part.events())
        return self.dimension.versions(view)

    def statement(self, view: str, state: TableState, mode: str | None) -> str:
        """Return the statement that writes the events of a view; ``mode`` is the table's own."""
        kinds = {f["name"].lower(): type_name(f["type"]) for f in self.dimension.columns}
        table = {column.name.lower(): column.type for column in state.columns}
        known = with_uuids(kinds, self.metadata), table
        columns = bounded(self.asked.key, *known, quote)
        keys = [quote(name) for name in self.asked.key]
        about = keys, True, columns
        closings = f"({self.dimension.closings(view)})"
        batch = facts.read_batch(self.engine.ask(facts.batch_sql(closings, *about))[0], *about)
        if not batch.rows:
            return self.dimension.insert(str(self.target), view)
        if mode is None:
            touched = self.engine.touched(batch.bounds)
            little = touched is not None and touched.bytes <= LITTLE
            self.engine.set_modes({MODE: ON_WRITE if little else ON_READ})
        return self.dimension.merge(str(self.target), view, conditions(batch.bounds, "t."))

    def _keep(self, mark: Bookmark | None) -> None:
        """Tag the version of the source that the next run goes on from: expiry leaves it."""
        if mark is not None and self._lake is not None:
            tag, id = f"{TAG}{self.table}", mark.snapshot_id
            edit(self._lake, self.source.name, lambda old: refs.keep(old, tag, id))

    def _columns(self) -> list[dict[str, Any]]:
        names = [field["name"] for field in self.fields]
        wanted = names if self.asked.columns is None else self.asked.columns
        self._check(wanted, names, "its select")
        self._check(self.asked.key, wanted, "unique_key")
        for name in wanted:
            if name.lower() in OWN:
                raise ConfigError(
                    f"cannot keep the history of {self.source.name} in model {self.asked.model}",
                    why=f"its column {name} has the name of one that a history has of its own",
                    fix="rename it there, or select the other columns",
                )
        return [by_name for name in wanted for by_name in self.fields if by_name["name"] == name]

    def _check(self, wanted: Sequence[str], known: Sequence[str], what: str) -> None:
        for name in wanted:
            if name not in known:
                raise ConfigError(
                    f"{what} of model {self.asked.model} names a column {name!r}",
                    why=f"{self.source.name} has no such column, or it isn't selected",
                    fix=did_you_mean(name, known, f"there are {', '.join(known)}"),
                )

    def _refuse(self, mode: str, usual: str) -> None:
        is_three = mode == ROW_LINEAGE
        raise ConfigError(
            f"history_mode {mode} of model {self.asked.model} doesn't fit {self.source.name}",
            why="it takes format 3"
            if is_three
            else "Iceberg's changelog takes a table of format 2 without delete files, and one "
            "commit a version",
            fix=f"take it out: this table is read by {usual}",
        )
