"""What is unusual about the newest change of a table, judged by the changes before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timezone
from functools import partial
from statistics import median
from typing import Any

from icegate.anomalies import words
from icegate.anomalies.files import NUMBERS, SECONDS, fields, measured
from icegate.anomalies.history import changes, days, runs, volumes
from icegate.anomalies.look import Finding, Kind, Look, Series, Settings
from icegate.gate.refs import MAIN, Metadata
from icegate.tables.metadata import by_id, type_name

DEFAULTS = Settings()
HOUR, DAY = 3600, 86400  # in seconds


def find(
    metadata: Metadata,
    files: Any = None,
    settings: Settings = DEFAULTS,
    *,
    table: str = "",
    ref: str = MAIN,
    now: datetime | None = None,
    kinds: Collection[str] = (),
) -> list[Finding]:
    """Return what is known of the newest change of a branch or tag of a table: all, or ``kinds``.

    ``files`` reads manifests, such as ``icegate.files.StoredFiles()``; without it there is nothing
    of late data, null rates and bounds. ``now`` is what a table's age counts to.
    """
    found, wanted = runs(changes(metadata, ref)), set(kinds or FINDERS)
    wanted -= OF_FILES if files is None else set()
    if wanted & OF_FILES:
        found = measured(metadata, found, files, settings.manifests)
    look = Look(table, metadata, found, settings, now or datetime.now(timezone.utc))
    return [f for kind, finder in FINDERS.items() if kind in wanted for f in finder(look)]


def _volume(look: Look) -> Iterator[Finding]:
    """Judge how many more rows a day brings, or a change where several a day are usual.

    Where each change replaces all rows, it is how many there are then.
    """
    found = look.runs
    if sum(run.is_empty for run in found[:-1]) * 10 > len(found):  # then they say nothing
        found = [run for run in found if not run.is_empty]
    values, total = volumes(found)
    if not total and len(found) < 2 * len({run.at.date() for run in found}):
        found = days(found)
        values, _ = volumes(found)
    say = partial(words.volume, total=total)
    series = list(zip(found, values, strict=True))
    yield look.judge("volume", series, say, "rows", share=0.05, least=1)


def _cadence(look: Look) -> Iterator[Finding]:
    """Judge how long there was no change, by how long there was none after earlier ones."""
    found = [run for run in look.runs if not run.is_empty]
    ends = [run.at for run in found[1:]] + [look.now] * bool(found)
    pauses = [(r, (end - r.at).total_seconds() / HOUR) for r, end in zip(found, ends, strict=True)]
    how = {"share": 0.5, "least": 1, "sides": ("high",)}
    yield look.judge("cadence", pauses, words.cadence, "hours", **how)


def _late(look: Look) -> Iterator[Finding]:
    """Judge how old the newest event was when its rows came."""
    column = look.settings.column or event_column(look.metadata)
    if column is not None:
        series = _series(look, lambda p: (p.at.timestamp() - p.highest[column]) / HOUR)
        how = {"share": 0.25, "least": 1, "sides": ("high",), "column": column}
        yield look.judge("late data", series, partial(words.late, column), "hours", **how)


def event_column(metadata: Metadata) -> str | None:
    """Return the time column by which a table is partitioned, else the first named `…_at`."""
    times = {f["id"]: f["name"] for f in fields(metadata) if f["type"] in SECONDS}
    specs = metadata.get("partition-specs") or []
    spec = by_id(specs, "spec-id", metadata.get("default-spec-id"))
    of_partition = [times[f["source-id"]] for f in spec["fields"] if f["source-id"] in times]
    named = [name for name in times.values() if name.endswith("_at")]
    return next(iter(of_partition + named), None)


def _series(look: Look, value: Callable[[Any], float]) -> Series:
    """Return the newest changes that added rows with a value, None where nothing tells it."""
    found: Series = []
    for run in [run for run in look.runs if run.rows_added][-look.settings.manifests :]:
        try:
            found.append((run, value(run)))
        except (KeyError, TypeError, ZeroDivisionError):
            found.append((run, None))
    return found


def _nulls(look: Look, field: dict[str, Any]) -> Iterator[Finding]:
    """Judge which share of a column's values is null in the files of a change."""
    name = field["name"]
    series = _series(look, lambda p: p.null_counts[name] / p.value_counts[name])
    middle = median([share for _, share in series[:-1] if share is not None] or [0])
    newest = look.runs[-1] if look.runs else None  # none, where only maintenance's is left
    count = (newest and newest.value_counts or {}).get(name) or 1
    middle = max(middle, 1 / count)
    # In a few rows the share is off by chance, by so many of its standard deviations.
    chance = look.settings.threshold * (middle * (1 - middle) / count) ** 0.5
    how = {"share": 0.05, "least": max(0.01, chance), "column": name}
    yield look.judge("null rate", series, partial(words.nulls, name), "share", **how)


