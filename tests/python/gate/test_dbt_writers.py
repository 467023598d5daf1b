"""Other writers on main while a build runs, and builds that ended without an end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

import pytest
from conftest import catalog_keys

from dbt.adapters.icegate.gate import Gate
from gate.gated import NOT_NULL, GatedProject
from gate.test_dbt_named import DBT, publish
from icegate.gate import refs, staging
from icegate.gate.build import hold_alive
from icegate.gate.store import Step, edit

pytestmark = pytest.mark.slow

COPY = "select id, amount from {{ ref('orders') }}"
GROWS = {"materialized": "incremental", "incremental_strategy": "append"}
FOREIGN = {"id": 7, "amount": 7}
# A node that runs after the tests of `orders`, and writes to its main as another program does.
INTRUDER = """
def model(dbt, spark):
    import pyarrow
    from icegate.catalog import open_catalog
    from icegate.settings import Lake

    dbt.config(materialized="table", gate=False)
    orders = dbt.ref("orders")
    lake = Lake(home={home!r}, warehouse={warehouse!r}, **{catalog!r})
    columns = pyarrow.schema([("id", "int32"), ("amount", "int32")])
    table = open_catalog(lake).create_table_if_not_exists("{schema}.orders", columns)
    table.append(pyarrow.Table.from_pylist([{row!r}], schema=table.schema().as_arrow()))
    return orders
"""


def intrude(project: GatedProject) -> None:
    text = INTRUDER.format(
        home=str(project.lake.home),
        warehouse=str(project.lake.warehouse),
        catalog=catalog_keys(project.lake),
        schema=project.schema,
        row=FOREIGN,
    )
    project.write("models/intruder.py", text)


@pytest.mark.parametrize("config", [{}, GROWS], ids=["table", "append"])
def test_what_someone_else_wrote_meanwhile_is_never_lost(
    gated: GatedProject, config: dict[str, str]
) -> None:
    gated.values("orders", 1, **config)
    gated.model("report", COPY)
    gated.values("other", 1)
    gated.tests(orders=NOT_NULL)
    assert gated.dbt("build").ok
    gated.values("orders", 2, **config)
    gated.values("other", 2)
    intrude(gated)
    run = gated.dbt("build")
    assert not run.ok and run.status["orders"] == "error"
    assert "someone else wrote to its main" in run.message["orders"]
    assert gated.seen("orders") == [(1, 1), (7, 7)] and gated.seen("report") == [(1, 1)]
    assert gated.seen("other") == [(1, 2)]
    (gated.folder / "models" / "intruder.py").unlink()
    run = gated.dbt("retry")  # on top of what is there
    assert run.ok and run.status["orders"] == "success", run.text
    expected = [(1, 1), (1, 2), (7, 7)] if config else [(1, 2)]
    assert gated.seen("orders") == gated.seen("report") == expected
    assert gated.builds("orders") == []


def test_what_is_built_anew_on_top_of_others_is_tested_anew(gated: GatedProject) -> None:
    """What the other wrote makes rows that fail: the tests of before knew nothing of them."""
    gated.values("orders", 1, **GROWS)
    gated.model("report", COPY)
    over_seven = {"dbt_expression": {"arguments": {"expression": "< 7"}}}
    gated.write(
        "macros/dbt_expression.sql",
        """
        {% test dbt_expression(model, column_name, expression) %}
            select * from {{ model }} where not ({{ column_name }} {{ expression }})
        {% endtest %}
        """,
    )
    gated.tests(orders=NOT_NULL, report={"amount": [over_seven]})
    assert gated.dbt("build").ok
    gated.values("orders", 2, **GROWS)
    intrude(gated)
    run = gated.dbt("build")
    assert run.status["orders"] == run.status["report"] == "error", run.text
    assert {run.status[name] for name in run.status if "dbt_expr" in name} == {"skipped"}
    (gated.folder / "models" / "intruder.py").unlink()
    run = gated.dbt("retry")
    assert {run.status[name] for name in run.status if "dbt_expr" in name} == {"fail"}, run.text
    assert gated.seen("orders") == [(1, 1), (1, 2), (7, 7)]
    assert gated.seen("report") == [(1, 1)]  # 7 isn't less than 7


def test_a_table_that_someone_else_made_meanwhile_stays(gated: GatedProject) -> None:
    gated.values("orders", 1)
    gated.values("other", 1)
    intrude(gated)
    run = gated.dbt("build")
    assert not run.ok and run.status["orders"] == "error"
    assert "someone else made it after the build had begun" in run.message["orders"]
    assert gated.seen("orders") == [(7, 7)] and gated.seen("other") == [(1, 1)]
    (gated.folder / "models" / "intruder.py").unlink()
    run = gated.dbt("retry")
    assert run.ok and run.status["orders"] == "success", run.text
    assert gated.seen("orders") == [(1, 1)] and gated.staged() == []


def test_a_write_between_judging_and_moving_is_not_lost(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table built beside takes over the metadata of the one that was judged, or nothing."""
    gated.values("orders", 1)
    assert gated.dbt("build").ok
    gated.model("orders", "select 2 as id, 'two' as amount")
    real = staging.publish_steps

    def late(*args: Any) -> list[Step]:
        monkeypatch.undo()
        gated.append("orders", FOREIGN)
        return real(*args)

    monkeypatch.setattr(staging, "publish_steps", late)
    run = gated.dbt("build")
    assert "someone else wrote to it after" in run.message["orders"], run.text
    assert gated.seen("orders") == [(1, 1), (7, 7)]
    run = gated.dbt("retry")  # the clone is made anew, on top of what is there
    assert run.ok, run.text
    assert gated.seen("orders") == [(2, "two")] and gated.staged() == []


