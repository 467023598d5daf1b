"""What became of each table, by the ledger's events: published, held back since when, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from icegate.gate.ledger_rows import Event
from icegate.retries import Met


@dataclass(frozen=True)
class Cause:
    """Why the newest rows of a table aren't with its readers.

    ``root`` is as in ``icegate.gate.verdict``, or `blocked`, `rolled_back`; ``test`` and ``node``
    are unique ids of dbt, of what was at fault.
    """

    since: datetime
    build: str
    root: str
    test: str = ""
    node: str = ""
    reach: str = ""  # how the fault reached the table: "", downstream, tied or scope
    failures: int | None = None
    text: str = ""  # of what no test says
    query: str = ""  # the SQL that shows them


@dataclass
class Standing:
    """A table as the last events leave it."""

    published_at: datetime | None = None  # what readers see
    release: int | None = None
    checked_at: datetime | None = None  # when its tests last passed, or nothing had changed
    sound_since: datetime | None = None  # since when nothing was held back
    held: Cause | None = None
    accepted: tuple[str, ...] = ()  # names of tests that it was published in spite of
    accepted_by: str = ""
    accepted_why: str = ""
    untested: bool = False
    told_at: datetime | None = None  # when the ledger last had something on it


@dataclass(frozen=True)
class Ran:
    """How a test ended once. ``data`` is what it read, as far as that is known."""

    at: datetime
    build: str
    status: str
    failures: int | None
    data: tuple[int | None, ...]
    proof: str = ""
    seconds: float | None = None


@dataclass
class Past:
    """All that the ledger tells."""

    tables: dict[str, Standing] = field(default_factory=dict)
    tests: dict[str, list[Ran]] = field(default_factory=dict)  # by unique id, the oldest first
    last: Event | None = None  # the newest build or release
    met: dict[str, list[tuple[datetime, Met]]] = field(default_factory=dict)  # by unique id
    standins: tuple[str, ...] = ()  # packages that weren't the real ones, in the last build
    invocations: set[str] = field(default_factory=set)

    def knows(self, invocation: str | None) -> bool:
        """Tell whether a run of dbt was a build through the gate."""
        return invocation in self.invocations

    def held(self, table: str) -> Cause | None:
        """Return why a table's newest rows aren't with its readers, if they aren't."""
        return self.tables.get(table, Standing()).held


def replay(events: Iterable[Event]) -> Past:
    """Return what events leave behind; they are in the order in which they happened."""
    past, heads = Past(), dict[str, int | None]()
    for event in events:
        detail = json.loads(event.detail or "{}")
        past.invocations.add(event.invocation_id or "")
        if event.event == "rolled_back":
            _rolled_back(past, event, detail)
        elif event.event == "rejected":
            for standing in past.tables.values():
                if standing.held and standing.held.build == event.build:
                    standing.held, standing.sound_since = None, event.at
        elif event.event in ("published", "held", "built"):
            past.last = event
            past.standins = tuple(detail.get("standins") or ())
            _ended(past, event, detail, heads)
    return past


def _rolled_back(past: Past, event: Event, detail: Mapping[str, Any]) -> None:
    past.last = event
    for table in detail.get("published") or ():
        standing = past.tables.setdefault(table, Standing())
        why = f"{event.who} went back to release {detail.get('to')}"
        standing.held = Cause(event.at, event.build, "rolled_back", text=why)
        standing.release, standing.published_at = event.release, event.at


