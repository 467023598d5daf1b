"""Maintenance from dbt: by hand, at the end of a run, and policies that can't be."""

from __future__ import annotations

import shutil

import pytest
from conftest import ROOT, DbtProject

from icegate.catalog import catalog_of
from icegate.gate.refs import Metadata
from icegate.gate.store import edit
from icegate.health.limits import DAY_MS
from icegate.locks import held_alone

pytestmark = pytest.mark.slow

MODEL = """
{{{{ config(materialized='incremental', {config}) }}}}
select /*+ coalesce(1) */ id from range(5)
"""


@pytest.fixture
def sick(own_project: DbtProject) -> DbtProject:
    """A project with a table of six files, which its policy compacts from five on."""
    shutil.copytree(ROOT / "macros" / "iceberg", own_project.folder / "macros")
    write(own_project, "t", "maintenance_min_files=5")
    for _ in range(6):
        assert own_project.dbt("run").ok
    return own_project


def write(project: DbtProject, name: str, config: str) -> None:
    project.write(f"models/{name}.sql", MODEL.format(config=config))


def files(project: DbtProject) -> int:
    ((found,),) = project.rows("select count(*) from {s}.t.files")
    return int(found)


def test_by_hand(sick: DbtProject) -> None:
    assert files(sick) == 6
    with held_alone(catalog_of(sick.lake).lock("maintenance"), "maintain"):
        ran = sick.dbt("run-operation", "maintain")
        assert ran.ok and "another process does" in ran.told and files(sick) == 6
    ran = sick.dbt("run-operation", "maintain", "--args", "{select: ['*.t']}")
    assert ran.ok and "rewrite_data_files: done: 6 files into 1" in ran.told, ran.told
    assert files(sick) == 1
    assert sick.rows("select count(*) from {s}.t") == [(30,)]


def test_at_the_end_of_a_run(sick: DbtProject) -> None:
    sick.configure(**{"on-run-end": ["{{ maintain(max_gb=0.0000001) }}"]})
    ran = sick.dbt("run")
    assert ran.ok and "left: it would be more than 1e-07 GiB" in ran.told and files(sick) == 7
    sick.configure(**{"on-run-end": ["{{ maintain(max_gb=0.1) }}"]})
    assert sick.dbt("run").ok and files(sick) == 1


def test_behind_the_gate_after_the_release(sick: DbtProject) -> None:
    profile = (sick.folder / "profiles.yml").read_text()
    sick.write(
        "profiles.yml", profile.replace("method: session", "method: session\n      gate: true")
    )
    sick.configure(**{"on-run-end": ["{{ maintain() }}"]})
    assert sick.dbt("build").ok and files(sick) == 1
    assert sick.rows("select count(*) from {s}.t") == [(35,)]


def test_a_wrong_policy_is_refused_before_anything_is_written(sick: DbtProject) -> None:
    write(sick, "t", "maintenance_min_files='many'")
    ran = sick.dbt("run")
    assert not ran.ok and "maintenance_min_files is 'many'" in ran.text and files(sick) == 6
    write(sick, "t", "maintenance_min_file=5")
    ran = sick.dbt("run-operation", "maintain")
    assert not ran.ok and files(sick) == 6


def day_before(metadata: Metadata) -> Metadata:
    """Make all of a table's versions a day older."""
    found = {**metadata, "last-updated-ms": metadata["last-updated-ms"] - DAY_MS}
    for name in ("snapshots", "snapshot-log"):
        entries = metadata[name]
        found[name] = [{**e, "timestamp-ms": e["timestamp-ms"] - DAY_MS} for e in entries]
    return {**found, "metadata-log": []}


@pytest.mark.parametrize("gate", [False, True])
def test_a_run_tags_what_readers_had_before_it_writes(own_project: DbtProject, gate: bool) -> None:
    """Also of a table that is replaced, whose log of versions begins anew then."""
    profile = (own_project.folder / "profiles.yml").read_text()
    session = f"method: session\n      gate: {str(gate).lower()}"
    own_project.write("profiles.yml", profile.replace("method: session", session))
    config = "{{ config(materialized='table', maintenance_keep_day_end='30 days') }}"
    own_project.write("models/t.sql", f"{config}\nselect 1 as id")
    assert own_project.dbt("build").ok
    name = f"{own_project.schema}.t"
    edit(own_project.lake, name, day_before)
    own_project.write("models/t.sql", f"{config}\nselect 2 as id")
    ran = own_project.dbt("build")
    assert ran.ok and "tag=day_end_" in ran.told
    (tag,) = own_project.rows("select name from {s}.t.refs where name like 'day_end_%'")
    assert own_project.rows(f"select id from {{s}}.t version as of '{tag[0]}'") == [(1,)]
    assert own_project.rows("select id from {s}.t") == [(2,)]
    own_project.write("models/t.sql", config.replace("day_end", "dayend") + "select 2 as id")
    assert "did you mean 'maintenance_keep_day_end'?" in own_project.dbt("build").text


def test_a_name_that_is_not_there(sick: DbtProject) -> None:
    ran = sick.dbt("run-operation", "maintain", "--args", "{select: [silver.t]}")
    assert not ran.ok and files(sick) == 6
