"""Merge and delete+insert: their options, keys that are null or double, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject
from incremental_models import MERGE_ON_READ, operations, write_model

from dbt.adapters.icegate.connections import SessionCursor, Work

pytestmark = pytest.mark.slow

MERGE = {"incremental_strategy": "merge", "unique_key": "id"}
REPLACE = {"incremental_strategy": "delete+insert", "unique_key": "id"}


def rows(values: str) -> str:
    """Return a select of people: id, name, age, op."""
    return f"select * from values {values} as people(id, name, age, op)"


FIRST = rows("(1, 'Ada', 36, 'i'), (2, 'Bob', 20, 'i'), (3, 'Cy', 50, 'i')")
NEXT = rows("(2, 'Rob', 21, 'u'), (3, 'Cyd', 51, 'd'), (4, 'Di', 9, 'i'), (5, 'Ed', 8, 'd')")
ADA, BOB, CY = (1, "Ada", 36), (2, "Bob", 20), (3, "Cy", 50)
ROB, CYD, DI, ED = (2, "Rob", 21), (3, "Cyd", 51), (4, "Di", 9), (5, "Ed", 8)

OPTIONS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "update_some": (
        {"merge_update_columns": ["Name"]},
        [ADA, (2, "Rob", 20), (3, "Cyd", 50), DI, ED],
    ),
    "update_none": ({"merge_update_columns": []}, [ADA, BOB, CY, DI, ED]),
    "exclude": (
        {"merge_exclude_columns": ["age", "OP"]},
        [ADA, (2, "Rob", 20), (3, "Cyd", 50), DI, ED],
    ),
    "conditions": (
        {
            "matched_condition": "DBT_INTERNAL_SOURCE.op = 'u'",
            "not_matched_condition": "DBT_INTERNAL_SOURCE.op <> 'd'",
        },
        [ADA, ROB, CY, DI],
    ),
    "delete": ({"delete_condition": "DBT_INTERNAL_SOURCE.op = 'd'"}, [ADA, ROB, DI]),
    "delete_by_dest": (
        {"delete_condition": "DBT_INTERNAL_DEST.age >= 50"},
        [ADA, ROB, DI, ED],
    ),
    "by_source": (
        {"not_matched_by_source_action": "delete"},
        [ROB, CYD, DI, ED],
    ),
    "by_source_some": (
        {
            "not_matched_by_source_action": "delete",
            "not_matched_by_source_condition": "DBT_INTERNAL_DEST.age > 36",
        },
        [ADA, ROB, CYD, DI, ED],
    ),
    "by_source_scoped": (  # what the predicates leave out isn't deleted
        {
            "not_matched_by_source_action": "delete",
            "incremental_predicates": ["DBT_INTERNAL_DEST.id <> 1"],
        },
        [ADA, ROB, CYD, DI, ED],
    ),
    "predicates": (  # a row outside of them isn't met, so it's doubled: as dbt defines it
        {"predicates": "DBT_INTERNAL_DEST.id < 3"},
        [ADA, ROB, CY, CYD, DI, ED],
    ),
    "on_read": (
        {"delete_condition": "DBT_INTERNAL_SOURCE.op = 'd'", "tblproperties": MERGE_ON_READ},
        [ADA, ROB, DI],
    ),
}


def test_options_of_merge(project: DbtProject) -> None:
    for name, (config, _) in OPTIONS.items():
        write_model(project, name, "sql", {**MERGE, **config}, FIRST, NEXT)
    write_model(project, "in_python", "py", {**MERGE, **OPTIONS["delete"][0]}, FIRST, NEXT)
    for _ in range(2):
        run = project.dbt("run", "--threads", "8")
        assert run.ok, run.text
    for name, (_, expected) in [*OPTIONS.items(), ("in_python", OPTIONS["delete"])]:
        found = project.rows(f"select id, name, age from {{s}}.{name} order by id, name")
        assert found == expected, name
        assert len(operations(project, name)) == 2, name


NULLS_FIRST = rows("(1, 'Ada', 36, 'i'), (null, 'Nobody', 0, 'i')")
NULLS_NEXT = rows("(1, 'Eve', 37, 'i'), (null, 'No one', 1, 'i')")
TWICE_NULL = rows("(1, 'Eve', 37, 'i'), (null, 'No one', 1, 'i'), (null, 'Who', 2, 'i')")
NOBODY, EVE, NO_ONE, WHO = (
    (None, "Nobody", 0),
    (1, "Eve", 37),
    (None, "No one", 1),
    (None, "Who", 2),
)
TWICE_FIRST = rows("(1, 'Ada', 36, 'i'), (1, 'Adb', 37, 'i'), (2, 'Bob', 20, 'i')")
TWICE_NEXT = rows("(1, 'Eve', 37, 'i'), (1, 'Eva', 38, 'i'), (4, 'Di', 9, 'i'), (4, 'Dy', 8, 'i')")
DRAWN = "select int(id) as id, string(rand()) as name, 1 as age, 'i' as op from range(3)"
KEYS: dict[str, tuple[dict[str, Any], str, str, list[tuple[Any, ...]]]] = {
    "null_key": (MERGE, NULLS_FIRST, TWICE_NULL, [NO_ONE, NOBODY, WHO, EVE]),
    "null_safe": ({**MERGE, "null_safe_keys": True}, NULLS_FIRST, NULLS_NEXT, [NO_ONE, EVE]),
    "d_null_key": (REPLACE, NULLS_FIRST, TWICE_NULL, [NO_ONE, NOBODY, WHO, EVE]),
    "d_null_safe": (
        {**REPLACE, "null_safe_keys": True},
        NULLS_FIRST,
        TWICE_NULL,
        [NO_ONE, WHO, EVE],
    ),
    "d_twice": (
        REPLACE,
        TWICE_FIRST,
        TWICE_NEXT,
        [(1, "Eva", 38), (1, "Eve", 37), BOB, DI, (4, "Dy", 8)],
    ),
    "d_twice_on_read": (
        {**REPLACE, "tblproperties": MERGE_ON_READ},
        TWICE_FIRST,
        TWICE_NEXT,
        [(1, "Eva", 38), (1, "Eve", 37), BOB, DI, (4, "Dy", 8)],
    ),
    "d_predicates": (
        {**REPLACE, "incremental_predicates": ["age < 37"]},
        TWICE_FIRST,
        rows("(1, 'Eve', 40, 'i')"),
        [(1, "Adb", 37), (1, "Eve", 40), BOB],
    ),
    "two_keys": (
        {**MERGE, "unique_key": ["id", "op"]},
        rows("(1, 'Ada', 36, 'i'), (1, 'Eve', 37, 'u')"),
        rows("(1, 'New', 38, 'u')"),
        [(1, "Ada", 36), (1, "New", 38)],
    ),
}


def test_keys_that_are_null_or_double(project: DbtProject) -> None:
    for name, (config, first, then, _) in KEYS.items():
        write_model(project, name, "sql", config, first, then)
    for name, config in [("drawn", MERGE), ("d_drawn", REPLACE)]:
        write_model(project, name, "sql", config, DRAWN, DRAWN)
        on_read = {**config, "tblproperties": MERGE_ON_READ}
        write_model(project, f"{name}_on_read", "py", on_read, DRAWN, DRAWN)
    for _ in range(2):
        run = project.dbt("run", "--threads", "8")
        assert run.ok, run.text
    for name, (_, _, _, expected) in KEYS.items():
        found = project.rows(
            f"select id, name, age from {{s}}.{name} order by id nulls first, name"
        )
        assert found == expected, name
        assert len(operations(project, name)) == 2, name
    for name in ("drawn", "d_drawn", "drawn_on_read", "d_drawn_on_read"):
        assert project.rows(f"select count(*), count(distinct id) from {{s}}.{name}") == [(3, 3)]


def test_rows_that_a_node_held_are_freed_with_its_connection(spark: Any) -> None:
    connection = SessionCursor(Work(spark))
    spark.range(2).createOrReplaceTempView("few__held")
    connection.held.append("few__held")
    connection.close()
    assert not spark.catalog.tableExists("few__held") and not connection.held


REFUSED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "twice": (MERGE, TWICE_NEXT, ["more than one row", '2 rows have the key {"id":', "fix:"]),
    "twice_on_read": (
        {**MERGE, "tblproperties": MERGE_ON_READ},
        TWICE_NEXT,
        ['2 rows have the key {"id":'],
    ),
    "twice_new": (MERGE, rows("(7, 'x', 1, 'i'), (7, 'y', 1, 'i')"), ['the key {"id":7}']),
    "twice_new_on_read": (
        {**MERGE, "tblproperties": MERGE_ON_READ},
        rows("(7, 'x', 1, 'i'), (7, 'y', 1, 'i')"),
        ['the key {"id":7}'],
    ),
    "twice_many": (
        {**MERGE, "unique_key": ["id", "op"]},
        "select id % 12 as id, 'x' as name, 1 as age, if(id % 12 = 5, null, 'i') as op "
        "from range(35)",
        ['3 rows have the key {"id":0,"op":"i"}, 3 rows', '{"id":10,"op":"i"}, and more keys'],
    ),
    "twice_null": (
        {**MERGE, "null_safe_keys": True},
        TWICE_NULL,
        ['2 rows have the key {"id":null}'],
    ),
    "no_column": (
        {**MERGE, "unique_key": "idd"},
        NEXT,
        ["'idd'", "no column of its table", "did you mean 'id'"],
    ),
    "no_update_column": ({**MERGE, "merge_update_columns": ["nam"]}, NEXT, ["did you mean 'name'"]),
    "both": (
        {**MERGE, "merge_update_columns": ["name"], "merge_exclude_columns": ["age"]},
        NEXT,
        ["keep one of them"],
    ),
    "action": ({**MERGE, "not_matched_by_source_action": "update"}, NEXT, ["action: delete"]),
    "lost_key": (MERGE, "select 'x' as name, 1 as age, 'i' as op", ["no longer has the column id"]),
}


@pytest.mark.parametrize("ansi", [True, False])
def test_what_a_merge_refuses(project: DbtProject, ansi: bool) -> None:
    project.spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    for name, (config, then, _) in REFUSED.items():
        write_model(project, name, "sql", config, FIRST, then)
    write_model(project, "twice_py", "py", MERGE, FIRST, TWICE_NEXT)
    project.dbt("run", "--threads", "8")
    run = project.dbt("run", "--threads", "8")
    project.spark.conf.set("spark.sql.ansi.enabled", "true")
    for name, said in [*((n, r[2]) for n, r in REFUSED.items()), ("twice_py", ['{"id":'])]:
        assert run.status[name] == "error", name
        for text in said:
            assert text in run.message[name], run.message[name]
        assert "Exception" not in run.message[name] and "\tat " not in run.message[name]
        assert project.rows(f"select id, name, age from {{s}}.{name} order by id") == [ADA, BOB, CY]
        assert len(operations(project, name)) == 1
