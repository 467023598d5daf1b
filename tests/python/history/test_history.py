"""The materialization `history`: each version of each row, in all forms of a source."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from history.dimensions import FORMS, Shop

# Each builds real tables and their versions, some seconds a test.
pytestmark = pytest.mark.slow

PRODUCTS = "id int, name string, price double, updated_at double"
SOLD = (
    "insert into {t} values (1, 'Heater', 250.0, 1.0), (2, 'Thermostat', 400.0, 1.0),"
    " (3, 'Television', 600.0, 1.0), (4, 'Blender', 100.0, 1.0), (5, 'USB charger', 50.0, 1.0)"
)
MERGED = (
    "merge into {t} t using (select * from values (1, 'Heater', 500.0D, 1.0D),"
    " (6, 'Chair', 75.0D, 1.0D) as (id, name, price, updated_at)) s on t.id = s.id"
    " when matched then update set * when not matched then insert *"
)
TOLD = "name, price, is_current, is_deleted, change"


@pytest.fixture(params=FORMS)
def shop(project: DbtProject, request: Any) -> Shop:
    return Shop(project, request.param)


@pytest.mark.parametrize("is_incremental", [True, False])
def test_products_as_they_were(shop: Shop, is_incremental: bool) -> None:
    shop.make(PRODUCTS)
    for sql in (SOLD, MERGED, "delete from {t} where name = 'Television'"):
        shop.sql(sql)
        if is_incremental:
            run = shop.run()
            assert f"mode={shop.form.split()[0]} steps=1" in run.told
    if not is_incremental:
        shop.run()
    assert shop.rows(TOLD) == [
        ("Blender", 100.0, True, False, "insert"),
        ("Chair", 75.0, True, False, "insert"),
        ("Heater", 250.0, False, False, "insert"),
        ("Heater", 500.0, True, False, "update"),
        ("Television", 600.0, False, True, "insert"),
        ("Thermostat", 400.0, True, False, "insert"),
        ("USB charger", 50.0, True, False, "insert"),
    ]
    first, second, third = (
        row[:2]
        for row in shop.project.rows(
            f"select committed_at, snapshot_id from {shop.table}.snapshots order by committed_at"
        )
    )
    spans = "valid_from, snapshot_id, valid_to, ended_by"
    assert shop.project.rows(
        f"select {spans} from {{s}}.past where id = 1 order by valid_from"
    ) == [
        (*first, *second),
        (*second, None, None),
    ]
    assert shop.project.rows(f"select {spans} from {{s}}.past where id = 3") == [(*first, *third)]


def test_what_one_run_has_to_catch_up_with(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a'), (2, 'a'), (null, 'a')")
    shop.run()
    shop.sql(
        "update {t} set p = 'b' where id is null or id = 1",  # a null is a key
        "update {t} set p = 'c' where id = 1",  # two changes between runs
        "delete from {t} where id = 2",
        "insert into {t} values (2, 'b'), (3, 'a')",  # a key that comes back
        "delete from {t} where id = 3",  # a key that no run ever saw
        f"call lake.system.rewrite_data_files('{shop.table}',"
        " options => map('rewrite-all', 'true'))",
    )
    assert "steps=5" in shop.run().told
    assert shop.rows("id, p, is_current, is_deleted, change") == [
        (1, "a", False, False, "insert"),
        (1, "b", False, False, "update"),
        (1, "c", True, False, "update"),
        (2, "a", False, True, "insert"),
        (2, "b", True, False, "insert"),
        (3, "a", False, True, "insert"),
        (None, "a", False, False, "insert"),
        (None, "b", True, False, "update"),
    ]
    before = shop.project.rows("select snapshot_id from {s}.past.snapshots")
    assert "nothing new" in shop.run().message["past"]
    assert shop.project.rows("select snapshot_id from {s}.past.snapshots") == before


def test_only_tracked_columns_make_versions(shop: Shop) -> None:
    shop.make("shop int, id int, p string, n int")
    shop.keep("shop, id, n, p", unique_key=["shop", "id"], track_columns="p")
    shop.sql("insert into {t} values (1, 1, 'a', 1), (2, 1, 'a', 1)")
    shop.run()
    shop.sql("update {t} set n = 2", "update {t} set p = 'b', n = 3 where shop = 2")
    shop.run()
    assert shop.rows("shop, id, n, p, is_current") == [
        (1, 1, 1, "a", True),
        (2, 1, 1, "a", False),
        (2, 1, 3, "b", True),
    ]


def test_a_rollback_is_one_more_change(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')")
    first = shop.metadata["current-snapshot-id"]
    shop.run()
    shop.sql(
        "update {t} set p = 'b'",
        f"call lake.system.rollback_to_snapshot('{shop.table}', {first})",
        "insert into {t} values (2, 'a')",
    )
    shop.run()
    assert shop.project.rows("select id, p, is_current from {s}.past order by id, valid_from") == [
        (1, "a", False),
        (1, "b", False),
        (1, "a", True),
        (2, "a", True),
    ]
    spans = shop.project.rows("select valid_from, valid_to from {s}.past where id = 1 order by 1")
    assert all(begin < end for begin, end in spans[:2]) and spans[0][1] == spans[1][0]


def test_columns_that_come_are_renamed_and_are_widened(shop: Shop) -> None:
    shop.make("id int, p string, n int")
    shop.sql("insert into {t} values (1, 'a', 1), (2, 'a', 1)")
    shop.run()
    shop.sql(
        "alter table {t} rename column p to q",
        "alter table {t} alter column n type bigint",
        "alter table {t} add column more string",
        "update {t} set more = 'new', n = 5000000000 where id = 1",
    )
    shop.run()
    assert shop.rows("id, q, n, more, is_current") == [
        (1, "a", 1, None, False),
        (1, "a", 5000000000, "new", True),
        (2, "a", 1, None, True),
    ]
    shop.sql("alter table {t} drop column more", "insert into {t} values (3, 'a', 1)")
    shop.run()
    assert shop.rows("id, more, is_current")[-1] == (3, None, True)


def test_what_has_expired_is_a_gap(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')")
    shop.run()
    shop.sql("update {t} set p = 'b'", "update {t} set p = 'c'", "update {t} set p = 'd'")
    shop.sql(
        f"call lake.system.expire_snapshots(table => '{shop.table}',"
        " older_than => timestamp '2100-01-01', retain_last => 1)"
    )
    tag = f"history_{shop.project.schema}.past"
    assert tag in shop.metadata["refs"], "what the next run goes on from stays"
    before = shop.rows("*")
    run = shop.project.dbt("run", "--select", "past")
    assert not run.ok and "has a gap" in run.text and "+history_gap: bridge" in run.text
    assert shop.rows("*") == before
    shop.keep(history_gap="bridge")
    shop.run()
    assert shop.rows("p, is_current") == [("a", False), ("d", True)]
    assert shop.metadata["refs"][tag]["snapshot-id"] == shop.metadata["current-snapshot-id"]


def test_versions_without_a_change_may_expire_once_they_were_looked_at(shop: Shop) -> None:
    shop.make("id int, p string, n int")
    shop.keep(track_columns="p")
    shop.sql("insert into {t} values (1, 'a', 1)", "insert into {t} values (2, 'a', 1)")
    shop.run()
    shop.sql(
        "call lake.system.rewrite_data_files('{t}', options => map('rewrite-all', 'true'))",
        "delete from {t} where id < 0",
        "update {t} set n = n + 1",
        "update {t} set n = n + 1",
    )
    shop.run()
    shop.sql("update {t} set p = 'b' where id = 1")
    shop.sql(
        f"call lake.system.expire_snapshots(table => '{shop.table}',"
        " older_than => timestamp '2100-01-01', retain_last => 1)"
    )
    shop.run()
    assert shop.rows("id, p, is_current") == [(1, "a", False), (1, "b", True), (2, "a", True)]


def test_a_rollback_to_before_versions_without_a_change_ends_what_came_after(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')")
    first = shop.metadata["current-snapshot-id"]
    shop.sql("delete from {t} where id < 0")
    shop.run()
    shop.sql("insert into {t} values (2, 'a')")
    shop.run()
    shop.sql(f"call lake.system.set_current_snapshot('{shop.table}', {first})")
    shop.run()
    shop.sql("insert into {t} values (3, 'a')")
    shop.run()
    told = shop.rows("id, change, is_current, is_deleted")
    assert told == [
        (1, "insert", True, False),
        (2, "insert", False, True),
        (3, "insert", True, False),
    ]


def test_a_version_that_came_and_went_by_a_rollback_is_a_gap(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')")
    first = shop.metadata["current-snapshot-id"]
    shop.run()
    shop.sql("insert into {t} values (2, 'a')")
    shop.sql(f"call lake.system.set_current_snapshot('{shop.table}', {first})")
    shop.sql("insert into {t} values (3, 'a')")
    shop.sql(
        f"call lake.system.expire_snapshots(table => '{shop.table}',"
        " older_than => timestamp '2100-01-01', retain_last => 5)"
    )
    before = shop.rows("*")
    run = shop.project.dbt("run", "--select", "past")
    assert not run.ok and "has a gap" in run.text
    assert shop.rows("*") == before


def test_a_table_with_a_longer_past_says_what_it_knows(shop: Shop) -> None:
    shop.make("id int, p string")
    shop.sql("insert into {t} values (1, 'a')", "insert into {t} values (2, 'a')")
    shop.sql(
        f"call lake.system.expire_snapshots(table => '{shop.table}',"
        " older_than => timestamp '2100-01-01', retain_last => 1)"
    )
    shop.sql("insert into {t} values (3, 'a')")
    shop.run()
    assert shop.rows("id, change") == [(1, "first known"), (2, "first known"), (3, "insert")]


def test_a_version_that_has_ended_stays_as_it_is(shop: Shop) -> None:
    shop.make("id int, p string")
    told: list[Any] = []
    for n, sql in enumerate(
        ["insert into {t} values (1, 'a')", *["update {t} set p = p || p"] * 2, "delete from {t}"]
    ):
        shop.sql(sql)
        shop.run()
        assert told[:-1] == [row for row in shop.rows("*") if row[3] is not None][: max(n - 1, 0)]
        told = shop.project.rows("select * from {s}.past order by valid_from")
        assert [row[4] for row in told] == [False] * (len(told) - 1) + [n < 3]
    assert [row[5] for row in told] == [False, False, True]
