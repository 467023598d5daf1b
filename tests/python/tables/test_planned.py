"""What a plan says of tables that are there, and that the run does just this."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.nodes import read_manifest
from icegate.tables.evolution import Planned, evolution
from icegate.tables.selected import selected

KNOWN = {"silver.o": {"id": "int", "total": "decimal(12,2)", "note": "string"}}


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select * from lake.silver.o", KNOWN["silver.o"]),
        ("select ID, cast(total as double) as T, 2 * total as x from silver.o",
         {"ID": "int", "T": "double", "x": ""}),
        ("with a as (select o.*, 1 as n from silver.o as o) select * from (select * from a)",
         {**KNOWN["silver.o"], "n": ""}),
        ("select * except (note) from silver.o", {"id": "int", "total": "decimal(12,2)"}),
        ("select cast(id as int) as id from silver.o union all select 2.5", {"id": ""}),
        ("select id from (select cast(1 as int) as id union all select 2.5)", {"id": ""}),
        ("select * from nowhere.t", None),
        ("select id, count(*) from silver.o group by id", None),
        ("select * from (select id, count(*) from silver.o group by id)", None),
        ("select id from silver.o where (", None),
    ],
)  # fmt: skip
def test_columns_of_a_query(sql: str, columns: dict[str, str] | None) -> None:
    assert selected(sql, lambda name: KNOWN.get(name, {}), "lake") == columns


def model(project: DbtProject, select: str, name: str = "m", **config: Any) -> None:
    text = ", ".join(f"{key}={value!r}" for key, value in config.items())
    project.write(f"models/{name}.sql", f"{{{{ config({text}) }}}} {select}")


def plan(project: DbtProject, command: str = "compile", **how: Any) -> list[Planned]:
    assert project.dbt(command).ok
    return evolution(project.lake, read_manifest(project.folder, "it"), gate=False, **how)[0]


def told(project: DbtProject) -> list[tuple[str, str, bool]]:
    return [(each.change, each.effect, each.stops_the_build) for each in plan(project)]


OLD = "select 1 as id, 10 as amount, 'x' as gone, cast(1 as int) as n, timestamp'2026-01-01' as at"
NEW = (
    "select 2 as id, 20 as total, cast(2 as bigint) as n, timestamp'2026-01-02' as at, 'y' as more"
)
CONFIG = {"materialized": "incremental", "on_schema_change": "sync_all_columns"}


@pytest.mark.slow
def test_a_plan_says_what_the_run_does(project: DbtProject) -> None:
    model(project, OLD, partition_by=["days(at)"], **CONFIG)
    assert project.dbt("run").ok
    assert plan(project) == []
    column = {"name": "total", "meta": {"renamed_from": "amount"}}
    project.write_yaml("models/m.yml", {"models": [{"name": "m", "columns": [column]}]})
    later = {"partition_by": ["hours(at)"], "sort_by": ["id"],
             "tblproperties": {"commit.retry.num-retries": 9}}  # fmt: skip
    model(project, NEW, **later, **CONFIG)
    assert told(project) == [
        ("column=total was=amount", "safe", False),
        ("column=more added=?", "safe", False),
        ("column=gone dropped", "destructive", True),
        ("column=n type=bigint was=int", "safe", False),
        ("partition_replaced=days(at) by=hours(at)", "rewrite", False),
        ("sort_order=id asc nulls first", "rewrite", False),
        ("commit.retry.num-retries=9 was=30", "safe", False),
    ]
    assert {each.bytes is not None for each in plan(project) if each.effect == "rewrite"} == {True}
    run = project.dbt("run")
    assert not run.ok and "cannot drop column gone of model m" in run.text

    model(project, NEW, allow_destructive=True, **later, **CONFIG)
    assert not any(stops for _, _, stops in told(project))
    run = project.dbt("run")
    assert run.ok, run.text
    (left,) = plan(project)
    assert (left.change, left.effect) == ("old_partitions", "rewrite") and left.bytes
    assert left.why.startswith("old ones stay; `+maintenance_old_partitions_max_gb`")


@pytest.mark.slow
def test_what_a_plan_cannot_know_it_says(project: DbtProject) -> None:
    declared = {"name": "note", "data_type": "string"}
    project.write_yaml("models/m.yml", {"models": [{"name": "m", "columns": [declared]}]})
    model(project, "select 1 as id, 'x' as gone", **CONFIG)
    assert project.dbt("run").ok
    model(project, "select 1 as id, 'y' as note, 7 + 1", **CONFIG)
    for command, why in (("parse", "it isn't compiled"), ("compile", "only Spark can tell")):
        assert [each.change for each in plan(project, command)] == ["column=note added=string"]
        found = evolution(project.lake, read_manifest(project.folder, "it"), gate=False)[1]
        assert [said[: len(why)] for said in found.values()] == [why]


@pytest.mark.slow
def test_rebuilt_tables_and_those_with_a_contract(project: DbtProject) -> None:
    model(project, "select 1 as id, 'x' as gone", materialized="table")
    model(project, "select 1 as id", name="kept", materialized="incremental")
    model(project, "select 1 as id", name="shown", materialized="view")
    project.write("seeds/s.csv", "id,name\n1,Ada\n")
    assert project.dbt("build").ok
    contract = {"name": "kept", "config": {"contract": {"enforced": True}},
                "columns": [{"name": "id", "data_type": "bigint"}]}  # fmt: skip
    project.write_yaml("models/m.yml", {"models": [contract]})
    added = {"materialized": "incremental", "on_schema_change": "append_new_columns"}
    model(project, "select * from nowhere.t", name="kept", **added)
    model(project, "select 1 as other", name="shown", materialized="table")
    model(project, "select 1 as id", materialized="table", partition_by=["id"])
    project.write("seeds/s.csv", "id,city\n1,Bern\n")
    assert told(project) == [
        ("column=id type=bigint was=int", "safe", False),
        ("column=gone dropped", "destructive", False),
        ("partition_added=id", "rewrite", False),
        ("column=city added=?", "safe", False),
        ("column=name dropped", "destructive", False),
    ]
    model(project, "select 1 as key", materialized="table", allow_destructive=False, sort_by=["x"])
    found = [each for each in plan(project) if each.table.endswith(".m")]
    assert [each.effect for each in found] == ["error"] and found[0].stops_the_build
    model(project, "select 1 as key", materialized="table", allow_destructive=False)
    found = [each for each in plan(project) if each.table.endswith(".m")]
    assert [(e.effect, e.stops_the_build) for e in found[1:]] == [("destructive", True)] * 2
