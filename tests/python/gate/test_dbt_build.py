"""What `dbt build` publishes through the gate and what it holds back, as another reader sees it."""

from __future__ import annotations

import pytest

from gate.gated import NOT_NULL, GatedProject
from icegate.catalog import list_relations, local_path
from icegate.cli.common import find_entry
from icegate.errors import ConfigError
from icegate.gate.compare import diff

pytestmark = pytest.mark.slow

COPY = "select id, amount from {{ ref('orders') }}"


def two_parts(project: GatedProject, *amounts: int | None) -> None:
    """`orders`, what is built from it, and `other`, which isn't."""
    project.values("orders", *amounts)
    project.model("report", COPY)
    project.values("other", *[5] * len(amounts))
    project.tests(orders=NOT_NULL)


def test_a_good_build_publishes_all_as_one_release(gated: GatedProject) -> None:
    two_parts(gated, 1, 2)
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.seen("orders") == gated.seen("report") == [(1, 1), (2, 2)]
    assert gated.seen("other") == [(1, 5), (2, 5)]
    for table in ("orders", "report", "other"):
        assert list(gated.metadata(table)["refs"]) == ["main", "release_1"]
    assert "release 1: 3 tables published" in run.notes
    assert [(e.event, e.release) for e in gated.events()] == [("published", 1)]


def test_a_failed_test_holds_back_its_table_and_what_is_built_from_it(gated: GatedProject) -> None:
    two_parts(gated, 1)
    assert gated.dbt("build").ok
    two_parts(gated, 1, None, None)
    run = gated.dbt("build")
    assert not run.ok
    assert run.status["report"] == "skipped"
    assert gated.seen("orders") == gated.seen("report") == [(1, 1)]
    assert gated.seen("other") == [(1, 5), (2, 5), (3, 5)]
    assert gated.waiting("orders") == [(1, 1), (2, None), (3, None)]
    assert "release 2: 1 table published" in run.notes
    assert f"a test failed on {gated.schema}.orders (2 rows)" in run.notes

    two_parts(gated, 1, 3)  # the second cycle doesn't carry the rejected rows of the first
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.seen("orders") == gated.seen("report") == [(1, 1), (2, 3)]
    assert gated.builds("orders") == []


