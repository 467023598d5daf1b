"""Tables, views, incremental models, seeds and snapshots on real Iceberg, from SQL and Python."""

from __future__ import annotations

import pytest
from conftest import DbtProject


def snapshots(project: DbtProject, table: str) -> int:
    return len(project.rows(f"select snapshot_id from {{s}}.{table}.snapshots"))


def test_a_table_is_replaced_and_its_history_stays(project: DbtProject) -> None:
    project.write("models/t.sql", "{{ config(materialized='table') }} select 1 as a")
    assert project.dbt("run").ok
    [(before,)] = project.rows("select snapshot_id from {s}.t.snapshots")
    project.write("models/t.sql", "{{ config(materialized='table') }} select 2 as b")
    assert project.dbt("run").ok
    assert project.rows("select b from {s}.t") == [(2,)]
    assert project.rows(f"select a from {{s}}.t version as of {before}") == [(1,)]


def test_a_failed_replacement_leaves_the_table(project: DbtProject) -> None:
    project.write("models/t.sql", "{{ config(materialized='table') }} select 1 as a")
    assert project.dbt("run").ok
    project.write(
        "models/t.sql",
        """
        {{ config(materialized='table') }} select cast('x' as int) as a
    """,
    )
    run = project.dbt("run")
    assert not run.ok and "CAST_INVALID_INPUT" in run.text and "\tat " not in run.text
    assert project.rows("select a from {s}.t") == [(1,)]