def _ended(
    past: Past, event: Event, detail: Mapping[str, Any], heads: dict[str, int | None]
) -> None:
    report = detail.get("report") or {"nodes": [], "tests": []}
    heads |= {n["id"]: n["head"] for n in report["nodes"] if n.get("head") is not None}
    for test in report["tests"]:
        if test["status"] not in ("absent", "skipped"):
            data = tuple(heads.get(id) for id in test["nodes"])
            ran = Ran(event.at, event.build, test["status"], test.get("failures"), data,
                      test.get("proof") or "", test.get("seconds"))  # fmt: skip
            past.tests.setdefault(test["id"], []).append(ran)
    if event.event == "built":  # a person decides later
        return
    for node in report["nodes"]:
        if met := met_of(node):
            past.met.setdefault(node["id"], []).append((event.at, met))
    stays = dict(_causes(event, detail, report))
    accepted = _accepted(detail, report)
    for node in report["nodes"]:
        table = node.get("table")
        if table is None or (node["status"] == "skipped" and table not in stays):
            continue
        standing = past.tables.setdefault(table, Standing())
        standing.told_at = event.at
        if table in stays:
            before = standing.held
            since = before.since if before else event.at
            standing.held = replace(stays[table], since=since)
            continue
        standing.checked_at = event.at
        standing.untested = table in (detail.get("untested") or ())
        if standing.held or standing.sound_since is None:
            standing.sound_since = event.at
        standing.held = None
        if table in (detail.get("published") or ()):
            standing.published_at, standing.release = event.at, event.release
            standing.accepted = accepted.get(node["id"], ())
            standing.accepted_by = event.who or ""
            standing.accepted_why = event.reason or ""


def met_of(told: Mapping[str, Any]) -> Met | None:
    """Return what the writes of a node met, as the ledger or dbt's result of it has that."""
    if not told.get("conflicts"):
        return None
    return Met(told["conflicts"], told.get("waited_s", 0.0), told.get("how", ""))


def _accepted(
    detail: Mapping[str, Any], report: Mapping[str, Any]
) -> Mapping[str, tuple[str, ...]]:
    """Return by node the tests that it was published in spite of."""
    found: dict[str, tuple[str, ...]] = {}
    for test in report["tests"]:
        if {test["name"], test["id"]} & {*(detail.get("accepted") or ())}:
            for id in {*test["nodes"], *filter(None, [test.get("attached")])}:
                found[id] = (*found.get(id, ()), test["id"])
    return found


def _causes(
    event: Event, detail: Mapping[str, Any], report: Mapping[str, Any]
) -> Iterator[tuple[str, Cause]]:
    """Yield the tables whose newest rows aren't with readers, and why."""
    faults = _Faults(event, report)
    tests = {test["name"]: test for test in report["tests"]}
    for node in report["nodes"]:
        fault = faults.above(node["id"]) if node["status"] != "success" else None
        if node.get("table") and fault:
            yield node["table"], fault
    for held in detail.get("held") or ():
        verdict = held["verdict"]
        test = tests.get(verdict["by"], {})
        cause = Cause(
            event.at,
            event.build,
            root=verdict["root"],
            test=test.get("id", ""),
            node=verdict["by_node"],
            failures=verdict["failures"],
        )
        if verdict["root"] == "not_run_test":  # since what it reads wasn't built either
            cause = faults.above(*test.get("nodes", ())) or cause
        reach = verdict["cause"] if verdict["cause"] in ("tied", "scope") else ""
        yield verdict["table"], replace(cause, reach=reach, query=held.get("query") or "")
    for table, why in (detail.get("blocked") or {}).items():
        yield table, Cause(event.at, event.build, "blocked", text=why)


class _Faults:
    """What went wrong in a build: nodes that couldn't be built, and tests that failed."""

    def __init__(self, event: Event, report: Mapping[str, Any]) -> None:
        self.event = event
        self.nodes = {node["id"]: node for node in report["nodes"]}
        self.tests = [
            test
            for test in report["tests"]
            if test.get("blocks", True) and test["status"] in ("fail", "error")
        ]

    def above(self, *ids: str) -> Cause | None:
        """Return the first fault of nodes, or of those above them."""
        found = {*ids}.union(*(self.nodes.get(id, {}).get("ancestors") or () for id in ids))
        for test in self.tests:
            if test["attached"] in found or (not test["attached"] and found & {*test["nodes"]}):
                root = "failed_test" if test["status"] == "fail" else "errored_test"
                node = test["attached"] or next(id for id in test["nodes"] if id in found)
                return Cause(
                    self.event.at, self.event.build, root, test["id"], node,
                    failures=test.get("failures"),
                )  # fmt: skip
        for id in sorted(found & self.nodes.keys()):
            if self.nodes[id]["status"] in ("error", "half done"):
                return Cause(self.event.at, self.event.build, "not_built", node=id)
        return None
