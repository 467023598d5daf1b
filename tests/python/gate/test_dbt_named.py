"""ICEGATE_RELEASE: any number of dbt processes work on one branch, until a person ends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gate.gated import NOT_NULL, GatedProject
from icegate.gate.decision import Outcome, Request
from icegate.gate.publish import earlier_build, finish
from icegate.gate.report import Report, merge

pytestmark = pytest.mark.slow

DBT = Path(sys.executable).with_name("dbt")
COPY = "select id, amount from {{ ref('orders') }}"


def publish(project: GatedProject, name: str = "nightly") -> Outcome:
    """End a named build as a person does."""
    last = next(e for e in reversed(project.events()) if e.build == name)
    _, reports = earlier_build(project.lake, last.invocation_id or "")
    request = Request(name, "", "icegate release publish", "t")
    return finish(project.lake, merge([*reports, Report()]), request)


@pytest.fixture
def nightly(gated: GatedProject, monkeypatch: pytest.MonkeyPatch) -> GatedProject:
    gated.values("orders", 1)
    gated.model("report", COPY)
    gated.values("other", 1)
    gated.tests(orders=NOT_NULL, report=NOT_NULL)
    assert gated.dbt("build").ok
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    return gated


def test_several_invocations_work_on_one_branch(nightly: GatedProject) -> None:
    nightly.values("orders", 2)
    run = nightly.dbt("run", "--select", "orders")
    assert run.ok and "1 table on the branch, none published yet" in run.notes
    assert "icegate release publish nightly" in run.notes
    run = nightly.dbt("test", "--select", "orders")
    assert run.ok and run.status == {"not_null_orders_amount": "pass"}
    assert nightly.dbt("build", "--select", "report").ok
    assert nightly.waiting("orders") == nightly.waiting("report") == [(1, 2)]
    assert nightly.seen("orders") == nightly.seen("report") == [(1, 1)]
    assert [e.event for e in nightly.events()] == ["published", "built", "built", "built"]
    outcome = publish(nightly)
    assert [name.partition(".")[2] for name in outcome.published] == ["orders", "report"]
    assert (outcome.release, outcome.untested, outcome.held) == (2, [], [])
    assert nightly.seen("orders") == nightly.seen("report") == [(1, 2)]
    assert nightly.builds("orders") == nightly.builds("report") == []


def test_test_reads_the_branch_and_its_failure_counts(nightly: GatedProject) -> None:
    nightly.values("orders", None)
    nightly.values("other", 2)
    assert nightly.dbt("run").ok
    run = nightly.dbt("test")
    assert run.status == {"not_null_orders_amount": "fail", "not_null_report_amount": "fail"}
    assert not run.ok
    outcome = publish(nightly)
    assert [name.partition(".")[2] for name in outcome.published] == ["other"]
    assert nightly.seen("orders") == nightly.seen("report") == [(1, 1)]
    assert nightly.seen("other") == [(1, 2)]


def test_what_is_written_after_its_tests_is_untested(nightly: GatedProject) -> None:
    nightly.values("orders", 2)
    assert nightly.dbt("build", "--select", "orders").ok
    nightly.values("orders", 3)
    assert nightly.dbt("run", "--select", "orders").ok
    outcome = publish(nightly)
    assert [name.partition(".")[2] for name in outcome.untested] == ["orders"]


def test_a_build_without_the_name_leaves_it_alone(
    nightly: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly.values("orders", 2)
    assert nightly.dbt("build", "--select", "orders").ok
    monkeypatch.delenv("ICEGATE_RELEASE")
    nightly.values("other", 2)
    assert nightly.dbt("build", "--select", "other").ok
    assert nightly.builds("orders") == ["nightly"] and nightly.waiting("orders") == [(1, 2)]
    assert nightly.seen("other") == [(1, 2)]


def test_retry_goes_on_with_the_named_build(
    nightly: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly.values("orders", None)
    assert not nightly.dbt("build").ok
    monkeypatch.delenv("ICEGATE_RELEASE")
    warn = {"amount": [{"not_null": {"config": {"severity": "warn"}}}]}
    nightly.tests(orders=warn, report=warn)
    run = nightly.dbt("retry")
    assert run.status["report"] == "success"
    assert nightly.seen("report") == [(1, 1)] and nightly.waiting("report") == [(1, None)]
    publish(nightly)
    assert nightly.seen("orders") == nightly.seen("report") == [(1, None)]


def test_a_name_that_no_branch_can_have(
    nightly: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "42")
    run = nightly.dbt("build")
    assert not run.ok and "cannot name a release '42'" in run.text
    assert nightly.builds("orders") == []


@pytest.mark.long
def test_two_processes_at_once(nightly: GatedProject) -> None:
    nightly.retarget(memory="1g", cores=1)
    for name in ("orders", "other"):
        nightly.values(name, 2)
    where = ["--project-dir", str(nightly.folder), "--profiles-dir", str(nightly.folder)]
    started = [
        subprocess.Popen(
            [
                *[str(DBT), "build", "--select", select, *where],
                *["--target-path", str(nightly.folder / select), "--quiet"],
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for select in ("orders", "other")
    ]
    told = [process.communicate(timeout=180)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], told
    assert nightly.seen("orders") == nightly.seen("other") == [(1, 1)]
    outcome = publish(nightly)
    assert [name.partition(".")[2] for name in outcome.published] == ["orders", "other"]
    assert nightly.seen("orders") == nightly.seen("other") == [(1, 2)]


# Builds `fresh` in another process of the same build, while this one runs.
ELSEWHERE = """
import subprocess

def model(dbt, spark):
    dbt.config(materialized="table")
    subprocess.run({command!r}, check=True)
    return spark.range(1)
"""


@pytest.mark.long
def test_a_new_table_of_another_process_is_found(nightly: GatedProject) -> None:
    nightly.retarget(memory="1g", cores=1)
    where = ["--project-dir", str(nightly.folder), "--profiles-dir", str(nightly.folder)]
    own = ["--target-path", str(nightly.folder / "elsewhere"), "--quiet"]
    command = [str(DBT), "run", "--select", "fresh", *where, *own]
    nightly.values("fresh", 5, materialized="incremental")
    nightly.write("models/elsewhere.py", ELSEWHERE.format(command=command))
    reads = "-- depends_on: {{ ref('elsewhere') }}\nselect id, amount from {{ ref('fresh') }}"
    nightly.model("late", reads)
    run = nightly.dbt("run", "--select", "elsewhere", "late")
    assert run.ok, run.text
    assert nightly.waiting("late") == [(1, 5)]
    assert nightly.dbt("run", "--select", "fresh").ok  # on top of the other process's rows
    assert nightly.waiting("fresh") == [(1, 5), (1, 5)] and nightly.seen("fresh") == []
    assert not {"fresh", "late"} & nightly.tables()
    publish(nightly)
    assert nightly.seen("fresh") == [(1, 5), (1, 5)] and nightly.seen("late") == [(1, 5)]
