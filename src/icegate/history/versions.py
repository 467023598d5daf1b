"""A table as it was: the snapshot that a number, a tag, a release or a time means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from typing import Any

from icegate.errors import ConfigError, TableError, did_you_mean
from icegate.gate import refs
from icegate.gate.history import snapshot_in_release
from icegate.gate.refs import Metadata
from icegate.settings import Lake
from icegate.tables.metadata import by_id, is_known_until_next, moment

HOW = ("snapshot", "tag", "release", "timestamp")
RELEASE = re.compile(rf"{refs.TAG_PREFIX}([0-9]+)")
TIME = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ])")


@dataclass(frozen=True)
class Version:
    """A snapshot of a table, and the id of its schema; no snapshot before the first rows."""

    snapshot_id: int | None
    schema_id: int

    def fields(self, metadata: Metadata) -> list[dict[str, Any]]:
        """Return the columns, as Iceberg's JSON has them."""
        fields: list[dict[str, Any]]
        fields = by_id(metadata["schemas"], "schema-id", self.schema_id)["fields"]
        return fields


def find(lake: Lake, table: str, metadata: Metadata, how: str, asked: Any) -> Version:
    """Return the version of `schema.table` that is asked for in one of the ways of ``HOW``.

    A time is UTC, and means what readers had then: a rollback counts from when it was made.
    Raises ``ConfigError`` for what isn't known, ``TableError`` for what has expired.
    """
    what = f"cannot read {table} as of {how} {asked}"
    if how in ("release", "snapshot") and not str(asked).isdecimal():
        raise ConfigError(what, why=f"it's no number of a {how}", fix=f"give the {how}'s number")
    if how == "release":
        return at_snapshot(metadata, snapshot_in_release(lake, table, int(asked)))
    if how == "timestamp":
        return at_snapshot(metadata, _at(metadata, what, moment_of(asked)))
    if how == "tag":
        found = refs.head(metadata, str(asked))
        if found is None:
            known = sorted(metadata.get("refs") or {})
            raise ConfigError(
                what,
                why="the table has no tag or branch of this name",
                fix=did_you_mean(str(asked), known, f"take one of its own: {', '.join(known)}"),
            )
        return at_snapshot(metadata, found)
    found = int(asked)
    if refs.snapshot(metadata, found) is None:
        raise TableError(
            what,
            why=f"it has expired, or is another table's: {_kept(metadata)}",
            fix="ask for one that is kept: `icegate show` lists the newest",
        )
    return at_snapshot(metadata, found)


def find_any(lake: Lake, table: str, metadata: Metadata, asked: Any) -> Version:
    """Return the version that a value means by its look: `release_42`, a time, a name, a number."""
    text = str(asked)
    if release := RELEASE.fullmatch(text):
        return find(lake, table, metadata, "release", release[1])
    if isinstance(asked, date) or TIME.match(text):
        return find(lake, table, metadata, "timestamp", asked)
    return find(lake, table, metadata, "snapshot" if text.isdecimal() else "tag", asked)


def renames_partitions(metadata: Metadata, version: Version) -> bool:
    """Tell whether a column of a partitioning had another name in a version than now.

    Iceberg 1.12 looks a version's names up among those of now when it plans a filter there.
    """
    then, now = (
        {field["id"]: field["name"] for field in at.fields(metadata)}
        for at in (version, Version(None, metadata["current-schema-id"]))
    )
    ids = {field["source-id"] for spec in metadata["partition-specs"] for field in spec["fields"]}
    return any(then.get(id) != now.get(id) for id in ids)


def newest(metadata: Metadata, branch: str) -> Version:
    """Return the version at the end of a branch, if the table has it, else of `main`."""
    on_branch = refs.head(metadata, branch) if branch else None
    return at_snapshot(metadata, refs.head(metadata) if on_branch is None else on_branch)


def moment_of(asked: Any) -> datetime:
    """Return a time from a text such as `2026-11-01` or `2026-11-01 06:00`, in UTC if none is said.

    Raises ``ConfigError``.
    """
    found = asked
    if isinstance(asked, str):
        try:
            found = datetime.fromisoformat(asked.strip().replace("Z", "+00:00"))
        except ValueError:
            raise ConfigError(
                f"cannot read as of timestamp {asked!r}",
                why="it's no time",
                fix="write it as 2026-11-01 or 2026-11-01 06:00:00, in UTC",
            ) from None
    if not isinstance(found, datetime):
        found = datetime.combine(found, time())
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def at_snapshot(metadata: Metadata, snapshot_id: int | None) -> Version:
    """Return the version of a snapshot; None is a table without rows."""
    snapshot = refs.snapshot(metadata, snapshot_id) or {}
    schema_id = snapshot.get("schema-id")
    return Version(snapshot_id, metadata["current-schema-id"] if schema_id is None else schema_id)


def _at(metadata: Metadata, what: str, at: datetime) -> int:
    """Return the snapshot that `main` was at."""
    log = metadata.get("snapshot-log") or []
    entries = [entry for entry in log if entry["timestamp-ms"] <= at.timestamp() * 1000]
    if entries and is_known_until_next(metadata, len(entries) - 1):
        return int(entries[-1]["snapshot-id"])
    first = refs.snapshot(metadata, log[0]["snapshot-id"]) if log and not entries else None
    if not log or (first and first.get("parent-snapshot-id") is None):
        when = f"its first rows came at {_said(log[0])}" if log else "it never had rows"
        raise ConfigError(what, why=f"the table wasn't there yet: {when}", fix="take a later time")
    raise TableError(
        what,
        why=f"what readers had then has expired: {_kept(metadata)}",
        fix="take a later time; what is to stay needs a tag, or a longer "
        "`history.expire.max-snapshot-age-ms`",
    )


def _kept(metadata: Metadata) -> str:
    snapshots = metadata.get("snapshots") or []
    if not snapshots:
        return "it has no snapshot"
    return f"its oldest snapshot is of {_said(min(snapshots, key=lambda s: s['timestamp-ms']))}"


def _said(entry: dict[str, Any]) -> str:
    return f"{moment(entry['timestamp-ms']):%Y-%m-%d %H:%M:%S} UTC"