PYTHON_BATCH = """
def model(dbt, spark):
    dbt.config(materialized="incremental", incremental_strategy="{strategy}", unique_key="id",
               partition_by=["day"])
    first = "select 1 as id, 'old' as v, date'2026-01-01' as day union all "
    first += "select 2, 'old', date'2026-01-02'"
    next = "select 2 as id, 'new' as v, date'2026-01-02' as day union all "
    next += "select 3, 'new', date'2026-01-02'"
    return spark.sql(next if dbt.is_incremental else first)
"""
SQL_BATCH = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}', unique_key='id',
            partition_by=['day']) }}}}
{{% if is_incremental() %}}
select 2 as id, 'new' as v, date'2026-01-02' as day union all select 3, 'new', date'2026-01-02'
{{% else %}}
select 1 as id, 'old' as v, date'2026-01-01' as day union all select 2, 'old', date'2026-01-02'
{{% endif %}}
"""
MERGED = [(1, "old"), (2, "new"), (3, "new")]


@pytest.mark.parametrize("language", ["sql", "py"])
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("append", [(1, "old"), (2, "new"), (2, "old"), (3, "new")]),
        ("merge", MERGED),
        ("insert_overwrite", MERGED),  # the second day is replaced, the first stays
    ],
)
def test_incremental(
    project: DbtProject, language: str, strategy: str, expected: list[tuple[int, str]]
) -> None:
    text = (PYTHON_BATCH if language == "py" else SQL_BATCH).format(strategy=strategy)
    project.write(f"models/m.{language}", text)
    assert project.dbt("run").ok
    assert project.dbt("run").ok
    assert project.rows("select id, v from {s}.m order by id, v") == expected
    [(spec,)] = project.rows("select distinct spec_id from {s}.m.files")
    assert spec == 0 and "day" in str(project.rows("describe extended {s}.m"))


@pytest.mark.slow
def test_full_refresh_of_an_incremental_model_keeps_its_history(project: DbtProject) -> None:
    project.write("models/m.sql", SQL_BATCH.format(strategy="append"))
    assert project.dbt("run").ok and project.dbt("run").ok
    assert snapshots(project, "m") == 2
    assert project.dbt("run", "--full-refresh").ok
    assert snapshots(project, "m") == 3
    assert project.rows("select count(*) from {s}.m") == [(2,)]


@pytest.mark.slow
def test_a_view_becomes_a_table_and_a_view_again(project: DbtProject) -> None:
    for kind, value in [("view", 1), ("table", 2), ("incremental", 3), ("view", 4), ("view", 5)]:
        config = f"{{{{ config(materialized='{kind}') }}}}"
        project.write("models/m.sql", f"{config} select {value} as a")
        run = project.dbt("run", "--full-refresh")
        assert run.ok, run.text
        assert project.rows("select a from {s}.m") == [(value,)]


def test_sql_and_python_models_share_one_session(project: DbtProject) -> None:
    project.write("models/a.sql", "{{ config(materialized='table') }} select 1 as id")
    project.write(
        "models/b.py",
        """
        import pandas as pd

        def model(dbt, spark):
            assert dbt.ref("a").count() == 1
            return pd.DataFrame({"id": [1, 2], "name": ["x", None], "none": [None, None]})
    """,
    )
    project.write("models/c.sql", "{{ config(materialized='table') }} select * from {{ ref('b') }}")
    run = project.dbt("run")
    assert run.ok, run.text
    assert project.rows("select * from {s}.c order by id") == [(1, "x", None), (2, None, None)]


@pytest.mark.slow
def test_a_python_function_runs_in_sparks_workers(project: DbtProject) -> None:
    project.write(
        "models/m.py",
        """
        def twice(rows):
            return rows.assign(x=rows["x"] * 2)

        def model(dbt, spark):
            rows = spark.createDataFrame([(1, 2.0)], "id int, x double")
            return rows.groupBy("id").applyInPandas(twice, "id int, x double")
    """,
    )
    run = project.dbt("run")
    assert run.ok, run.text
    assert project.rows("select x from {s}.m") == [(4.0,)]


def test_a_contract_is_kept(project: DbtProject) -> None:
    project.write("models/m.sql", "select 1 as a, 'x' as b")
    columns = [{"name": "a", "data_type": "int"}, {"name": "b", "data_type": "string"}]
    config = {"contract": {"enforced": True}, "materialized": "table"}
    described = {"name": "m", "config": config, "columns": columns}
    project.write_yaml("models/m.yml", {"models": [described]})
    run = project.dbt("run")
    assert run.ok, run.text
    columns[0]["data_type"] = "date"
    project.write_yaml("models/m.yml", {"models": [described]})
    run = project.dbt("run")
    assert not run.ok and "contract" in run.text
    assert project.rows("select a from {s}.m") == [(1,)]


def test_schema_changes_reach_the_table(project: DbtProject) -> None:
    sync = "on_schema_change='sync_all_columns', allow_destructive=true"
    config = f"{{{{ config(materialized='incremental', {sync}) }}}}"
    project.write("models/m.sql", f"{config} select 1 as a, 2 as b")
    assert project.dbt("run").ok
    project.write("models/m.sql", f"{config} select 1 as a, 3 as c")
    run = project.dbt("run")
    assert run.ok, run.text
    assert project.rows("select a, c from {s}.m order by c nulls first") == [(1, None), (1, 3)]


def test_seed_types_and_odd_text(project: DbtProject) -> None:
    project.write(
        "seeds/odd.csv", "id,note,price,seen,flag\n1,O'Neil \\ x,1.50,2026-01-01,true\n2,,,,\n"
    )
    project.write_yaml(
        "seeds/odd.yml",
        {"seeds": [{"name": "odd", "config": {"column_types": {"price": "decimal(10,2)"}}}]},
    )
    run = project.dbt("seed")
    assert run.ok, run.text
    found = project.rows(
        "select note, cast(price as string), cast(seen as string), flag from {s}.odd"
    )
    assert found == [("O'Neil \\ x", "1.50", "2026-01-01", True), (None, None, None, None)]
    project.write("seeds/odd.csv", "id,note,price,seen,flag\n1,x,cheap,2026-01-01,true\n")
    run = project.dbt("seed")
    assert not run.ok and "column price of seed odd is not decimal(10,2): cheap" in run.text
    assert project.rows("select count(*) from {s}.odd") == [(2,)]


def test_profile_properties_sort_order_and_comments(project: DbtProject) -> None:
    project.write(
        "macros/table_profiles.sql",
        """
        {% macro table_profiles() %}
            {% do return({'log': {'write.format.default': 'parquet',
                                  'write.distribution-mode': 'hash',
                                  'commit.retry.num-retries': 7}}) %}
        {% endmacro %}
    """,
    )
    project.write(
        "models/m.sql",
        """
        {{ config(materialized='table', table_profile='log', sort_by=['a desc'],
                  tblproperties={'commit.retry.num-retries': 9}, persist_docs={
                  'relation': true, 'columns': true}) }}
        select 1 as a
    """,
    )
    project.write_yaml(
        "models/m.yml",
        {
            "models": [
                {
                    "name": "m",
                    "description": "It's one",
                    "columns": [{"name": "a", "description": "a's"}],
                }
            ]
        },
    )
    run = project.dbt("run")
    assert run.ok, run.text
    properties = dict(project.rows("show tblproperties {s}.m"))
    assert properties["commit.retry.num-retries"] == "9"
    assert properties["write.format.default"] == "parquet"
    assert properties["write.distribution-mode"] == "hash"
    assert properties["sort-order"] == "a DESC NULLS LAST"
    assert ("Comment", "It's one", "") in project.rows("describe extended {s}.m")
    assert ("a", "int", "a's") in project.rows("describe {s}.m")
