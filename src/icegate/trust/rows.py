"""Rows of a table on `main`, in a release or a build, and what differs; personal data is masked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from icegate.audits.points import points
from icegate.audits.source import Source
from icegate.duck import open_duckdb, quoted, show_table, shut_in
from icegate.errors import ConfigError, IcegateError
from icegate.gate import refs
from icegate.gate.refs import MAIN
from icegate.gate.store import StoredTable, read_tables
from icegate.tables.metadata import columns, row_count
from icegate.trust.project import Model
from icegate.trust.samples import Sample, masked_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Database

    from icegate.settings import Lake

FIRST = 100  # rows that are shown of a table
COMPARED = 200_000  # rows of a table, of which each is compared
MEMORY = "1GB"  # and nothing goes to the disk: this only reads
MARK = "where"  # the column of a comparison that says where a row is

Place = int | str  # a release, or `main` or a build by name


@dataclass(frozen=True)
class Rows:
    """The first rows of a table at a place, or of those that only one of two places has.

    ``total`` is how many there are; ``is_about`` says that delete files make that an estimate.
    Rows of two places belong together by a ``key``.
    """

    shown: Sample
    total: int | None = None
    is_about: bool = False
    key: Sequence[str] = ()


def said(place: Place) -> str:
    """Return what people call a place."""
    return (
        "main" if place == MAIN else f"{'build' if isinstance(place, str) else 'release'} {place}"
    )


def source_at(lake: Lake, table: str, place: Place) -> Source:
    """Return a table, `schema.name`, as it is at a place.

    Raises ``ConfigError`` where there is no such table, ``GateError`` while the build runs.
    """
    if isinstance(place, str) and place != MAIN:
        wrote = points(lake, place)
        source = wrote[table].source if table in wrote else None
        why = f"build {place} has nothing of it that waits"
    else:
        kinds = ("table", "view")
        stored = next((t for kind in kinds for t in read_tables(lake, [table], kind)), None)
        source = _on_main(stored, place) if stored else None
        why = "it was never published, or was dropped meanwhile"
    if source is not None and source.entry.kind == "view":
        source, why = None, "it is a view, whose SQL only Spark can run"
    if source is None:
        raise ConfigError(f"cannot read {table}", why=why, fix="choose another one, or reload")
    return source


def _on_main(table: StoredTable, place: Place) -> Source:
    metadata = table.metadata
    if isinstance(place, str):
        return Source(table, refs.head(metadata))
    head = refs.head(metadata, refs.tag_of(place))
    if head is None:
        why = f"release {place} didn’t move it, or isn’t kept any more"
        raise ConfigError(f"cannot read {table.name}", why=why, fix="choose a later release")
    return Source(table, head)


def rows_at(lake: Lake, model: Model, place: Place) -> Rows:
    """Return the first rows of a table at a place, masked."""
    try:
        source = source_at(lake, model.table, place)
        if source.snapshot_id is None:
            names = tuple(c["name"] for c in columns(source.table.metadata))
            return Rows(Sample(names), 0)
        with _reading(lake, shown=source) as database:
            found = database.execute(f"select * from asked.shown limit {FIRST}")
            shown = masked_rows(_names(found), found.fetchall(), [model])
    except (IcegateError, duckdb.Error) as error:
        return Rows(Sample(why_none=_why(error)))
    return Rows(shown, *row_count(dict(source.summary)))


def differing(lake: Lake, model: Model, place: Place) -> Rows:
    """Return the rows that are on `main` or at a place only, those of one key together."""
    try:
        main, other = (source_at(lake, model.table, each) for each in (MAIN, place))
        if main.snapshot_id is None or other.snapshot_id is None:
            return Rows(Sample(why_none="one of the two has no rows"))
        many = max(row_count(dict(source.summary))[0] or 0 for source in (main, other))
        if many > COMPARED:
            why = f"it has {many:,} rows, and up to {COMPARED:,} are compared one by one"
            return Rows(Sample(why_none=why))
        with _reading(lake, main=main, other=other) as database:
            was, now = (_names(database.execute(f"select * from asked.{n} limit 0"))
                        for n in ("main", "other"))  # fmt: skip
            both = [name for name in now if name in was]
            known = [name for name in both if name.lower() in {k.lower() for k in model.key}]
            known = known if len(known) == len(model.key) else []
            rows = database.execute(_comparing(both, known, said(place))).fetchall()
    except (IcegateError, duckdb.Error) as error:
        return Rows(Sample(why_none=_why(error)))
    told = masked_rows(both, [row[2:] for row in rows], [model])
    marked = ((row[1], *values) for row, values in zip(rows, told.rows, strict=True))
    sample = Sample((MARK, *told.columns), tuple(marked))
    return Rows(sample, rows[0][0] if rows else 0, key=known)


def _comparing(names: Iterable[str], key: Sequence[str], there: str) -> str:
    """Return what finds the rows of one side only; the first column counts all of them."""
    listed, keys = ", ".join(map(_quoted, names)), ", ".join(map(_quoted, key))
    sides = [f"select {listed} from asked.{side}" for side in ("main", "other")]
    twice = f"count(*) over (partition by {keys}) > 1" if key else "false"
    side = f"if(side = 0, {quoted(MAIN)}, {quoted(there)})"
    return (
        f"with found as (\nselect 0 as side, * from ({sides[0]} except all {sides[1]})"
        f"\nunion all\nselect 1 as side, * from ({sides[1]} except all {sides[0]})\n)\n"
        f"select count(*) over (), {side} || if({twice}, ', changed', ' only'), {listed}"
        f" from found\norder by {keys or listed}, side limit {FIRST}"
    )


def _reading(lake: Lake, **sources: Source) -> Database:
    """Return a database with the tables in the schema `asked`, which can read nothing else."""
    database = open_duckdb(lake)
    database.execute(f"set memory_limit = '{MEMORY}'")
    database.execute("set temp_directory = ''")
    for name, source in sources.items():
        entry = source.entry._replace(namespace="asked", name=name)
        show_table(database, entry, source.snapshot_id)
    shut_in(database, lake, [source.entry for source in sources.values()])
    return database


def _names(found: Database) -> list[str]:
    return [name for name, *_ in found.description or []]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _why(error: Exception) -> str:
    if isinstance(error, IcegateError):
        return error.why or error.what
    # Its messages may hold values of rows.
    return f"DuckDB can’t read it here ({type(error).__name__})"
