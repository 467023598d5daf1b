"""Each command and option of dbt through the gate: which rows it reads, and what it publishes."""

from __future__ import annotations

from typing import Any

import pytest

from gate.gated import NOT_NULL, GatedProject
from icegate.catalog import list_relations
from icegate.gate import ledger, staging

pytestmark = pytest.mark.slow

COPY = "select id, amount from {{ ref('orders') }}"


def orders(project: GatedProject, *amounts: int | None, **config: Any) -> None:
    project.values("orders", *amounts, **config)
    project.tests(orders=NOT_NULL)


def is_untested(project: GatedProject, release: int) -> dict[str, bool]:
    rows = ledger.read_release_tables(project.lake, release)
    return {row.table_name.partition(".")[2]: row.untested for row in rows if row.moved}


def test_run_publishes_and_marks_what_no_test_has_seen(gated: GatedProject) -> None:
    orders(gated, None)
    gated.values("without_tests", 1)
    run = gated.dbt("run")
    assert run.ok, run.text
    assert gated.seen("orders") == [(1, None)]
    assert is_untested(gated, 1) == {"orders": True, "without_tests": False}
    assert "2 tables published (1 untested)" in run.notes


def test_run_stays_on_its_branch_where_tests_are_required(gated: GatedProject) -> None:
    gated.retarget(gate_require_tests=True)
    orders(gated, 1)
    gated.values("without_tests", 1)
    run = gated.dbt("run")
    assert not run.ok and "tests are required" in run.notes
    assert gated.seen("orders") == [] and gated.waiting("orders") == [(1, 1)]
    assert gated.seen("without_tests") == [(1, 1)]
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1)]
    assert is_untested(gated, 2) == {"orders": False, "without_tests": False}


def test_test_reads_what_readers_see_and_writes_nothing(gated: GatedProject) -> None:
    orders(gated, 1)
    assert gated.dbt("build").ok
    orders(gated, None)
    assert not gated.dbt("build").ok  # its rows wait on a branch
    before = gated.metadata("orders"), len(gated.events())
    run = gated.dbt("test")
    assert run.ok and run.status["not_null_orders_amount"] == "pass"
    assert run.notes == ""
    assert (gated.metadata("orders"), len(gated.events())) == before


def test_select_publishes_what_was_selected(gated: GatedProject) -> None:
    orders(gated, 1)
    gated.model("report", COPY)
    gated.values("other", 1)
    assert gated.dbt("build").ok
    orders(gated, 2)
    run = gated.dbt("build", "--select", "orders")
    assert run.ok and set(run.status) == {"orders", "not_null_orders_amount"}
    assert (gated.seen("orders"), gated.seen("report")) == ([(1, 2)], [(1, 1)])
    orders(gated, 3)
    run = gated.dbt("build", "--select", "report")  # which reads what readers see
    assert run.ok and gated.seen("report") == [(1, 2)]
    assert "release 3: 1 table published" in run.notes


def test_exclude_resource_type_test_counts_as_untested(gated: GatedProject) -> None:
    orders(gated, None)
    run = gated.dbt("build", "--exclude-resource-type", "test")
    assert run.ok and gated.seen("orders") == [(1, None)]
    assert is_untested(gated, 1) == {"orders": True}
    gated.retarget(gate_require_tests=True)
    orders(gated, 2)
    run = gated.dbt("build", "--exclude-resource-type", "test")
    assert not run.ok and gated.seen("orders") == [(1, None)]


REHEARSALS = {"empty": ["--empty"], "sample": ["--sample", "1 day"]}


@pytest.mark.parametrize("option", REHEARSALS)
def test_empty_and_sample_are_rehearsals(
    gated: GatedProject, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = "timestamp '2020-01-01' as at"
    gated.model("source", f"select 1 as id, {at}", event_time="at", gate=False)
    copy = "select id, at from {{ ref('source') }}"
    for name, kind in (("full", "table"), ("grows", "incremental")):
        gated.model(name, copy, materialized=kind)
    gated.model("shown", copy, materialized="view")
    gated.tests(full={"id": ["not_null"]})
    assert gated.dbt("build").ok
    before = {name: gated.metadata(name)["refs"] for name in ("full", "grows")}
    seen = gated.seen("full")
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")  # no rehearsal in what will be published
    gated.model("fresh", copy)
    run = gated.dbt("build", *REHEARSALS[option])
    assert run.ok, run.text
    assert gated.seen("full") == seen and gated.seen("fresh") == []
    assert {name: gated.metadata(name)["refs"] for name in before} == before
    assert gated.builds("fresh") == []
    told = "4 built and dropped again, nothing published · 1 not gated, so written"
    assert f"rehearsal (--{option}): {told}" in run.notes
    assert gated.rows("select count(*) from {s}.shown") == [(1,)]
    assert not [e for e in list_relations(gated.lake) if e.namespace == staging.NAMESPACE]
    assert [e.event for e in gated.events()] == ["published"]
    monkeypatch.delenv("ICEGATE_RELEASE")
    assert gated.dbt("build").ok and len(gated.seen("fresh")) == 1


def test_fail_fast_publishes_what_was_proven_before(gated: GatedProject) -> None:
    gated.values("a_good", 1)
    gated.values("b_bad", None)
    gated.model("c_late", "select * from {{ ref('b_bad') }}")
    gated.tests(a_good=NOT_NULL, b_bad=NOT_NULL)
    run = gated.dbt("build", "--fail-fast", "--threads", "1")
    assert not run.ok
    assert gated.seen("b_bad") == []
    assert gated.waiting("b_bad") == [(1, None)]
    # Whether dbt came to it and its test before is dbt's to choose; never without its test.
    passed = run.status.get("not_null_a_good_amount") == "pass"
    assert gated.tables() >= {"a_good"} and bool(gated.seen("a_good")) == passed
    assert "c_late" not in gated.tables()


def test_defer_reads_main_of_the_state(gated: GatedProject, tmp_path: Any) -> None:
    orders(gated, 1)
    gated.model("report", COPY)
    assert gated.dbt("build").ok
    orders(gated, None)
    assert not gated.dbt("build").ok  # and waits on a branch, which nobody is to read
    state, prod = str(gated.save_state()), gated.schema
    gated.schema = f"{prod}_dev"
    gated.retarget(schema=gated.schema)
    run = gated.dbt("build", "--select", "report", "--defer", "--state", state)
    assert run.ok, run.text
    assert gated.tables() == {"report"} and gated.seen("report") == [(1, 1)]


def test_full_refresh_replaces_main_only_when_it_passes(gated: GatedProject) -> None:
    grows = {"materialized": "incremental", "incremental_strategy": "append"}
    orders(gated, 1, **grows)
    assert gated.dbt("build").ok and gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (1, 1)]
    orders(gated, None, **grows)
    run = gated.dbt("build", "--full-refresh")
    assert not run.ok and gated.seen("orders") == [(1, 1), (1, 1)]
    assert gated.waiting("orders") == [(1, None)]
    orders(gated, 3, **grows)
    run = gated.dbt("build", "--full-refresh")
    assert run.ok and gated.seen("orders") == [(1, 3)]


