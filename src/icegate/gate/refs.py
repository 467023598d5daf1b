"""Branches, tags and `main` in a table's metadata, read and edited as the JSON that it is.

As JSON, so that fields which only a newer Iceberg knows survive, format v3's among them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from icegate.tables.metadata import ancestry, row_count

MAIN = "main"
WAP_ENABLED = "write.wap.enabled"
BUILD_STAMP = "icegate.build"  # in the summary of each snapshot that a build wrote
RELEASE_STAMP, NODE_STAMP = "icegate.release", "icegate.node"  # likewise, once it's published
HALVES = "icegate.merging"  # a property: which branch was where before the delete of a merge
BRANCH_PREFIX = "build_"
TAG_PREFIX = "release_"
HELD_MS = 7 * 24 * 3600 * 1000
FOR_EVER_MS = 2**63 - 1

Metadata = dict[str, Any]


def branch_of(build: str) -> str:
    """Return the branch that a build writes to."""
    return f"{BRANCH_PREFIX}{build}"


def tag_of(release: int) -> str:
    """Return the tag of a release."""
    return f"{TAG_PREFIX}{release}"


def head(metadata: Metadata, ref: str = MAIN) -> int | None:
    """Return the snapshot id that a branch or tag is at, None when there is no such ref."""
    found = (metadata.get("refs") or {}).get(ref)
    if found is None and ref == MAIN:  # before Iceberg had refs, and tables without rows
        current = metadata.get("current-snapshot-id")
        return current if current not in (None, -1) else None
    return found["snapshot-id"] if found else None


def snapshot(metadata: Metadata, snapshot_id: int | None) -> Metadata | None:
    """Return a snapshot that is still kept."""
    found = (s for s in metadata.get("snapshots") or [] if s["snapshot-id"] == snapshot_id)
    return next(found, None)


def is_gated(metadata: Metadata) -> bool:
    """Tell whether a table has the gate's property."""
    return (metadata.get("properties") or {}).get(WAP_ENABLED) == "true"


def rows_between(metadata: Metadata, old: int | None, new: int | None) -> int | None:
    """Return how many more rows a snapshot has than another, where their summaries tell."""
    before, after = (
        0 if id is None else row_count((snapshot(metadata, id) or {}).get("summary", {}))[0]
        for id in (old, new)
    )
    return None if before is None or after is None else after - before


def base_of(metadata: Metadata, branch: str) -> int | None:
    """Return the snapshot that `main` was at when a branch began; None if it had no rows yet.

    That is the newest ancestor which `main` ever was at: its log keeps what a rollback left.
    """
    was_main = {entry["snapshot-id"] for entry in metadata.get("snapshot-log") or []}
    was_main.add(head(metadata))
    parent: int | None = None
    for found in ancestry(metadata, head(metadata, branch)):
        if found["snapshot-id"] in was_main:
            return found["snapshot-id"]
        parent = found.get("parent-snapshot-id")
    return parent


def only_compacted(metadata: Metadata, base: int | None) -> bool:
    """Tell whether `main` has only moved rows between files since it was at ``base``."""
    for found in ancestry(metadata, head(metadata)):
        if found["snapshot-id"] == base:
            return True
        if found.get("summary", {}).get("operation") != "replace":
            return False
    return False


class Leak(NamedTuple):
    """Writes of a build that came to `main` rather than to its branch.

    ``before`` is where `main` was; ``on_top`` tells whether others have written since.
    """

    before: int | None
    on_top: bool


def leak(metadata: Metadata, build: str) -> Leak | None:
    """Return what of a build is on `main` and was never published: no release has a tag on it."""
    refs = (metadata.get("refs") or {}).items()
    tagged = {ref["snapshot-id"] for name, ref in refs if name.startswith(TAG_PREFIX)}
    found, on_top = False, False
    for at in ancestry(metadata, head(metadata)):
        is_ours = at.get("summary", {}).get(BUILD_STAMP) == build
        if at["snapshot-id"] in tagged or (found and not is_ours):
            return Leak(at["snapshot-id"], on_top) if found else None
        found, on_top = found or is_ours, on_top or not (found or is_ours)
    return Leak(None, on_top) if found else None


