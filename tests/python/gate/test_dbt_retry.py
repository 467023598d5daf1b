"""Going on with a build that was held back: `dbt retry`, and selecting by results."""

from __future__ import annotations

import pytest

from gate.gated import NOT_NULL, GatedProject

pytestmark = pytest.mark.slow

COPY = "select id, amount from {{ ref('orders') }}"
WARN = {"amount": [{"not_null": {"config": {"severity": "warn"}}}]}


def held_back(project: GatedProject) -> str:
    """Publish one row, build a bad one after it; return the name of the build that waits."""
    for amount in (1, None):
        project.values("orders", amount)
        project.model("report", COPY)
        project.tests(orders=NOT_NULL)
        run = project.dbt("build")
    assert not run.ok
    (build,) = project.builds("orders")
    return build


def test_retry_goes_on_with_the_branch_of_the_last_run(gated: GatedProject) -> None:
    build = held_back(gated)
    run = gated.dbt("retry")  # nothing was repaired
    assert not run.ok and gated.seen("orders") == [(1, 1)]
    assert gated.builds("orders") == [build]
    gated.tests(orders=WARN)
    run = gated.dbt("retry")
    assert run.status["report"] == "success" and "orders" not in run.status
    assert gated.seen("orders") == gated.seen("report") == [(1, None)]
    assert gated.builds("orders") == gated.builds("report") == []
    assert [(e.event, e.build) for e in gated.events()[1:]] == [
        ("held", build),
        ("held", build),
        ("published", build),
    ]


def test_retry_after_an_error_in_a_model(gated: GatedProject) -> None:
    gated.values("orders", 1)
    gated.model("report", "select raise_error('no') as id from {{ ref('orders') }}")
    gated.tests(orders=NOT_NULL)
    run = gated.dbt("build")
    assert not run.ok and run.status["report"] == "error"
    assert gated.seen("orders") == [(1, 1)]
    gated.model("report", COPY)
    run = gated.dbt("retry")
    assert run.ok and set(run.status) == {"report"}, run.text
    assert gated.seen("report") == [(1, 1)]
    assert [(e.event, e.release) for e in gated.events()] == [("published", 1), ("published", 2)]


def test_retry_of_a_test_reads_main_as_the_test_did(gated: GatedProject) -> None:
    gated.values("orders", None)
    assert gated.dbt("run").ok
    gated.tests(orders=NOT_NULL)
    assert not gated.dbt("test").ok
    before = len(gated.events())
    run = gated.dbt("retry")
    assert run.status == {"not_null_orders_amount": "fail"}
    assert len(gated.events()) == before and run.notes == ""


def test_result_selectors_begin_a_build_of_their_own(gated: GatedProject) -> None:
    build = held_back(gated)
    state = str(gated.save_state())
    run = gated.dbt("build", "--select", "result:fail+", "--state", state)
    assert run.ok and set(run.status) == {"not_null_orders_amount"}  # of main, which is good
    assert gated.seen("orders") == [(1, 1)] and gated.builds("orders") == [build]
    gated.values("orders", 2)
    run = gated.dbt("build", "--select", "1+result:fail+", "result:skipped", "--state", state)
    assert run.ok and set(run.status) == {"orders", "not_null_orders_amount", "report"}
    assert gated.seen("orders") == gated.seen("report") == [(1, 2)]
    assert gated.builds("orders") == []


def test_retry_keeps_the_batches_that_were_right(gated: GatedProject) -> None:
    """dbt repeats the failed batches only: the others wait on the branch."""
    days = "values (1, '2026-01-01'), (2, '2026-01-02') as t(id, day)"
    gated.model("raw", f"select id, timestamp(day) as day from {days}", event_time="day")
    config = {"incremental_strategy": "microbatch", "begin": "2026-01-01", "batch_size": "day"}
    config |= {"materialized": "incremental", "event_time": "day"}
    fails = "if(id = 2, raise_error('no'), id)"
    gated.model("batches", f"select {fails} as id, day from {{{{ ref('raw') }}}}", **config)
    span = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-03"]
    run = gated.dbt("build", *span)
    assert run.status["batches"] == "partial success"
    assert gated.seen("batches") == []
    gated.model("batches", "select id, day from {{ ref('raw') }}", **config)
    run = gated.dbt("retry")
    assert run.ok, run.text
    assert [row[0] for row in gated.seen("batches")] == [1, 2]
