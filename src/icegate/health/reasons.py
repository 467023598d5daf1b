"""Why a table has the score that it has, in words, and the commands that mend it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from icegate.health import score
from icegate.health.files import SMALL, Part
from icegate.health.limits import DAY_MS, MIB, Limits

COMPACT, EXPIRE, REWRITE = "compact", "expire_snapshots", "rewrite_manifests"
# By itself compaction leaves a file of the right size, with up to 30 % of its rows deleted.
OPTIONS = {
    "delete files": "delete-file-threshold: 1",
    "equality deletes": "delete-file-threshold: 1",
    "count(*)": "delete-file-threshold: 1",
    "old partitions": "rewrite-all: true",
}
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (MIB, "MiB"), (2**10, "KiB"), (1, "bytes"))


@dataclass(frozen=True)
class Reason:
    """Why a table has less than 100 points, and the command that mends it."""

    name: str
    points: int
    sentence: str
    command: str


@dataclass(frozen=True)
class Around:
    """What there is of a table beside its files; None isn't known."""

    spec_id: int
    snapshots: int
    expired: int
    oldest_days: float
    metadata_bytes: int | None
    manifests: int | None = None
    manifest_bytes: int | None = None


def of_part(part: Part, limits: Limits, table: str) -> tuple[Reason, ...]:
    """Return the reasons for a partition's score, the one that costs most first."""
    costs = score.of_files(part, limits).items()
    return _told(((name, cost, _said(name, part, limits), COMPACT) for name, cost in costs), table)


def of_table(
    parts: Sequence[Part], total: Part, around: Around, limits: Limits, table: str
) -> tuple[Reason, ...]:
    """Return the reasons for a table's score, the one that costs most first."""
    found = [
        *_of_files(parts, total, limits),
        *_of_layout(parts, total, around, limits),
        *_of_metadata(total, around, limits),
    ]
    return _told(found, table)


Found = tuple[str, float, str, str]  # name, points, sentence, macro


def _told(found: Iterable[Found], table: str) -> tuple[Reason, ...]:
    reasons = (
        Reason(name, round(cost), said[0].upper() + said[1:], _command(name, macro, table))
        for name, cost, said, macro in found
    )
    return tuple(sorted((r for r in reasons if r.points), key=lambda reason: -reason.points))


def _command(name: str, macro: str, table: str) -> str:
    options = f", options: {{{OPTIONS[name]}}}" if name in OPTIONS else ""
    return f"dbt run-operation {macro} --args '{{table: {table}{options}}}'" if macro else ""


def _of_files(parts: Sequence[Part], total: Part, limits: Limits) -> Iterator[Found]:
    """Yield what files cost in all, or half of what they cost in the worst partition."""
    by_part = [(part, score.of_files(part, limits)) for part in parts]
    for name, cost in score.of_files(total, limits).items():
        half, place = max(((c[name] / 2, i) for i, (_, c) in enumerate(by_part)), default=(0, 0))
        if half > cost:
            worst = parts[place]
            where = f"in {worst.name or 'files of no partition'}, "
            yield name, half, where + _said(name, worst, limits), COMPACT
        else:
            yield name, cost, _said(name, total, limits), COMPACT


def _said(name: str, part: Part, limits: Limits) -> str:
    vectors = [many(part.vectors, "deletion vector")] if part.vectors else []
    files = [many(part.delete_files, "delete file")] if part.delete_files else []
    rows = many(part.rows, "row")
    return {
        "small files": f"{part.small:,} of {many(part.files, 'file')} are smaller than "
        f"{size(SMALL * limits.target)} (75 % of {size(limits.target)}); a reader opens "
        f"{many(part.files, 'file')} where {part.files - part.spare:,} would do",
        "equality deletes": f"a reader compares {rows} with {part.equality_rows:,} of "
        f"{many(part.equality_deletes, 'equality delete file')}",
        "delete files": f"{part.deleted_rows:,} of {rows} are deleted by "
        f"{' and '.join(files + vectors)}, which each reader merges",
        "dangling deletes": f"{many(part.dangling, 'delete file')} of "
        f"{part.dangling + part.deletes:,} are for data that is gone: plans still read them, "
        "and the number of rows is an estimate",
    }[name]


def _of_layout(
    parts: Sequence[Part], total: Part, around: Around, limits: Limits
) -> Iterator[Found]:
    counted = score.weight(total, limits)
    if total.deletes and counted:
        said = "`select count(*)` reads data; without delete files metadata alone would answer it"
        yield "count(*)", max(1, 5 * counted), said, COMPACT
    if total.files <= score.FEW:
        return
    old = sum(part.files for part in parts if part.spec_id != around.spec_id)
    if old:
        said = f"{old:,} of {many(total.files, 'file')} lie in partitions of before: a filter on "
        said += "today's skips none of them"
        yield "old partitions", max(1, 5 * old / total.files), said, COMPACT
    present = [part for part in parts if part.spec_id == around.spec_id and part.files]
    largest = max(present, key=lambda part: part.bytes, default=total)
    times = largest.bytes / max(1, median([part.bytes for part in present] or [total.bytes]))
    if times >= score.SKEWED and largest.bytes > score.FEW * limits.target:
        said = f"partition {largest.name} has {size(largest.bytes)}, {times:,.0f} times the median "
        said += "partition: the model's `partition_by` can split it"
        yield "skew", max(1, 5 * score.ramp(times, score.SKEWED)), said, ""


def _of_metadata(total: Part, around: Around, limits: Limits) -> Iterator[Found]:
    if around.manifests and around.manifest_bytes:
        full = max(around.manifest_bytes / limits.manifest_target, total.files / score.MANY)
        enough = max(1, math.ceil(full))
        spare, each = around.manifests - enough, around.manifest_bytes / around.manifests
        said = f"a plan reads {around.manifests:,} manifests of about {size(each)} for "
        said += f"{many(total.files, 'file')}, where {enough:,} would do"
        yield "manifests", 10 * score.ramp(spare) * spare / around.manifests, said, REWRITE
    snapshots = many(around.snapshots, "snapshot")
    said = f"{around.expired:,} of {snapshots} are past the table's own retention "
    said += f"({many(limits.snapshot_age / DAY_MS, 'day')}); "
    said += f"the oldest is {many(around.oldest_days, 'day')} old"
    yield "snapshots", 10 * score.ramp(around.expired), said, EXPIRE
    own = around.metadata_bytes or 0
    said = f"its metadata.json has {size(own)} for {snapshots}, and is read before all else"
    yield "metadata.json", 10 * score.ramp(own, score.LIGHT, score.HEAVY), said, EXPIRE


def many(number: float, noun: str) -> str:
    """Return `1 file`, or `1,200 files`."""
    return f"{number:,.0f} {noun}{'' if round(number) == 1 else 's'}"


def size(number: float) -> str:
    """Return bytes in the units that properties of Iceberg mean: 96 MiB."""
    unit, name = next((each for each in UNITS if number >= each[0]), UNITS[-1])
    return f"{number / unit:,.4g} {name}"
