"""Tags on what readers had when a day, week, month, quarter or year ended, as a policy keeps them.

From the log of a table's versions, so that a late run finds the right one, or says that it's gone.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from functools import reduce

from icegate.gate import refs
from icegate.gate.refs import FOR_EVER_MS, Metadata
from icegate.gate.store import edit
from icegate.health.limits import limits_of
from icegate.maintenance.policy import FOR_EVER, RETENTION, Policy
from icegate.settings import Lake
from icegate.tables.metadata import ancestry, is_known_until_next, moment

MISSING, SHORT, TAKEN, EXPIRED = "missing", "too short", "taken", "expired"
MONTHS = {"month": 1, "quarter": 3, "year": 12}
NAMES = {"day": "%Y_%m_%d", "week": "%G_w%V", "month": "%Y_%m", "quarter": "%Y", "year": "%Y"}


@dataclass(frozen=True)
class Tag:
    """A tag that a policy asks for and that isn't as it should be, with why or what it takes.

    ``state`` is `missing` or, of one that ends before it may, `too short`: both can be made right;
    `taken` or `expired`: nobody can. ``age_ms`` is how old its snapshot has to get.
    """

    table: str
    name: str
    state: str
    snapshot_id: int | None = None
    age_ms: int = 0
    why: str = ""

    @property
    def can_be_made(self) -> bool:
        """Tell whether it only has to be made, or made to last."""
        return self.state in (MISSING, SHORT)

    def put(self, metadata: Metadata) -> Metadata:
        """Return the metadata with the tag as it should be, if it can be made."""
        if not self.can_be_made or self.snapshot_id is None:
            return metadata
        return refs.keep(metadata, self.name, self.snapshot_id, self.age_ms)

    def __str__(self) -> str:
        return f"{self.name}: {self.state}" + (f": {self.why}" if self.why else "")


def make_tags(lake: Lake, table: str, policy: Policy, now: datetime) -> list[Tag]:
    """Make what `schema.table` lacks of its policy's tags, and return that, with what can't be."""
    if not policy.keeps:
        return []
    found: list[Tag] = []

    def change(metadata: Metadata) -> Metadata:
        found[:] = wanted_tags(table, metadata, policy, now)
        return reduce(lambda before, tag: tag.put(before), found, metadata)

    edit(lake, table, change)
    return found


def wanted_tags(table: str, metadata: Metadata, policy: Policy, now: datetime) -> list[Tag]:
    """Return the tags of a policy that a table hasn't as they should be, the newest first."""
    log = metadata.get("snapshot-log") or []
    if not log:
        return []
    every = (_of_period(table, metadata, *kept, now) for kept in policy.keeps.items())
    return [tag for of_period in every for tag in of_period if tag.state]


def _of_period(
    table: str, metadata: Metadata, period: str, kept: str, now: datetime
) -> Iterator[Tag]:
    """Yield a tag for each end of a period that the log knows of, the newest first."""
    log, known = metadata["snapshot-log"], metadata.get("refs") or {}
    for name, end in _ends(period, now):
        until, end_ms = _until(end, kept), _ms(end)
        if until is not None and until <= now:
            return
        places = [n for n, entry in enumerate(log) if entry["timestamp-ms"] < end_ms]
        tag = Tag(table, name, "")
        if not places:
            if name in known or _is_beginning(metadata, log[0]["snapshot-id"]):
                return  # what was before it was told then, or there was nothing
            yield replace(tag, state=EXPIRED, why=_gone(metadata, end))
            if not any(f"{period}_end_" < other < name for other in known):
                return  # only what was tagged in time tells that there was a table before
            continue
        id = log[places[-1]]["snapshot-id"]
        if not is_known_until_next(metadata, places[-1]):
            yield replace(tag, state="" if name in known else EXPIRED, why=_gone(metadata, end))
            continue
        snapshot = refs.snapshot(metadata, id) or {}
        age_ms = FOR_EVER_MS if until is None else _ms(until) - snapshot["timestamp-ms"]
        yield _compared(replace(tag, snapshot_id=id, age_ms=age_ms), metadata)


def _compared(tag: Tag, metadata: Metadata) -> Tag:
    """Return the tag with what is wrong with the one that the table has of its name."""
    ref = (metadata.get("refs") or {}).get(tag.name)
    if ref is None:
        return replace(tag, state=MISSING)
    if ref["type"] != "tag" or ref["snapshot-id"] != tag.snapshot_id:
        why = (
            f"a {ref['type']} of this name is at snapshot {ref['snapshot-id']}, and readers had "
            f"{tag.snapshot_id} then; rename or drop it, and run `icegate refs --make`"
        )
        return replace(tag, state=TAKEN, why=why)
    ends_ms = ref.get("max-ref-age-ms", limits_of(metadata).ref_age)
    return replace(tag, state=SHORT if ends_ms < tag.age_ms else "")


def _is_beginning(metadata: Metadata, snapshot_id: int) -> bool:
    """Tell whether a table began with a version; a table that was replaced counts on."""
    first = [{}, *ancestry(metadata, snapshot_id)][-1]
    return bool(first) and first.get("sequence-number", 0) <= 1


def _gone(metadata: Metadata, end: datetime) -> str:
    oldest = moment(metadata["snapshot-log"][0]["timestamp-ms"])
    return (
        f"what readers had until {end:%Y-%m-%d %H:%M} UTC isn't kept: the log of versions begins "
        f"at {oldest:%Y-%m-%d %H:%M:%S} UTC, or has a gap there; keep versions for longer than "
        "two runs lie apart (`history.expire.max-snapshot-age-ms`)"
    )


def _ends(period: str, now: datetime) -> Iterator[tuple[str, datetime]]:
    """Yield the periods that have ended: the tag's name, and the first moment after it (UTC)."""
    end = _first_day(period, now.astimezone(timezone.utc).date())
    while end.year > 1970:
        last = end - timedelta(days=1)
        quarter = f"_q{(last.month + 2) // 3}" if period == "quarter" else ""
        name = f"{period}_end_{last.strftime(NAMES[period])}{quarter}"
        yield name, datetime.combine(end, time(), timezone.utc)
        end = _first_day(period, last)


def _first_day(period: str, day: date) -> date:
    if period in MONTHS:
        months = MONTHS[period]
        return day.replace(month=(day.month - 1) // months * months + 1, day=1)
    return day - timedelta(days=day.weekday() if period == "week" else 0)


def _until(end: datetime, kept: str) -> datetime | None:
    """Return when a tag may go; None is never."""
    if kept == FOR_EVER:
        return None
    number, unit = RETENTION.fullmatch(kept).groups()  # type: ignore[union-attr]
    if unit not in MONTHS:
        return end + timedelta(days=int(number) * (7 if unit == "week" else 1))
    years, month = divmod(end.month - 1 + int(number) * MONTHS[unit], 12)
    day = min(end.day, calendar.monthrange(end.year + years, month + 1)[1])
    return end.replace(year=end.year + years, month=month + 1, day=day)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