TIED = {"relationships": {"arguments": {"to": "ref('orders')", "field": "id"}}}
SCOPES = {
    "table": {"base", "sister", "other"},
    "downstream": {"base", "other"},
    "lineage": {"other"},
    "run": set(),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_how_far_a_failure_reaches(gated: GatedProject, scope: str) -> None:
    gated.retarget(gate_scope=scope)
    gated.values("base", 1)
    gated.model("orders", "select id, cast(null as int) as amount from {{ ref('base') }}")
    gated.values("sister", 1)  # a test ties it to orders
    gated.values("other", 1)
    gated.tests(orders=NOT_NULL, sister={"id": [TIED]})
    run = gated.dbt("build")
    assert not run.ok and run.status["relationships_sister_id__id__ref_orders_"] == "pass"
    seen = {name for name in ("base", "orders", "sister", "other") if gated.seen(name)}
    assert seen == SCOPES[scope]


def test_severity_and_thresholds_count_as_dbt_counts_them(gated: GatedProject) -> None:
    configs = {
        "warns": {"severity": "warn"},
        "warns_below": {"error_if": ">2", "warn_if": ">0"},
        "passes_below": {"error_if": ">2", "warn_if": ">2"},
        "fails_above": {"error_if": ">1", "warn_if": ">0"},
        "warns_though_above": {"severity": "warn", "error_if": ">1"},
    }
    for name in configs:
        gated.values(name, 1, None, None)
    gated.tests(
        **{n: {"amount": [{"not_null": {"config": config}}]} for n, config in configs.items()}
    )
    run = gated.dbt("build")
    statuses = {name: run.status[f"not_null_{name}_amount"] for name in configs}
    assert statuses == {
        "warns": "warn",
        "warns_below": "warn",
        "passes_below": "pass",
        "fails_above": "fail",
        "warns_though_above": "warn",
    }
    assert not run.ok and gated.seen("fails_above") == []
    assert all(len(gated.seen(name)) == 3 for name in configs if name != "fails_above")


def test_a_failed_test_of_two_models_holds_back_both(gated: GatedProject) -> None:
    gated.values("orders", 1)
    gated.values("lines", 1, 2)
    gated.values("one", 1)
    gated.values("two", 1)
    gated.values("other", 1)
    gated.tests(lines={"id": [TIED]})
    gated.write(
        "tests/same.sql",
        "select one.id from {{ ref('one') }} as one, {{ ref('two') }} as two where one.id = two.id",
    )
    run = gated.dbt("build")
    assert not run.ok and run.status["same"] == "fail"
    seen = {n for n in ("orders", "lines", "one", "two", "other") if gated.seen(n)}
    assert seen == {"other"}


def test_a_failed_test_of_a_view_holds_back_the_table_below(gated: GatedProject) -> None:
    two_parts(gated, None)
    gated.model("shown", "select * from {{ ref('orders') }}", materialized="view")
    gated.tests(shown=NOT_NULL)
    run = gated.dbt("build")
    assert run.status["not_null_shown_amount"] == "fail"
    assert gated.seen("orders") == gated.seen("report") == []
    assert gated.seen("other") == [(1, 5)]


def test_three_bad_days_and_the_repair(gated: GatedProject) -> None:
    mark = "{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}"
    gated.model("orders", f"select * from {{{{ ref('raw') }}}} {mark}", materialized="incremental")
    gated.tests(orders=NOT_NULL)
    days: tuple[int | None, ...] = (1,)
    gated.values("raw", *days, gate=False)
    assert gated.dbt("build").ok
    for day in (2, 3, 4):
        days = (*days, None)
        gated.values("raw", *days, gate=False)
        run = gated.dbt("build")
        assert not run.ok and gated.seen("orders") == [(1, 1)]
        assert gated.seen("raw")[-1] == (day, None)  # +gate: false
        waits = f"{day - 1} row{'s' * (day > 2)} more wait"
        assert waits in run.notes, run.notes
        assert len(gated.builds("orders")) == 1
    gated.values("raw", 1, 2, 3, 4, gate=False)
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert gated.builds("orders") == []


def test_readers_find_a_new_table_from_its_first_release_on(gated: GatedProject) -> None:
    gated.values("orders", None)
    gated.model("report", "select * from {{ ref('orders') }}")
    gated.tests(orders=NOT_NULL)
    run = gated.dbt("build")
    assert not run.ok and "orders" not in gated.tables()
    assert f"select * from icegate_staging.{gated.staged()[0]}" in run.notes
    told = (gated.folder / "logs" / "dbt.log").read_text()
    assert f"OK created sql table model {gated.schema}.orders " in told
    (build,), table = gated.builds("orders"), f"{gated.schema}.orders"
    (change,) = diff(gated.lake, "main", build)
    assert (change["table"], change["rows"], change["files_added"]) == (table, 1, 1)
    with pytest.raises(ConfigError, match="no release yet"):
        find_entry(list_relations(gated.lake), table, "lake")
    gated.values("orders", 1)
    assert gated.dbt("build").ok
    assert gated.seen("orders") == gated.seen("report") == [(1, 1)]
    assert gated.is_wap("orders") and gated.staged() == []
    files = [file for (file,) in gated.rows("select file_path from {s}.orders.files")]
    at_home = gated.lake.warehouse / gated.schema / "orders"
    for place in (gated.metadata("orders")["location"], *files):
        assert local_path(place).is_relative_to(at_home)


def test_a_table_without_rows_stays_the_same_table(gated: GatedProject) -> None:
    gated.rows("create table {s}.orders (id bigint) using iceberg")
    made = gated.metadata("orders")
    gated.values("orders", 1, materialized="incremental")
    assert gated.dbt("build").ok
    now = gated.metadata("orders")
    assert gated.seen("orders") == [(1, 1)] and gated.is_wap("orders")
    assert (now["table-uuid"], now["location"]) == (made["table-uuid"], made["location"])


def test_a_first_build_that_is_held_back_is_a_first_build_again(gated: GatedProject) -> None:
    sql = "select {} as amount, {{{{ is_incremental() }}}} as went_on"
    gated.tests(orders=NOT_NULL)
    for _ in range(2):
        gated.model("orders", sql.format("cast(null as int)"), materialized="incremental")
        assert not gated.dbt("build").ok
        assert gated.seen("orders") == [] and gated.waiting("orders") == [(None, False)]
    gated.model("orders", sql.format("1"), materialized="incremental")
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.seen("orders") == [(1, False)]
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, False), (1, True)]
