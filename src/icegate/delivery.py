"""What of a source's files has come for a day, and whether it's what the marker promises."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from icegate.errors import LandingError
from icegate.landing import (
    MARKER,
    LandingTable,
    Promised,
    check_complete,
    check_file,
    read_marker,
)


class Delivery(NamedTuple):
    """What of a table has come for a day.

    ``state`` is ready, missing or contradicting; ``files`` and ``rows`` are those that the marker
    promises, or without one the files that are there; ``marked_at`` is in seconds.
    """

    table: str
    day: str
    state: str
    files: int
    rows: int | None
    marked_at: float | None
    why: list[str]


def delivery(table: LandingTable, day: str) -> Delivery:
    """Look whether a day of a table is there and whole; each of its files is read."""
    folder, pattern = table.folder / day, Path(table.pattern).name
    here = {path.name for path in folder.glob(pattern) if path.is_file()}
    marker = folder / MARKER
    if not marker.is_file():
        why = f"no {MARKER} in {folder}" if folder.is_dir() else f"no folder {folder}"
        return Delivery(table.name, day, "missing", len(here), None, None, [why])
    marked_at = marker.stat().st_mtime
    try:
        promised = read_marker(table, marker)
    except LandingError as error:
        wrong = [f"{MARKER}: {error.why}"]
        return Delivery(table.name, day, "contradicting", len(here), None, marked_at, wrong)
    own = {name for name in promised if fnmatch(name, pattern)}
    wrong = [
        f"{n}: {why}" for n in sorted(own | here) if (why := _wrong(table, folder / n, promised))
    ]
    rows = sum(promised[name]["rows"] for name in own)
    state = "contradicting" if wrong else "ready"
    return Delivery(table.name, day, state, len(own), rows, marked_at, wrong)


def _wrong(table: LandingTable, path: Path, promised: Promised) -> str:
    try:
        check_complete(table, path.parent, {path.name} & promised.keys())
        check_file(table, path, promised)
    except LandingError as error:
        return error.why
    return ""
