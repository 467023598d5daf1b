"""Which snapshots a table still has though its own retention would let them go."""

from __future__ import annotations

from collections.abc import Iterator

from icegate.gate.refs import MAIN, Metadata, head
from icegate.health.limits import Limits
from icegate.tables.metadata import ancestry


def expired(metadata: Metadata, limits: Limits, now_ms: int) -> list[int]:
    """Return the ids of the snapshots that Iceberg would expire by the table's own properties.

    Branches may have a retention of their own, and a tag keeps the snapshot that it's at.
    """
    at = {s["snapshot-id"]: s["timestamp-ms"] for s in metadata.get("snapshots") or []}
    kept, referenced = set[int](), set[int]()
    main = {"type": "branch", "snapshot-id": head(metadata)}
    for name, ref in ({MAIN: main} | (metadata.get("refs") or {})).items():
        newest, ref_age = ref["snapshot-id"], ref.get("max-ref-age-ms", limits.ref_age)
        if name != MAIN and now_ms - at.get(newest, now_ms) > ref_age:
            continue
        if ref["type"] == "tag":
            referenced.add(newest)
            kept.add(newest)
            continue
        ids = [snapshot["snapshot-id"] for snapshot in ancestry(metadata, newest)]
        referenced.update(ids)
        least = ref.get("min-snapshots-to-keep", limits.snapshots)
        since = now_ms - ref.get("max-snapshot-age-ms", limits.snapshot_age)
        kept.update(ids[:least], _younger(ids, at, since))
    loose = (id for id in at if id not in referenced and at[id] >= now_ms - limits.snapshot_age)
    return [id for id in at if id not in kept.union(loose)]


def _younger(ids: list[int], at: dict[int, int], since: int) -> Iterator[int]:
    for id in ids:
        if at[id] < since:
            return
        yield id