def _bounds(look: Look, field: dict[str, Any]) -> Iterator[Finding]:
    """Judge a column's lowest and highest value, of a time as days after its rows came."""
    name, of_time = field["name"], field["type"] in SECONDS
    if not (of_time or field["type"].startswith(NUMBERS)):
        return
    for side, end in (("low", "lowest"), ("high", "highest")):

        def value(point: Any, end: str = end) -> float:
            seen: float = getattr(point, end)[name]
            return (seen - point.at.timestamp()) / DAY if of_time else seen

        series = _series(look, value)
        # A value that never changed is a limit.
        is_limit = len({bound for _, bound in series[:-1]}) == 1
        # A date is known to the day: of two loads at one time, one may be later by up to a day.
        least = 2 if field["type"] == "date" else 1 if of_time else 0
        how = {"share": 0 if is_limit else 0.5, "least": least, "sides": (side,)}
        unit = "days" if of_time else ""
        say = partial(words.bound, name, unit=unit)
        yield look.judge("bounds", series, say, unit, column=name, **how)


def _each_column(
    kind: Kind, judge: Callable[[Look, dict[str, Any]], Iterator[Finding]], look: Look
) -> Iterator[Finding]:
    """Judge each column, or the one of the settings; say once when none can be judged yet."""
    chosen = look.settings.column
    wanted = [f for f in fields(look.metadata) if chosen in (None, f["name"])]
    found = [finding for field in wanted for finding in judge(look, field)]
    if chosen or any(finding.status != "not enough history" for finding in found):
        yield from found
    elif found or not wanted:
        known = [run for run in look.runs[:-1] if run.value_counts]
        yield look.too_little(kind, len(known))


def _schema(look: Look) -> Iterator[Finding]:
    """Tell what columns the table has that it hadn't before its newest change."""
    ids = [run.schema_id for run in look.runs if run.schema_id is not None]
    now = look.metadata.get("current-schema-id")
    if ids and ids[-1] == now:  # else the columns changed after it
        ids.pop()
    if not ids:
        return (yield look.too_little("schema", 0))
    schemas = (by_id(look.metadata["schemas"], "schema-id", id) for id in (ids[-1], now))
    old, new = ({f["id"]: (f["name"], type_name(f["type"])) for f in s["fields"]} for s in schemas)
    told = words.schema(old, new)
    changed = f"The columns changed with the last load: {', '.join(told)}."
    sentence = changed if told else "The columns are the same as before."
    known = {"value": float(len(told)), "unit": "columns"}
    yield look.finding("schema", "unusual" if told else "usual", sentence, **known)


OF_FILES = {"late data", "null rate", "bounds"}  # what manifests are read for
FINDERS: dict[Kind, Callable[[Look], Iterator[Finding]]] = {
    "volume": _volume,
    "cadence": _cadence,
    "late data": _late,
    "null rate": partial(_each_column, "null rate", _nulls),
    "bounds": partial(_each_column, "bounds", _bounds),
    "schema": _schema,
}
