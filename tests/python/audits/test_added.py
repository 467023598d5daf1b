"""Proofs on added rows: each shape that has them, and each rule without which one would lie."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from audits.cases import noted, question
from icegate.audits.answer import Answer, Left, Prover
from icegate.settings import Lake

pytestmark = pytest.mark.slow

# Conditions on two columns, which metadata can't decide.
ROWS = "select id from {s}.orders where not (net + tax = gross)"
GROUPS = (
    "with a as (select status as v, count(*) as n from {s}.orders group by status) "
    "select * from a where v not in ('a', 'c')"
)
DOUBLES = (
    "select id as f, count(*) as n from {s}.orders where id is not null group by id "
    "having count(*) > 1"
)
CHILDREN = (
    "with c as (select shop as f from {s}.orders where shop is not null), "
    "p as (select id as t from {s}.shops) "
    "select f from c left join p on c.f = p.t where p.t is null"
)
COLUMNS = "id bigint, shop bigint, status string, net decimal(9, 2), tax decimal(9, 2), " \
    "gross decimal(9, 2)"  # fmt: skip
GOOD = "select id, id % 3, if(id % 2 = 0, 'a', 'c'), 1.5, 0.5, 2.0 from range({0}, {1}, 1, 1)"
SCAN, FIRST = "scan (duckdb)", "scan (duckdb)"


class Shop:
    """`orders` and `shops`, and what tests of them say."""

    def __init__(self, lake: Lake, spark: Any, version: int) -> None:
        self.lake, self.spark, self.schema = lake, spark, f"added_{uuid.uuid4().hex[:8]}"
        properties = f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read'"
        spark.sql(f"create namespace {self.schema}")
        for table, columns in (("orders", COLUMNS), ("shops", "id bigint")):
            self.sql(f"create table {{s}}.{table} ({columns}) using iceberg "
                     f"tblproperties ({properties})")  # fmt: skip
        self.sql("insert into {s}.shops select id from range(0, 3, 1, 1)")
        for start in (0, 100, 200):
            self.sql("insert into {s}.orders " + GOOD.format(start, start + 100))
        self.prover = Prover(lake)

    def sql(self, text: str) -> list[Any]:
        """Run a statement on Spark; `{s}` is the schema."""
        return self.spark.sql(text.format(s=self.schema)).collect()

    def ask(self, select: str, calc: str = "count(*)") -> tuple[str, int]:
        """Return the proof and the number of failing rows, which must be Spark's, too."""
        sql = question(select.format(s=self.schema), calc)
        told = tuple(self.spark.sql(sql).collect()[0])
        found = self.prover.answer(sql)
        if isinstance(found, Left):
            return "spark", told[0]
        assert found.row == told
        return found.proof, found.row[0]

    def then(self, *statements: str) -> None:
        """Change the tables."""
        for statement in statements:
            self.sql(statement)


@pytest.fixture
def shop(lake: Lake, spark: Any) -> Shop:
    return Shop(lake, spark, 2)


