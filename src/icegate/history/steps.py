"""The versions of a table that readers had one after the other, and where to go on among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from icegate.errors import TableError
from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.tables.metadata import ancestry, is_known_until_next, moment

TAG = "history_"  # how the tags begin that keep what a history goes on from
# A property of a history, pairs of bookmark and snapshot: its rows tell up to the first, and the
# second, with when it was logged, stands for it: nothing changed between them, an erasure took the
# first one away, or it is the first one itself.
GOES_ON = "icegate.history-goes-on"
KEPT_PAIRS = 4  # what builds that wait or were rejected looked at has some, too
ERROR, BRIDGE = GAPS = ("error", "bridge")


class Bookmark(NamedTuple):
    """The version up to which a history is told, and its time in µs since 1970.

    ``logged_ms`` is when readers had it, by the table's log, in ms since 1970; 0 where that isn't
    known. A rollback brings a version back, which is logged again.
    """

    snapshot_id: int
    at: int
    logged_ms: int = 0


@dataclass(frozen=True)
class Step:
    """From one version to the next, None before the first; ``at`` is its time in µs since 1970.

    ``is_known_whole`` is false for the first one that is kept of a table with a longer past.
    """

    old: int | None
    new: int
    at: int
    is_known_whole: bool = True


class _Entry(NamedTuple):
    snapshot_id: int
    logged_ms: int


def steps(
    table: str, metadata: Metadata, branch: str, since: Bookmark | None, gap: str = ERROR
) -> list[Step]:
    """Return what happened to a table since a bookmark, or since its oldest version that is kept.

    The versions are those that `main` was at (a rollback is one more), and then the end of
    ``branch``. Each has a later time than the one before. Compaction is no step. With ``gap``
    'bridge' what expired since the bookmark is one step. Raises ``TableError`` for a gap otherwise.
    """
    entries = _entries(metadata, branch)
    if since is None:
        if not entries:
            return []
        begin = _begin(metadata, entries)
        return [begin, *_steps(metadata, Bookmark(begin.new, begin.at), entries[1:])]
    return [*_steps(metadata, since, _after(table, metadata, entries, branch, since, gap))]


def to_head(metadata: Metadata, since: Bookmark | None) -> list[Step]:
    """Return the one step from a version to where `main` is, if that is another."""
    head = refs.head(metadata)
    if head is None or (since is not None and since.snapshot_id == head):
        return []
    at_ms = (refs.snapshot(metadata, head) or {})["timestamp-ms"]
    if since is None:
        return [Step(None, head, at_ms * 1000)]
    return [*_steps(metadata, since, [_Entry(head, at_ms)])]


def looked_at(mark: Bookmark, snapshot_id: int, source: Metadata) -> Bookmark:
    """Return the bookmark of a version that was looked at, of the source or of a build's branch."""
    log = source.get("snapshot-log") or [{}]
    is_logged = refs.head(source) == snapshot_id == log[-1].get("snapshot-id")
    return Bookmark(snapshot_id, mark.at, log[-1]["timestamp-ms"] if is_logged else 0)


def going_on(history: Metadata, mark: Bookmark, looked: Bookmark) -> Metadata:
    """Return the metadata of a history that has looked up to a version and found no more rows."""
    properties = history.get("properties") or {}
    told = _pairs(history)
    known = [now for since, now in told if since == mark]
    if (known or [mark])[-1] == looked:
        return history
    pairs = [*told, (mark, looked)][-KEPT_PAIRS:]
    text = " ".join(f"{m.snapshot_id}@{m.at} {at.snapshot_id}@{at.logged_ms}" for m, at in pairs)
    return {**history, "properties": {**properties, GOES_ON: text}}


def goes_on(history: Metadata, mark: Bookmark, source: Metadata) -> Bookmark:
    """Return where a history goes on by its own metadata, which may be after its rows.

    A version that readers of the source never had counts for nothing: its build was rejected.
    """
    log = {entry["snapshot-id"] for entry in source.get("snapshot-log") or []}
    log.add(refs.head(source))
    told = [now for since, now in _pairs(history) if since == mark]
    return [mark, *(now for now in told if now.logged_ms or now.snapshot_id in log)][-1]


def _pairs(history: Metadata) -> list[tuple[Bookmark, Bookmark]]:
    words = (history.get("properties") or {}).get(GOES_ON, "").split()
    numbers = [[int(number) for number in word.split("@")] for word in words]
    return [
        (Bookmark(*mark), Bookmark(now[0], mark[1], now[1]))
        for mark, now in zip(numbers[::2], numbers[1::2], strict=False)
    ]


