"""`icegate wait`: a load starts when the days that it's about are there, whole and unchanged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli import output
from icegate.cli.common import Grid, Opened, Shown, on_lake
from icegate.errors import ConfigError, did_you_mean
from icegate.pii import meta_of

if TYPE_CHECKING:
    from icegate.delivery import Delivery
    from icegate.landing import LandingTable

CODES = {"ready": 0, "late": 3, "missing": 4, "contradicting": 5}  # the worst one last
GRID = "source day state files rows marked_at why"


@on_lake
def wait(
    at: Opened,
    select: Annotated[
        list[str] | None, typer.Argument(help="Sources, as in `shop` or `shop.orders`; else all.")
    ] = None,
    day: Annotated[
        list[datetime] | None,
        typer.Option(formats=["%Y-%m-%d"], help="A day to wait for.", show_default="today in UTC"),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Minutes to wait at most.")] = 0,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 30,
    late_after: Annotated[
        float | None,
        typer.Option(help="Hours after a day's beginning (UTC) from which its marker is late."),
    ] = None,
) -> Shown:
    """Wait until landing files are complete: exit code 0 ready, 3 late, 4 missing, 5 contradicting.

    A day is ready when its marker is there and says of each file the rows, bytes and SHA-256 that
    the file has.
    """
    days = [f"{d:%F}" for d in day or [datetime.now(timezone.utc)]]
    tables = [*_chosen(at.project, select or [])]
    rows = [_row(found, late_after) for found in _watch(tables, days, timeout * 60, every)]
    state = max((row["state"] for row in rows), key=[*CODES].index, default="ready")
    counts = (f"{n} {s}" for s in CODES if (n := sum(row["state"] == s for row in rows)))
    last = f"{state}: {', '.join(counts)}" if rows else "no source of this project is files"
    # As dbt parsed them: an environment that names another folder since then isn't seen.
    folders = sorted({str(table.folder) for table in tables})
    facts = {"state": state, "folders": folders, "deliveries": rows}
    looked = [f"looked in {', '.join(folders)}"] if folders else []
    return Shown(facts, [Grid(GRID, rows), *looked, last], CODES[state])


def _watch(
    tables: Sequence[LandingTable], days: Sequence[str], timeout_s: float, every_s: float
) -> list[Delivery]:
    """Look until nothing is missing any more, something contradicts, or time is up."""
    from icegate.delivery import delivery

    known: dict[tuple[str, str], Delivery] = {}
    wanted = {(table.name, day): table for table in tables for day in days}
    ends = time.monotonic() + timeout_s
    while True:
        for (name, day), table in wanted.items():
            before = known.get((name, day))
            if before is None or before.state == "missing":  # the others were read as a whole
                known[name, day] = found = delivery(table, day)
                if before is not None and found.state != "missing":
                    output.note(f"source={name} day={day} state={found.state}")
        states, rest_s = {found.state for found in known.values()}, ends - time.monotonic()
        if "missing" not in states or "contradicting" in states or rest_s <= 0:
            return [*known.values()]
        time.sleep(min(every_s, rest_s))


def _row(found: Delivery, late_after_h: float | None) -> dict[str, Any]:
    came = found.marked_at and datetime.fromtimestamp(found.marked_at, timezone.utc)
    state, why = found.state, "; ".join(found.why)
    if came and state == "ready" and late_after_h is not None:
        due = datetime.fromisoformat(f"{found.day}T00:00+00:00") + timedelta(hours=late_after_h)
        if came > due:
            state, why = "late", f"due by {due:%F %R}Z"
    return {
        **{"source": found.table, "day": found.day, "state": state, "files": found.files},
        **{"rows": found.rows, "marked_at": came and came.replace(microsecond=0), "why": why},
    }


def _chosen(project: Path, patterns: Sequence[str]) -> Iterator[LandingTable]:
    found = {table.name: table for table in _landing_tables(project)}
    for pattern in patterns:
        if not any(_is_named(name, pattern) for name in found):
            fix = did_you_mean(pattern, found, f"name one of {', '.join(found)}")
            why = "no source that is files has this name"
            raise ConfigError(f"cannot wait for {pattern!r}", why=why, fix=fix)
    for name, table in found.items():
        if not patterns or any(_is_named(name, pattern) for pattern in patterns):
            yield table


def _is_named(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[0], pattern)


def _landing_tables(project: Path) -> Iterator[LandingTable]:
    from icegate.landing import landing_table
    from icegate.nodes import read_manifest

    for source in read_manifest(project, "the project's sources")["sources"].values():
        meta = meta_of(source)
        if "location" not in meta:
            continue
        name = f"{source['source_name']}.{source['name']}"
        columns = (SimpleNamespace(**column) for column in source["columns"].values())
        table = landing_table(
            name, str(project / meta["location"]), meta.get("format", "json"), columns
        )
        if len(Path(table.pattern).parts) != 2:
            raise ConfigError(
                f"cannot wait for source {name}",
                why=f"its location has no folder for each day: {meta['location']}",
                fix="have it end with `/*/<files>`, where the folder's name is the day",
            )
        yield table
