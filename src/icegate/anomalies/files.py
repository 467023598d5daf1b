"""What manifests say of the data files that a table's newest changes added, by column."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from icegate.anomalies.history import Point
from icegate.gate.refs import Metadata
from icegate.tables.metadata import by_id

NUMBERS = ("int", "long", "float", "double", "decimal")
SECONDS = {"date": 86400.0, "timestamp": 1e-6, "timestamptz": 1e-6}  # of what a bound counts


def fields(metadata: Metadata) -> list[dict[str, Any]]:
    """Return the columns that a table has now, as its metadata writes them; no nested ones."""
    schema = by_id(metadata["schemas"], "schema-id", metadata.get("current-schema-id"))
    return [field for field in schema["fields"] if isinstance(field["type"], str)]


def measured(metadata: Metadata, points: list[Point], io: Any, last: int) -> list[Point]:
    """Return changes, of which the ``last`` know what their own data files hold.

    Read are their lists of manifests, and the manifests that they wrote: no data file. A change
    whose manifests are gone stays as it was. Text has no bounds, since Iceberg cuts them off.
    """
    known = {s["snapshot-id"]: s for s in metadata.get("snapshots") or []}
    columns, found = fields(metadata), list(points)
    for place in range(max(0, len(points) - last), len(points)):
        with suppress(OSError, KeyError):
            parts = (known[part] for part in points[place].parts)
            files = [file for snapshot in parts for file in _added(snapshot, io)]
            found[place] = _with(points[place], files, columns)
    return found


def _added(snapshot: dict[str, Any], io: Any) -> Iterator[Any]:
    """Yield the data files that a snapshot added."""
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, read_manifest_list

    own = snapshot["snapshot-id"]
    for manifest in read_manifest_list(io.new_input(snapshot["manifest-list"])):
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == own:
            for entry in manifest.fetch_manifest_entry(io):
                if entry.status == ManifestEntryStatus.ADDED:
                    yield entry.data_file


def _with(point: Point, files: list[Any], columns: list[dict[str, Any]]) -> Point:
    nulls, values, lowest, highest = dict[str, int](), dict[str, int](), {}, {}
    for field in columns:
        id, name, as_number = field["id"], field["name"], _reader(field["type"])
        if all(id in (file.null_value_counts or {}) for file in files):
            nulls[name] = sum(file.null_value_counts[id] for file in files)
            values[name] = sum(file.record_count for file in files)
        lows = [as_number((file.lower_bounds or {}).get(id)) for file in files]
        highs = [as_number((file.upper_bounds or {}).get(id)) for file in files]
        if any(low is not None for low in lows) and any(high is not None for high in highs):
            lowest[name] = min(low for low in lows if low is not None)
            highest[name] = max(high for high in highs if high is not None)
    return replace(point, null_counts=nulls, value_counts=values, lowest=lowest, highest=highest)


def _reader(kind: str) -> Callable[[bytes | None], float | None]:
    """Return what makes a number of a bound, and None of one that isn't there or is no number."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import IcebergType, PrimitiveType

    if not kind.startswith(NUMBERS) and kind not in SECONDS:
        return lambda raw: None
    type_, scale = IcebergType.model_validate(kind), SECONDS.get(kind, 1.0)
    assert isinstance(type_, PrimitiveType)

    def as_number(raw: bytes | None) -> float | None:
        with suppress(struct.error, OverflowError):  # of a type that the column had before
            value = math.nan if raw is None else float(from_bytes(type_, raw)) * scale
            return value if math.isfinite(value) else None
        return None

    return as_number
