"""What a table's readers lose, in points of 100.

The weights of small files (40), of rows of equality deletes (40, all of them lost when there is one
for ten rows of data) and of position deletes (20, one for five) are those of Amoro's health score.
Amoro averages partitions, and judges a file by its size. Here a file costs what opening it costs:
Iceberg's own `read.split.open-file-cost`, 4 MiB, against the bytes that are read anyway, and only
files count that compaction would save. The worst partition counts half, so that no average hides
it. Added are manifests, snapshots, `metadata.json`, dangling deletes, `count(*)`, old specs, skew.

Up to 12 files (where Amoro begins) cost nothing, and from 100 on (where AWS Glue does) all that
they can. A table within one target file and of up to 12 files has nothing to gain.
"""

from __future__ import annotations

from icegate.health.files import Part
from icegate.health.limits import MIB, Limits

FEW, MANY = 12, 100  # files
LIGHT, HEAVY = 1 * MIB, 10 * MIB  # of a metadata.json
SKEWED = 10  # times the bytes of the median partition


def is_tiny(part: Part, limits: Limits) -> bool:
    """Tell whether there is nothing to gain: few files, and all data fits into one."""
    return part.files + part.deletes + part.dangling <= FEW and part.bytes < limits.target


def ramp(value: float, low: float = FEW, high: float = MANY) -> float:
    """Return how much a number counts: 0 up to the low one, 1 from the high one on."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def weight(part: Part, limits: Limits) -> float:
    """Return how much the deletes of a partition or table count, 0 to 1: by its files or bytes."""
    if is_tiny(part, limits):
        return 0.0
    return max(ramp(part.files + part.deletes), min(1.0, part.bytes / limits.target))


def opening(opened: int, part: Part, limits: Limits) -> float:
    """Return which share of a full read goes into opening so many of its files, 0 to 1."""
    every = (part.files + part.deletes) * limits.open_cost
    return opened * limits.open_cost / (part.bytes + every) if opened else 0.0


def of_files(part: Part, limits: Limits) -> dict[str, float]:
    """Return what the files of a partition or a whole table cost, by reason."""
    rows, counted = max(1, part.rows), weight(part, limits)
    merged = max(part.deleted_rows / rows / 0.2, opening(part.deletes, part, limits))
    dangling = part.dangling and counted
    return {
        "small files": 40 * ramp(part.spare) * opening(part.spare, part, limits),
        "equality deletes": 40 * counted * min(1.0, part.equality_rows / rows / 0.1),
        "delete files": 20 * counted * min(1.0, merged),
        "dangling deletes": max(1, 5 * ramp(part.dangling)) if dangling else 0,
    }
