"""Contracts and constraints: checked before a commit, in the schema where Iceberg can hold them."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.tables.state import parse_state

pytestmark = pytest.mark.slow

COLUMNS: list[dict[str, Any]] = [
    {
        "name": "id",
        "data_type": "int",
        "constraints": [{"type": "not_null"}, {"type": "check", "expression": "id > 0"}],
    },
    {"name": "name", "data_type": "text", "description": "It's a name", "quote": True},
]


def describe(project: DbtProject, columns: Any = COLUMNS, **config: Any) -> None:
    config = {"persist_docs": {"columns": True}, **config}
    described = {"name": "m", "config": config, "columns": columns}
    described["constraints"] = [
        {"type": "check", "name": "short", "expression": "length(name) < 5"},
        {"type": "unique", "columns": ["id"]},
    ]
    project.write_yaml("models/m.yml", {"models": [described]})


def select(project: DbtProject, rows: str, materialized: str) -> None:
    project.write(
        "models/m.sql",
        f"""
        {{{{ config(materialized='{materialized}', on_schema_change='append_new_columns') }}}}
        select name, cast(id as int) as id from values {rows} as r(id, name)
    """,
    )


def python_model(project: DbtProject, rows: str, materialized: str) -> None:
    project.write(
        "models/m.py",
        f"""
        def model(dbt, session):
            dbt.config(materialized="{materialized}")
            return session.sql(
                "select name, cast(id as int) as id from values {rows} as r(id, name)")
    """,
    )


def is_not_null(project: DbtProject) -> bool:
    state = parse_state(project.rows("show create table {s}.m")[0][0])
    assert [column.name for column in state.columns] == ["id", "name"]
    assert state.columns[1].comment == "It's a name"
    return not state.columns[0].nullable


@pytest.mark.parametrize(
    ("language", "materialized"),
    [("sql", "table"), ("py", "table"), ("sql", "incremental"), ("py", "incremental")],
)
def test_a_constraint_is_kept_and_a_broken_one_leaves_the_table(
    project: DbtProject, language: str, materialized: str
) -> None:
    write = select if language == "sql" else python_model
    describe(project, **({"contract": {"enforced": True}} if language == "sql" else
                         {"enforce_schema": True}))  # fmt: skip
    write(project, "(null, 'x')", materialized)
    run = project.dbt("run")
    assert not run.ok and "violates not-null constraint" in run.text
    assert not project.spark.catalog.tableExists(f"{project.schema}.m")
    write(project, "(1, 'x')", materialized)
    run = project.dbt("run")
    assert run.ok, run.text
    assert is_not_null(project)
    for rows, said in (
        ("(null, 'x')", 'null value in column "id" of model m violates not-null constraint'),
        ("(0, 'x')", "a row of model m violates check constraint of column id"),
        ("(2, 'longer')", "a row of model m violates check constraint short"),
    ):
        write(project, rows, materialized)
        run = project.dbt("run")
        assert not run.ok and said in run.text and "fix:" in run.text, run.text
        assert "\tat " not in run.text and "USER_RAISED" not in run.text
    write(project, "(2, 'y')", materialized)
    assert project.dbt("run").ok
    expected = [(2, "y")] if materialized == "table" else [(1, "x"), (2, "y")]
    assert project.rows("select id, name from {s}.m order by id") == expected
    assert is_not_null(project)
    assert len(project.rows("select * from {s}.m.snapshots")) == 2


def test_a_model_that_differs_from_its_yaml_is_refused(project: DbtProject) -> None:
    describe(project, enforce_schema=True)
    select(project, "(1, 'x')", "table")
    assert project.dbt("run").ok
    nested = [{"name": "id", "data_type": "struct<a_b:int,c:timestamp_ntz>"}]
    for columns in ([{"name": "id", "data_type": "bigint"}, COLUMNS[1]], COLUMNS[:1], nested):
        describe(project, columns, enforce_schema=True)
        for write in (select, python_model):
            write(project, "(1, 'x')", "table")
            run = project.dbt("run")
            assert not run.ok and "contract" in run.text, run.text
            (project.folder / "models" / f"m.{'py' if write is python_model else 'sql'}").unlink()
    project.write("models/m.sql", "select named_struct('a_b', 1, 'c', timestamp'2026-01-01') as id")
    described = {"name": "m", "columns": nested, "config": {"contract": {"enforced": True}}}
    project.write_yaml("models/m.yml", {"models": [described]})
    run = project.dbt("run")
    assert not run.ok and "data type mismatch" in run.text


def test_a_constraint_on_a_table_that_is_there_is_checked_in_the_write(project: DbtProject) -> None:
    select(project, "(null, 'x')", "table")
    assert project.dbt("run").ok
    describe(project, contract={"enforced": True})
    run = project.dbt("run")
    assert not run.ok and "violates not-null constraint" in run.text
    assert project.rows("select id from {s}.m") == [(None,)]
    select(project, "(3, 'x')", "table")
    assert project.dbt("run").ok
    assert project.rows("select id from {s}.m") == [(3,)]
