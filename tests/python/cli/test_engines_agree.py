"""What `icegate sql` lets DuckDB answer, DuckDB answers as Spark does."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from icegate.catalog import list_relations
from icegate.cli.query import parse, run_on_duckdb, run_on_spark
from icegate.cli.tables import table_facts
from icegate.dialect import AGREEING, function_name
from icegate.errors import IcegateError

ROWS = """(
    select * from values
        (1, -7, 2.5D, cast(10.25 as decimal(10, 2)), 'Ab c', timestamp '2026-01-04 23:30:15.5',
            date '2026-01-04', array(3, 1, 2), true),
        (2, 7, -2.5D, cast(-0.05 as decimal(10, 2)), '', timestamp '2025-12-31 00:00:00',
            date '2024-02-29', array(5), false),
        (3, null, null, null, null, null, null, null, null),
        (4, 0, 1e20D, cast(3.00 as decimal(10, 2)), 'x,y,z', timestamp '1969-12-31 23:59:59',
            date '1969-12-31', array(1, 1), true),
        (5, 12, 0.5D, cast(99.95 as decimal(10, 2)), ' pad ', timestamp '2026-06-30 12:00:00',
            date '2026-06-30', array(7, 0), false)
    as t(k, i, f, d, s, at, dt, a, b)
)"""
SCALARS = """
i + 1; i * d; i / 2; i div 2; i % 3; -i; abs(i); mod(i, 3); round(f); round(d, 1); round(i, -1)
ceil(d); floor(d); sqrt(abs(i)); exp(i); ln(i + 8); log(i + 8); log10(i + 8); log(2, 8); pow(i, 2)
sign(i); greatest(i, k); least(i, k); coalesce(i, 0); nvl(i, 0); nullif(i, 7); if(i > 0, 'a', 'b')
case when i > 0 then 1 else 2 end; i in (7, 0); i between 0 and 7; i <=> null; i = 7 and b
i = 7 or b; not b; cast(i as double); cast(i as decimal(10, 2)); cast(at as date); degrees(i)
sin(i); lower(s); upper(s); trim(s); ltrim(s); length(s); concat(s, 'x'); concat(s, i); s || 'x'
concat_ws('-', s, null, 'x'); substring(s, 2, 2); substr(s, -2); left(s, 1); right(s, 1)
replace(s, 'b', 'q'); regexp_extract(s, '([a-z])', 1); s rlike 'b'; s like 'A%'; s ilike 'a%'
split(s, ','); split_part(s, ',', 1); instr(s, 'b'); locate('b', s); lpad(s, 6, '*')
rpad(s, 6, '*'); initcap(s); reverse(s); repeat(s, 2); md5(s); sha2(s, 256); ascii(s)
translate(s, 'ab', 'xy'); startswith(s, 'A'); endswith(s, 'c'); contains(s, 'b')
levenshtein(s, 'abc'); 'it''s'; "a""b"; 'a' 'b'
year(dt); month(dt); day(dt); dayofmonth(dt); dayofyear(dt); weekofyear(dt)
quarter(dt); hour(at); minute(at); second(at); date_trunc('month', at); date_trunc('week', at)
to_date(at); date(at); to_timestamp('2026-01-02 03:04:05'); at + interval 2 hours; date_add(dt, 3)
date_sub(dt, 3); add_months(dt, 1); datediff(dt, date '2026-01-01'); last_day(dt)
next_day(dt, 'MON'); date_format(at, 'yyyy-MM-dd'); from_unixtime(1700000000); make_date(2026, 1, 2)
unix_date(dt); dt > '2025-01-01'; date '2026-01-04' = at; to_date('01/02/2026', 'dd/MM/yyyy')
size(a); array_contains(a, 1); array_max(a); array_min(a); array_size(a); array_join(a, ',')
transform(a, x -> x + 1); filter(a, x -> x > 1); a[0]; array(i, 1); named_struct('a', i)
try_divide(i, 0); nvl2(i, 1, 2); row_number() over (order by k); rank() over (order by b)
dense_rank() over (order by b)
lag(i) over (order by k); lead(i, 1, 0) over (order by k); first_value(i) over (order by k)
last_value(i) over (order by k); sum(i) over (partition by b); nth_value(i, 2) over (order by k)
ntile(2) over (order by k); percent_rank() over (order by k); cume_dist() over (order by k)
avg(i) over (order by k rows between 1 preceding and current row)
""".replace("\n", ";").split(";")
AGGREGATES = """
count(*); count(i); count(distinct i, b); sum(i); sum(d); avg(i); min(s); max(s); max(at)
stddev(i); stddev_samp(i); stddev_pop(i); variance(i); var_pop(i); median(i); corr(i, k)
covar_pop(i, k); count_if(i > 0); approx_count_distinct(i); max_by(k, i); min_by(k, i)
bool_and(b); bool_or(b); array_max(array_agg(i)); size(array_agg(i)); size(collect_set(i))
length(listagg(s, ',')); sum(i) filter (where k > 1); sum(case when b then d end)
""".replace("\n", ";").split(";")


SPARK_TABLES = (
    "create namespace if not exists lake.cli_odd",
    "create namespace if not exists lake.cli_odd.deep",
    "create or replace table cli_odd.deleted (id bigint, v string) using iceberg "
    "tblproperties ('write.delete.mode' = 'merge-on-read')",
    "insert into cli_odd.deleted select id, concat('v', id) from range(100)",
    "delete from cli_odd.deleted where id % 3 = 0",
    "alter table cli_odd.deleted rename column v to renamed",
    "create or replace table cli_odd.`Odd-Name` using iceberg as select 7 as `odd column`",
    "create or replace table cli_odd.deep.deeper using iceberg as select 1 as id",
    "create or replace view cli_odd.seen as select * from cli_odd.deleted",
)


def queries() -> list[str]:
    """Return few queries with many columns each: a query costs Spark more than a column."""
    scalars, aggregates = (
        ", ".join(f"{e} as c{number}" for number, e in enumerate(filter(str.strip, expressions)))
        for expressions in (SCALARS, AGGREGATES)
    )
    return [
        f"select k, {scalars} from {ROWS} order by k",
        f"select {aggregates} from {ROWS}",
        f"select explode(a) from {ROWS} where k in (1, 2)",
        f"select any_value(k) from {ROWS} where k = 1",
        f"select i from {ROWS} order by i desc",
        f"select i from {ROWS} order by i",
        f"select b, sum(d) from {ROWS} group by b order by b",
    ]


def comparable(value: Any) -> Any:
    """Return a value without what only Python's types make different."""
    if hasattr(value, "asDict"):
        return value.asDict()
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


