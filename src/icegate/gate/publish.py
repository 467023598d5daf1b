"""Publish a build: all that passed becomes `main` in one transaction of the catalog, or nothing."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timezone
from typing import TypeVar

from icegate.errors import GateError
from icegate.gate import ledger, refs, staging
from icegate.gate.build import publishing
from icegate.gate.candidates import (
    Candidate,
    candidates,
    read_lake,
    stale_branches,
    stale_staged,
    with_heads,
)
from icegate.gate.decision import Outcome, Request, survey
from icegate.gate.history import expired_tags
from icegate.gate.ledger_rows import Event, ReleaseTable
from icegate.gate.report import Report
from icegate.gate.steps import at_step
from icegate.gate.store import Moved, Step, StoredTable, move
from icegate.settings import Lake

log = logging.getLogger(__name__)

ATTEMPTS = 20

Done = TypeVar("Done")


def finish(lake: Lake, report: Report, request: Request) -> Outcome:
    """Publish what passed, keep back the rest, and write down both.

    Raises ``GateError`` when other writers leave it no gap.
    """
    return in_a_gap(lake, f"publish build {request.build}", lambda: _attempt(lake, report, request))


def discard(lake: Lake, build: str) -> None:
    """Drop all that a build wrote: it was a rehearsal."""

    def attempt() -> None:
        tables = read_lake(lake)
        move(lake, _steps(lake, tables, {}, Outcome(build))[0])

    in_a_gap(lake, f"discard build {build}", attempt)


def in_a_gap(lake: Lake, what: str, attempt: Callable[[], Done]) -> Done:
    """Return what ``attempt`` does between the writes of others: again when someone came first."""
    with publishing(lake):
        for _ in range(ATTEMPTS):
            try:
                return attempt()
            except Moved as moved:
                log.info("again=%r moved=%s", what, moved.table)
    raise GateError(
        f"cannot {what}",
        why=f"other writers moved one of its tables in each of {ATTEMPTS} attempts",
        fix="run it again once they are quiet: `icegate plan` says what waits",
    )


def record(lake: Lake, report: Report, request: Request) -> Outcome:
    """Write down what one process of a named build did; a person publishes it later."""
    with publishing(lake):
        tables = read_lake(lake)
        found = candidates(lake, request.build, tables, report)
        event = _event(Outcome(request.build), with_heads(report, found), request, "built")
        ledger.append(lake, [event])
    return Outcome(request.build, waits=sorted(n for n, c in found.items() if c.changed))


def earlier_build(lake: Lake, invocation_id: str) -> tuple[str, list[Report]]:
    """Return the build that a process of dbt took part in, and what is known of it until now.

    Without a name when it's published, or there was none: then there is nothing to go on with.
    """
    events = ledger.read_events(lake)
    builds = [event.build for event in events if event.invocation_id == invocation_id]
    if not builds:
        return "", []
    return builds[-1], reports_of(event for event in events if event.build == builds[-1])


def reports_of(events: Iterable[Event]) -> list[Report]:
    """Return what processes of a build reported in these events."""
    reports = [json.loads(event.detail or "{}").get("report") for event in events]
    return [Report.from_dict(report) for report in reports if report]


def _attempt(lake: Lake, report: Report, request: Request) -> Outcome:
    at_step("staging")
    tables, found, outcome = survey(lake, report, request)
    if outcome.published:
        outcome.release = ledger.last_release(lake) + 1
    steps, rows = _steps(lake, tables, found, outcome)
    at_step("metadata_written")
    if not (outcome.published or outcome.held or outcome.blocked or outcome.half_done):
        move(lake, steps)
        return outcome
    event = _event(outcome, with_heads(report, found), request)
    steps += ledger.stage(lake, [event], rows)
    at_step("ledger_staged")
    move(lake, steps)
    return outcome


def _steps(
    lake: Lake, tables: dict[str, StoredTable], found: dict[str, Candidate], outcome: Outcome
) -> tuple[list[Step], list[ReleaseTable]]:
    """Write what is next of each table that something changes on; return what moves to it."""
    kept = {h.verdict.table for h in outcome.held} | {*outcome.blocked, *outcome.half_done}
    # What a build made stands for what older ones did, also where it's as readers have it already.
    anew = kept | {*outcome.published, *outcome.unchanged}
    finals = {c.staged.entry.name: name for name, c in found.items() if c.staged}
    steps: list[Step] = list(stale_staged(lake, outcome.build, anew, anew))
    rows = ReleaseRows(outcome)
    for name, candidate in found.items():
        if candidate.staged and name in outcome.published:
            table = tables.get(name)
            stale = stale_branches(lake, table, outcome.build, kept, anew) if table else []
            assert outcome.release is not None
            signs = outcome.release, outcome.build, candidate.node
            steps += staging.publish_steps(lake, candidate.staged, table, signs, finals, stale)
            rows.add(name, candidate.staged.metadata, candidate)
        elif candidate.staged and name in kept:
            steps.append(staging.hold(candidate.staged))
    for name, table in tables.items():
        if name in found and found[name].staged and name in outcome.published:
            continue
        moved = found.get(name) if name in outcome.published else None
        edited = _edited(lake, table, outcome, kept, anew, moved)
        if edited is not table.metadata:
            steps.append(table.write(edited))
        rows.add(name, table.metadata, moved)
    return steps, rows.found


def _edited(
    lake: Lake,
    table: StoredTable,
    outcome: Outcome,
    kept: Collection[str],
    anew: Collection[str],
    moved: Candidate | None,
) -> refs.Metadata:
    edited, branch = table.metadata, refs.branch_of(outcome.build)
    if moved is not None and moved.head is not None and outcome.release is not None:
        signs = outcome.build, moved.node
        edited = refs.release(edited, moved.head, outcome.release, *signs)
        edited = refs.without_refs(edited, expired_tags(edited, outcome.release))
    leak = refs.leak(table.metadata, outcome.build) if table.name in outcome.blocked else None
    if leak is not None and not leak.on_top:
        edited = refs.set_main(edited, leak.before)
        outcome.undone.append(table.name)
    stale = stale_branches(lake, table, outcome.build, kept, anew)
    edited = refs.without_refs(edited, stale) if stale else edited
    if table.name in kept and refs.head(edited, branch) is not None:
        edited = refs.hold(edited, branch)
    return edited


class ReleaseRows:
    """The snapshot of every gated table in this release; none when nothing is published."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.at = datetime.now(timezone.utc)
        self.found: list[ReleaseTable] = []

    def add(self, name: str, metadata: refs.Metadata, moved: Candidate | None) -> None:
        """Add a table, with what moved it or as it stays; what isn't gated is left out."""
        release = self.outcome.release
        is_table = "current-schema-id" in metadata
        if release is None or not is_table or not (refs.is_gated(metadata) or moved):
            return
        self.found.append(
            ReleaseTable(
                release=release,
                at=self.at,
                build=self.outcome.build,
                table_name=name,
                snapshot_id=moved.head if moved else refs.head(metadata),
                previous_snapshot_id=moved.main if moved else refs.head(metadata),
                schema_id=metadata["current-schema-id"],
                moved=moved is not None,
                untested=name in self.outcome.untested,
            )
        )


def _event(outcome: Outcome, report: Report, request: Request, event: str = "") -> Event:
    told = dataclasses.asdict(outcome)
    kept = ("published", "untested", "held", "blocked", "undone", "accepted")
    detail = {"report": report.to_dict(), "standins": report.standins} | {k: told[k] for k in kept}
    return Event(
        at=datetime.now(timezone.utc),
        build=request.build,
        event=event or ("published" if outcome.published else "held"),
        release=outcome.release,
        invocation_id=request.invocation_id,
        command=request.command,
        target=request.target,
        who=ledger.who(),
        reason=request.reason,
        detail=json.dumps(detail),
    )
