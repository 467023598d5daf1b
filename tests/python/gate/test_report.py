"""What a build is after several processes, and how the ledger keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from icegate.gate.report import Node, Report, TestRun, merge


def process(nodes: str = "", tests: str = "") -> Report:
    """Return what one process did, from words like `a:success` and `t:pass:a,b`."""
    made = [Node(id, id, status) for id, status in (word.split(":") for word in nodes.split())]
    ran = [
        TestRun(id, id, tuple(reads.split(",")), status)
        for id, status, reads in (word.split(":") for word in tests.split())
    ]
    return Report({n.id: n for n in made}, {t.id: t for t in ran})


def statuses(*processes: Report) -> dict[str, str]:
    found = merge(processes)
    nodes = {id: node.status for id, node in found.nodes.items()}
    return nodes | {id: test.status for id, test in found.tests.items()}


MERGED: dict[str, tuple[list[Report], dict[str, str]]] = {
    "nothing": ([], {}),
    "one": ([process("a:success", "t:pass:a")], {"a": "success", "t": "pass"}),
    "nothing written and nothing tested": (
        [process("a:error", "t:absent:a")],
        {"a": "error", "t": "absent"},
    ),
    "run, then test": (
        [process("a:success", "t:absent:a"), process("", "t:fail:a")],
        {"a": "success", "t": "fail"},
    ),
    "tested again after a repair": (
        [process("a:success", "t:fail:a"), process("a:success", "t:pass:a")],
        {"a": "success", "t": "pass"},
    ),
    "written again and not tested": (
        [process("a:success", "t:pass:a"), process("a:success", "t:absent:a")],
        {"a": "success", "t": "absent"},
    ),
    "one of the tables that a test reads is written again": (
        [process("a:success b:success", "t:pass:a,b"), process("b:success", "t:absent:a,b")],
        {"a": "success", "b": "success", "t": "absent"},
    ),
    "another table is written": (
        [process("a:success", "t:fail:a"), process("b:success", "t:absent:a u:pass:b")],
        {"a": "success", "b": "success", "t": "fail", "u": "pass"},
    ),
    "skipped the second time": (
        [process("a:success", "t:pass:a"), process("a:skipped", "t:absent:a")],
        {"a": "success", "t": "pass"},
    ),
    "skipped the first time": (
        [process("a:skipped", "t:skipped:a"), process("a:success", "t:pass:a")],
        {"a": "success", "t": "pass"},
    ),
    "skipped in all": ([process("a:skipped"), process("a:skipped")], {"a": "skipped"}),
    "failed the second time": (
        [process("a:success", "t:pass:a"), process("a:error", "t:skipped:a")],
        {"a": "error", "t": "skipped"},
    ),
    "failed, then skipped": ([process("a:error"), process("a:skipped")], {"a": "error"}),
}


@pytest.mark.parametrize("case", MERGED)
def test_merge(case: str) -> None:
    processes, expected = MERGED[case]
    assert statuses(*processes) == expected


def test_merge_changes_no_report_that_it_reads() -> None:
    first, second = process("a:success", "t:pass:a"), process("a:error b:success", "t:absent:a")
    before = first.to_dict(), second.to_dict()
    merge([first, second])
    assert (first.to_dict(), second.to_dict()) == before


FULL = Report(
    {
        "model.p.a": Node("model.p.a", "a", "success", "silver.a", ("seed.p.x", "model.p.w")),
        "model.p.v": Node("model.p.v", "v", "error"),
    },
    {
        "test.p.t": TestRun(
            "test.p.t", "größer_als_null", ("model.p.a",), "fail", "model.p.a", False, 3
        ),
        "test.p.u": TestRun("test.p.u", "u", (), "absent"),
    },
    ("elementary 0.25.1",),
)


def read(written: dict[str, Any]) -> Report:
    """Read a report as the ledger gives it back: it keeps JSON, which has lists for tuples."""
    return Report.from_dict(json.loads(json.dumps(written)))


@pytest.mark.parametrize("report", [Report(), FULL], ids=["empty", "full"])
def test_json_keeps_all(report: Report) -> None:
    again = read(report.to_dict())
    assert again == report
    assert hash(tuple(again.nodes.values())) == hash(tuple(report.nodes.values()))  # no lists


def test_json_of_another_version_is_read() -> None:
    """What a newer version added is left out, what an older one hadn't has its default."""
    written: dict[str, Any] = FULL.to_dict()
    written["started_by"] = "cron"
    for row in [*written["nodes"], *written["tests"]]:
        row["colour"] = "blue"
    assert read(written) == FULL
    for row in written["tests"]:
        del row["failures"], row["blocks"]
    del written["standins"]
    assert read(written).standins == ()
    assert all(t.blocks for t in read(written).tests.values())
