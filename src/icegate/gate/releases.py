"""Builds and releases by name: what waits of them, and what a person then does with it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple

from icegate.catalog import CatalogEntry, list_relations, read_metadata
from icegate.errors import ConfigError, GateError, did_you_mean
from icegate.gate import ledger, refs, staging
from icegate.gate.build import check_name, ending, is_alive, is_own_name
from icegate.gate.candidates import read_lake
from icegate.gate.decision import Outcome, Request, survey
from icegate.gate.ledger_rows import Event, ReleaseTable
from icegate.gate.publish import finish, in_a_gap, reports_of
from icegate.gate.refs import Metadata
from icegate.gate.report import PASSED, Report, merge
from icegate.gate.store import Step, StoredTable, dropped, move
from icegate.gate.verdict import Scope
from icegate.settings import Lake
from icegate.tables.metadata import moment


@dataclass(frozen=True)
class OpenBuild:
    """A build that has something that readers don't: `running`, `held back`, `open` or `crashed`.

    `open` is one that a person named and has yet to end. ``tables`` are those that it has a
    branch of or, with their names in the gate's own schema, those built beside.
    """

    name: str
    state: str
    tables: list[str]
    written_at: datetime | None


class Found(NamedTuple):
    """What is known by a name or number: what became of the build, the oldest first."""

    build: str
    release: int | None
    events: list[Event]
    waits: OpenBuild | None


class Edits(NamedTuple):
    """What is to change at once: metadata of tables, by name, and of views, rows of the ledger."""

    tables: Mapping[str, Metadata]
    events: Sequence[Event] = ()
    rows: Sequence[ReleaseTable] = ()
    dropped: Sequence[CatalogEntry] = ()
    views: Sequence[tuple[StoredTable, Metadata]] = ()
    result: Any = None  # what to tell of it


def open_builds(lake: Lake) -> list[OpenBuild]:
    """Return the builds that readers don't see all of, the newest first."""
    tables: defaultdict[str, list[str]] = defaultdict(list)
    written: defaultdict[str, int] = defaultdict(int)
    held = set()
    for name, table in read_lake(lake).items():
        for build in refs.builds(table.metadata):
            branch = refs.branch_of(build)
            head = refs.snapshot(table.metadata, refs.head(table.metadata, branch)) or {}
            tables[build].append(name)
            written[build] = max(written[build], head.get("timestamp-ms", 0))
            held |= {build} if refs.is_held(table.metadata, branch) else set()
    for entry in list_relations(lake, staging.NAMESPACE):
        build, metadata = staging.build_of(entry), read_metadata(entry)
        tables[build].append(entry.full_name)
        written[build] = max(written[build], metadata.get("last-updated-ms", 0))
        held |= {build} if staging.is_held(metadata) else set()
    return [
        OpenBuild(build, _state(lake, build, build in held), tables[build], moment(written[build]))
        for build in sorted(tables, key=lambda build: -written[build])
    ]


def _state(lake: Lake, build: str, held: bool) -> str:
    if is_alive(lake, build):
        return "running"
    ended = "crashed" if is_own_name(build) else "open"
    return "held back" if held else ended


def check_idle(build: OpenBuild, what: str) -> None:
    """Raise ``GateError`` while a process of a build runs."""
    if build.state == "running":
        raise GateError(
            f"cannot {what}",
            why=f"build {build.name} is half built: a process of it is running",
            fix="wait until that has ended",
        )


def find(lake: Lake, name: str) -> Found:
    """Return the build of this name, or of the release with this number; raises ``ConfigError``."""
    events, waiting = ledger.read_events(lake), {b.name: b for b in open_builds(lake)}
    known = {event.build for event in events} | waiting.keys()
    if name in known:
        of_build = [event for event in events if event.build == name]
        return Found(name, None, of_build, waiting.get(name))
    of_release = [event for event in events if str(event.release) == name]
    if of_release:
        build = of_release[0].build
        return Found(build, int(name), of_release, waiting.get(build))
    if not name.isdecimal():
        check_name(name)
    last = max((event.release or 0 for event in events), default=0)
    raise ConfigError(
        f"cannot find release or build {name!r}",
        why=f"the last release is {last}" if name.isdecimal() else "no release or branch names it",
        fix=did_you_mean(name, known, "`icegate release list` shows what there is"),
    )


def prepare(
    lake: Lake, found: Found, target: str, keys: Mapping[str, Any], accept: Sequence[str] = ()
) -> tuple[Report, Request]:
    """Return what there is to publish of a build, by the scope that the target has now.

    Raises where nothing waits, where a process of the build never came to its end, and for a
    test to accept that didn't fail.
    """
    if found.waits is None:
        raise GateError(
            f"cannot publish build {found.build}",
            why=f"nothing of it waits: it was {found.events[-1].event.replace('_', ' ')}",
            fix=f"`icegate release show {found.build}` has what became of it",
        )
    events = ledger.read_events(lake, found.build)
    request = Request(
        build=found.build,
        invocation_id=next((e.invocation_id for e in reversed(events) if e.invocation_id), ""),
        command="icegate release publish",
        target=target,
        scope=Scope(keys.get("gate_scope") or Scope.DOWNSTREAM),
        require_tests=bool(keys.get("gate_require_tests")),
        accepted=tuple(accept),
    )
    report = merge(reports_of(events))
    _check_whole(lake, report, request)
    _check_accepted(report, request)
    return report, request