@pytest.mark.slow
def test_every_function_that_duckdb_may_answer_agrees_with_spark(spark, lake, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")  # Spark hands over times in the zone of the process
    time.tzset()
    wrong = []
    for query in queries():
        names = [e.sql() for e in sqlglot.parse_one(query, dialect="spark").expressions]
        theirs = zip(*spark.sql(query).collect(), strict=True)
        ours = zip(*run_on_duckdb(lake, parse(query), 0).rows, strict=True)
        for name, their, our in zip(names, theirs, ours, strict=True):
            if [*map(comparable, their)] != [*map(comparable, our)]:
                wrong.append((name, their, our))
    monkeypatch.undo()
    time.tzset()
    assert wrong == []


@pytest.mark.slow
def test_tables_that_spark_wrote(spark, lake):
    """Merge-on-read deletes, a renamed column, a view, a schema below a schema, odd names."""
    for statement in SPARK_TABLES:
        spark.sql(statement)
    entries = {e.full_name: e for e in list_relations(lake) if e.namespace.startswith("cli_odd")}
    deleted = table_facts(entries["cli_odd.deleted"])
    assert (deleted.rows, deleted.rows_approximate) == (66, True)
    assert deleted.delete_files
    for query in (
        "select count(*), sum(id), max(renamed) from cli_odd.deleted",
        "select `odd column` from cli_odd.`Odd-Name`",
        "select id from lake.cli_odd.deep.deeper",
    ):
        ours = run_on_duckdb(lake, parse(query), 0).rows
        assert ours == [tuple(row) for row in spark.sql(query).collect()]
    view = "select id from cli_odd.seen where id = 1"
    with pytest.raises(IcegateError, match="--spark"):
        run_on_duckdb(lake, parse(view), 0)
    assert run_on_spark(lake, view, 10).rows == [(1,)]


def test_every_function_of_the_list_is_compared():
    trees = [sqlglot.parse_one(query, dialect="spark") for query in queries()]
    used = {function_name(call) for tree in trees for call in tree.find_all(exp.Func)}
    assert AGREEING - used == {"currentdate"}  # which is another one after midnight


@pytest.mark.parametrize("expression", [
    "dayofweek(dt)", "cast(f as int)", "cast(at as string)", "hash(i)", "substring(s, 0, 2)",
    "percentile(i, 0.5)", "mode(i)", "regexp_replace(s, '(a)', '$1')", "s like 'a\\\\_'",
    "exists(a, x -> x > 1)", "from_utc_timestamp(at, 'America/New_York')", "my_own_function(s)",
])  # fmt: skip
def test_what_may_differ_is_refused(lake, expression):
    with pytest.raises(IcegateError, match="--spark"):
        run_on_duckdb(lake, parse(f"select {expression} from {ROWS}"), 0)