def set_main(metadata: Metadata, snapshot_id: int | None) -> Metadata:
    """Return the metadata with `main` at a snapshot, or without it: a table that has no rows."""
    refs = dict(metadata.get("refs") or {})
    if snapshot_id is None:
        refs.pop(MAIN, None)
        return {**metadata, "refs": refs, "current-snapshot-id": -1}
    refs[MAIN] = {**refs.get(MAIN, {}), "snapshot-id": snapshot_id, "type": "branch"}
    entry = {"snapshot-id": snapshot_id, "timestamp-ms": now_ms(metadata)}
    return {
        **metadata,
        "refs": refs,
        "current-snapshot-id": snapshot_id,
        "snapshot-log": [*(metadata.get("snapshot-log") or []), entry],
        "last-updated-ms": entry["timestamp-ms"],
    }


def set_schema(metadata: Metadata, schema_id: int) -> Metadata:
    """Return the metadata with another of its schemas as the one that readers get."""
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == schema_id)
    of_version_1 = {"schema": schema} if "schema" in metadata else {}
    return {**metadata, **of_version_1, "current-schema-id": schema_id}


def open_branch(metadata: Metadata, branch: str) -> Metadata:
    """Return the metadata with a branch that begins where `main` is, if there isn't one yet.

    A branch that Iceberg itself begins counts its rows from zero: its totals stay wrong.
    """
    main, refs = head(metadata), metadata.get("refs") or {}
    if branch in refs:
        return _without_half(metadata, branch)
    if main is None:
        return metadata
    return {**metadata, "refs": {**refs, branch: {"snapshot-id": main, "type": "branch"}}}


def begin_halves(metadata: Metadata, branch: str) -> Metadata:
    """Return the metadata that remembers where a branch is, before the delete of a merge."""
    return with_properties(metadata, {HALVES: f"{branch} {head(metadata, branch)}"})


def _without_half(metadata: Metadata, branch: str) -> Metadata:
    """Return the metadata without a delete whose insert never came: its process was stopped."""
    of, _, before = (metadata.get("properties") or {}).get(HALVES, "").partition(" ")
    at = snapshot(metadata, head(metadata, branch)) or {}
    deleted = at.get("summary", {}).get("operation") == "delete"
    if of != branch or not deleted or str(at.get("parent-snapshot-id")) != before:
        return metadata
    back = {**metadata["refs"][branch], "snapshot-id": int(before)}
    kept = with_properties(metadata, {}, gone=[HALVES])
    return {**kept, "refs": {**metadata["refs"], branch: back}}


def is_overtaken(metadata: Metadata, branch: str) -> bool:
    """Tell whether someone changed rows of `main` after a branch had begun."""
    if branch not in (metadata.get("refs") or {}):
        return False
    base = base_of(metadata, branch)
    return head(metadata) != base and not only_compacted(metadata, base)


def release(
    metadata: Metadata, snapshot_id: int, number: int, build: str = "", node: str = ""
) -> Metadata:
    """Return the metadata with `main` and the tag of a release at a snapshot.

    The snapshots of its build are signed with what wasn't known when they were committed.
    """
    edited = metadata
    if head(metadata) != snapshot_id or MAIN not in (metadata.get("refs") or {}):
        edited = set_main(metadata, snapshot_id)
    tag = {"snapshot-id": snapshot_id, "type": "tag"}
    signs = {RELEASE_STAMP: str(number), NODE_STAMP: node}
    signed = [
        {**s, "summary": {**s["summary"], **signs}}
        if build and s.get("summary", {}).get(BUILD_STAMP) == build
        else s
        for s in edited["snapshots"]
    ]
    return {**edited, "snapshots": signed, "refs": {**edited["refs"], tag_of(number): tag}}


