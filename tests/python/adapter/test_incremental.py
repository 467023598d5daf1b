"""What an incremental model does to the rows that its table has, from SQL and from Python alike."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject
from incremental_models import MERGE_ON_READ, operations, write_model

pytestmark = pytest.mark.slow

SELECT = "select id, v, date(day) as day from values {} as t(id, v, day)"
DAYS = SELECT.format("(1, 'old', '2026-01-01'), (2, 'old', '2026-01-02')")
NEXT = SELECT.format("(2, 'new', '2026-01-02'), (3, 'new', '2026-01-02')")
MERGED = [(1, "old"), (2, "new"), (3, "new")]
STRATEGIES: dict[str, tuple[dict[str, Any], list[tuple[int, str]]]] = {
    "default": ({}, [(1, "old"), (2, "new"), (2, "old"), (3, "new")]),
    "append": (
        {"incremental_strategy": "append"},
        [(1, "old"), (2, "new"), (2, "old"), (3, "new")],
    ),
    "merge": ({"incremental_strategy": "merge", "unique_key": "id"}, MERGED),
    "merge_on_read": (
        {"incremental_strategy": "merge", "unique_key": ["id"], "tblproperties": MERGE_ON_READ},
        MERGED,
    ),
    "merge_no_key": (
        {"incremental_strategy": "merge"},
        [(1, "old"), (2, "new"), (2, "old"), (3, "new")],
    ),
    "delete_insert": ({"incremental_strategy": "delete+insert", "unique_key": "id"}, MERGED),
    "delete_insert_mor": (
        {
            "incremental_strategy": "delete+insert",
            "unique_key": ["id", "day"],
            "tblproperties": MERGE_ON_READ,
        },
        MERGED,
    ),
    "overwrite_days": (
        {"incremental_strategy": "insert_overwrite", "partition_by": ["day"]},
        MERGED,
    ),
    "overwrite_hidden": (
        {"incremental_strategy": "insert_overwrite", "partition_by": ["days(day)"]},
        MERGED,
    ),
    "overwrite_all": ({"incremental_strategy": "insert_overwrite"}, [(2, "new"), (3, "new")]),
}


def test_every_strategy_of_both_languages_at_once(project: DbtProject) -> None:
    for name, (config, _) in STRATEGIES.items():
        for language in ("sql", "py"):
            write_model(project, f"{name}_{language}", language, config, DAYS, NEXT)
    for _ in range(2):
        run = project.dbt("run", "--threads", "8")
        assert run.ok, run.text
    for name, (_, expected) in STRATEGIES.items():
        for language in ("sql", "py"):
            table = f"{name}_{language}"
            assert project.rows(f"select id, v from {{s}}.{table} order by id, v") == expected, (
                table
            )
            assert len(operations(project, table)) == 2, table


def test_a_strategy_of_the_projects_own_and_an_unknown_one(project: DbtProject) -> None:
    project.write(
        "macros/insert_only.sql",
        """
        {% macro get_incremental_insert_only_sql(arg_dict) %}
            insert into {{ arg_dict['target_relation'] }}
            select * from {{ arg_dict['temp_relation'] }} as b
            where b.{{ arg_dict['unique_key'] }} not in (
                select {{ arg_dict['unique_key'] }} from {{ arg_dict['target_relation'] }}
            )
        {% endmacro %}
    """,
    )
    own = {"incremental_strategy": "insert_only", "unique_key": "id"}
    write_model(project, "m", "sql", own, DAYS, NEXT)
    write_model(project, "bad", "py", {"incremental_strategy": "upsert"}, DAYS, NEXT)
    project.dbt("run")
    run = project.dbt("run")
    assert run.status["m"] == "success", run.text
    assert project.rows("select id, v from {s}.m order by id") == [
        (1, "old"),
        (2, "old"),
        (3, "new"),
    ]
    assert "unknown incremental_strategy 'upsert'" in run.message["bad"]
    assert "merge, delete+insert" in run.message["bad"] and "fix:" in run.message["bad"]


def test_overwriting_partitions_of_a_table_that_was_partitioned_otherwise(
    project: DbtProject,
) -> None:
    config = {"incremental_strategy": "insert_overwrite", "partition_by": ["days(day)"]}
    write_model(project, "m", "sql", config, DAYS, NEXT)
    assert project.dbt("run").ok
    config["partition_by"] = ["months(day)", "bucket(2, v)"]
    then = SELECT.format("(5, 'old', '2026-01-31'), (6, 'old', '2026-02-01')")
    write_model(project, "m", "sql", config, DAYS, then)
    run = project.dbt("run")
    assert run.ok, run.text
    assert project.rows("select id from {s}.m order by id") == [(5,), (6,)]
    write_model(project, "m", "sql", config, DAYS, f"{NEXT} where false")
    assert project.dbt("run").ok
    assert project.rows("select id from {s}.m order by id") == [(5,), (6,)]


def test_an_empty_batch_empties_a_table_without_partitions(project: DbtProject) -> None:
    config = {"incremental_strategy": "insert_overwrite"}
    write_model(project, "m", "sql", config, DAYS, f"{NEXT} where false")
    assert project.dbt("run").ok and project.dbt("run").ok
    assert project.rows("select count(*) from {s}.m") == [(0,)]
