"""Columns are renamed by field id, and lost by consent only."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.catalog import list_relations, read_metadata
from icegate.errors import ConfigError
from icegate.tables.layout import parse_transform
from icegate.tables.renames import declared, pending, renamed_state
from icegate.tables.state import TableColumn, TableState

STATE = TableState(
    "iceberg",
    (TableColumn("id", "int"), TableColumn("Amount", "int")),
    ("bucket(4, `Amount`)",),
    {"sort-order": "`Amount` desc nulls last, id asc nulls first"},
)


def columns(**renames: Any) -> dict[str, Any]:
    return {
        "name": "m",
        "columns": {
            new: {"name": new, "config": {"meta": {"renamed_from": old}}}
            for new, old in renames.items()
        },
    }


def test_partitioning_and_order_follow_a_rename() -> None:
    names = pending(STATE, declared(columns(total="amount")), "m")
    assert names == [("Amount", "total")]
    state = renamed_state(STATE, names)
    assert [column.name for column in state.columns] == ["id", "total"]
    assert [str(parse_transform(term, "t")) for term in state.partitions] == ["bucket(4, total)"]
    assert state.properties["sort-order"].startswith("`total` desc nulls last, `id` asc")
    assert pending(state, {"total": "amount"}, "m") == []  # an earlier run did it


@pytest.mark.parametrize(
    ("renames", "why"),
    [
        ({"total": "amuont"}, "its table has neither; it has: id, Amount\n  fix: did you mean"),
        ({"amount": "id"}, "its table has both columns\n  fix: take `renamed_from` away"),
        ({"total": "amount", "sum": "AMOUNT"}, "one column of the table can become one column"),
        ({"total": "Total"}, "`renamed_from` is to be another name"),
        ({"total": 7}, "`renamed_from` is to be another name"),
    ],
)
def test_a_wrong_rename_says_why(renames: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match="^cannot rename column") as raised:
        pending(STATE, declared(columns(**renames)), "m")
    assert why in str(raised.value) and "of model m" in str(raised.value)


def model(project: DbtProject, select: str, kind: str = "incremental", **config: Any) -> None:
    text = ", ".join(f"{name}={value!r}" for name, value in config.items())
    project.write("models/m.sql", f"{{{{ config(materialized='{kind}', {text}) }}}} {select}")


def rename(project: DbtProject, kind: str = "models", **names: str) -> None:
    described = [{"name": n, "config": {"meta": {"renamed_from": o}}} for n, o in names.items()]
    project.write_yaml(f"{kind}/m.yml", {kind: [{"name": "m", "columns": described}]})


def ids(project: DbtProject) -> dict[str, int]:
    """Return the field ids of the columns that readers see."""
    entries = list_relations(project.lake, project.schema)
    metadata = read_metadata(next(entry for entry in entries if entry.name == "m"))
    (schema,) = [s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"]]
    return {field["name"]: field["id"] for field in schema["fields"]}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ignore", "sync_all_columns"])
def test_an_incremental_model_renames_a_column_and_keeps_its_values(
    project: DbtProject, mode: str
) -> None:
    config = {"on_schema_change": mode, "partition_by": ["amount"], "sort_by": ["amount"]}
    model(project, "select 1 as id, 10 as amount", **config)
    assert project.dbt("run").ok
    old, snapshot = ids(project), project.rows("select snapshot_id from {s}.m.snapshots")[0][0]
    rename(project, total="amount")
    run = project.dbt("run")  # the query has the old name still
    assert not run.ok and "its query returns no total" in run.text
    assert ids(project) == old

    config |= {"partition_by": ["total"], "sort_by": ["total"]}
    model(project, "select 2 as id, 20 as total", **config)
    run = project.dbt("run")
    assert run.ok, run.text
    assert ids(project) == {"id": old["id"], "total": old["amount"]}
    assert project.rows("select id, total from {s}.m order by id") == [(1, 10), (2, 20)]
    before = f"select id, amount from {{s}}.m version as of {snapshot}"
    assert project.rows(before) == [(1, 10)]
    assert (
        f"altered table={project.schema}.m column=total was=amount"
        in (project.folder / "logs" / "dbt.log").read_text()
    )
    assert project.dbt("run").ok
    assert len(project.rows("select * from {s}.m")) == 3
    assert ids(project) == {"id": old["id"], "total": old["amount"]}


@pytest.mark.slow
@pytest.mark.parametrize("sorted_by", [{}, {"sort_by": ["total"]}])
def test_a_rebuilt_table_renames_a_column(project: DbtProject, sorted_by: Any) -> None:
    model(project, "select 1 as id, 10 as amount", kind="table")
    assert project.dbt("run").ok
    old, snapshot = ids(project), project.rows("select snapshot_id from {s}.m.snapshots")[0][0]
    model(project, "select 2 as id, 20 as total", kind="table", **sorted_by)
    rename(project, total="amount")
    for _ in range(2):
        run = project.dbt("run")
        assert run.ok, run.text
        assert ids(project) == {"id": old["id"], "total": old["amount"]}
    assert project.rows(f"select amount from {{s}}.m version as of {snapshot}") == [(10,)]
    rename(project, total="amount", key="lost")
    model(project, "select 2 as key, 20 as total", kind="table")
    run = project.dbt("run")
    assert not run.ok and "cannot rename column lost to key of model m" in run.text, run.text


@pytest.mark.slow
def test_a_snapshot_renames_a_column_and_adds_no_versions(project: DbtProject) -> None:
    text = """{{% snapshot m %}}
    {{{{ config(target_schema='{s}', unique_key='id', strategy='check', check_cols='all') }}}}
    select 1 as id, 10 as {name}
    {{% endsnapshot %}}"""
    project.write("snapshots/m.sql", text.format(s=project.schema, name="amount"))
    assert project.dbt("snapshot").ok
    old = ids(project)
    project.write("snapshots/m.sql", text.format(s=project.schema, name="total"))
    rename(project, "snapshots", total="amount")
    run = project.dbt("snapshot")
    assert run.ok, run.text
    assert ids(project)["total"] == old["amount"] and "amount" not in ids(project)
    assert project.rows("select id, total from {s}.m") == [(1, 10)]


OLD = "select 1 as id, 'x' as gone, '5' as kind"
NEW = "select 2 as id, 7 as kind"


@pytest.mark.slow
def test_columns_are_lost_by_consent_only(project: DbtProject) -> None:
    sync = {"on_schema_change": "sync_all_columns"}
    model(project, OLD, **sync)
    assert project.dbt("run").ok
    old = ids(project)
    model(project, "select 2 as id, '5' as kind", **sync)
    run = project.dbt("run")
    assert not run.ok and "cannot drop column gone of model m" in run.text, run.text
    assert "  why: readers would lose the values, and the model has no `allow_destr" in run.text
    model(project, NEW + ", 'x' as gone", **sync)
    run = project.dbt("run")
    assert "cannot change column kind of model m from string to int" in run.text, run.text
    assert ids(project) == old and len(project.rows("select * from {s}.m.snapshots")) == 1

    model(project, NEW, allow_destructive=True, **sync)
    run = project.dbt("run")
    assert run.ok, run.text
    assert ids(project).keys() == {"id", "kind"} and ids(project)["kind"] not in old.values()
    assert project.rows("select id, kind from {s}.m order by id") == [(1, None), (2, 7)]


@pytest.mark.slow
def test_a_rebuilt_table_loses_columns_unless_the_model_says_no(project: DbtProject) -> None:
    model(project, OLD, kind="table")
    assert project.dbt("run").ok
    for kind, args in (("table", ()), ("incremental", ("--full-refresh",))):
        model(project, "select 2 as id, '7' as kind", kind=kind, allow_destructive=False)
        run = project.dbt("run", *args)
        assert not run.ok and "cannot drop column gone of model m" in run.text, run.text
        model(project, NEW + ", 'x' as gone", kind=kind, allow_destructive=False)
        run = project.dbt("run", *args)
        assert "cannot change column kind of model m" in run.text, run.text
    assert project.rows("select id, gone from {s}.m") == [(1, "x")]
    model(project, NEW, kind="table")
    assert project.dbt("run").ok
    assert project.rows("select * from {s}.m") == [(2, 7)]
    model(project, NEW, kind="table", allow_destructive="yes")
    run = project.dbt("run")
    assert not run.ok and "cannot use allow_destructive 'yes' of model m" in run.text