def _check_whole(lake: Lake, report: Report, request: Request) -> None:
    told = {node.table for node in report.nodes.values()}
    _, found, _ = survey(lake, report, request)
    lost = sorted(name for name, table in found.items() if table.changed and name not in told)
    if lost:
        raise GateError(
            f"cannot publish build {request.build}",
            why=f"it's half built: what wrote {', '.join(lost)} never came to its end",
            fix=f"build it again with ICEGATE_RELEASE={request.build}, or drop it: "
            f"`icegate release reject {request.build}`",
        )


def _check_accepted(report: Report, request: Request) -> None:
    passed = PASSED if request.require_tests else (*PASSED, "absent")
    failing = [t for t in report.tests.values() if t.blocks and t.status not in passed]
    names = sorted({test.name for test in failing})
    for wanted in sorted({*request.accepted} - {*names} - {test.id for test in failing}):
        raise ConfigError(
            f"cannot accept test {wanted!r} of build {request.build}",
            why=f"those that failed are: {', '.join(names) or 'none'}",
            fix=did_you_mean(wanted, names, "name one of those, or leave out --accept"),
        )


def publish(
    lake: Lake, name: str, target: str, keys: Mapping[str, Any], accept: Sequence[str], reason: str
) -> Outcome:
    """Publish what passes of a build that waits, in spite of the accepted tests."""
    found = find(lake, name)
    with ending(lake, found.build):
        report, request = prepare(lake, found, target, keys, accept)
        return finish(lake, report, dataclasses.replace(request, reason=reason))


def reject(lake: Lake, name: str, target: str, reason: str) -> OpenBuild:
    """Drop all that waits of a build, and return what that was."""
    found = find(lake, name)
    with ending(lake, found.build):
        if found.waits is None:
            raise GateError(
                f"cannot reject build {found.build}",
                why="nothing of it waits",
                fix="to take back what is published, `icegate release rollback <n>`",
            )
        _drop(lake, {found.build: reason}, target, "reject")
    return found.waits


def recover(lake: Lake, target: str) -> list[OpenBuild]:
    """Drop what builds left whose process is gone, and return them.

    All else that a crash can cut short is one transaction of the catalog, that was or wasn't.
    """
    crashed = [build for build in open_builds(lake) if build.state == "crashed"]
    if crashed:
        reason = "its process ended before the build did"
        _drop(lake, dict.fromkeys((build.name for build in crashed), reason), target, "recover")
    return crashed


def _drop(lake: Lake, builds: Mapping[str, str], target: str, command: str) -> None:
    """Drop the branches and staged tables of builds; their values are the reasons."""
    branches = {refs.branch_of(build) for build in builds}

    def plan(tables: dict[str, StoredTable]) -> Edits:
        return Edits(
            {n: refs.without_refs(table.metadata, branches) for n, table in tables.items()},
            [event("rejected", b, target, command, reason=why) for b, why in builds.items()],
            dropped=[
                e for e in list_relations(lake, staging.NAMESPACE) if staging.build_of(e) in builds
            ],
        )

    apply(lake, plan)


def event(kind: str, build: str, target: str, command: str, **more: Any) -> Event:
    """Return an event of now, by the person who runs `icegate release <command>`."""
    command, now = f"icegate release {command}", datetime.now(timezone.utc)
    return Event(now, build, kind, command=command, target=target, who=ledger.who(), **more)


def apply(
    lake: Lake, plan: Callable[[dict[str, StoredTable]], Edits], *, dry_run: bool = False
) -> Any:
    """Make the changes that ``plan`` makes of the tables, all at once, with the ledger's rows.

    It is asked again when someone else moved one of them meanwhile. Return its last result.
    """

    def attempt() -> Any:
        tables = read_lake(lake)
        edits = plan(tables)
        steps: list[Step] = [
            tables[name].write(edited)
            for name, edited in edits.tables.items()
            if edited != tables[name].metadata
        ]
        steps += [view.write(edited) for view, edited in edits.views]
        steps += map(dropped, edits.dropped)
        if edits.events:
            steps += ledger.stage(lake, edits.events, edits.rows)
        move(lake, steps)
        return edits.result

    edits = plan(read_lake(lake))
    if dry_run or not (edits.tables or edits.events or edits.dropped):
        return edits.result
    return in_a_gap(lake, "change the tables", attempt)