def _begin(metadata: Metadata, entries: Sequence[_Entry]) -> Step:
    """Return the first step: all rows of the oldest version that is known."""
    id, logged_ms = entries[0]
    first = refs.snapshot(metadata, id) or {}
    number, at_ms = first.get("sequence-number", 0), first["timestamp-ms"]
    later = (refs.snapshot(metadata, entries[1].snapshot_id) or {}) if len(entries) > 1 else {}
    after = later.get("sequence-number", metadata.get("last-sequence-number", 0))
    # Logged later than committed: it was published, or came back after versions that expired.
    came_back = logged_ms > at_ms and after > number + 1
    at_ms, has_parent = logged_ms if came_back else at_ms, first.get("parent-snapshot-id")
    return Step(None, id, at_ms * 1000, has_parent is None and not came_back)


def _entries(metadata: Metadata, branch: str) -> list[_Entry]:
    """Return the versions after the newest one that has expired."""
    kept = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or []}
    found: list[_Entry] = []
    for place, entry in enumerate(metadata.get("snapshot-log") or []):
        id = entry["snapshot-id"]
        if id not in kept:
            found = []
            continue
        # Mostly one look is enough, at what it was written on top of; the other reads all versions.
        is_on_top = found and kept[id].get("parent-snapshot-id") == found[-1].snapshot_id
        if found and not is_on_top and not is_known_until_next(metadata, place - 1):
            found = []
        if not found or found[-1].snapshot_id != id:
            found.append(_Entry(id, entry["timestamp-ms"]))
    for head in (refs.head(metadata), refs.head(metadata, branch) if branch else None):
        if head is not None and (not found or found[-1].snapshot_id != head):
            found.append(_Entry(head, kept[head]["timestamp-ms"]))
    return found


def _after(
    table: str,
    metadata: Metadata,
    entries: Sequence[_Entry],
    branch: str,
    since: Bookmark,
    gap: str,
) -> Sequence[_Entry]:
    """Return the versions that came after a bookmark."""
    places = [n for n, entry in enumerate(entries) if entry.snapshot_id == since.snapshot_id]
    if since.logged_ms:
        places = [n for n in places if entries[n].logged_ms == since.logged_ms]
    later = [n for n in places if entries[n].logged_ms * 1000 + 999 >= since.at]
    if places:
        return entries[(later[0] if later else places[-1]) + 1 :]
    is_on_branch = branch and entries and not since.logged_ms
    if is_on_branch and _is_before(metadata, since.snapshot_id, entries[-1].snapshot_id):
        return entries[-1:]  # an earlier attempt of this build wrote that version
    is_kept = refs.snapshot(metadata, since.snapshot_id) is not None
    if gap == BRIDGE and is_kept:
        return [entry for entry in entries if entry.logged_ms * 1000 > since.at]
    oldest = f"{moment(entries[0].logged_ms):%Y-%m-%d %H:%M:%S} UTC" if entries else "none"
    restart = "drop the model's table to begin anew with what is kept, which loses its old versions"
    bridge = "set `+history_gap: bridge` to take what expired as one change, or "
    raise TableError(
        f"the history of {table} has a gap",
        why=f"it is told up to {moment(since.at // 1000):%Y-%m-%d %H:%M:%S} UTC, and versions "
        f"after that have expired; the oldest that goes on without a gap is of {oldest}",
        fix=f"{bridge if is_kept else ''}{restart}",
    )


def _is_before(metadata: Metadata, snapshot_id: int, head: int) -> bool:
    return any(at["snapshot-id"] == snapshot_id for at in ancestry(metadata, head))


def _steps(metadata: Metadata, since: Bookmark, entries: Iterable[_Entry]) -> Iterable[Step]:
    old, at, _ = since
    committed = (refs.snapshot(metadata, old) or {}).get("timestamp-ms", at // 1000)
    for entry in entries:
        snapshot = refs.snapshot(metadata, entry.snapshot_id) or {}
        # What is older than the one before came back by a rollback, when the log says.
        is_back = snapshot["timestamp-ms"] < committed
        committed = snapshot["timestamp-ms"]
        at = max(at + 1, (entry.logged_ms if is_back else committed) * 1000)
        moved = snapshot.get("summary", {}).get("operation") == "replace"
        if entry.snapshot_id != old and not (moved and snapshot.get("parent-snapshot-id") == old):
            yield Step(old, entry.snapshot_id, at)
        old = entry.snapshot_id
