"""What is held back, and why: one rule at a time, then all of them on builds made at random."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from icegate.gate.report import PASSED, Node, Report, TestRun
from icegate.gate.verdict import Scope, Verdict, decide

NARROW_TO_WIDE = [Scope.TABLE, Scope.DOWNSTREAM, Scope.LINEAGE, Scope.RUN]


def node(id: str, ancestors: str = "", status: str = "success", gated: bool = True) -> Node:
    return Node(id, f"name_{id}", status, f"s.{id}" if gated else None, tuple(ancestors.split()))


def run(id: str, reads: str, status: str = "pass", own: str | None = None, **more: Any) -> TestRun:
    return TestRun(id, f"name_{id}", tuple(reads.split()), status, own, **more)


def report(*parts: Node | TestRun) -> Report:
    nodes = {part.id: part for part in parts if isinstance(part, Node)}
    tests = {part.id: part for part in parts if isinstance(part, TestRun)}
    return Report(nodes, tests)


def judge(
    found: Report,
    scope: Scope = Scope.DOWNSTREAM,
    require_tests: bool = False,
    accepted: Iterable[str] = (),
) -> dict[str, Verdict]:
    """Return the verdicts by the nodes' ids."""
    verdicts = decide(found, scope, require_tests=require_tests, accepted=tuple(accepted))
    assert all(table == v.table == f"s.{v.node}" for table, v in verdicts.items())
    return {v.node: v for v in verdicts.values()}


def causes(found: Report, *args: Any, **kwargs: Any) -> dict[str, str]:
    verdicts = judge(found, *args, **kwargs).values()
    assert all(v.held == bool(v.cause) == bool(v.root) == bool(v.by) for v in verdicts)
    return {v.node: v.cause for v in verdicts if v.held}


