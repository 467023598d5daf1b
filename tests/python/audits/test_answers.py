"""How a test is proved: each rule by a case that comes out wrong without it."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pyspark
import pytest
from pyiceberg.manifest import DataFile

from audits.cases import PREFIX, noted, question
from icegate.audits import scan
from icegate.audits.answer import Answer, Left, Prover
from icegate.audits.metadata import origins
from icegate.audits.rows import path_of
from icegate.audits.tree import Undecided, parsed
from icegate.dialect import to_duckdb
from icegate.settings import Lake

COLUMNS = (
    "id bigint, amount decimal(10, 2), wide decimal(38, 2), status string, share double, "
    "at timestamp, day date, is_new boolean"
)
ROWS = f"""
    (1, 1.50, 1.00, 'open', 0.5D, timestamp '2026-01-01 10:00:00', date '2026-01-01', true),
    (2, 9.99, 2.00, 'done', 1.0D, timestamp '2026-01-02 10:00:00', date '2026-01-02', false),
    (3, 0.00, 3.00, '{PREFIX}b', double('NaN'), null, null, null)
"""


@pytest.fixture(scope="module")
def orders(spark: Any) -> Any:
    """A schema with `orders`, in two files, and `nothing`, which never had a row."""
    schema = f"audit_{uuid.uuid4().hex[:8]}"
    spark.sql(f"create namespace {schema}")
    for table in ("orders", "nothing"):
        spark.sql(f"create table {schema}.{table} ({COLUMNS}) using iceberg")
    spark.sql(f"insert into {schema}.orders select * from values {ROWS}")
    spark.sql(f"insert into {schema}.orders select id + 10, 2 * amount, wide, status, share, at, "
              f"day, is_new from {schema}.orders where id < 3")  # fmt: skip
    return schema


class Audited:
    """What was found for a select of failing rows, with what Spark says."""

    def __init__(self, lake: Lake, spark: Any, schema: str) -> None:
        self.prover, self.spark, self.schema = Prover(lake), spark, schema

    def __call__(self, select: str, calc: str = "count(*)") -> tuple[str, int]:
        """Return the proof and the number of failures, which must be Spark's, too."""
        sql = question(select.format(s=self.schema), calc, error_if="> 2")
        told = tuple(self.spark.sql(sql).collect()[0])
        found = self.prover.answer(sql)
        if isinstance(found, Answer):
            assert found.row == told
            assert found.columns == ["failures", "should_warn", "should_error"]
        return (found.proof if isinstance(found, Answer) else "spark"), told[0]

    def tried(self, select: str) -> list[str]:
        """Return why a test is Spark's; it isn't run there."""
        sql = question(select.format(s=self.schema))
        found = self.prover.answer(sql)
        assert not isinstance(found, Answer), found
        return found.tried


@pytest.fixture
def audited(lake: Lake, spark: Any, orders: str) -> Audited:
    return Audited(lake, spark, orders)


