"""Findings in sentences, for people who don't write SQL."""

from __future__ import annotations

from datetime import datetime

WHAT = {
    "volume": "how many rows are usual",
    "cadence": "how often new rows are usual",
    "late data": "how late rows usually are",
    "null rate": "how many values are usually missing",
    "bounds": "which values are usual",
    "schema": "whether the columns changed",
}


def too_little(kind: str, have: int | None, need: int, column: str | None) -> str:
    """Say that nothing can be said."""
    of = f" in {column}" if column else ""
    if have is None:
        return f"It can't be said {WHAT[kind]}{of}: the newest load doesn't tell."
    loads = "earlier load tells" if need == 1 else "earlier loads tell"
    return f"It's too early to say {WHAT[kind]}{of}: {have} of {need} {loads} of it."


def volume(
    value: float, low: float, high: float, at: datetime, *, weekly: bool, total: bool
) -> str:
    """Say how many rows came, or how many there are (``total``)."""
    count = number(abs(value)) if value else "no" if total else "No"
    rows = f"{count} {'row' if abs(value) == 1 else 'rows'}"
    came = f"{rows} {'went away' if value < 0 else 'came'} on"
    there = f"The table has {rows} since"
    when = f"on {at:%A}s " if weekly else ""
    usual = f"{number(low)} to {number(high)} are usual"
    return f"{there if total else came} {day(at)}; {when}{usual}."


def cadence(value: float, low: None, high: float, at: datetime, *, weekly: bool) -> str:
    """Say how long nothing came."""
    pause = f"a pause of up to {duration(high)} is usual{f' after a {at:%A}' if weekly else ''}"
    return f"The last rows came {duration(value)} ago, on {day(at)}; {pause}."


def late(column: str, value: float, low: None, high: float, at: datetime) -> str:
    """Say how old the newest event was."""
    ago = f"{duration(abs(value))} {'before' if value >= 0 else 'after'}"
    usual = f"up to {duration(max(high, 0))} before is usual"
    return f"The newest {column} is from {ago} its rows came on {day(at)}; {usual}."


def nulls(column: str, value: float, low: float, high: float, at: datetime) -> str:
    """Say which share of a column is missing."""
    usual = f"{percent(low)} to {percent(min(high, 1.0))} is usual"
    return f"{percent(value)} of {column} is missing in the rows of {day(at)}; {usual}."


def bound(
    column: str, value: float, low: float | None, high: float | None, at: datetime, unit: str
) -> str:
    """Say the lowest or the highest value of a column."""
    end, limit, above = ("highest", high, "up to") if low is None else ("lowest", low, "from")
    said, usual = number(value), f"{above} {number(limit or 0)} is usual"
    if unit == "days":
        end = "latest" if low is None else "earliest"
        said, usual = _moved(value), f"{above} {_moved(limit or 0)} is usual"
    return f"The {end} {column} in the rows of {day(at)} is {said}; {usual}."


def schema(old: dict[int, tuple[str, str]], new: dict[int, tuple[str, str]]) -> list[str]:
    """Say of each column that changed what it is now; given are name and type by column id."""
    told = [f"{name} ({kind}) is new" for id, (name, kind) in new.items() if id not in old]
    told += [f"{name} is gone" for id, (name, _) in old.items() if id not in new]
    for id in (id for id in new if id in old):
        (was, old_kind), (name, kind) = old[id], new[id]
        told += [f"{was} is called {name} now"] if was != name else []
        told += [f"{name} is {kind}, and was {old_kind}"] if kind != old_kind else []
    return told


def number(value: float) -> str:
    """Return a number as people write it: 5,200 or 0.25."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"


def percent(share: float) -> str:
    """Return a share as `12%`; of a small one also the tenths."""
    return f"{share:.0%}" if share >= 0.1 or not share else f"{share:.1%}"


def day(at: datetime) -> str:
    """Return `Monday 23 November 2026`."""
    return f"{at:%A} {at.day} {at:%B %Y}"


def duration(hours: float) -> str:
    """Return a time span in the unit that fits."""
    for unit, length in (("days", 24.0), ("hours", 1.0)):
        if hours >= 2 * length:
            return f"{hours / length:,.0f} {unit}"
    return f"{hours * 60:.0f} minutes"


def _moved(days: float) -> str:
    return f"{duration(abs(days) * 24)} {'after' if days > 0 else 'before'} they came"