# What holds a table by itself: the parts of the build, and the cause for each table that is held.
A, B, C = node("a"), node("b"), node("c", "a")
DIRECT: dict[str, tuple[Report, dict[str, str]]] = {
    "nothing to fail": (report(A), {}),
    "passed": (report(A, run("t", "a", "pass", "a")), {}),
    "warned, within its threshold": (report(A, run("t", "a", "warn", "a")), {}),
    "failed": (report(A, run("t", "a", "fail", "a")), {"a": "failed_test"}),
    "could not run": (report(A, run("t", "a", "error", "a")), {"a": "errored_test"}),
    "status that nobody knows": (report(A, run("t", "a", "odd", "a")), {"a": "errored_test"}),
    "severity warn": (
        report(A, B, *(run(s, "a b", s, "a", blocks=False) for s in ("fail", "error", "skipped"))),
        {},
    ),
    "attached: the one that it's declared on": (
        report(A, B, run("t", "a b", "fail", "a")),
        {"a": "failed_test"},
    ),
    "singular: all that it reads": (
        report(A, B, run("t", "a b", "fail")),
        {"a": "failed_test", "b": "failed_test"},
    ),
    "attached to what wasn't built now: what it reads of this build": (
        report(B, run("t", "old b", "fail", "old")),
        {"b": "failed_test"},
    ),
    "attached to what wasn't built now, of which something else is built too": (
        report(B, node("c", "old"), run("t", "old b", "fail", "old")),
        {"b": "failed_test"},
    ),
    "attached to a skipped node": (
        report(node("a", status="skipped"), B, run("t", "a b", "fail", "a")),
        {"b": "failed_test"},
    ),
    "attached to a node without a gate: the tables that it reads": (
        report(node("v", gated=False), B, run("t", "v b", "fail", "v")),
        {"b": "failed_test"},
    ),
    "skipped: all that it reads": (
        report(A, B, run("t", "a b", "skipped", "a")),
        {"a": "not_run_test", "b": "not_run_test"},
    ),
    "skipped, reading a node without a gate": (
        report(node("raw", gated=False), A, node("c", "raw"), run("t", "raw a", "skipped")),
        {"a": "not_run_test"},
    ),
    "skipped for a node that failed": (
        report(node("a", status="error"), B, run("t", "a b", "skipped", "a")),
        {"b": "not_run_test"},
    ),
    "deselected": (report(A, run("t", "a", "absent", "a")), {}),
    "failed before it couldn't run before it was skipped": (
        report(
            A, B, run("t1", "a b", "skipped"), run("t2", "a b", "error", "b"),
            run("t3", "a", "error", "a"), run("t4", "a", "fail", "a"),
        ),
        {"a": "failed_test", "b": "errored_test"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIRECT)
@pytest.mark.parametrize("scope", [Scope.TABLE, Scope.DOWNSTREAM])
def test_cause_of_its_own(case: str, scope: Scope) -> None:
    found, expected = DIRECT[case]
    if scope is Scope.DOWNSTREAM:  # a table that a test reads too is held all the same: tied
        held = {n: c for n, c in causes(found, scope).items() if c != "tied"}
        assert held == expected
    else:
        assert causes(found, scope) == expected


# What else is held: a failure on `a` (or what the case says), and the cause for each other table.
REACH: dict[str, tuple[Report, dict[str, str]]] = {
    "built from it, near and far, and nothing above or beside it": (
        report(A, B, node("up"), C, node("d", "a c"), node("a2", "up"), run("t", "a", "fail", "a")),
        {"c": "downstream", "d": "downstream"},
    ),
    "tied by a test that passed": (
        report(A, B, run("t", "a", "fail", "a"), run("u", "a b", "pass", "b")),
        {"b": "tied"},
    ),
    "tied by the test that failed": (report(A, B, run("t", "a b", "fail", "a")), {"b": "tied"}),
    "tied by a singular test": (
        report(A, B, run("t", "a", "fail", "a"), run("u", "a b", "warn")),
        {"b": "tied"},
    ),
    "tied by a test that nobody selected": (
        report(A, B, run("t", "a", "fail", "a"), run("u", "a b", "absent", "a")),
        {"b": "tied"},
    ),
    "attached, though not named among what it reads": (
        report(A, B, run("t", "a", "fail", "a"), run("u", "a", "pass", "b")),
        {"b": "tied"},
    ),
    "a test of severity warn ties nothing": (
        report(A, B, run("t", "a", "fail", "a"), run("u", "a b", "pass", "b", blocks=False)),
        {},
    ),
    "to a fixpoint: tied, built from that, tied to that": (
        report(
            A, B, node("e", "b"), node("f"), node("g", "f"), node("h"),
            run("t", "a", "fail", "a"), run("u", "a b", own="a"), run("w", "e f", own="e"),
        ),
        {"b": "tied", "e": "downstream", "f": "tied", "g": "downstream"},
    ),
    "through a view": (
        report(
            A, node("v", "a", gated=False), node("c", "v"), B,
            run("t", "a", "fail", "a"), run("u", "v b", own="v"),
        ),
        {"b": "tied", "c": "downstream"},
    ),
    "from a view whose test failed": (
        report(node("v", gated=False), node("c", "v"), B, run("t", "v", "fail", "v")),
        {"c": "downstream"},
    ),
    "not through raw rows that are out already": (
        report(
            A, node("raw", gated=False), node("c", "raw"), B, run("t", "a", "fail", "a"),
            run("u", "a raw", own="a"), run("w", "raw b", own="b"),
        ),
        {},
    ),
    "not through a skipped node": (
        report(
            A, node("s", "a", status="skipped"), B,
            run("t", "a", "fail", "a"), run("u", "s b", own="b"),
        ),
        {},
    ),
    "from a node that wasn't built": (
        report(
            node("a", status="error"), B, C, node("s", "a", "skipped"), node("d"),
            run("u", "a b", own="a"),
        ),
        {"b": "tied", "c": "downstream"},
    ),
    "from a status that nobody knows": (
        report(node("a", status="partial"), C),
        {"c": "downstream"},
    ),
    "from what this build didn't write, but not to what that is tied to": (
        report(B, node("c", "old"), run("t", "old", "fail", "old"), run("u", "old b", own="b")),
        {"c": "downstream"},
    ),
    "from a test that never ran": (
        report(A, C, run("t", "a", "skipped", "a")),
        {"c": "downstream"},
    ),
    "from a skipped test of raw rows": (
        report(node("raw", gated=False), node("c", "raw"), run("t", "raw", "skipped", "raw")),
        {"c": "downstream"},
    ),
    "from a skipped test of raw rows and a table": (
        report(node("raw", gated=False), node("c", "raw"), B, run("t", "raw b", "skipped", "raw")),
        {"b": "not_run_test", "c": "downstream"},
    ),
    "from a skipped singular test of raw rows alone": (
        report(node("raw", gated=False), node("c", "raw"), run("t", "raw", "skipped")),
        {"c": "downstream"},
    ),
    "a cause of its own comes before one from above": (
        report(A, C, B, run("t", "a", "fail", "a"), run("u", "c b", "skipped", "c")),
        {"b": "not_run_test", "c": "not_run_test"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REACH)
def test_reach_downstream(case: str) -> None:
    found, expected = REACH[case]
    held = causes(found)
    assert {n: cause for n, cause in held.items() if n != "a"} == expected
    assert ("a" in held) == any(n.id == "a" and n.status == "success" for n in found.nodes.values())


def test_only_gated_tables_that_were_built_have_a_verdict() -> None:
    parts = [node("v", gated=False), node("e", status="error"), node("s", status="skipped"), A]
    assert set(judge(report(*parts))) == {"a"}
    assert judge(report(A))["a"] == Verdict("s.a", "a", held=False)


def test_root_cause_is_kept_along_the_way() -> None:
    found = report(
        A, B, node("c", "a b"), node("f", "b"), node("z"),
        run("t", "a", "fail", "a", failures=3), run("u", "a b", own="b"),
    )  # fmt: skip
    for scope in (Scope.DOWNSTREAM, Scope.RUN):
        verdicts = judge(found, scope)
        assert verdicts["a"] == Verdict(
            "s.a", "a", True, "failed_test", "failed_test", "name_t", "a", failures=3
        )
        for id, cause in {"b": "tied", "c": "downstream", "f": "downstream"}.items():
            assert verdicts[id] == replace(verdicts["a"], table=f"s.{id}", node=id, cause=cause)
        scoped = replace(verdicts["a"], table="s.z", node="z", cause="scope")
        assert verdicts["z"] == (scoped if scope is Scope.RUN else Verdict("s.z", "z", False))


def test_root_cause_names_the_node_that_was_not_built() -> None:
    verdict = judge(report(node("a", status="error"), C))["c"]
    assert verdict == Verdict("s.c", "c", True, "downstream", "not_built", "name_a", "a")


def test_root_cause_is_the_most_direct_one() -> None:
    """A failed test is told before a skipped one, whichever comes first by name."""
    found = report(
        A, node("z"), node("end", "a z"),
        run("t1", "a", "skipped", "a"), run("t2", "z", "fail", "z", failures=1),
    )  # fmt: skip
    assert judge(found)["end"].by == "name_t2"
    beside = report(A, B, node("z"), *found.tests.values())
    assert judge(beside, Scope.RUN)["b"].by == "name_t2"


def test_root_cause_names_the_node_that_the_test_is_declared_on() -> None:
    assert judge(report(B, run("t", "old b", "fail", "old")))["b"].by_node == "old"


def test_root_cause_is_the_node_that_failed_rather_than_its_skipped_test() -> None:
    found = report(node("a", status="error"), C, run("t", "a", "skipped", "a"))
    assert judge(found)["c"].root == "not_built"


def test_singular_test_blames_each_table_that_it_reads() -> None:
    verdicts = judge(report(A, B, run("t", "a b", "fail", failures=2)))
    assert {v.node: (v.by_node, v.failures) for v in verdicts.values()} == {
        "a": ("a", 2),
        "b": ("b", 2),
    }


def scoped() -> Report:
    """Two parts that nothing connects; in the first, `a` fails, `up` lies above and `q` beside."""
    return report(
        node("up"), node("a", "up"), node("c", "up a"), node("side", "up"), node("p"),
        node("q", "p"), node("x"), node("y", "x"),
        node("s", "side lone", "skipped"), node("lone"), node("ext1", "far"), node("ext2", "far"),
        run("t", "a", "fail", "a"), run("u", "up q", own="q"), run("w", "x p", blocks=False),
        run("z", "far a", own="a"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "held"),
    [
        (Scope.TABLE, {"a"}),
        (Scope.DOWNSTREAM, {"a", "c"}),
        # by a skipped node too (`lone`), not by one that the build hasn't (`far`)
        (Scope.LINEAGE, {"a", "c", "up", "side", "q", "p", "lone"}),
        (Scope.RUN, {"a", "c", "up", "side", "q", "p", "lone", "x", "y", "ext1", "ext2"}),
    ],
)
def test_scope(scope: Scope, held: set[str]) -> None:
    found = causes(scoped(), scope)
    assert set(found) == held
    assert found.pop("a") == "failed_test"
    assert found.pop("c", "downstream") == "downstream"
    assert set(found.values()) <= {"scope"}


def test_scope_table_does_not_reach_what_a_failed_node_ties() -> None:
    found = report(node("a", status="error"), B, C, run("t", "a b", own="a"))
    assert causes(found, Scope.TABLE) == {}


def test_scope_run_holds_all_for_a_test_that_reads_nothing_of_the_build() -> None:
    for test in (run("t", "", "fail"), run("t", "old", "fail", "old")):
        assert causes(report(A, B, test), Scope.RUN) == {"a": "scope", "b": "scope"}
        assert causes(report(A, B, test), Scope.LINEAGE) == {}


def test_nothing_is_held_without_a_cause() -> None:
    found = report(A, C, B, run("t", "a b", own="a"))
    assert all(causes(found, scope) == {} for scope in Scope)


def test_scope_is_what_the_profile_says() -> None:
    assert [Scope(name) for name in ("table", "downstream", "lineage", "run")] == NARROW_TO_WIDE


UNTESTED: dict[str, tuple[Report, set[str], dict[str, str]]] = {
    "its own test": (report(A, run("t", "a", "absent", "a")), {"a"}, {"a": "untested"}),
    "one of two": (
        report(A, run("t", "a", "absent", "a"), run("u", "a", "pass", "a")),
        {"a"},
        {"a": "untested"},
    ),
    "only tests of severity warn": (
        report(A, run("t", "a", "absent", "a", blocks=False)),
        set(),
        {},
    ),
    "no tests at all": (report(A), set(), {}),
    "another's test that reads it": (
        report(A, B, run("t", "a b", "absent", "a")),
        {"a"},
        {"a": "untested", "b": "tied"},
    ),
    "a singular test": (
        report(A, B, run("t", "a b", "absent")),
        {"a", "b"},
        {"a": "untested", "b": "untested"},
    ),
    "what is built from it waits too": (
        report(A, C, run("t", "a", "absent", "a")),
        {"a"},
        {"a": "untested", "c": "downstream"},
    ),
    "a view has no rows to wait": (
        report(node("v", gated=False), node("c", "v"), run("t", "v", "absent", "v")),
        set(),
        {},
    ),
    "a failed test is told first": (
        report(A, run("t", "a", "absent", "a"), run("u", "a", "fail", "a")),
        {"a"},
        {"a": "failed_test"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNTESTED)
def test_untested(case: str) -> None:
    found, untested, held = UNTESTED[case]
    failing = {n: cause for n, cause in held.items() if cause == "failed_test"}
    assert {v.node for v in judge(found).values() if v.untested} == untested
    assert causes(found) == failing
    assert {v.node for v in judge(found, require_tests=True).values() if v.untested} == untested
    assert causes(found, require_tests=True) == held


@pytest.mark.parametrize("by", ["t", "name_t"])
def test_accepted_test_counts_as_passed_and_is_written_down(by: str) -> None:
    for status in ("fail", "error", "skipped", "absent"):
        found = report(A, B, C, run("t", "b", status, "a"))
        verdicts = judge(found, require_tests=True, accepted=[by])
        assert not any(v.held or v.untested for v in verdicts.values())
        assert {v.node: v.accepted for v in verdicts.values()} == {
            "a": ("name_t",),
            "b": ("name_t",),
            "c": (),
        }


def test_accepted_test_still_ties_and_hides_no_other() -> None:
    found = report(A, B, C, run("t", "a b", "fail", "b"), run("u", "a", "fail", "a", failures=1))
    verdicts = judge(found, accepted=["t"])
    assert {v.node: v.cause for v in verdicts.values()} == {
        "a": "failed_test",
        "b": "tied",
        "c": "downstream",
    }
    assert verdicts["a"].by == "name_u" and verdicts["a"].accepted == ("name_t",)


def test_accepting_what_needs_it_not_is_not_written_down() -> None:
    for test in (run("t", "a", "pass", "a"), run("t", "a", "fail", "a", blocks=False)):
        assert judge(report(A, test), accepted=["t"])["a"].accepted == ()


def test_renamed_model_cannot_hide_that_its_table_is_held() -> None:
    for failing in ("old", "new"):
        nodes = [replace(node(id), table="s.t") for id in ("old", "new")]
        found = report(*nodes, run("t", failing, "fail", failing))
        assert decide(found, Scope.DOWNSTREAM, require_tests=False)["s.t"].node == failing


def at_random(seed: int) -> Report:
    dice = random.Random(seed)
    ids = [f"n{number}" for number in range(dice.randint(1, 9))]
    above: dict[str, set[str]] = {}
    parts: list[Node | TestRun] = []
    for place, id in enumerate(ids):
        parents = dice.sample(ids[:place], dice.randint(0, min(place, 2)))
        above[id] = set(parents).union(*(above[parent] for parent in parents))
        status = dice.choice(["success"] * 8 + ["error", "skipped"])
        parts.append(node(id, " ".join(sorted(above[id])), status, dice.random() < 0.8))
    for number in range(dice.randint(0, 8)):
        read = dice.sample([*ids, "old"], dice.randint(1, min(3, len(ids))))
        status = dice.choice(["pass"] * 6 + ["warn", "fail", "error", "skipped", "absent"])
        own = dice.choice([None, read[0]])
        parts.append(run(f"t{number}", " ".join(read), status, own, blocks=dice.random() < 0.8))
    dice.shuffle(parts)
    return report(*parts)


@pytest.mark.parametrize("require_tests", [False, True])
def test_what_publishes_is_sound_and_consistent(require_tests: bool) -> None:
    """The promise itself, checked on what is left to publish instead of on what is held."""
    for seed in range(1500):
        found = at_random(seed)
        sets = []
        for scope in NARROW_TO_WIDE:
            held = set(causes(found, scope, require_tests))
            ships = judge(found, scope, require_tests).keys() - held
            sets.append(held)
            for test in (t for t in found.tests.values() if t.blocks):
                of = {test.attached} if test.attached else set(test.nodes)
                if test.status not in (*PASSED, "absent"):
                    assert not ships & of, (seed, scope, test)
                if test.status == "skipped":
                    assert not ships & set(test.nodes), (seed, scope, test)
                if scope is not Scope.TABLE:
                    split = ships & set(test.nodes) and held & set(test.nodes)
                    assert not split, (seed, scope, test)
                if require_tests and test.status not in PASSED:
                    assert not ships & of, (seed, scope, test)
            if scope is not Scope.TABLE:
                broken = {n.id for n in found.nodes.values() if n.status == "error"} | held
                for id in ships:
                    assert broken.isdisjoint(found.nodes[id].ancestors), (seed, scope, id)
            if scope is Scope.RUN:
                assert not (held and ships), seed
        assert sets[0] <= sets[1] <= sets[2] <= sets[3], seed


def test_order_of_the_report_changes_nothing() -> None:
    for seed in range(300):
        found = at_random(seed)
        turned = Report(dict(reversed(found.nodes.items())), dict(reversed(found.tests.items())))
        for scope in Scope:
            assert list(judge(found, scope).values()) == list(judge(turned, scope).values()), seed


def test_large_build_is_judged_quickly() -> None:
    ids = [f"m{number:04}" for number in range(5000)]
    nodes = [node(id, " ".join(ids[max(0, at - 200) : at])) for at, id in enumerate(ids)]
    tests = [
        run(f"t{number:05}", f"{ids[number % 5000]} {ids[number % 71]}", own=ids[number % 5000])
        for number in range(20_000)
    ]
    found = report(*nodes, *tests, run("bad", "m0000", "fail", "m0000"))
    for scope in Scope:
        began = time.process_time()
        assert judge(found, scope)["m0000"].held
        assert time.process_time() - began < 20, scope  # quadratic it would take minutes
