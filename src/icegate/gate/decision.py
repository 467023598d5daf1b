"""What becomes of a build: what is published, what stays back and why, what nobody may publish."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field

from icegate.gate import staging
from icegate.gate.candidates import Candidate, blocked, candidates, read_lake
from icegate.gate.report import HALF_DONE, Report
from icegate.gate.store import StoredTable
from icegate.gate.verdict import Scope, Verdict, decide
from icegate.settings import Lake


@dataclass(frozen=True)
class Request:
    """What a build asks for: who ran what, and what may pass."""

    build: str
    invocation_id: str
    command: str
    target: str
    scope: Scope = Scope.DOWNSTREAM
    require_tests: bool = False
    accepted: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Held:
    """A table that stays back: why, how much waits, and the SQL that shows it.

    ``since`` is the release whose rows readers go on seeing, ``blamed`` the table at fault.
    """

    verdict: Verdict
    rows: int | None
    since: int | None = None
    blamed: str = ""
    query: str = ""


@dataclass
class Outcome:
    """What became of a build. ``release`` is None when nothing moved."""

    build: str
    release: int | None = None
    published: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)  # of a named build: until a person ends it
    undone: list[str] = field(default_factory=list)  # whose main was put back
    half_done: list[str] = field(default_factory=list)  # what `dbt retry` needs of it stays
    blocked: dict[str, str] = field(default_factory=dict)  # table -> why it can't be published
    quarantined: dict[str, int] = field(default_factory=dict)  # rows that its models left out


def survey(
    lake: Lake, report: Report, request: Request
) -> tuple[dict[str, StoredTable], dict[str, Candidate], Outcome]:
    """Return all tables, what of them the build wrote, and what would become of it now."""
    tables = read_lake(lake)
    found = candidates(lake, request.build, tables, report)
    outcome = Outcome(request.build, blocked=blocked(found, report, request.build, tables))
    verdicts = decide(
        _without(report, outcome.blocked),
        request.scope,
        require_tests=request.require_tests,
        accepted=request.accepted,
    )
    _sort_out(outcome, found, verdicts, report)
    return tables, found, outcome


def _without(report: Report, blocked: Collection[str]) -> Report:
    """Return the report with tables that can't be published as nodes that failed."""
    nodes = {
        id: dataclasses.replace(node, status="error") if node.table in blocked else node
        for id, node in report.nodes.items()
    }
    return dataclasses.replace(report, nodes=nodes)


def _sort_out(
    outcome: Outcome, found: dict[str, Candidate], verdicts: dict[str, Verdict], report: Report
) -> None:
    for name in sorted(verdicts.keys() - outcome.blocked.keys()):
        verdict, candidate = verdicts[name], found.get(name)
        if candidate is None or not candidate.changed:
            outcome.unchanged.append(name)
        elif verdict.held:
            node = report.nodes.get(verdict.by_node)
            outcome.held.append(
                Held(
                    verdict,
                    rows=candidate.added_rows,
                    since=candidate.since,
                    blamed=(node.table or node.name) if node else "",
                    query=candidate.query(outcome.build),
                )
            )
        else:
            outcome.published.append(name)
            outcome.untested += [name] * verdict.untested
            outcome.accepted += verdict.accepted
    outcome.accepted = sorted(set(outcome.accepted))
    half_done = {node.table for node in report.nodes.values() if node.status == HALF_DONE}
    outcome.half_done = sorted(found.keys() & half_done - outcome.blocked.keys())
    staying = [found[name].staged for name in found.keys() - {*outcome.published}]
    waiting = {staged.entry.name for staged in staying if staged}  # a view must not go before them
    for name in list(outcome.published):
        staged = found[name].staged
        if staged is not None and staging.reads(staged, waiting):
            outcome.published.remove(name)
            outcome.blocked[name] = "it reads a table that is held back"
