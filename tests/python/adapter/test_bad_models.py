"""A model's author who does everything wrong: each says why, and the tables are as they were."""

from __future__ import annotations

import pytest
from conftest import DbtProject

ROWS = [(1, "a")]
GOOD_SQL = "{{{{ config(materialized='{kind}') }}}} select 1 as id, 'a' as v"
GOOD_PY = "def model(dbt, spark):\n    return spark.sql(\"select 1 as id, 'a' as v\")\n"
GOOD = "select 1 as id, 'a' as v"

# name: (configs, select, what the message has to say)
TABLES = {
    "syntax": ("", "select 1 as id frm x", "Syntax error at or near 'frm'"),
    "typo": ("", "select idd from (select 1 as id)", "Did you mean one of the following? [`id`]"),
    "nowhere": ("", "select * from nowhere", "view `nowhere` cannot be found"),
    "division": ("", "select 1 / (id - 1) as id from range(3)", "DIVIDE_BY_ZERO"),
    "cast": ("", "select int('x') as id", "[CAST_INVALID_INPUT] The value 'x'"),
    "twice": ("", "select 1 as id, 2 as id", "column `id` already exists"),
    "untyped": ("", "select null as id", "fix: give it one, as in `cast(null as string)`"),
    "transform": ("partition_by=['buckett(4, id)']", GOOD, "did you mean bucket(4, id)?"),
    "days": ("partition_by=['days(v)']", GOOD, "Invalid source type string for transform: day"),
    "config": ("partitionby=['id']", GOOD, "did you mean 'partition_by'?"),
    "number": (
        "tblproperties={'write.target-file-size-bytes': 'big'}",
        GOOD,
        "a setting isn't the number that it has to be",
    ),
    "property": (
        "tblproperties={'write.target-file-size': 1}",
        GOOD,
        "did you mean 'write.target-file-size-bytes'?",
    ),
    "contract_type": ("", "select 'x' as id, 'a' as v", "data type mismatch"),
    "contract_null": ("", "select int(null) as id, 'a' as v", "violates not-null constraint"),
}
INCREMENTALS = {
    "key": ("incremental_strategy='merge', unique_key='ids'", GOOD, "did you mean 'id'?"),
    "double": (
        "incremental_strategy='merge', unique_key='id'",
        "select 7 as id, 'a' as v union all select 7, 'b'",
        '2 rows have the key {"id":7}',
    ),
    "strategy": ("incremental_strategy='mergee'", GOOD, "unknown incremental_strategy 'mergee'"),
    "sync": ("on_schema_change='sync'", GOOD, "fix: name one of ignore, fail, append_new_columns"),
}
PYTHON = {
    "number_py": ("return 3", "`model` returned int"),
    # It ended dbt's thread, and dbt waited for it without end.
    "exit_py": (
        "raise SystemExit(1)\n    return 0",
        "at: models/exit_py.py, line 2: raise SystemExit(1)",
    ),
    "twice_py": ("return spark.sql('select 1 as a, 2 as a')", "column `a` already exists"),
    "bare_py": ("import pandas\n    return pandas.DataFrame()", "a DataFrame without columns"),
    "import_py": (
        "import nosuch\n    return 0",
        "at: models/import_py.py, line 2: import nosuch",
    ),
}
CONTRACT = [
    {"name": "id", "data_type": "int", "constraints": [{"type": "not_null"}]},
    {"name": "v", "data_type": "string"},
]


def write_bad_models(project: DbtProject) -> None:
    for kind, models in (("table", TABLES), ("incremental", INCREMENTALS)):
        for name, (configs, select, _) in models.items():
            config = f"materialized='{kind}'" + (f", {configs}" if configs else "")
            project.write(f"models/{name}.sql", f"{{{{ config({config}) }}}} {select}")
    for name, (body, _) in PYTHON.items():
        project.write(f"models/{name}.py", f"def model(dbt, spark):\n    {body}\n")
    contracts = [
        {"name": name, "config": {"contract": {"enforced": True}}, "columns": CONTRACT}
        for name in TABLES
        if name.startswith("contract")
    ]
    project.write_yaml("models/_models.yml", {"models": contracts})


@pytest.mark.slow
def test_each_bad_model_says_why_and_leaves_its_table(
    project: DbtProject, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, models in (("table", TABLES), ("incremental", INCREMENTALS)):
        for name in models:
            project.write(f"models/{name}.sql", GOOD_SQL.format(kind=kind))
    for name in PYTHON:
        project.write(f"models/{name}.py", GOOD_PY)
    assert project.dbt("run").ok

    write_bad_models(project)
    run = project.dbt("run")
    said = {name: case[-1] for name, case in {**TABLES, **INCREMENTALS, **PYTHON}.items()}
    assert set(run.status.values()) == {"error"}
    assert {name for name, text in said.items() if text not in run.message[name]} == set()
    assert "a setting" not in run.message["cast"]
    written = capfd.readouterr()
    for text in (run.text, written.err, written.out):
        for noise in ("\tat ", "Traceback", "Unhandled", "'Project [", "java."):
            assert noise not in text
    for name in said:
        assert project.rows(f"select id, v from {{s}}.{name}") == ROWS
        assert project.rows(f"select count(*) from {{s}}.{name}.snapshots") == [(1,)]


def test_names_that_spark_reads_as_something_else(project: DbtProject) -> None:
    project.write("models/dotted.sql", "{{ config(materialized='table', alias='a.b') }} select 1")
    project.write("models/spaced.sql", "{{ config(alias='a b') }} select 1 as id")
    project.write("seeds/seed.with.dots.csv", "a\n1\n")
    project.write("seeds/cells.csv", "a,b\n1,x\n")
    project.write_yaml("seeds/_seeds.yml", {"seeds": [{"name": "cells", "config": {
        "column_types": {"b": "int"}}}]})  # fmt: skip
    run = project.dbt("build")
    assert set(run.status.values()) == {"error"}
    assert "cannot name the table of model dotted 'a.b'" in run.message["dotted"]
    assert "cannot name the table of model spaced 'a b'" in run.message["spaced"]
    assert "fix: rename its file, or set `alias`" in run.message["seed.with.dots"]
    assert "column b of seed cells is not int: x" in run.message["cells"]


def test_a_schema_that_cannot_be_created_is_named(project: DbtProject) -> None:
    project.write("models/m.sql", "{{ config(schema='odd name') }} select 1 as id")
    run = project.dbt("run")
    assert not run.ok and f"cannot create schema {project.schema}_odd name" in run.text
