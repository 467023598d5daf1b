"""elementary in this project: from a local hub, a package that a test made with its hook points."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, DbtRun, make_home
from hub import Hub

import edr
import packages
from icegate.catalog import list_relations
from icegate.profiles import load_target, read_rendered
from icegate.settings import Lake, lake_from_target
from landing_data.generate import generate
from landing_data.plan import Plan

pytestmark = pytest.mark.slow

# What it has to have for our YAML and macros, in a few words of our own.
PROJECT = """
name: elementary
version: "0.25.1"
on-run-end: "{{ elementary.clean() }}"
"""
ANY_TEST = "{% test NAME %}{% set ignored = kwargs %}select 1 as one where false{% endtest %}"
OBSERVED = """
{% macro test_table(kind) %}
    {% set name = 'test_made__' ~ kind ~ '__tmp_20260101000000000000' %}
    {% do return(dbt.get_or_create_relation(none, 'elementary', name, 'table')[1]) %}
{% endmacro %}
{% macro edr_create_table_as(temporary, relation, sql_query) %}
    {% set kind = 'or replace temporary view' if temporary else 'table' %}
    {% do run_query('create ' ~ kind ~ ' ' ~ relation ~ ' as ' ~ sql_query) %}
{% endmacro %}
{% macro materialize_test(of_dbt) %}
    {% set name = 'handed_on_' ~ local_md5(model.unique_id)[:8] %}
    {% do run_query('create table elementary.' ~ name ~ ' as select 1 as one') %}
    {% do return(of_dbt()) %}
{% endmacro %}
{% macro clean() %}
    {% set tables = [elementary.test_table('metrics'), elementary.test_table('anomaly_scores')] %}
    {% set queries = adapter.dispatch('get_clean_elementary_test_tables_queries', 'elementary') %}
    {% for query in queries(tables) if execute %}{% do run_query(query) %}{% endfor %}
{% endmacro %}
{% test event_freshness_anomalies(model, event_timestamp_column, update_timestamp_column) %}
    {% set split = adapter.dispatch('full_name_split', 'elementary') %}
    {% for kind in ['metrics', 'anomaly_scores'] if execute %}
        {% set make = adapter.dispatch('create_or_replace', 'elementary') %}
        {% do make(false, elementary.test_table(kind), "select 'A.B' as full_table_name") %}
    {% endfor %}
    select * from (
        select {{ split('database_name') }}, {{ split('schema_name') }}, {{ split('table_name') }}
        from {{ elementary.test_table('anomaly_scores') }}
    )
    where not (database_name is null and schema_name = 'A' and table_name = 'B')
{% endtest %}
"""
TESTS = ("volume_anomalies", "freshness_anomalies", "dimension_anomalies", "schema_changes")
MADE = {
    "dbt_project.yml": PROJECT,
    "macros/observed.sql": OBSERVED,
    "models/metadata.sql": "{{ config(materialized='table') }}select '0.25.1' as dbt_pkg_version",
    **{f"macros/{name}.sql": ANY_TEST.replace("NAME", f"{name}(model)") for name in TESTS},
    "macros/column.sql": ANY_TEST.replace("NAME", "column_anomalies(model, column_name)"),
}


def of_standin(name: str) -> dict[str, str]:
    """Return the macros of a stand-in, as a package that isn't one: without its hooks."""
    folder = ROOT / "standins" / name
    files = {str(p.relative_to(folder)): p.read_text() for p in (folder / "macros").glob("*.sql")}
    return {path: text for path, text in files.items() if "standins_are_in_use" not in path}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this project with packages that `dbt deps` got from a local hub."""
    folder = tmp_path_factory.mktemp("elementary") / "a project"
    folder.mkdir()
    for name in ("models", "macros", "tests/generic", "tests/singular", "seeds", "snapshots"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("dbt_project.yml", "packages.yml", "package-lock.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "profiles" / "profiles.yml", folder)
    hub = Hub()
    hub.files = {"elementary": MADE, "dbt_utils": of_standin("dbt_utils")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_PACKAGE_HUB_URL", hub.url)
        assert packages.choose_packages(folder, "local").standins_because == ""
    hub.stop()
    return folder


class Checkout:
    """That copy, with a lake and landing data of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        generate(Plan(home / "landing", customers=20, products=10, orders=50), [], lambda *_: None)

    @property
    def lake(self) -> Lake:
        return lake_from_target(load_target(self.folder)[1], self.folder)

    def dbt(self, *args: str) -> DbtRun:
        from dbt.cli.main import dbtRunner
        from dbt.deprecations import reset_deprecations

        reset_deprecations()  # dbt counts those of all runs of a process
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        logs = ["--log-path", str(self.home / "logs"), "--quiet"]
        return DbtRun(dbtRunner().invoke([*args, *where, *logs]))


@pytest.fixture
def observed(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    home = make_home(tmp_path / "a home")
    monkeypatch.setenv("ICEGATE_HOME", str(home))
    monkeypatch.setenv("ICEGATE_LANDING", str(home / "landing"))
    for name in ("DBT_TARGET", packages.SWITCH):
        monkeypatch.delenv(name, raising=False)
    return Checkout(checkout, home)


def test_the_project_takes_elementary_from_the_hub(observed: Checkout, spark: Any) -> None:
    chosen = ("--select", "raw_readings", "package:elementary", "--indirect-selection", "cautious")
    run = observed.dbt("--warn-error", "build", *chosen)
    assert run.ok, run.text
    test = "elementary_event_freshness_anomalies_raw_readings_reading_at__ingested_at"
    assert run.status[test] == "pass"
    made = sorted(entry.name for entry in list_relations(observed.lake, "elementary"))
    tests = sum("raw_readings" in name for name in run.status) - 1
    assert [name[:9] for name in made] == ["handed_on"] * tests + ["metadata"]
    assert not [*observed.home.rglob("*__tmp_*/**/*.*")]  # on this disk empty folders stay


def test_edr_is_led_to_a_teams_lake_and_its_password_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    def run(command: list[str], env: dict[str, str], check: bool) -> Any:
        seen.append(env)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(edr.subprocess, "run", run)
    at = {"catalog_uri": "postgresql://a@db/lake", "catalog_password": "s3cret"}
    target = {"type": "icegate", "schema": "main", "warehouse": "s3://bucket/lake", **at}
    assert edr.run_edr(tmp_path, {**target, "home": str(tmp_path / "home")}, "report") == 0
    profiles = tmp_path / "home" / "edr" / "profiles.yml"
    monkeypatch.setattr(os, "environ", seen[0])
    made = read_rendered(profiles, "profiles", typed=False)["elementary"]["outputs"]["lake"]
    lake = lake_from_target(made, tmp_path)
    assert lake.bucket == "s3://bucket/lake" and lake.catalog_uri == at["catalog_uri"]
    assert lake.catalog_password and lake.catalog_password.get_secret_value() == "s3cret"
    assert "s3cret" not in profiles.read_text()
