"""Listing, docs and freshness come from metadata, and maintenance doesn't look like new rows."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject

from dbt.adapters.icegate import metadata

pytestmark = pytest.mark.slow

ORDERS = """
    {{ config(materialized='table', persist_docs={'relation': true, 'columns': true}) }}
    select cast(id as bigint) as order_id, 'it''s' as `2024`, named_struct('a', array(1)) as parts
    from range(3)
"""
DESCRIBED = {
    "models": [
        {
            "name": "orders",
            "description": "What was 'sold'. One row per order.",
            "columns": [{"name": "order_id", "description": "The key"}, {"name": "2024"}],
        }
    ]
}
WARN = {"warn_after": {"count": 12, "period": "hour"}}


def sources(*tables: Any, **more: Any) -> dict[str, Any]:
    """Return the YAML of a source in the project's own schema."""
    named = [table if isinstance(table, dict) else {"name": table} for table in tables]
    own = {"name": "s", "schema": "{{ target.schema }}", "config": {"freshness": WARN}, **more}
    return {"sources": [{**own, "tables": named}]}


def catalog(project: DbtProject) -> dict[str, Any]:
    return json.loads((project.folder / "target" / "catalog.json").read_text())["nodes"]


def freshness(project: DbtProject) -> dict[str, dict[str, Any]]:
    """Run `dbt source freshness` and return what it found, by table."""
    project.dbt("source", "freshness")
    results = json.loads((project.folder / "target" / "sources.json").read_text())["results"]
    return {result["unique_id"].split(".")[-1]: result for result in results}


