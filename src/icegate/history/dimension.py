"""A slowly changing dimension (type 2) from the versions of a table: its SQL.

A key that a step changed is an event; an event begins a version of the key, or ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.history.changes import (
    DELETE,
    INSERT,
    IS_CARRIED,
    IS_OLD,
    Changes,
    differs,
    grouped,
    not_unique,
)
from icegate.history.rows import FIRST, UPDATE
from icegate.history.steps import Step
from icegate.history.versions import at_snapshot
from icegate.merge.plans import ON_READ
from icegate.tables.metadata import ancestry, total, type_name
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

CHANGELOG, DIFF, ROW_LINEAGE = MODES = ("changelog", "diff", "row_lineage")
STEP = "icegate_step"
CLOSES = "icegate_closes"
# What a history has beside the columns of its source, with their types.
OWN = {
    "valid_from": "timestamp",
    "valid_to": "timestamp",
    "is_current": "boolean",
    "is_deleted": "boolean",
    "change": "string",
    "snapshot_id": "bigint",
    "ended_by": "bigint",
}
MARKS = ("valid_to", "is_current", "is_deleted", "ended_by")  # set where a version ends


@dataclass(frozen=True)
class Dimension:
    """What a history is made of: a table as SQL names it, ``key`` and ``columns`` of it as the
    newest version has them, those whose changes count, and how changes are found.
    """

    table: str
    metadata: Metadata
    key: Sequence[str]
    columns: Sequence[dict[str, Any]]
    track: Sequence[str]
    mode: str

    def events(self, io: FileIO, steps: Sequence[Step]) -> str:
        """Return the query of all events in ``steps``, each with the one that follows it.

        Columns: the key as `key_0` …, `row` (null for a delete), `change`, `at`, `snapshot_id`,
        those of the next event with `next_`, and whether it's the key's `is_first`.
        """
        sides = self._sides(io, steps) or [self._no_row()]
        keys = ", ".join(f"{quote(name)} as key_{n}" for n, name in enumerate(self.key))
        parts = ", ".join(f"key_{n}" for n in range(len(self.key)))
        names = [field["name"] for field in self.columns]
        tracked = [field for field in self.columns if field["name"] in self.track]
        begin = INSERT if not steps or steps[0].old is not None else f"{_first(steps[0])}"
        inserted = f"if({STEP} = 0, {literal(begin)}, {literal(INSERT)})"
        ids = ", ".join(f"{step.new}L" for step in steps)
        times = ", ".join(f"{step.at}L" for step in steps)
        return (
            "with events as (\n"
            f"    select {keys}, {STEP}, new as row, case\n"
            f"        when olds > 1 or news > 1 then {not_unique(self.key)}\n"
            f"        when olds = 0 then {inserted}\n"
            f"        when news = 0 then {literal(DELETE)}\n"
            f"        else {literal(UPDATE)} end as change\n"
            f"    from {grouped(sides, self.key, names, STEP)}\n"
            f"    where {differs(tracked)}\n),\n"
            "placed as (\n"
            f"    select *,\n"
            f"        timestamp_micros(element_at(array({times or '0L'}), {STEP} + 1)) as at,\n"
            f"        element_at(array({ids or '0L'}), {STEP} + 1) as snapshot_id\n"
            "    from events\n)\n"
            "select *, lead(at) over next as next_at,\n"
            "    lead(snapshot_id) over next as next_snapshot_id,\n"
            "    lead(change) over next as next_change, row_number() over next = 1 as is_first\n"
            f"from placed window next as (partition by {parts} order by {STEP})"
        )

    def versions(self, events: str) -> str:
        """Return the query of the versions that events begin."""
        columns = "".join(f"row.{quote(field['name'])}, " for field in self.columns)
        return (
            f"select {columns}at as valid_from, next_at as valid_to,\n"
            "    next_at is null as is_current,\n"
            f"    coalesce(next_change = {literal(DELETE)}, false) as is_deleted,\n"
            "    change, snapshot_id, next_snapshot_id as ended_by\n"
            f"from {events} where change <> {literal(DELETE)}"
        )

    def closings(self, events: str) -> str:
        """Return the query of what ends the versions that a history has: the key, and MARKS."""
        keys = ", ".join(f"key_{n} as {quote(name)}" for n, name in enumerate(self.key))
        return (
            f"select {keys}, at as valid_to, false as is_current,\n"
            f"    change = {literal(DELETE)} as is_deleted, snapshot_id as ended_by\n"
            f"from {events} where is_first and change in ({literal(UPDATE)}, {literal(DELETE)})"
        )

    def merge(self, target: str, events: str, more: Sequence[str]) -> str:
        """Return the statement that ends versions and begins others; ``more`` are conditions."""
        names = [*(field["name"] for field in self.columns), *OWN]
        listed = ", ".join(map(quote, names))
        known = {*self.key, *MARKS}
        closing = ", ".join(quote(n) if n in known else f"null as {quote(n)}" for n in names)
        same = [f"t.{quote(name)} <=> s.{quote(name)}" for name in self.key]
        met = " and ".join([f"s.{CLOSES}", "t.is_current", *same, *more])
        ended = ", ".join(f"{name} = s.{name}" for name in MARKS)
        values = ", ".join(f"s.{quote(name)}" for name in names)
        return (
            f"merge into {target} as t using (\n"
            f"    select {listed}, false as {CLOSES} from ({self.versions(events)})\n"
            "    union all\n"
            f"    select {closing}, true as {CLOSES} from ({self.closings(events)})\n"
            f") as s on {met}\n"
            f"when matched then update set {ended}\n"
            f"when not matched and not s.{CLOSES} then insert ({listed}) values ({values})"
        )

    def insert(self, target: str, events: str) -> str:
        """Return the statement for events that end no version of the table."""
        names = ", ".join(quote(name) for name in [*(f["name"] for f in self.columns), *OWN])
        return f"insert into {target} ({names})\nselect {names} from ({self.versions(events)})"

    def _sides(self, io: FileIO, steps: Sequence[Step]) -> list[str]:
        found: list[str] = []
        for number, step in enumerate(steps):
            if self.mode == CHANGELOG and step.old is not None:
                return [*found, self._changelog(number, steps[number:])]
            old, new = (at_snapshot(self.metadata, id) for id in (step.old, step.new))
            carried = self._carried(step)
            changes = Changes(self.table, self.metadata, old, new, self.key, self.columns, carried)
            changes.check()
            found += changes.sides(io, f", {number} as {STEP}")
        return found

    def _carried(self, step: Step) -> int | None:
        """Return the sequence number up to which a row is one that the step found, in format 3."""
        before = refs.snapshot(self.metadata, step.old)
        if self.mode != ROW_LINEAGE or before is None:
            return None
        line = (at["snapshot-id"] for at in ancestry(self.metadata, step.new))
        return int(before["sequence-number"]) if step.old in line else None

    def _changelog(self, begin: int, steps: Sequence[Step]) -> str:
        """Return steps by one scan of Iceberg's changelog, with the rows that were only copied.

        Their numbers go on from ``begin``. Iceberg 1.12 fails on a read of `_change_type` and
        `_commit_snapshot_id` without the ordinal, which counts commits but compaction, as steps do.
        """
        columns = ", ".join(quote(field["name"]) for field in self.columns)
        return (
            f"        select {columns}, _change_type = 'DELETE' as {IS_OLD},\n"
            f"            false as {IS_CARRIED},\n"
            f"            _change_ordinal + {begin} as {STEP}\n"
            f"        from {self.table}.changes with ('start-snapshot-id' = '{steps[0].old}',"
            f" 'end-snapshot-id' = '{steps[-1].new}')"
        )

    def _no_row(self) -> str:
        columns = (f"cast(null as {type_name(f['type'])}) as {quote(f['name'])}, "
                   for f in self.columns)  # fmt: skip
        marks = f"false as {IS_OLD}, false as {IS_CARRIED}, 0 as {STEP}"
        return f"        select {''.join(columns)}{marks} where false"


def mode_of(metadata: Metadata, steps: Sequence[Step]) -> str:
    """Return how the changes of a table are found.

    Iceberg's changelog has each commit, and none where there are delete files: it serves where
    each step is one commit of a table that is written copy-on-write.
    """
    if int(metadata.get("format-version", 1)) >= 3:
        return ROW_LINEAGE
    modes = {metadata["properties"].get(f"write.{of}.mode") for of in ("delete", "update", "merge")}
    copied = ON_READ not in modes and all(_is_one_copy(metadata, step) for step in steps)
    return CHANGELOG if copied else DIFF


def _is_one_copy(metadata: Metadata, step: Step) -> bool:
    if step.old is None:
        return True
    old, new = (refs.snapshot(metadata, id) or {} for id in (step.old, step.new))
    clean = not any(total(at.get("summary", {}), "delete-files") for at in (old, new))
    same = old.get("schema-id") == new.get("schema-id") == metadata["current-schema-id"]
    return clean and same and new.get("parent-snapshot-id") == step.old


def _first(step: Step) -> str:
    return INSERT if step.is_known_whole else FIRST