def test_building_again_goes_on_top_of_what_someone_else_wrote(gated: GatedProject) -> None:
    gated.values("orders", 1, **GROWS)
    assert gated.dbt("build").ok
    intrude(gated)
    assert not gated.dbt("build").ok
    (gated.folder / "models" / "intruder.py").unlink()
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (1, 1), (7, 7)]


def test_a_named_build_is_refused_when_main_moved(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.values("orders", 1)
    assert gated.dbt("build").ok
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.values("orders", 2)
    assert gated.dbt("build").ok
    gated.append("orders", FOREIGN)
    outcome = publish(gated)
    assert "someone else wrote" in outcome.blocked[f"{gated.schema}.orders"]
    assert gated.seen("orders") == [(1, 1), (7, 7)] and gated.waiting("orders") == [(1, 2)]


def test_a_compaction_of_main_is_in_nobodys_way(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.values("orders", 1, **GROWS)
    assert gated.dbt("build").ok and gated.dbt("build").ok
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    assert gated.dbt("build").ok
    gated.rows(
        f"call {gated.lake.catalog}.system.rewrite_data_files("
        "table => '{s}.orders', options => map('rewrite-all', 'true'))"
    )
    summaries = [snapshot["summary"] for snapshot in gated.metadata("orders")["snapshots"]]
    assert "replace" in [summary["operation"] for summary in summaries]
    assert publish(gated).blocked == {}
    assert gated.seen("orders") == [(1, 1)] * 3


def test_a_branch_of_a_dead_process_is_dropped_and_of_a_living_one_kept(
    gated: GatedProject,
) -> None:
    gated.values("orders", 1)
    gated.values("other", 1)
    assert gated.dbt("build").ok
    for build in ("deadbeef", "11111111", "by_hand"):
        for table in ("orders", "other"):
            branch = refs.branch_of(build)
            name = f"{gated.schema}.{table}"
            edit(gated.lake, name, lambda old, b=branch: refs.open_branch(old, b))
    with hold_alive(gated.lake, "11111111"):
        assert gated.dbt("build", "--select", "orders").ok
        for table in ("orders", "other"):
            assert sorted(gated.builds(table)) == ["11111111", "by_hand"]
    assert gated.dbt("build", "--select", "orders").ok
    assert gated.builds("orders") == gated.builds("other") == ["by_hand"]


def test_a_run_that_nobody_ended_is_not_in_the_way_of_the_next(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook whose cell was interrupted: the next run has an adapter of its own."""
    gated.values("orders", 1)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Gate, "at_hooks", only_begin)
        gated.dbt("run")
    assert Gate.running is not None and gated.seen("orders") == []
    Gate.running.adapter.cleanup_connections()
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.seen("orders") == [(1, 1)] and gated.builds("orders") == []


def only_begin(gate: Gate, task: Any, when: str) -> None:
    if when == "on-run-start":
        gate.begin(task)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl_c", "kill_9"])
def test_a_build_that_was_stopped_leaves_nothing_to_readers(
    gated: GatedProject, how: signal.Signals
) -> None:
    gated.retarget(memory="1g")
    gated.values("orders", 1, **GROWS)
    assert gated.dbt("build").ok
    gated.values("orders", 2, **GROWS)
    sleep = "select java_method('java.lang.Thread', 'sleep', 60000L) as slept"
    gated.model("slow", sleep + " from {{ ref('orders') }}")
    where = ["--project-dir", str(gated.folder), "--profiles-dir", str(gated.folder)]
    command = [str(DBT), "build", "--quiet", *where]
    with subprocess.Popen(command, start_new_session=True) as running:
        deadline = time.monotonic() + 90
        while len(gated.metadata("orders")["snapshots"]) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        os.killpg(running.pid, how)
        assert running.wait(timeout=60) != 0
    assert len(gated.builds("orders")) == 1 and gated.seen("orders") == [(1, 1)]
    gated.model("slow", "select 1 as slept from {{ ref('orders') }}")
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.builds("orders") == []
    assert gated.seen("orders") == [(1, 1), (1, 2)]