METADATA = {
    "not_null": "select id from {s}.orders where id is null",
    "an accepted range": "with a as (select * from {s}.orders), b as (select * from a where 1 = 2 "
    "or not amount >= 0 or not amount <= 100) select * from b",
    "a range in other words": "select * from {s}.orders where false or amount < 0 or 100 < amount",
    "a range of dates": "select 1 from {s}.orders where day not between date '2026-01-01' "
    "and date '2026-12-31'",
    "accepted values": "with a as (select is_new as v, count(*) as n from {s}.orders "
    "where id > 100 group by is_new) select * from a where v in (true)",
    "a table without rows": "select * from {s}.nothing where amount is null",
    "a decimal of all digits": "select 1 from {s}.orders where wide < 0 or wide > 99",
    "a long text": "select 1 from {s}.orders where status > 'z'",
    "what a where leaves": "select id from (select * from {s}.orders where id > 100) x "
    "where status is not null",
    "children of no parents": "with c as (select id as f from {s}.orders where id < 0), p as "
    "(select id as t from {s}.orders) select f from c left join p on c.f = p.t where p.t is null",
    "below, by a double": "select 1 from {s}.orders where share < 0.5",
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata_proves_that_no_row_fails(audited: Audited, name: str) -> None:
    assert audited(METADATA[name]) == ("metadata", 0)


# What metadata can't tell, with the number of failing rows: each breaks one rule.
# NaN is greater than all numbers, and in no bounds: Iceberg leaves such files out of a scan, too,
# where it's alone with small numbers, so that only Spark can say what Spark says.
UNDECIDED = {
    "NaN above a number": ("select 1 from {s}.orders where share > 1", "spark", 0),
    "NaN in no range": ("select 1 from {s}.orders where not share between 0 and 1", "spark", 0),
    "a bound is cut off": (
        f"select 1 from {{s}}.orders where status > '{PREFIX}a' and status < 'o'",
        "scan (duckdb)", 1,
    ),
    "no row gives a row of an aggregate": (
        "select count(*) as n from {s}.orders where id is null having count(*) = 0",
        "scan (duckdb)", 1,
    ),
    "all that is grouped by may be nothing": (
        "select count(*) as n from {s}.orders where id is null group by all",
        "scan (duckdb)", 1,
    ),
    "having is an aggregate": (
        "select 1 as n from {s}.orders where id is null having true",
        "scan (duckdb)", 1,
    ),
    "columns that change places": (
        "select a from (select id as b, amount - 100 as a from {s}.orders) x where a < 0",
        "scan (duckdb)", 5,
    ),
    "the other side of a join": (
        "select b.id from (select * from {s}.orders where id < 0) a "
        "right join {s}.orders b on a.id = b.id where a.id is null",
        "scan (duckdb)", 5,
    ),
    "either part of a union": (
        "select id from {s}.orders where id is null union all select id from {s}.orders",
        "scan (duckdb)", 5,
    ),
    "what reads itself": (
        "with recursive r as (select id from {s}.orders where id = 1 union all select b.id from r "
        "join {s}.orders b on b.id = r.id where b.id < 0) select id from r",
        "spark", 1,
    ),
    "a condition on another table": (
        "select a.id from {s}.orders a left join {s}.nothing b on a.id = b.id "
        "where b.id is null",
        "scan (duckdb)", 5,
    ),
    "a condition after an aggregate": (
        "with a as (select status, count(*) as amount from {s}.orders group by status) "
        "select * from a where amount < 2",
        "scan (duckdb)", 1,
    ),
    "all but what is null": ("select 1 from {s}.orders where not (id is null)", "scan (duckdb)", 5),
    "all but some values": (
        "select 1 from {s}.orders where id not in (100, 200)", "scan (duckdb)", 5,
    ),
    "a value that is computed": (
        "select 1 from {s}.orders where amount in (500, amount + 0)", "scan (duckdb)", 5,
    ),
    "half a number": ("select 1 from {s}.orders where id < 1.5", "scan (duckdb)", 1),
    "half a cent": ("select 1 from {s}.orders where amount < 0.005", "scan (duckdb)", 1),
    "a quote in a text": (
        "select 1 from {s}.orders where status <> 'it''s' and status <> 'o\\pen'",
        "scan (duckdb)", 3,
    ),
    "times in a zone": (
        "select 1 from {s}.orders where at > timestamp '2026-01-01'", "spark", 4,
    ),
    "a time beside a time": (
        "select a.id from {s}.orders a join {s}.orders b on a.at = b.at where a.id > b.id",
        "scan (duckdb)", 2,
    ),
    "decimals of different width": (
        "select 1 from {s}.orders where wide + 0 = 1 or wide < amount", "spark", 4,
    ),
    "a wide decimal beside others": (
        "select 1 from {s}.orders where wide < 2.5 and (wide > id or wide < 1.50)",
        "scan (duckdb)", 2,
    ),
    "decimals that lose digits": ("select 1 from {s}.orders where wide > 1.005", "spark", 3),
    "whole numbers, which may overflow": (
        "select 1 from {s}.orders where id is null and id * id > 1", "spark", 0,
    ),
    "other functions": ("select 1 from {s}.orders where length(status) > 4", "spark", 1),
}  # fmt: skip


@pytest.mark.parametrize("rule", UNDECIDED)
def test_what_metadata_cannot_tell_is_scanned(audited: Audited, rule: str) -> None:
    select, proof, failures = UNDECIDED[rule]
    assert audited(select) == (proof, failures)


def test_limit_and_thresholds_are_those_of_the_query(audited: Audited) -> None:
    assert audited("select id from {s}.orders limit 3") == ("scan (duckdb)", 3)
    assert audited("select id, count(*) as n from {s}.orders group by id", "count(*) + 1")[1] == 6
    # What is asked of failing rows needn't be zero where there are none.
    assert audited("select id from {s}.orders where id is null", "count(*) + 1") == ("spark", 1)


def test_a_question_that_may_have_no_row_is_sparks(audited: Audited) -> None:
    none = f"(select id from {audited.schema}.orders where id is null) x having count(*) > 0"
    sql = f"select count(*) as failures, false as should_warn, false as should_error from {none}"
    assert audited.spark.sql(sql).collect() == []
    assert isinstance(audited.prover.answer(sql), Left)


@pytest.mark.parametrize("select", [
    "select missing from {s}.orders where id is null",
    "select id from {s}.orders where id is null and missing > 1",
    "select id from {s}.orders where id is null and day > 1",
    "select id from {s}.orders where id is null and id",
    "select id from {s}.orders where not id",
    "select id from {s}.missing where id is null",
    "select id from {s}.orders where id is null and no_function(id) = 1",
    "select id from {s}.orders where where",
    "select id from {s}.orders where day < cast('20260101' as date)",
    "select id from {s}.orders where day > cast('infinity' as date)",
])  # fmt: skip
def test_a_query_that_spark_refuses_is_never_a_pass(audited: Audited, select: str) -> None:
    assert audited.tried(select)


@pytest.mark.parametrize("select", [
    "select status, sum(id) as n from {s}.orders group by status",  # may overflow
    "select id, max(status) as m from {s}.orders group by id",
    "select 1 from {s}.orders where day = cast('2026-1-2' as date)",
    "select 1 from {s}.orders where id * amount > 5",
    "select 1 from {s}.orders where amount * amount * amount > 5",
    "select 1 from {s}.orders where id + id > 5",
    "select share, count(*) as n from {s}.orders group by share having count(*) > 1",
    "select distinct share from {s}.orders",
    "select id from {s}.orders union select id from {s}.orders",
])  # fmt: skip
def test_what_may_mean_something_else_is_sparks(audited: Audited, select: str) -> None:
    assert "may mean something else there" in audited.tried(select)[-1]


@pytest.mark.parametrize("source", ["a.t tablesample (5 rows)", "a.t version as of 1"])
def test_only_tables_as_they_are_have_origins(source: str) -> None:
    with pytest.raises(Undecided, match="doesn't read the table as it is"):
        list(origins(parsed(f"select 1 from {source}")))


@pytest.mark.parametrize(("pyspark_is", "text"), [("4.1.4", "it's"), ("3.5.6", "its")])
def test_a_doubled_quote_is_what_this_spark_reads(
    pyspark_is: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", pyspark_is)
    told = to_duckdb(parsed("select 'it''s' as told"), 0)
    assert duckdb.sql(told).fetchall() == [(text,)]


def test_a_number_with_an_exponent_is_a_double(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.large"
    spark.sql(f"create table {table} (id bigint) using iceberg")
    spark.sql(f"insert into {table} values (9007199254740992)")
    assert audited(f"select 1 from {table} where id = 9007199254740993e0") == ("spark", 1)


def test_names_that_differ_by_case_are_sparks(audited: Audited, spark: Any) -> None:
    s = audited.schema
    spark.sql(f"create table {s}.Nothing (id bigint) using iceberg")
    spark.sql(f"insert into {s}.Nothing values (1)")
    pairs = f"select b.id from {s}.nothing a join {s}.Nothing b on a.id is null or b.id = 1"
    assert audited(pairs)[0] == "spark"
    spark.sql("set spark.sql.caseSensitive = true")
    spark.sql(f"create table {s}.cased (id bigint, ID bigint) using iceberg")
    spark.sql("set spark.sql.caseSensitive = false")
    assert audited.tried(f"select 1 from {s}.cased where id is null")


def test_deletes_of_each_kind_count(audited: Audited, spark: Any) -> None:
    for version, proof in ((2, "scan (duckdb)"), (3, "spark")):
        table = f"{audited.schema}.deleted_{version}"
        properties = f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read'"
        spark.sql(f"create table {table} (id bigint) using iceberg tblproperties ({properties})")
        spark.sql(f"insert into {table} select id from range(100)")
        spark.sql(f"delete from {table} where id % 2 = 0")
        assert audited(f"select id from {table}") == (proof, 50)
        assert audited(f"select id from {table} where id > 200") == ("metadata", 0)


def test_old_files_lack_a_new_column(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.wider"
    spark.sql(f"create table {table} (id bigint) using iceberg")
    spark.sql(f"insert into {table} values (1)")
    spark.sql(f"alter table {table} add column name string")
    assert audited(f"select id from {table} where name is null") == ("spark", 1)
    spark.sql(f"insert into {table} values (2, 'b')")
    assert audited(f"select id from {table} where name is null") == ("scan (duckdb)", 1)


def test_a_file_may_lack_what_its_partition_tells(
    audited: Audited, spark: Any, tmp_path: Path
) -> None:
    rows = spark.sql("select * from values (1, 'a'), (2, 'b'), (3, 'b') as rows(id, kind)")
    rows.write.partitionBy("kind").parquet(str(tmp_path / "hive"))
    table = f"{audited.schema}.taken_over"
    spark.sql(f"create table {table} (id int, kind string) using iceberg partitioned by (kind)")
    spark.sql(f"call system.add_files('{table}', '`parquet`.`{tmp_path}/hive`')")
    assert audited(f"select id from {table} where kind is null or id < 0")[1] == 0
    assert audited(f"select kind from {table} group by kind having count(*) > 1")[1] == 1


def test_files_are_read_by_their_own_names(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.patterns"
    spark.sql(f"create table {table} (id bigint, kind string) using iceberg partitioned by (kind)")
    spark.sql(f"insert into {table} values (1, '*'), (2, 'a'), (3, 'b=c'), (4, '[ab]')")
    doubles = "select id from {t} where kind <> 'z' group by id having count(*) > 1"
    assert audited(doubles.format(t=table)) == ("scan (duckdb)", 0)


def test_deleted_rows_of_renamed_columns_are_sparks(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.renamed_deleted"
    properties = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"create table {table} (id int, a string, b string) using iceberg "
              f"tblproperties ({properties})")  # fmt: skip
    spark.sql(f"insert into {table} select id, 'x', null from range(100)")
    spark.sql(f"delete from {table} where id = 7")
    spark.sql(f"alter table {table} rename column a to c")
    spark.sql(f"alter table {table} rename column b to a")
    assert audited(f"select id from {table} where a is null or id = 500") == ("spark", 99)


def test_a_file_may_have_a_name_twice(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.twice"
    spark.sql("set spark.sql.caseSensitive = true")
    spark.sql(f"create table {table} (ID bigint, id bigint) using iceberg")
    spark.sql(f"insert into {table} values (1, null)")
    spark.sql(f"alter table {table} drop column ID")
    spark.sql("set spark.sql.caseSensitive = false")
    assert audited(f"select 1 from {table} where id is null") == ("scan (duckdb)", 1)


def test_a_path_with_a_pattern_in_it_is_not_for_duckdb() -> None:
    file = DataFile.from_args(file_path="file:/lake/data/kind=*/00000-1.parquet")
    with pytest.raises(Undecided, match="whose name is a pattern"):
        path_of(file)


def test_columns_are_read_by_their_ids(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.renamed"
    spark.sql(f"create table {table} (id int, a string, b string) using iceberg")
    spark.sql(f"insert into {table} values (1, 'x', null), (1, 'y', null)")
    spark.sql(f"alter table {table} rename column a to c")
    spark.sql(f"alter table {table} rename column b to a")
    spark.sql(f"alter table {table} alter column id type bigint")
    spark.sql(f"alter table {table} alter column c first")
    missing = f"select id from {table} where a is null or id = 5"
    assert audited(missing) == ("scan (duckdb)", 2)
    assert audited(f"select id from {table} group by id having count(*) > 1")[1] == 1


def test_without_metrics_a_scan_tells(audited: Audited, spark: Any) -> None:
    table = f"{audited.schema}.unmeasured"
    spark.sql(f"create table {table} (id bigint) using iceberg "
              "tblproperties ('write.metadata.metrics.default' = 'none')")  # fmt: skip
    spark.sql(f"insert into {table} values (1)")
    assert audited(f"select id from {table} where id is null") == ("scan (duckdb)", 0)


def test_keys_that_rise_differ(
    audited: Audited, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "WORTH_SORTING", 1)
    monkeypatch.setattr(scan, "FIRST", 5)
    risen = noted(monkeypatch, "_rises")
    table = f"{audited.schema}.rising"
    spark.sql(f"create table {table} (id bigint, name string) using iceberg")
    doubles = f"select {{key}} from {table} group by {{key}} having count(*) > 1"
    for rows, key, asked, failing in (
        ("range(20, 40)", "id", [True, True], 0),
        ("range(20)", "id", [True, True], 0),  # whichever file metadata has first
        ("range(50, 60)", "name", [False], 0),
        ("range(59, 60)", "id", [True, False], 1),
    ):
        spark.sql(f"insert into {table} select /*+ coalesce(1) */ id, md5(string(id)) from {rows}")
        risen.clear()
        audited.prover = Prover(audited.prover.lake)
        assert audited(doubles.format(key=key)) == ("scan (duckdb)", failing), rows
        assert risen == asked, rows


@pytest.mark.parametrize("at_once", [1_000_000, 3])
def test_doubles_are_found_by_hashes_where_there_are_many_rows(
    audited: Audited, spark: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(scan, "WORTH_SORTING", 1)
    monkeypatch.setattr(scan, "SORTED_AT_ONCE", at_once)
    asked = noted(monkeypatch, "all_differ")
    table = f"{audited.schema}.keyed_{at_once}"
    spark.sql(f"create table {table} (id bigint, kind string) using iceberg")
    spark.sql(f"insert into {table} select id, concat('k', id) from range(20)")
    spark.sql(f"insert into {table} values (null, 'k0')")
    doubles = f"select {{keys}} from {table} {{where}} group by {{keys}} having count(*) > {{n}}"
    for keys, where, n, differ, failing in (
        ("id", "", 1, [True], 0),
        ("kind", "", 1, [False], 1),
        ("kind", "where id is not null", 1, [True], 0),
        ("id, kind", "", 1, [True], 0),
        ("kind", "", 2, [False], 0),
        ("id", "", 0, [], 21),  # each group is too large
    ):
        asked.clear()
        assert audited(doubles.format(keys=keys, where=where, n=n)) == ("scan (duckdb)", failing)
        assert asked == differ, (keys, where, n)
    spark.sql(f"insert into {table} values (null, 'k21')")
    audited.prover = Prover(audited.prover.lake)
    assert audited(doubles.format(keys="id", where="", n=1)) == ("scan (duckdb)", 1)


def test_more_than_one_machine_should_read_is_sparks(audited: Audited, lake: Lake) -> None:
    small = lake.model_copy(update={"audit_max_mb": 0})
    audited.prover = Prover(small)
    assert audited("select id from {s}.orders where id = 1") == ("spark", 1)
    assert audited("select id from {s}.orders where id > 100") == ("metadata", 0)
    assert audited.tried("select id from {s}.orders where id = 1")[-1].endswith("read, over 0")


def test_a_build_reads_its_branch(audited: Audited, lake: Lake, spark: Any) -> None:
    table = f"{audited.schema}.branched"
    spark.sql(f"create table {table} (id bigint) using iceberg "
              "tblproperties ('write.wap.enabled' = 'true')")  # fmt: skip
    spark.sql(f"insert into {table} values (1)")
    spark.sql(f"alter table {table} create branch build_x")
    spark.sql(f"insert into {table}.branch_build_x values (null)")
    sql = question(f"select id from {table} where id is null")
    rows = [Prover(lake).answer(sql, branch) for branch in (None, "build_x", "build_y")]
    assert [r.row[0] if isinstance(r, Answer) else r for r in rows] == [0, 1, 0]
    # Without the property Spark reads main, whatever the session says.
    spark.sql(f"alter table {table} unset tblproperties ('write.wap.enabled')")
    found = Prover(lake).answer(sql, "build_x")
    assert isinstance(found, Answer)
    assert found.row[0] == 0
