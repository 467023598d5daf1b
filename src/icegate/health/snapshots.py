"""Which snapshots a table still has though its own retention would let them go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from icegate.gate.refs import BRANCH_PREFIX, MAIN, TAG_PREFIX, Metadata, head, is_held
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
        newest = ref["snapshot-id"]
        if name != MAIN and _is_old(ref, at, limits, now_ms):
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


def expired_refs(
    metadata: Metadata, limits: Limits, now_ms: int, protected: Sequence[str]
) -> list[str]:
    """Return branches and tags that Iceberg would drop with what expires, and that have to stay.

    Those are releases, builds that nobody has rejected, and what a pattern of ``protected`` names.
    """
    return [
        name
        for name in old_refs(metadata, limits, now_ms)
        if name.startswith(TAG_PREFIX)
        or (name.startswith(BRANCH_PREFIX) and not is_held(metadata, name))
        or any(fnmatchcase(name, pattern) for pattern in protected)
    ]


def old_refs(metadata: Metadata, limits: Limits, now_ms: int) -> list[str]:
    """Return the branches and tags whose own retention, or the table's, has run out."""
    at = {s["snapshot-id"]: s["timestamp-ms"] for s in metadata.get("snapshots") or []}
    refs = (metadata.get("refs") or {}).items()
    return [name for name, ref in refs if name != MAIN and _is_old(ref, at, limits, now_ms)]


def _is_old(ref: Metadata, at: dict[int, int], limits: Limits, now_ms: int) -> bool:
    age_ms = now_ms - at.get(ref["snapshot-id"], now_ms)
    return bool(age_ms > ref.get("max-ref-age-ms", limits.ref_age))


def _younger(ids: list[int], at: dict[int, int], since: int) -> Iterator[int]:
    for id in ids:
        if at[id] < since:
            return
        yield id
