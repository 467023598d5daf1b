"""Which tables, and which two versions of each, `icegate diff A B` means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from icegate.catalog import CatalogEntry, read_metadata
from icegate.errors import ConfigError
from icegate.gate import refs
from icegate.gate.compare import Point, at_main, check_kept, moved, points
from icegate.gate.refs import MAIN, Metadata
from icegate.gate.releases import open_builds
from icegate.history.versions import RELEASE, TIME, find_any
from icegate.settings import Lake

LONGEST = 9  # digits of a release's number; that of a snapshot has twice as many

Sides = tuple[Point | None, Point | None]


@dataclass(frozen=True)
class Asked:
    """A table to compare: where it is, and its older and newer version, None where it wasn't there.

    ``other`` is another table that has the older one. Of all gated tables only metadata is
    compared, if nobody asks for more.
    """

    table: str
    sides: Callable[[], Sides]
    other: str = ""
    is_gated: bool = False


def of_points(lake: Lake, before: str, after: str) -> list[Asked]:
    """Return the gated tables that aren't the same at two releases, builds or `main`."""
    found = moved(lake, before, after)
    return [Asked(name, partial(found.__getitem__, name), is_gated=True) for name in found]


def of_versions(
    lake: Lake, entries: Sequence[CatalogEntry], before: str, after: str
) -> list[Asked]:
    """Return tables, each at two versions: what `changes_between` takes, a build, or `main`."""

    def sides(entry: CatalogEntry) -> Sides:
        metadata = read_metadata(entry)
        old, new = (version(lake, entry.full_name, metadata, at) for at in (before, after))
        return old, new

    return [Asked(entry.full_name, partial(sides, entry)) for entry in entries]


def of_tables(old: CatalogEntry, new: CatalogEntry) -> Asked:
    """Return two tables as readers have them."""
    for entry in (old, new):
        if entry.kind == "view":
            raise ConfigError(
                f"cannot compare {old.full_name} with {new.full_name}",
                why=f"{entry.full_name} is a view, whose SQL only Spark can run",
                fix="name two tables",
            )
    return Asked(new.full_name, partial(_on_main, old, new), old.full_name)


def of_schemas(entries: Sequence[CatalogEntry], before: str, after: str) -> Iterator[Asked]:
    """Yield the tables of the schema ``after``, each beside the one of its name in ``before``."""
    tables = [entry for entry in entries if entry.kind == "table"]
    had = {entry.name: entry for entry in tables if entry.namespace == before}
    for new in tables:
        if new.namespace == after:
            old = had.get(new.name)
            yield of_tables(old, new) if old else Asked(new.full_name, partial(_on_main, old, new))


def _on_main(*entries: CatalogEntry | None) -> Sides:
    old, new = (at_main(read_metadata(entry)) if entry else None for entry in entries)
    return old, new


def version(lake: Lake, table: str, metadata: Metadata, asked: str) -> Point:
    """Return a table at `main`, at a ref, a time, a snapshot, a release or a build that waits.

    Raises ``ConfigError`` for what isn't known, ``TableError`` or ``GateError`` for what expired.
    """
    if asked == MAIN:
        return at_main(metadata)
    number = RELEASE.fullmatch(asked)
    name = number[1] if number else asked
    is_release = name.isdecimal() and len(name) <= LONGEST
    is_own = refs.head(metadata, asked) is not None or TIME.match(asked)
    if is_release or (not is_own and name in {build.name for build in open_builds(lake)}):
        point = points(lake, name).get(table)
        if point is None:
            raise ConfigError(
                f"cannot compare {table} as of {asked}",
                why="it isn't behind the gate, or wasn't there yet",
                fix=f"`icegate release show {name}` lists what there was; or name a tag, a time "
                "or a snapshot",
            )
        check_kept(table, point)
        return point
    found = find_any(lake, table, metadata, asked)
    return Point(metadata, found.snapshot_id, found.schema_id)