def with_releases(metadata: Metadata) -> Metadata:
    """Return the metadata with the releases of its snapshots where only their tags tell.

    In a REST catalog no snapshot is signed: its server takes no change of one that is there.
    """
    first: dict[str, int] = {}
    for number, snapshot_id in releases(metadata).items():
        found = snapshot(metadata, snapshot_id) or {}
        first.setdefault(found.get("summary", {}).get(BUILD_STAMP, ""), number)
    snapshots = [
        {**s, "summary": {RELEASE_STAMP: str(first[build]), **s["summary"]}}
        if (build := s.get("summary", {}).get(BUILD_STAMP)) in first
        else s
        for s in metadata.get("snapshots") or []
    ]
    return {**metadata, "snapshots": snapshots}


def without_refs(metadata: Metadata, names: Collection[str]) -> Metadata:
    """Return the metadata without these branches and tags; their snapshots expire later."""
    refs = metadata.get("refs") or {}
    return {**metadata, "refs": {name: ref for name, ref in refs.items() if name not in names}}


def keep(metadata: Metadata, tag: str, snapshot_id: int, age_ms: int = FOR_EVER_MS) -> Metadata:
    """Return the metadata with a tag on a snapshot that it has, until that is of an age."""
    wanted = {"snapshot-id": snapshot_id, "type": "tag", "max-ref-age-ms": age_ms}
    refs = metadata.get("refs") or {}
    if refs.get(tag) == wanted or snapshot(metadata, snapshot_id) is None:
        return metadata
    return {**metadata, "refs": {**refs, tag: wanted}}


def oldest_kept(metadata: Metadata, prefix: str) -> tuple[str, int] | None:
    """Return the tag of that prefix on the oldest snapshot, and when that was made, in ms."""
    found = (
        (at["timestamp-ms"], name)
        for name, ref in (metadata.get("refs") or {}).items()
        if name.startswith(prefix) and (at := snapshot(metadata, ref["snapshot-id"]))
    )
    at_ms, name = min(found, default=(0, ""))
    return (name, at_ms) if name else None


def next_metadata(metadata: Metadata, location: str) -> Metadata:
    """Return edited metadata as the one that follows ``location``, which its log then names.

    The log isn't cut here: the next commit of Iceberg does that and deletes what it cuts.
    """
    previous = {"metadata-file": location, "timestamp-ms": metadata["last-updated-ms"]}
    log = [*(metadata.get("metadata-log") or []), previous]
    return {**metadata, "metadata-log": log, "last-updated-ms": now_ms(metadata)}


def with_properties(
    metadata: Metadata, added: Mapping[str, str], gone: Collection[str] = ()
) -> Metadata:
    """Return the metadata with other properties, and without some."""
    kept = {k: v for k, v in (metadata.get("properties") or {}).items() if k not in gone}
    return {**metadata, "properties": {**kept, **added}}


def hold(metadata: Metadata, branch: str) -> Metadata:
    """Return the metadata with a branch marked as held back; its age also lets it expire."""
    refs = metadata["refs"]
    return {**metadata, "refs": {**refs, branch: {**refs[branch], "max-ref-age-ms": HELD_MS}}}


def is_held(metadata: Metadata, branch: str) -> bool:
    """Tell whether a branch was held back by a build that ended, rather than left by a crash."""
    return "max-ref-age-ms" in metadata["refs"][branch]


def releases(metadata: Metadata) -> dict[int, int]:
    """Return the releases that have a tag here, with its snapshot id, the oldest first."""
    numbers = {
        int(name.removeprefix(TAG_PREFIX)): ref["snapshot-id"]
        for name, ref in (metadata.get("refs") or {}).items()
        if ref.get("type") == "tag" and re.fullmatch(rf"{TAG_PREFIX}[0-9]+", name)
    }
    return dict(sorted(numbers.items()))


def builds(metadata: Metadata) -> list[str]:
    """Return the builds that have a branch here."""
    return [
        name.removeprefix(BRANCH_PREFIX)
        for name, ref in (metadata.get("refs") or {}).items()
        if name.startswith(BRANCH_PREFIX) and ref["type"] == "branch"
    ]


def now_ms(metadata: Metadata) -> int:
    """Return the time, in ms, never before the last change: Iceberg refuses a log out of order."""
    return max(int(time.time() * 1000), metadata["last-updated-ms"])
