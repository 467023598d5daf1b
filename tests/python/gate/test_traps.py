"""What would reach readers past a branch: replaces, streams, changed columns, changed views."""

from __future__ import annotations

from typing import Any

import pytest

from gate.gated import NOT_NULL, GatedProject
from icegate.errors import ConfigError
from icegate.gate import refs
from icegate.gate.rollback import rollback

pytestmark = pytest.mark.slow

EMPTIES_MAIN = {
    "writeTo": "frame.writeTo(name).createOrReplace()",
    "replace": "frame.writeTo(name).replace()",
    "saveAsTable": "frame.write.mode('overwrite').saveAsTable(name)",
    "mode": "frame.write.saveAsTable(name, mode='overwrite')",
    "sql": "session.sql(f'create or replace table {name} as select 1 as id')",
    "stream": "session.readStream.format('rate').load().writeStream.toTable(name)",
}


def write_sly_model(gated: GatedProject, way: str) -> None:
    gated.write(
        "models/sly.py",
        f"""
        def model(dbt, session):
            frame, name = session.sql("select 1 as id"), "{gated.schema}.orders"
            {EMPTIES_MAIN[way]}
            return frame
        """,
    )


@pytest.mark.parametrize("way", EMPTIES_MAIN)
def test_a_python_model_cannot_replace_what_readers_see(gated: GatedProject, way: str) -> None:
    gated.values("orders", 10, 20)
    assert gated.dbt("build").ok
    write_sly_model(gated, way)
    run = gated.dbt("run", "--select", "sly")
    assert run.status["sly"] == "error"
    assert f"{gated.schema}.orders while a build writes to its branch" in run.text
    assert gated.seen("orders") == [(1, 10), (2, 20)]


def test_a_python_model_cannot_make_what_readers_are_to_get(gated: GatedProject) -> None:
    gated.values("orders", 10)
    write_sly_model(gated, "saveAsTable")
    run = gated.dbt("build")
    assert run.status == {"orders": "success", "sly": "error"}
    assert gated.seen("orders") == [(1, 10)]


def test_a_hook_cannot_replace_what_readers_see(gated: GatedProject) -> None:
    gated.values("orders", 10, 20)
    assert gated.dbt("build").ok
    gated.values("orders", 1, post_hook="create or replace table {{ this }} as select 7 as id")
    run = gated.dbt("build")
    assert not run.ok and "fix: return the DataFrame" in run.text
    assert gated.seen("orders") == [(1, 10), (2, 20)]


def test_a_write_that_went_to_main_is_put_back_and_said(gated: GatedProject) -> None:
    gated.values("orders", 10, 20)
    assert gated.dbt("build").ok
    unset = "alter table {{ this }} unset tblproperties ('write.wap.enabled')"
    leak = "insert into {{ this }} values (3, 30)"
    gated.values("orders", 10, 20, post_hook=[unset, leak])
    run = gated.dbt("build")
    assert run.status["orders"] == "error" and "went to its main" in run.text
    assert gated.seen("orders") == [(1, 10), (2, 20)]
    assert gated.last_detail()["undone"] == [f"{gated.schema}.orders"]
    gated.values("orders", 10, 20, 30)
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 10), (2, 20), (3, 30)]


def test_changed_columns_reach_readers_with_their_rows(gated: GatedProject) -> None:
    gated.model("prices", "select 1 as id, 10 as price, 'a' as gone")
    gated.tests(prices={"price": [{"accepted_values": {"arguments": {"values": ["ten"]}}}]})
    gated.model("copied", "select * from {{ ref('prices') }}")
    before = gated.dbt("run")
    assert before.ok
    old = gated.metadata("prices")
    gated.model("prices", "select 1 as id, 'eleven' as price", partition_by=["id"])
    assert not gated.dbt("build").ok
    assert gated.columns("prices") == ["id", "price", "gone"]
    assert gated.seen("prices") == [(1, 10, "a")]
    gated.model("prices", "select 1 as id, 'ten' as price", partition_by=["id"])
    assert gated.dbt("build").ok
    assert gated.seen("prices") == [(1, "ten")] == gated.seen("copied")
    new = gated.metadata("prices")
    assert new["table-uuid"] == old["table-uuid"]
    assert new["partition-specs"] != old["partition-specs"]
    assert new["properties"].get("gc.enabled") is None and gated.is_wap("prices")
    assert gated.rows("select * from {s}.prices version as of 'release_1'") == [(1, 10, "a")]
    assert gated.staged() == []


def test_an_incremental_model_drops_a_column_at_publish(gated: GatedProject) -> None:
    config = {"materialized": "incremental", "on_schema_change": "sync_all_columns"}
    config["allow_destructive"] = True
    gated.model("events", "select 1 as id, 5 as amount, 'x' as kind", **config)
    gated.tests(events=NOT_NULL)
    assert gated.dbt("build").ok
    gated.model("events", "select 2 as id, cast(null as int) as amount", **config)
    assert not gated.dbt("build").ok
    assert gated.seen("events") == [(1, 5, "x")]
    gated.model("events", "select 2 as id, 6 as amount", **config)
    assert gated.dbt("build").ok
    assert gated.seen("events") == [(1, 5), (2, 6)]