def test_seed_is_gated(gated: GatedProject) -> None:
    gated.write("seeds/prices.csv", "id,amount\n1,1\n")
    gated.tests()
    described = {"name": "prices", "columns": [{"name": "amount", "data_tests": ["not_null"]}]}
    gated.write_yaml("seeds/_seeds.yml", {"seeds": [described]})
    assert gated.dbt("seed").ok
    assert gated.seen("prices") == [(1, 1)] and is_untested(gated, 1) == {"prices": True}
    gated.write("seeds/prices.csv", "id,amount\n1,\n2,2\n")
    run = gated.dbt("build")
    assert not run.ok and gated.seen("prices") == [(1, 1)]
    assert gated.waiting("prices") == [(1, None), (2, 2)]


def test_a_snapshot_is_gated_when_what_it_reads_is(gated: GatedProject) -> None:
    snapshot = """
        {{% snapshot {name} %}}
        {{{{ config(strategy='check', check_cols=['amount'], unique_key='id') }}}}
        select * from {{{{ ref('{of}') }}}}
        {{% endsnapshot %}}
    """
    gated.values("raw", 1, gate=False)
    orders(gated, 1)
    for of in ("raw", "orders"):
        gated.write(f"snapshots/{of}.sql", snapshot.format(name=f"{of}_history", of=of))
    assert gated.dbt("run").ok
    assert gated.dbt("snapshot").ok
    assert not gated.is_wap("raw_history") and gated.is_wap("orders_history")
    assert is_untested(gated, 2) == {"orders_history": False}
    gated.values("raw", 2, gate=False)
    orders(gated, None)
    assert not gated.dbt("build").ok
    assert len(gated.seen("raw_history")) == 2  # a rejected build costs it no day
    assert len(gated.seen("orders_history")) == 1
    orders(gated, 3)
    assert gated.dbt("build").ok
    assert sorted(row[1] for row in gated.seen("orders_history")) == [1, 3]


def test_clone_shows_main_of_the_state(gated: GatedProject) -> None:
    orders(gated, 1)
    assert gated.dbt("build").ok
    orders(gated, None)
    assert not gated.dbt("build").ok
    state = str(gated.save_state())
    gated.schema = f"{gated.schema}_dev"
    gated.retarget(schema=gated.schema)
    run = gated.dbt("clone", "--state", state)
    assert run.ok, run.text
    assert gated.rows("select * from {s}.orders") == [(1, 1)]


def test_a_failed_unit_test_leaves_its_model_as_it_was(gated: GatedProject) -> None:
    gated.values("raw", 1)
    unit = {
        "name": "adds_one",
        "model": "orders",
        "given": [{"input": "ref('raw')", "rows": [{"id": 1, "amount": 1}]}],
        "expect": {"rows": [{"id": 1, "amount": 2}]},
    }
    gated.write_yaml("models/_units.yml", {"unit_tests": [unit]})
    for more, ok in ((1, True), (2, False)):
        gated.model("orders", f"select id, amount + {more} as amount from {{{{ ref('raw') }}}}")
        run = gated.dbt("build")
        assert (run.ok, run.status["orders"] == "success") == (ok, ok), run.text
        assert gated.seen("orders") == [(1, 2)] and gated.builds("orders") == []


def test_show_and_compile_read_main(gated: GatedProject) -> None:
    orders(gated, 1)
    assert gated.dbt("build").ok
    orders(gated, None)
    assert not gated.dbt("build").ok
    before = gated.metadata("orders"), len(gated.events())
    for command in (["compile"], ["show", "--inline", "select * from {{ ref('orders') }}"]):
        run = gated.dbt(*command)
        assert run.ok and run.notes == "", run.text
    assert (gated.metadata("orders"), len(gated.events())) == before


def test_a_catalog_that_has_no_gate_is_refused(gated: GatedProject) -> None:
    orders(gated, 1)
    own = f"spark.sql.catalog.{gated.lake.catalog}.cache-enabled"
    gated.retarget(spark_conf={**gated.lake.spark_conf, own: "false"})
    run = gated.dbt("build")
    assert not run.ok and "cannot open the gate for this target" in run.text
    assert gated.tables() == set()
