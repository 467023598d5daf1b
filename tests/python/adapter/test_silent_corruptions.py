"""What stock dbt-spark writes wrongly without a word; each test runs on it too, and must fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject

from icegate.settings import Lake

DEFECT = pytest.mark.xfail(strict=True, reason="dbt-spark's defect")
STOCK = pytest.param("spark", marks=[DEFECT, pytest.mark.slow])


@pytest.fixture(params=["icegate", STOCK])
def either(request: Any, tmp_path: Path, lake: Lake, spark: Any) -> Iterator[DbtProject]:
    made = DbtProject(tmp_path / "a project", lake, spark, adapter=request.param)
    iceberg = {"+file_format": "iceberg"}
    made.configure(models=iceberg, seeds=iceberg, snapshots=iceberg)
    yield made
    spark.conf.set("spark.sql.ansi.enabled", "true")  # dbt-spark switches it off for everyone


def test_an_empty_seed_cell_is_null(either: DbtProject) -> None:
    either.write("seeds/people.csv", "id,name\n1,Ada\n2,\n")
    assert either.dbt("seed").ok
    assert either.rows("select name from {s}.people order by id") == [("Ada",), (None,)]


@pytest.mark.slow
def test_a_deleted_row_keeps_its_values_in_a_snapshot(either: DbtProject) -> None:
    either.write("models/people.sql", "select 1 as id, 'Ada' as name union all select 2, 'Bob'")
    either.write_yaml(
        "snapshots/history.yml",
        {
            "snapshots": [
                {
                    "name": "history",
                    "relation": "ref('people')",
                    "config": {
                        "unique_key": "id",
                        "strategy": "check",
                        "check_cols": "all",
                        "schema": "h",
                        "hard_deletes": "new_record",
                    },
                }
            ]
        },
    )
    assert either.dbt("build").ok
    either.write("models/people.sql", "select 1 as id, 'Ada' as name")
    assert either.dbt("build").ok
    deleted = either.rows("select id, name from {s}_h.history where dbt_is_deleted = 'True'")
    assert deleted == [(2, "Bob")]


def test_two_models_of_one_alias_keep_their_own_rows(either: DbtProject) -> None:
    for number in range(8):  # several pairs at once, so that stock's shared view name collides
        either.write(
            f"models/m{number}.sql",
            f"""
            {{{{ config(materialized='incremental', alias='orders', schema='s{number}') }}}}
            select {number} as origin, count(*) as n
            from range(200000) as a cross join range(50) as b
        """,
        )
    assert either.dbt("run").ok
    assert either.dbt("run").ok
    for number in range(8):
        found = either.rows(f"select distinct origin from {{s}}_s{number}.orders")
        assert found == [(number,)], f"model m{number}"


def test_an_empty_list_of_columns_to_update_updates_none(either: DbtProject) -> None:
    either.write(
        "models/m.sql",
        """
        {{ config(materialized='incremental', incremental_strategy='merge', unique_key='id',
                  merge_update_columns=[]) }}
        select 1 as id, '{{ "new" if is_incremental() else "old" }}' as v
    """,
    )
    assert either.dbt("run").ok and either.dbt("run").ok
    assert either.rows("select v from {s}.m") == [("old",)]


def test_a_batch_of_a_day_leaves_the_rest_of_its_month(either: DbtProject) -> None:
    either.write(
        "models/events.sql",
        """
        {{ config(materialized='table', event_time='at') }}
        select id, timestamp(at) as at from values (1, '2026-01-01'), (2, '2026-01-02') as t(id, at)
    """,
    )
    either.write(
        "models/m.sql",
        """
        {{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at',
                  batch_size='day', begin='2026-01-01', partition_by=['months(at)']) }}
        select * from {{ ref('events') }}
    """,
    )
    span = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-03"]
    assert either.dbt("run", *span).ok
    assert either.rows("select id from {s}.m order by id") == [(1,), (2,)]


def test_two_new_rows_of_one_key_are_refused(either: DbtProject) -> None:
    either.write(
        "models/m.sql",
        """
        {{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
        {% if is_incremental() %} select 2 as id union all select 2
        {% else %} select 1 as id {% endif %}
    """,
    )
    assert either.dbt("run").ok
    assert not either.dbt("run").ok
    assert either.rows("select id from {s}.m") == [(1,)]


@pytest.mark.slow
def test_names_that_read_alike_keep_their_own_rows(project: DbtProject) -> None:
    """`a__b.c` and `a.b__c`, and names that begin with the same sixty characters."""
    long = "x" * 60
    names = [("a__b", "c"), ("a", "b__c"), ("a", f"{long}_1"), ("a", f"{long}_2")]
    for number, (schema, alias) in enumerate(names):
        project.write(
            f"models/m{number}.sql",
            f"""
            {{{{ config(materialized='incremental', incremental_strategy='merge', unique_key='n',
                        schema='{schema}', alias='{alias}') }}}}
            select {number} as origin, max(id) as n from range(2000000)
        """,
        )
    assert project.dbt("run").ok
    assert project.dbt("run").ok
    for number, (schema, alias) in enumerate(names):
        assert project.rows(f"select origin from {{s}}_{schema}.{alias}") == [(number,)]
