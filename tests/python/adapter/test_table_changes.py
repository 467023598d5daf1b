"""A table follows its model's configs on every run: properties, layout, comments and columns."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.errors import ConfigError
from icegate.tables.layout import parse_transform, sort_fields
from icegate.tables.schema import diff
from icegate.tables.state import parse_state

DDL = r"""CREATE TABLE lake.a.t (
  id INT NOT NULL COMMENT 'the \'id\',
  (one)',
  `odd name` STRUCT<x: INT COMMENT 'a, b', y: ARRAY<STRUCT<z: FLOAT>>>,
  d DECIMAL(10,2) COMMENT 'money')
USING iceberg
PARTITIONED BY (days(ts), bucket(8, id), name)
COMMENT 'hello'
LOCATION 'file:///w/a/t'
TBLPROPERTIES (
  'foo' = 'a\'b, c=d',
  'sort-order' = 'name DESC NULLS LAST, bucket(4, id) ASC NULLS FIRST')
"""


def test_the_text_of_show_create_table_is_understood() -> None:
    state = parse_state(DDL)
    assert [column.name for column in state.columns] == ["id", "odd name", "d"]
    assert [column.nullable for column in state.columns] == [False, True, True]
    assert [c.comment for c in state.columns] == ["the 'id',\n  (one)", "", "money"]
    assert state.columns[2].type == "DECIMAL(10,2)"
    assert state.partitions == ("days(ts)", "bucket(8, id)", "name")
    assert (state.provider, state.comment) == ("iceberg", "hello")
    assert state.properties["foo"] == "a'b, c=d"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("day(TS)", "days(ts)"),
        ("date(`ts`)", "days(ts)"),
        ("truncate(name, 3)", "truncate(3, name)"),
        ("identity(x)", "x"),
        ("a.b", "a.b"),
    ],
)
def test_a_transform_has_one_form(written: str, meant: str) -> None:
    assert str(parse_transform(written, "here")) == meant


@pytest.mark.parametrize("written", ["weekz(ts)", "bucket(id)", "days(ts, 3)", "bucket(8)"])
def test_a_wrong_transform_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"in partition_by of model m.*\n  why: Iceberg has"):
        parse_transform(written, "partition_by of model m")


def test_sort_fields_have_sqls_defaults() -> None:
    long = sort_fields(["A DESC NULLS LAST", "b asc nulls first"], "m")
    assert sort_fields(["a desc", "b"], "m") == long != sort_fields(["a", "b"], "m")


def test_nested_columns_are_compared() -> None:
    found = diff(
        [("S", "struct<x:bigint,y:array<struct<z:double,n:int>>>"), ("v", "varchar(3)"),
         ("d", "decimal(12,2)"), ("m", "map<string,string>")],
        [("s", "STRUCT<x: INT COMMENT 'c', y: ARRAY<STRUCT<z: FLOAT>>, old: INT>"),
         ("v", "STRING"), ("d", "DECIMAL(10,2)"), ("m", "MAP<STRING, INT>"), ("gone", "INT")],
    )  # fmt: skip
    assert found.added == {"s.y.element.n": "int"}
    assert found.dropped == ["s.old", "gone"]
    assert set(found.widened) == {"s.x", "s.y.element.z", "d"}
    assert found.retyped == {"m.value": ("int", "string")}


def log_of(project: DbtProject) -> str:
    return (project.folder / "logs" / "dbt.log").read_text()


def clear_log(project: DbtProject) -> None:
    (project.folder / "logs" / "dbt.log").write_text("")


def describe(project: DbtProject, **columns: str) -> None:
    listed = [{"name": name, "description": text} for name, text in columns.items()]
    model = {"name": "m", "description": "A table", "columns": listed}
    project.write_yaml("models/m.yml", {"models": [model]})


def model(project: DbtProject, select: str, kind: str = "incremental", **config: Any) -> None:
    docs = {"relation": True, "columns": True}
    text = ", ".join(
        f"{name}={value!r}" for name, value in {**config, "persist_docs": docs}.items()
    )
    project.write("models/m.sql", f"{{{{ config(materialized='{kind}', {text}) }}}} {select}")


def table(project: DbtProject) -> Any:
    return parse_state(project.rows("show create table {s}.m")[0][0])


ROW = "select 1 as id, timestamp'2026-01-01' as ts, 'x' as name"


@pytest.mark.slow
def test_an_incremental_table_follows_its_configs(project: DbtProject) -> None:
    describe(project, id="The key")
    first = {"commit.retry.num-retries": 7, "read.split.target-size": 1048576}
    model(project, ROW, tblproperties=first, partition_by=["days(ts)", "name"], sort_by=["id"])
    assert project.dbt("run").ok
    project.spark.sql(
        f"alter table {project.schema}.m set tblproperties ('owner.note' = 'by hand')"
    )
    clear_log(project)
    assert project.dbt("run").ok
    assert "altered table=" not in log_of(project) and "alter table" not in log_of(project)

    describe(project, id="The primary key")
    second = {"commit.retry.num-retries": 9, "write.distribution-mode": "none"}
    model(
        project,
        ROW,
        tblproperties=second,
        partition_by=["hours(ts)", "bucket(4, id)"],
        sort_by="name",
    )
    run = project.dbt("run")
    assert run.ok, run.text
    state = table(project)
    assert set(state.partitions) == {"hours(ts)", "bucket(4, id)"}
    assert state.properties["commit.retry.num-retries"] == "9"
    assert "read.split.target-size" not in state.properties
    assert state.properties["owner.note"] == "by hand"
    assert state.properties["sort-order"] == "name ASC NULLS FIRST"
    assert state.columns[0].comment == "The primary key"
    log = log_of(project)
    for line in (
        "partition_replaced=days(ts) by=hours(ts)",
        "partition_dropped=name",
        "partition_added=bucket(4, id)",
        "sort_order=name asc nulls first",
        "commit.retry.num-retries=9 was=7",
        "read.split.target-size=unset was=1048576",
        "column=id comment=changed",
    ):
        assert f"altered table={project.schema}.m {line}" in log or f" {line}" in log, line
    assert project.rows("select count(*) from {s}.m") == [(3,)]

    model(project, ROW)
    assert project.dbt("run").ok
    state = table(project)
    assert state.partitions == () and "sort-order" not in state.properties
    assert "icegate.managed" not in state.properties
    assert state.properties["commit.retry.num-retries"] == "30"  # the catalog's own default
    assert state.properties["owner.note"] == "by hand"


@pytest.mark.slow
def test_a_wrong_layout_is_refused_before_anything_is_written(project: DbtProject) -> None:
    model(project, ROW, kind="table")
    assert project.dbt("run").ok
    for config, said in (
        (
            {"partition_by": ["weekz(ts)"]},
            "unknown transform 'weekz(ts)' in partition_by of model m",
        ),
        ({"partition_by": ["days(tz)"]}, "partition_by of model m names column 'tz'"),
        ({"sort_by": ["nmae"]}, "did you mean 'name'?"),
    ):
        for kind in ("table", "incremental"):
            model(project, ROW, kind=kind, **config)
            run = project.dbt("run")
            assert not run.ok and said in run.text and "fix:" in run.text, run.text
    assert len(project.rows("select * from {s}.m.snapshots")) == 1


@pytest.mark.slow
def test_a_rebuilt_table_is_sorted_keeps_its_comments_and_drops_old_properties(
    project: DbtProject,
) -> None:
    describe(project, id="The key")
    select = "select id, 'x' as name from range(10) as r"
    first = {"commit.retry.num-retries": 7, "read.split.target-size": 1048576}
    model(project, select, kind="table", sort_by=["id desc"], tblproperties=first)
    for _ in range(2):
        assert project.dbt("run").ok
        assert [row[0] for row in project.rows("select id from {s}.m")] == list(range(9, -1, -1))
        assert table(project).columns[0].comment == "The key"
    model(project, "select id as number from range(10) as r", kind="table")
    assert project.dbt("run").ok
    state = table(project)
    assert [column.name for column in state.columns] == ["number"]
    assert "read.split.target-size" not in state.properties
    assert state.properties["commit.retry.num-retries"] == "30"  # the catalog's own default
    assert "sort-order" not in state.properties
    assert len(project.rows("select * from {s}.m.snapshots")) == 3


@pytest.mark.slow
def test_columns_are_added_widened_and_dropped(project: DbtProject) -> None:
    old = "select 1 as id, 1.5f as price, named_struct('a', 1) as s, 'x' as gone"
    new = """select 2L as id, 2.5d as price, named_struct('a', 2L, 'b', 'y') as s,
             cast(1 as decimal(4, 1)) as added"""
    describe(project, added="A new one")
    model(project, old, on_schema_change="sync_all_columns")
    assert project.dbt("run").ok
    model(project, new, on_schema_change="fail")
    run = project.dbt("run")
    assert not run.ok and "new in the model: s.b string, added decimal(4,1)" in run.text
    assert "Compilation Error" in run.text
    model(project, new, on_schema_change="sync_all_columns", allow_destructive=True)
    run = project.dbt("run")
    assert run.ok, run.text
    found = project.rows("select id, price, s.a, s.b, added from {s}.m order by id")
    assert [tuple(map(str, row)) for row in found] == [
        ("1", "1.5", "1", "None", "None"),
        ("2", "2.5", "2", "y", "1.0"),
    ]
    assert [c.name for c in table(project).columns] == ["id", "price", "s", "added"]
    assert table(project).columns[3].comment == "A new one"
    model(project, new.replace("2L as id", "'2' as id"), on_schema_change="sync_all_columns")
    run = project.dbt("run")
    assert not run.ok
    assert "cannot change column id of model m from bigint to string" in run.text
    assert "--full-refresh" in run.text
    assert len(project.rows("select * from {s}.m.snapshots")) == 2


@pytest.mark.slow
def test_a_column_that_the_partitioning_needs_is_not_dropped(project: DbtProject) -> None:
    config: dict[str, Any] = {"on_schema_change": "sync_all_columns", "partition_by": ["days(ts)"]}
    model(project, ROW, **config)
    assert project.dbt("run").ok
    model(project, "select 1 as id, 'x' as name", **config)
    run = project.dbt("run")
    assert not run.ok and "cannot drop column ts of model m" in run.text
    assert [column.name for column in table(project).columns] == ["id", "ts", "name"]


@pytest.mark.slow
def test_the_layout_may_follow_the_columns(project: DbtProject) -> None:
    config = {"on_schema_change": "sync_all_columns", "allow_destructive": True}
    model(project, ROW, partition_by=["days(ts)"], sort_by=["ts"], **config)
    assert project.dbt("run").ok
    select = "select 2 as id, 'x' as name, date'2026-01-02' as day"
    model(project, select, partition_by=["day"], sort_by=["day"], **config)
    run = project.dbt("run")
    assert run.ok, run.text
    assert table(project).partitions == ("day",)
    assert project.rows("select id from {s}.m order by id") == [(1,), (2,)]


@pytest.mark.slow
def test_a_seed_with_other_columns_keeps_its_history(project: DbtProject) -> None:
    project.write("seeds/people.csv", "id,name\n1,Ada\n")
    assert project.dbt("seed").ok
    project.write("seeds/people.csv", "id,city\n1,Bern\n")
    assert project.dbt("seed").ok
    assert project.dbt("seed", "--full-refresh").ok
    assert project.rows("select * from {s}.people") == [(1, "Bern")]
    assert len(project.rows("select * from {s}.people.snapshots")) == 3


@pytest.mark.slow
def test_a_broken_view_leaves_the_table_and_a_materialized_view_is_refused(
    project: DbtProject,
) -> None:
    project.write("models/m.sql", "{{ config(materialized='table') }} select 1 as a")
    assert project.dbt("run").ok
    project.write("models/m.sql", "{{ config(materialized='view') }} select nothing as a")
    assert not project.dbt("run").ok
    assert project.rows("select a from {s}.m") == [(1,)]
    project.write("models/m.sql", "{{ config(materialized='materialized_view') }} select 2 as a")
    run = project.dbt("run")
    assert not run.ok and "model m is a materialized_view" in run.text and "fix:" in run.text
    project.write("models/m.sql", "{{ config(materialized='view') }} select 2 as a")
    assert project.dbt("run").ok
    assert project.rows("select a from {s}.m") == [(2,)]


def test_a_model_says_how_it_is_isolated(project: DbtProject) -> None:
    config = "materialized='incremental', unique_key='id', isolation='snapshot'"
    project.write("models/a.sql", f"{{{{ config({config}) }}}} select 1 as id")
    own = "tblproperties={'write.merge.isolation-level': 'serializable'}"
    project.write("models/b.sql", f"{{{{ config({config}, {own}) }}}} select 1 as id")
    assert project.dbt("run").ok

    def levels(table: str) -> list[str]:
        rows = project.rows(f"show tblproperties {{s}}.{table}")
        return [value for key, value in sorted(rows) if "isolation-level" in key]

    assert levels("a") == ["snapshot"] * 3  # delete, merge, update
    assert levels("b") == ["snapshot", "serializable", "snapshot"]
    project.write("models/a.sql", "{{ config(materialized='table', isolation='none') }} select 1")
    run = project.dbt("run", "--select", "a")
    assert "unknown isolation 'none'" in run.text and "serializable and snapshot" in run.text