GOOD_ROWS = "insert into {s}.orders " + GOOD.format(300, 350)
# What comes, what is read of it, and how many rows fail then.
ADDED = {
    "good rows": (ROWS, GOOD_ROWS, "added rows (1 of 4 files)", 0),
    "a bad row": (ROWS, "insert into {s}.orders values (9, 0, 'a', 1, 1, 3)",
                  "added rows (1 of 4 files)", 1),
    "nothing": (ROWS, "select 1", "added rows (0 of 3 files)", 0),
    "a good group": (GROUPS, GOOD_ROWS, "added rows (1 of 4 files)", 0),
    "bad groups": (
        GROUPS, "insert into {s}.orders (id, status) select 1, 'b' from range(0, 2, 1, 1)",
        "added rows (1 of 4 files)", 1,
    ),
    "keys that grow": (DOUBLES, GOOD_ROWS, "added rows (1 of 4 files)", 0),
    "a key that an old row has": (
        DOUBLES, "insert into {s}.orders (id) values (205)", "added rows (2 of 4 files)", 1,
    ),
    "keys from anywhere": (
        DOUBLES, "insert into {s}.orders (id) select id * 147 from range(0, 3, 1, 1)",
        "added rows (4 of 4 files)", 3,
    ),
    "keys with nulls": (
        "select id, shop from {s}.orders group by id, shop having count(*) > 1",
        "insert into {s}.orders (id, shop) select /*+ coalesce(1) */ * from "
        "values (-1, null), (-1, null), (5, 2), (5, 1)",
        "added rows (2 of 4 files)", 2,
    ),
    "a child with a parent": (CHILDREN, GOOD_ROWS, "added rows (1 of 4 files)", 0),
    "an orphan": (CHILDREN, "insert into {s}.orders (id, shop) values (1, 7)",
                  "added rows (1 of 4 files)", 1),
    "more parents": (CHILDREN, "insert into {s}.shops values (7)", "added rows (0 of 3 files)", 0),
    "manifests that were rewritten": (
        ROWS, "call system.rewrite_manifests('{s}.orders')", "added rows (0 of 3 files)", 0,
    ),
    "rows that are deleted": (ROWS, "delete from {s}.orders where id = 5",
                              "added rows (0 of 3 files)", 0),
    "rows that were moved": (
        ROWS, "insert overwrite {s}.orders select * from {s}.orders where id < 200",
        "added rows (1 of 1 files)", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_only_what_came_is_read(shop: Shop, name: str) -> None:
    select, change, proof, failures = ADDED[name]
    assert shop.ask(select) == (FIRST, 0)
    shop.then(change)
    assert shop.ask(select) == (proof, failures)


# What is not believed, since it might not hold any more: by what has happened since.
DISTRUSTED = {
    "a parent went away": (
        CHILDREN, ["delete from {s}.shops where id = 2"], 100,
    ),
    "a column of that name is another one": (
        GROUPS, ["alter table {s}.orders drop column status",
                 "alter table {s}.orders add column status string",
                 "insert into {s}.orders (id, status) values (1, 'b')"], 1,
    ),
    "the table is another one": (
        ROWS, ["drop table {s}.orders", f"create table {{s}}.orders ({COLUMNS}) using iceberg",
               "insert into {s}.orders values (9, 0, 'a', 1, 1, 3)"], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRUSTED)
def test_what_may_not_hold_any_more_is_scanned(shop: Shop, name: str) -> None:
    select, changes, failures = DISTRUSTED[name]
    assert shop.ask(select) == (FIRST, 0)
    shop.then(*changes)
    assert shop.ask(select) == (SCAN, failures)


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_may_come_back(lake: Lake, spark: Any, version: int) -> None:
    shop = Shop(lake, spark, version)
    shop.then("insert into {s}.orders values (9, 0, 'a', 1, 1, 3)")
    before = shop.sql("select snapshot_id from {s}.orders.snapshots order by committed_at desc")
    shop.then("insert into {s}.orders values (10, 0, 'a', 1, 1, 2)",
              "delete from {s}.orders where id in (8, 9)")  # fmt: skip
    proof, failures = shop.ask(ROWS)
    if version == 3:  # such deletes are Spark's to read, so that nothing is known
        assert (proof, failures) == ("spark", 0)
        return
    assert (proof, failures) == (FIRST, 0)
    spark.sql(f"call system.rollback_to_snapshot('{shop.schema}.orders', {before[0][0]})")
    assert shop.ask(ROWS) == (SCAN, 1)


def test_added_rows_of_format_3_are_read(lake: Lake, spark: Any) -> None:
    shop = Shop(lake, spark, 3)
    never = ROWS + " and id < 0"  # which metadata proves
    assert shop.ask(never) == ("metadata", 0)
    shop.then("insert into {s}.orders select -id, 0, 'a', 1, 1, id + 1 from range(1, 3, 1, 1)")
    assert shop.ask(never) == ("added rows (1 of 4 files)", 1)
    shop.then("delete from {s}.orders where id = -2")
    assert shop.ask(never) == ("added rows (1 of 4 files)", 0)


# Queries whose old rows can fail when new ones come; each came out wrong as another shape.
OTHER_SHAPES = {
    "a group that is chosen by its size": (
        "select status from {s}.orders group by status having count(*) < 200 and count(*) > 160",
        2,
    ),
    "groups that are chosen among": (
        "select * from (select shop as k, count(*) as n from {s}.orders group by shop) x "
        "where n > 110",
        3,
    ),
    "doubles that are chosen among": (
        "select * from (select shop as k, count(*) as n from {s}.orders group by shop "
        "having count(*) > 1) x where n > 110",
        3,
    ),
    "an aggregate of all": (
        "select count(*) as n from {s}.orders having count(*) > 320",
        1,
    ),
    "rows beside each other": (
        "select a.id from {s}.orders a join {s}.orders b on a.id = b.id + 300",
        50,
    ),
    "a match that must not be": (
        "select b.id from {s}.shops b left join {s}.orders a on a.shop = b.id where a.id >= 300",
        50,
    ),
    "doubles of two queries": (
        "select id from (select id from {s}.orders where id >= 300 union all "
        "select id - 300 as id from {s}.orders where id >= 300) x group by id "
        "having count(*) > 1",
        0,
    ),
    "a limit": ("select id from {s}.orders where id > 300 limit 3", 3),
}


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_other_shapes_are_scanned(shop: Shop, name: str) -> None:
    select, failures = OTHER_SHAPES[name]
    assert shop.ask(select)[1] == 0
    shop.then(GOOD_ROWS)
    proof, found = shop.ask(select)
    assert found == failures
    assert proof in (SCAN, "spark")


@pytest.mark.parametrize("select", [
    "select * from (select id as k, count(*) as n from {s}.orders group by id "
    "having count(*) > 1) x where n < 3",
    "select id from {s}.orders group by id having count(*) > 1 and count(*) < 3",
    "select id from {s}.orders group by id having count(*) = 2",
])  # fmt: skip
def test_a_part_of_a_group_does_not_fail_alone(shop: Shop, select: str) -> None:
    # The key 299 is there four times, twice in the one file which has keys like the new one.
    for ids in ("-10, 299, 299", "299"):
        shop.then(f"insert into {{s}}.orders (id) select explode(array({ids}))")
    assert shop.ask(select) == (FIRST, 0)
    shop.then("insert into {s}.orders (id) values (-5)")
    assert shop.ask(select) == (SCAN, 0)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many old files each lookup was left with."""
    return noted(monkeypatch, "_likely", lambda rows: len(rows.alike))


FILTERED = "using iceberg tblproperties ('write.parquet.bloom-filter-enabled.column.k' = 'true')"
DOUBLED = "select k from {s}.bloom where k is not null group by k having count(*) > 1"


@pytest.mark.parametrize("kind", ["string", "int"])
def test_old_files_are_left_out_by_bloom_filters(shop: Shop, left: list[int], kind: str) -> None:
    key = {"string": "md5(string(id))", "int": "cast(id * 7919 % 10007 as int)"}[kind]
    more = f"insert into {{s}}.bloom select {key} from "
    shop.sql(f"create table {{s}}.bloom (k {kind}) {FILTERED}")
    shop.then(*(f"{more} range({n}, {n + 500}, 1, 1)" for n in range(0, 2000, 500)))
    assert shop.ask(DOUBLED) == (SCAN, 0)
    for rows, failing, files in (
        ("range(2000, 2002, 1, 1)", 0, 0),
        ("range(3, 4, 1, 1)", 1, 1),  # an old key
    ):
        left.clear()
        shop.then(more + rows)
        assert (shop.ask(DOUBLED)[1], left) == (failing, [files])


def test_bloom_filters_know_no_nulls(shop: Shop, left: list[int]) -> None:
    doubled = DOUBLED.replace("where k is not null", "")
    shop.then(f"create table {{s}}.bloom (k string) {FILTERED}",
              "insert into {s}.bloom select null union all select 'a'")  # fmt: skip
    assert shop.ask(doubled) == (SCAN, 0)
    left.clear()
    shop.then("insert into {s}.bloom select /*+ coalesce(1) */ * from "
              "(select null union all select 'b')")  # fmt: skip
    assert (shop.ask(doubled)[1], left) == (1, [1])  # the bounds of the file have 'b' only


def test_bloom_filters_of_another_type_tell_nothing(shop: Shop, left: list[int]) -> None:
    shop.then(f"create table {{s}}.bloom (k int) {FILTERED}",
              "insert into {s}.bloom select id from range(0, 200, 1, 1)",
              "alter table {s}.bloom alter column k type bigint",
              "insert into {s}.bloom values (900)")  # fmt: skip
    assert shop.ask(DOUBLED) == (SCAN, 0)
    left.clear()
    shop.then("insert into {s}.bloom values (7)")
    assert (shop.ask(DOUBLED), left) == (("added rows (2 of 3 files)", 1), [1])


def test_a_query_that_is_read_twice_has_conditions_of_either(shop: Shop) -> None:
    twice = ("with a as (select * from {s}.orders) select id from a where net > 2 and tax >= 0 "
             "union all select id from a where tax > 2 and net >= 0")  # fmt: skip
    assert shop.ask(twice) == ("metadata", 0)
    shop.then("insert into {s}.orders values (9, 0, 'a', 3, 1, 4)")
    assert shop.ask(twice) == ("added rows (1 of 4 files)", 1)


def test_a_union_of_doubles_is_scanned(shop: Shop) -> None:
    both = f"{DOUBLES} union all {DOUBLES}"
    assert shop.ask(both) == (SCAN, 0)
    shop.then("insert into {s}.orders (id) values (205)")
    assert shop.ask(both) == (SCAN, 2)


def test_a_condition_that_asks_another_query_is_scanned(shop: Shop) -> None:
    few = f"{CHILDREN.replace('select shop as f', 'select id, shop as f')} and c.id < "
    few += "(select count(*) from {s}.shops)"
    shop.then("insert into {s}.orders (id, shop) values (5, 9)")
    assert shop.ask(few) == (SCAN, 0)
    shop.then("insert into {s}.shops select id from range(20, 30, 1, 1)")
    assert shop.ask(few) == (SCAN, 1)


NO_SHOP = "left join {s}.shops p on c.f = p.id where p.id is null"
JOINED = {
    "doubles without a match": (
        "with c as (select id as f from {s}.orders group by id having count(*) > 1) "
        f"select f from c {NO_SHOP}",
        "insert into {s}.orders (id) values (205)", 1,
    ),
    "one query on both sides": (
        "with a as (select id, shop from {s}.orders) "
        "select x.id from a x left join a y on x.shop = y.id where y.id is null",
        GOOD_ROWS, 0,
    ),
    "groups of what has no match": (
        "with c as (select shop as f from {s}.orders) select f, count(*) as n from c "
        f"{NO_SHOP} group by f having count(*) > 1",
        "insert into {s}.orders (id, shop) values (7, 9)", 1,
    ),
    "a count without groups of what has no match": (
        "with c as (select shop as f from {s}.orders) select 1 as n from c "
        f"{NO_SHOP} having count(*) > 1",
        "insert into {s}.orders (id, shop) values (7, 9)", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_other_joins_are_scanned(shop: Shop, name: str) -> None:
    select, change, failures = JOINED[name]
    shop.then("insert into {s}.orders (id, shop) values (6, 9)" if "groups" in name else "select 1")
    assert shop.ask(select) == (SCAN, 0)
    shop.then(change)
    assert shop.ask(select) == (SCAN, failures)


def test_a_double_may_be_in_another_table(shop: Shop) -> None:
    shop.then("create table {s}.others (id bigint) using iceberg",
              "insert into {s}.others values (1000), (1001)")  # fmt: skip
    both = ("select id from (select id from {s}.orders where id > 900 union all "
            "select id from {s}.others) x "
            "group by id having count(*) > 1")  # fmt: skip
    assert shop.ask(both) == (FIRST, 0)
    shop.then("insert into {s}.orders (id) values (1000)")
    assert shop.ask(both) == (SCAN, 1)


BAD_ROW = "insert into {s}.orders values (9, 0, 'a', 1, 1, 3)"
ORPHAN = "insert into {s}.orders (id, shop, status) values (1, 7, 'b')"
# What fails at first, what comes then, what is read of it, and how many rows fail in all.
CARRIED = {
    "good rows": (ROWS, BAD_ROW, GOOD_ROWS, "added rows (1 of 5 files)", 1),
    "bad rows": (ROWS, BAD_ROW, BAD_ROW, "added rows (1 of 5 files)", 2),
    "nothing": (ROWS, BAD_ROW, "select 1", "added rows (0 of 4 files)", 1),
    "a bad row that is deleted": (ROWS, BAD_ROW, "delete from {s}.orders where gross = 3", SCAN, 0),
    "a bad row that is repaired": (
        ROWS, BAD_ROW, "update {s}.orders set gross = 2 where gross = 3", SCAN, 0,
    ),
    "rows that are rewritten": (
        ROWS, BAD_ROW, "insert overwrite {s}.orders select * from {s}.orders", SCAN, 1,
    ),
    "a limit of two queries": (
        f"{ROWS} union all {ROWS} and net > 5 limit 1", BAD_ROW, BAD_ROW, SCAN, 1,
    ),
    "an orphan": (CHILDREN, ORPHAN, ORPHAN, "added rows (1 of 5 files)", 2),
    "a parent of orphans": (CHILDREN, ORPHAN, "insert into {s}.shops values (7)", SCAN, 0),
    "a failing group": (GROUPS, ORPHAN, ORPHAN, SCAN, 1),
    "a failing double": (
        DOUBLES, "insert into {s}.orders (id) values (205)",
        "insert into {s}.orders (id) values (205)", SCAN, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_failing_rows_are_carried_where_they_still_fail(shop: Shop, name: str) -> None:
    select, first, change, proof, failures = CARRIED[name]
    shop.then(first)
    assert shop.ask(select) == (SCAN, 1)
    shop.then(change)
    assert shop.ask(select) == (proof, failures)


def test_more_than_a_count_of_failing_rows_is_scanned(shop: Shop) -> None:
    for failures in (1, 2):
        shop.then(BAD_ROW)
        assert shop.ask(ROWS, "count(*), count(distinct id)") == (SCAN, failures)


def test_what_held_before_the_failing_rows_came_is_remembered(shop: Shop) -> None:
    assert shop.ask(ROWS) == (FIRST, 0)
    shop.then(BAD_ROW)
    assert shop.ask(ROWS) == ("added rows (1 of 4 files)", 1)
    shop.then("delete from {s}.orders where gross = 3")
    assert shop.ask(ROWS) == ("added rows (0 of 3 files)", 0)


def test_failing_rows_are_not_remembered_as_none(shop: Shop) -> None:
    bad = "insert into {s}.orders values (9, 0, 'a', 1, 1, 3)"
    shop.then(bad)
    assert shop.ask(ROWS) == (SCAN, 1)
    # No failure by a sum isn't no failing row.
    nothing = "sum(net) - sum(net)"
    assert [shop.ask(ROWS.replace("id", "net"), nothing) for _ in range(2)] == [(SCAN, 0)] * 2
    nulls = "select shop from {s}.orders where id = 9"
    shop.then("update {s}.orders set shop = null where id = 9")
    assert [shop.ask(nulls, "count(shop)") for _ in range(2)] == [(SCAN, 0)] * 2


def test_the_ledger_remembers_over_processes(
    shop: Shop, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shop.ask(ROWS) == (FIRST, 0)
    shop.prover.save()
    shop.then(GOOD_ROWS)
    shop.prover = Prover(lake)
    assert shop.ask(ROWS) == ("added rows (1 of 4 files)", 0)
    shop.prover.save()
    shop.prover = Prover(lake)
    assert shop.ask(ROWS) == ("added rows (0 of 4 files)", 0)
    shop.prover = Prover(lake.model_copy(update={"ansi": not lake.ansi}))
    assert shop.ask(ROWS) == (SCAN, 0)
    monkeypatch.setenv("ICEGATE_FULL", "1")
    shop.prover = Prover(lake)
    assert shop.ask(ROWS) == (SCAN, 0)


def test_a_damaged_file_is_never_a_pass(shop: Shop) -> None:
    assert shop.ask(ROWS) == (FIRST, 0)
    shop.then(GOOD_ROWS)
    sql = question(ROWS.format(s=shop.schema))
    newest = shop.sql("select max_by(file_path, record_count = 50) from {s}.orders.files")[0][0]
    path = Path(newest.removeprefix("file:"))
    path.write_bytes(bytes(path.stat().st_size))
    found = shop.prover.answer(sql)
    assert not isinstance(found, Answer), found
    assert found.tried[1].startswith("added rows: ")


TEXT = "select id from {s}.orders where status rlike '^[xyz]'"
SHOWN = "select id from {s}.shown where status = 'none such'"
NOTHING = "added rows (0 of 3 files)"


def learned(shop: Shop, select: str, *meanwhile: str) -> str:
    """Ask a query that is left to Spark, tell what Spark found, and return how it's proved then."""
    sql = question(select.format(s=shop.schema))
    left = shop.prover.answer(sql)
    assert isinstance(left, Left), left
    found = shop.spark.sql(sql).collect()[0][0]
    shop.then(*meanwhile)
    shop.prover.learn(left, found)
    return shop.ask(select)[0]


def test_what_spark_said_holds_for_the_same_snapshots(shop: Shop) -> None:
    assert learned(shop, TEXT) == NOTHING
    shop.prover.save()
    shop.prover = Prover(shop.lake)
    assert shop.ask(TEXT) == (NOTHING, 0)
    shop.then(GOOD_ROWS, "insert into {s}.orders (id, status) values (900, 'xeno')")
    assert shop.ask(TEXT) == ("spark", 1)


def test_what_spark_said_while_a_table_moved_is_not_known(shop: Shop) -> None:
    sql = question(TEXT.format(s=shop.schema))
    left = shop.prover.answer(sql)
    assert isinstance(left, Left)
    before = shop.sql("select snapshot_id from {s}.orders.refs where name = 'main'")[0][0]
    shop.then("insert into {s}.orders (id, status) values (900, 'xeno')")
    shop.prover.learn(left, shop.sql(sql)[0][0])
    shop.then(f"call system.rollback_to_snapshot('{{s}}.orders', {before})")
    assert shop.ask(TEXT) == ("spark", 0)


@pytest.mark.parametrize(
    "rest",
    ["where my_own(status)", "where now() < timestamp '2000-01-01'",
     "where current_date() < date '2000-01-01'", "tablesample (50 percent)",
     "version as of 'main' where status rlike 'x'"],
)  # fmt: skip
def test_what_may_change_by_itself_is_asked_again(shop: Shop, rest: str) -> None:
    shop.spark.udf.register("my_own", lambda status: status == "q", "boolean")
    assert learned(shop, f"select id from {{s}}.orders {rest}") == "spark"


def test_what_spark_said_of_a_view_holds_while_its_tables_stay(shop: Shop) -> None:
    shop.then("create view {s}.inner_one as select id, status from {s}.orders",
              "create view {s}.shown as select * from {s}.inner_one")  # fmt: skip
    assert learned(shop, SHOWN) == NOTHING
    shop.then("create or replace view {s}.inner_one as select id, 'none such' as status "
              "from {s}.orders where id < 7")  # fmt: skip
    assert shop.ask(SHOWN) == ("spark", 7)
    assert learned(shop, SHOWN) == NOTHING
    shop.then(GOOD_ROWS)
    assert shop.ask(SHOWN) == ("spark", 7)