def test_a_changed_view_is_seen_at_publish(gated: GatedProject, spark: Any) -> None:
    gated.values("orders", 10)
    gated.model("shown", "select id from {{ ref('orders') }}", materialized="view")
    gated.model("below", "select * from {{ ref('shown') }}")
    assert gated.dbt("build").ok
    look = "select * from {s}.shown"
    assert gated.rows(look) == [(1,)]
    gated.model("shown", "select amount, id from {{ ref('orders') }}", materialized="view")
    gated.model("orders", "select 1 as id, cast(null as int) as amount, 3 as more")
    gated.tests(shown=NOT_NULL)
    assert not gated.dbt("build").ok
    assert gated.rows(look) == [(1,)] and gated.seen("orders") == [(1, 10)]
    gated.model("orders", "select 1 as id, 11 as amount, 3 as more")
    assert gated.dbt("build").ok
    assert gated.rows(look) == [(11, 1)] and gated.seen("below") == [(11, 1)]
    assert gated.staged() == []


def test_what_was_held_back_goes_when_it_is_as_readers_have_it_again(gated: GatedProject) -> None:
    gated.tests(shown=NOT_NULL, daily=NOT_NULL)
    shown, daily = "select {} as amount", "select 1 as id, cast({} as int) as amount {}"
    forms = ((1, "where true"), ("null", ""), (1, "where false"))  # good, bad, as readers have it
    for amount, more in forms:
        gated.model("shown", shown.format(amount), materialized="view")
        gated.model("daily", daily.format(amount, more), materialized="incremental")
        is_good = gated.dbt("build").ok
        assert is_good is (amount == 1)
        assert len(gated.staged()) == len(gated.builds("daily")) == int(not is_good)


def test_a_rollback_takes_views_along(gated: GatedProject) -> None:
    gated.values("orders", 10)
    gated.model("shown", "select id from {{ ref('orders') }}", materialized="view")
    assert gated.dbt("build").ok
    gated.model("orders", "select 1 as id, 11 as amount, 3 as more")
    gated.model("shown", "select more, id from {{ ref('orders') }}", materialized="view")
    gated.model("later", "select id from {{ ref('orders') }}", materialized="view")
    assert gated.dbt("build").ok
    for n in range(12):  # each build makes a version, and Iceberg forgets all but ten by itself
        gated.rows(f"create or replace view {{s}}.shown as select more, id, {n} from {{s}}.orders")
    assert gated.dbt("build").ok
    look, view = "select * from {s}.shown", f"{gated.schema}.shown"
    release, moved = rollback(gated.lake, 1, [], "t", dry_run=True)
    assert gated.rows(look) == [(3, 1)] and view in [row["table"] for row in moved]
    assert rollback(gated.lake, 1, [], "t", dry_run=False)[0] == release
    assert gated.rows(look) == [(1,)] and gated.columns("orders") == ["id", "amount"]
    assert gated.rows("select * from {s}.later") == [(1,)]  # newer than the release: it stays
    assert rollback(gated.lake, 1, [view], "t", dry_run=False) == (None, [])
    assert rollback(gated.lake, release - 1, [], "t", dry_run=False)[0] == release + 1
    assert gated.rows(look) == [(3, 1)]
    assert gated.dbt("build").ok and gated.rows(look) == [(3, 1)]
    with pytest.raises(ConfigError, match="no such release"):
        rollback(gated.lake, 99, [view], "t", dry_run=False)


@pytest.mark.parametrize(("first", "then"), [("view", "table"), ("table", "view")])
def test_a_table_takes_a_views_place_and_back(gated: GatedProject, first: str, then: str) -> None:
    gated.tests(turned=NOT_NULL)
    gated.model("turned", "select 1 as id, 5 as amount", materialized=first)
    assert gated.dbt("build").ok
    gated.model("turned", "select 1 as id, cast(null as int) as amount", materialized=then)
    assert not gated.dbt("build").ok
    assert gated.rows("select * from {s}.turned") == [(1, 5)]
    gated.model("turned", "select 1 as id, 6 as amount", materialized=then)
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.rows("select * from {s}.turned") == [(1, 6)]
    assert gated.dbt("build").ok


def test_totals_of_a_branch_count_from_what_main_has(gated: GatedProject) -> None:
    gated.values("orders", 10, 20, materialized="incremental", incremental_strategy="append")
    assert gated.dbt("build").ok and gated.dbt("build").ok
    metadata = gated.metadata("orders")
    found = refs.snapshot(metadata, refs.head(metadata))
    assert found is not None and found["summary"]["total-records"] == "4"


def test_format_v3_goes_through_the_gate(gated: GatedProject) -> None:
    """PyIceberg writes none of it; its row ids have to go on counting after a changed column."""
    v3 = {"tblproperties": {"format-version": "3"}}
    gated.values("orders", 10, 20, materialized="incremental", incremental_strategy="append", **v3)
    assert gated.dbt("build").ok and gated.dbt("build").ok
    first = gated.metadata("orders")
    assert first["format-version"] == 3
    look = "select count(*), count(distinct _row_id) from {s}.orders"
    assert gated.rows(look) == [(4, 4)]
    gated.model("orders", "select 'one' as id, 10 as amount", **v3)
    assert gated.dbt("build").ok
    assert gated.rows("select * from {s}.orders") == [("one", 10)]
    assert gated.metadata("orders")["next-row-id"] > first["next-row-id"]
