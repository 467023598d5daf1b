"""Which tables of a build may be published: what its tests say, and how far a failure reaches."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from icegate.gate.report import PASSED, Node, Report, TestRun

# The causes that need no other held table, the first of which is told.
DIRECT = ("failed_test", "errored_test", "not_built", "not_run_test", "untested")


class Scope(str, Enum):
    """How far a failure reaches: each holds back what the one above it does, and more."""

    TABLE = "table"  # the table itself
    DOWNSTREAM = "downstream"  # and what was built from it, or is tied to it by a test
    LINEAGE = "lineage"  # and all that is connected with it
    RUN = "run"  # and all the rest


@dataclass(frozen=True)
class Verdict:
    """Whether a table is held back. ``cause`` is of this table, ``root`` what it began with.

    ``by`` is the test that didn't pass, or the node that wasn't built, ``by_node`` the unique id
    of the node that it's about. ``accepted`` are tests that the table ships in spite of.
    """

    table: str
    node: str
    held: bool
    cause: str = ""  # one of DIRECT, or downstream, tied, scope
    root: str = ""  # one of DIRECT
    by: str = ""
    by_node: str = ""
    failures: int | None = None
    untested: bool = False
    accepted: tuple[str, ...] = ()


class _Hold(NamedTuple):
    cause: str
    root: str
    by: str
    by_node: str
    failures: int | None


# Ids of nodes, in the order in which they were found held: the most direct cause first.
_Held = dict[str, _Hold]


def decide(
    report: Report, scope: Scope, *, require_tests: bool, accepted: Collection[str] = ()
) -> dict[str, Verdict]:
    """Return the verdict on each gated table that the build wrote, by `schema.name`."""
    blocking = [test for _, test in sorted(report.tests.items()) if test.blocks]
    unproven = [test for test in blocking if test.status not in PASSED]
    shipped: defaultdict[str, set[str]] = defaultdict(set)
    for test in unproven:
        if _is_accepted(test, accepted):
            for node_id in _read_by(test):
                shipped[node_id].add(test.name)
    unproven = [test for test in unproven if not _is_accepted(test, accepted)]
    absent = {n for t in unproven if t.status == "absent" for n in _owners(t)}
    held = _held_directly(report, unproven, require_tests)
    if held and scope is not Scope.TABLE:
        _spread(held, report, blocking, scope)
    verdicts: dict[str, Verdict] = {}
    for _, node in sorted(report.nodes.items()):
        if node.table is None or node.status != "success":
            continue
        if node.table in verdicts and verdicts[node.table].held:
            continue  # a model that was renamed between two processes of the build
        hold = held.get(node.id, _Hold("", "", "", "", None))
        names = tuple(sorted(shipped[node.id]))
        verdicts[node.table] = Verdict(
            node.table, node.id, node.id in held, *hold, node.id in absent, names
        )
    return verdicts


def _is_accepted(test: TestRun, accepted: Collection[str]) -> bool:
    return test.name in accepted or test.id in accepted


def _read_by(test: TestRun) -> list[str]:
    return sorted({*test.nodes, *filter(None, [test.attached])})


def _owners(test: TestRun) -> list[str]:
    return [test.attached] if test.attached else _read_by(test)


def _is_written(node: Node | None) -> bool:
    """Whether the branch may have rows of it; a failed node can have written half of them."""
    return node is not None and node.status != "skipped"


def _is_gated(node: Node | None) -> bool:
    return node is not None and _is_written(node) and node.table is not None


def _held_directly(report: Report, unproven: Iterable[TestRun], require_tests: bool) -> _Held:
    found = []
    for node in report.nodes.values():
        if node.status not in ("success", "skipped"):
            found.append((node.id, _Hold("not_built", "not_built", node.name, node.id, None)))
    for test in unproven:
        if test.status == "skipped":
            cause, blamed = "not_run_test", _left_unproven(test, report.nodes)
        elif test.status != "absent":  # a status that we don't know is no pass
            cause = "failed_test" if test.status == "fail" else "errored_test"
            blamed = _blamed(test, report.nodes)
        elif require_tests:
            gated = [n for n in _owners(test) if _is_gated(report.nodes.get(n))]
            cause, blamed = "untested", gated
        else:
            continue
        for node_id in blamed:
            hold = _Hold(cause, cause, test.name, test.attached or node_id, test.failures)
            found.append((node_id, hold))
    held: _Held = {}
    for node_id, hold in sorted(found, key=lambda pair: (DIRECT.index(pair[1].cause), pair[0])):
        held.setdefault(node_id, hold)
    return held


def _blamed(test: TestRun, nodes: dict[str, Node]) -> list[str]:
    """Return what a failed test holds: its own table, else whatever of it this build wrote.

    If the build wrote none of it, then what was built from it must wait all the same; and a test
    that reads no node at all still counts as a failure of the run.
    """
    if test.attached and _is_gated(nodes.get(test.attached)):
        return [test.attached]
    read = _read_by(test)
    return [n for n in read if _is_written(nodes.get(n))] or read or [test.id]


def _left_unproven(test: TestRun, nodes: dict[str, Node]) -> list[str]:
    """Return what a test that never ran holds: the tables that it reads, and its own node.

    Of what it reads besides, ungated nodes are left out: a test that compares a table with the
    raw rows would hold all that is built from them.
    """
    read = [n for n in _read_by(test) if _is_written(nodes.get(n))]
    return [n for n in read if _is_gated(nodes[n]) or n == test.attached] or read


def _spread(held: _Held, report: Report, blocking: Iterable[TestRun], scope: Scope) -> None:
    nodes = report.nodes
    below: defaultdict[str, list[str]] = defaultdict(list)
    for node_id in sorted(nodes):
        for ancestor in nodes[node_id].ancestors:
            below[ancestor].append(node_id)
    tied: defaultdict[str, list[list[str]]] = defaultdict(list)
    for test in blocking:
        read = [n for n in _read_by(test) if n in nodes]
        for node_id in read:
            tied[node_id].append(read)

    def downstream(at: str) -> Iterator[tuple[str, str]]:
        built = [n for n in below[at] if n not in held and _is_written(nodes[n])]
        yield from ((n, "downstream") for n in built)
        # An ungated node is with its readers already, so that a test ties nothing more to it.
        yield from ((n, "tied") for read in tied[at] for n in read if _is_gated(nodes[n]))

    def connected(at: str) -> Iterator[tuple[str, str]]:
        for near in (below[at], nodes[at].ancestors, *tied[at]) if at in nodes else ():
            yield from [(n, "scope") for n in near if n not in held]

    _follow(held, downstream)
    if scope is Scope.LINEAGE:
        _follow(held, connected)
    if scope is Scope.RUN:
        first = next(iter(held.values()))
        for node_id in nodes:
            held.setdefault(node_id, first._replace(cause="scope"))


def _follow(held: _Held, step: Callable[[str], Iterable[tuple[str, str]]]) -> None:
    queue = deque(held)
    while queue:
        at = queue.popleft()
        for node_id, cause in step(at):
            if node_id not in held:
                held[node_id] = held[at]._replace(cause=cause)
                queue.append(node_id)