def loaded_at(result: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(result["max_loaded_at"].replace("Z", "+00:00"))


def statements(project: DbtProject) -> list[str]:
    """Return the first words of each statement in dbt's log, and empty the log."""
    log = project.folder / "logs" / "dbt.log"
    said = re.findall(r'/\* \{"app": "dbt".*?\*/\s*(\w+)\s+(\S+)', log.read_text())
    log.write_text("")
    return [" ".join(words).lower() for words in said]


@pytest.fixture(params=["files", "statements"])
def road(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The embedded catalog's own files, and the statements that other catalogs need."""
    if request.param == "statements":
        monkeypatch.setattr(metadata, "embedded_lake", lambda *_: None)
    return request.param


def test_docs_have_types_comments_and_numbers(project: DbtProject, road: str) -> None:
    project.write("models/orders.sql", ORDERS)
    project.write("models/recent.sql", "select order_id from {{ ref('orders') }}")
    project.write_yaml("models/m.yml", DESCRIBED)
    assert project.dbt("run").ok
    assert project.dbt("docs", "generate").ok
    found = catalog(project)
    orders, recent = found["model.t.orders"], found["model.t.recent"]
    assert {name: c["type"] for name, c in orders["columns"].items()} == {
        "order_id": "bigint",
        "2024": "string",
        "parts": "struct<a:array<int>>",
    }
    assert [c["index"] for c in orders["columns"].values()] == [1, 2, 3]
    assert orders["columns"]["order_id"]["comment"] == "The key"
    stats = {name: stat["value"] for name, stat in orders["stats"].items()}
    assert stats["rows"] == 3 and stats["files"] >= 1 and stats["bytes"] > 500
    assert stats["snapshot_age"].startswith("0:0")
    assert (orders["metadata"]["type"], recent["metadata"]["type"]) == ("table", "view")
    assert recent["columns"]["order_id"]["type"] == "bigint"
    assert list(recent["stats"]) == ["has_stats"]
    if road == "files":
        assert orders["metadata"]["comment"] == "What was 'sold'. One row per order."


def test_docs_of_a_selection_have_nothing_else(project: DbtProject) -> None:
    project.write("models/orders.sql", ORDERS)
    project.write("models/recent.sql", "select order_id from {{ ref('orders') }}")
    assert project.dbt("run").ok
    assert project.dbt("docs", "generate", "--select", "recent").ok
    assert list(catalog(project)) == ["model.t.recent"]


def test_docs_cost_no_statement_for_a_table(project: DbtProject, road: str) -> None:
    for number in range(6):
        project.write(f"models/m{number}.sql", "{{ config(materialized='table') }} select 1 as n")
    assert project.dbt("run").ok
    statements(project)
    assert project.dbt("docs", "generate", "--no-compile").ok
    # Elsewhere: tables and views of a schema, and one for all histories.
    assert len(statements(project)) == (0 if road == "files" else 3)


def test_a_run_makes_the_statements_that_it_needs(project: DbtProject) -> None:
    project.write("models/orders.sql", ORDERS)
    project.write("models/recent.sql", "select order_id from {{ ref('orders') }}")
    log = """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select order_id from {{ ref('orders') }}
    """
    project.write("models/log.sql", log)
    assert project.dbt("run").ok
    assert sorted(statements(project)) == ["create or"] * 3 + ["create schema"]
    assert project.dbt("run").ok
    again = statements(project)
    assert {"create or", "insert into"} <= set(again)
    assert not {"describe extended", "show tables", "show views", "show databases"} & set(again)


def test_compaction_is_no_news(project: DbtProject, road: str) -> None:
    project.write("models/unused.sql", "select 1 as n")
    project.write_yaml("models/s.yml", sources("events"))
    project.spark.sql(f"create schema {project.schema}")
    events = f"{project.schema}.events"
    project.spark.sql(f"create table {events} (id bigint) using iceberg")
    for number in range(6):
        project.spark.sql(f"insert into {events} values ({number})")
    before = loaded_at(freshness(project)["events"])
    assert timedelta() < datetime.now(timezone.utc) - before < timedelta(minutes=5)

    compacted = project.rows(
        f"call lake.system.rewrite_data_files('{events}', options => map('rewrite-all', 'true'))"
    )
    assert compacted[0][0] == 6
    project.rows(f"call lake.system.rewrite_manifests('{events}')")
    project.spark.sql(f"insert into {events} select 1 where false")
    project.spark.sql(f"delete from {events} where id = 99")
    project.spark.sql(f"alter table {events} create branch audit")
    project.spark.sql(f"insert into {events}.branch_audit values (7)")
    assert loaded_at(freshness(project)["events"]) == before, "nothing new is on main"
    project.spark.sql(f"delete from {events} where id = 1")
    assert loaded_at(freshness(project)["events"]) > before, "a deletion is a change"


def test_freshness_says_what_it_cannot_know(project: DbtProject, road: str) -> None:
    project.spark.sql(f"create schema {project.schema}")
    project.spark.sql(f"create table {project.schema}.empty (id bigint) using iceberg")
    kept = f"{project.schema}.compacted"
    project.spark.sql(f"create table {kept} using iceberg as select 1 as id union all select 2")
    project.spark.sql(f"create view {project.schema}.seen as select 1 as id")
    project.spark.sql(f"insert into {kept} values (3)")
    project.rows(
        f"call lake.system.rewrite_data_files('{kept}', options => map('rewrite-all', 'true'))"
    )
    project.rows(
        f"call lake.system.expire_snapshots(table => '{kept}', retain_last => 1, "
        "older_than => timestamp '2999-01-01')"
    )
    tables = ("empty", "compacted", "seen", "missing")
    project.write_yaml("models/s.yml", sources(*tables))
    run = project.dbt("source", "freshness")
    assert run.status["empty"] == "warn"
    assert run.status["compacted"] == run.status["seen"] == run.status["missing"] == "runtime error"
    assert "have expired" in run.message["compacted"]
    assert "it is a view" in run.message["seen"]
    assert "no Iceberg table of this name" in run.message["missing"]
    assert run.text.count("fix: ") == 3


def test_all_sources_are_one_statement(project: DbtProject, road: str) -> None:
    project.spark.sql(f"create schema {project.schema}")
    for number in range(5):
        project.spark.sql(f"create table {project.schema}.t{number} using iceberg as select 1 as n")
    project.write_yaml("models/s.yml", sources(*(f"t{number}" for number in range(5))))
    assert {result["status"] for result in freshness(project).values()} == {"pass"}
    assert len(statements(project)) == (0 if road == "files" else 3)


def test_a_landing_source_is_as_fresh_as_its_newest_whole_day(project: DbtProject) -> None:
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        project.write(f"landing/{day}/orders.jsonl", '{"id": "1"}\n')
    for day in ("2026-01-01", "2026-01-02"):
        marker = project.write(f"landing/{day}/_SUCCESS", "{}")
    landing = {
        "name": "landed",
        "config": {"meta": {"location": "landing/*/orders.jsonl", "format": "json"}},
        "columns": [{"name": "id", "data_type": "string"}],
    }
    project.write_yaml("models/s.yml", sources(landing))
    found = loaded_at(freshness(project)["landed"])
    assert found == datetime.fromtimestamp(marker.stat().st_mtime, timezone.utc)
    for path in Path(project.folder / "landing").glob("*/_SUCCESS"):
        path.unlink()
    run = project.dbt("source", "freshness")
    assert "no day of its landing folder has a marker yet" in run.text


def test_a_relation_of_another_case_or_schema_is_not_listed(project: DbtProject) -> None:
    project.write("models/orders.sql", "{{ config(materialized='table') }} select 1 as n")
    project.write(
        "models/elsewhere.sql", "{{ config(schema='other', alias='orders') }} select 1 as n"
    )
    assert project.dbt("run").ok
    assert project.dbt("run").ok
    assert project.rows("select n from {s}.orders") == [(1,)]
    assert project.rows("select n from {s}_other.orders") == [(1,)]
