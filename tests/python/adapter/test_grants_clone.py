"""Grants where the catalog has none, and clones, which are views."""

from __future__ import annotations

import shutil

import pytest
import yaml
from conftest import DbtProject


def test_grants_are_refused_before_anything_is_written(project: DbtProject) -> None:
    project.write("models/t.sql", "{{ config(materialized='table') }} select 1 as a")
    project.write("models/v.sql", "select 1 as a")
    assert project.dbt("run").ok
    log = (project.folder / "logs" / "dbt.log").read_text()
    assert "show grants" not in log
    project.configure(models={"+grants": {"select": ["someone"]}})
    run = project.dbt("run")
    for name in ("t", "v"):
        assert f"cannot grant on {project.schema}.{name}" in run.message[name], run.text
        assert "fix: remove `grants`" in run.message[name]
    assert len(project.rows("select * from {s}.t.snapshots")) == 1


@pytest.mark.slow
def test_a_clone_is_a_view_on_the_other_environment(project: DbtProject) -> None:
    profiles = project.folder / "profiles.yml"
    content = yaml.safe_load(profiles.read_text())
    outputs = content["t"]["outputs"]
    outputs["dev"] = {**outputs["t"], "schema": f"{project.schema}_dev"}
    profiles.write_text(yaml.safe_dump(content))
    project.write("seeds/s.csv", "id\n1\n")
    project.write("models/t.sql", "{{ config(materialized='table') }} select 1 as a")
    project.write("models/i.sql", "{{ config(materialized='incremental') }} select 2 as a")
    project.write("models/v.sql", "select 3 as a")
    assert project.dbt("build").ok
    state = project.folder / "state"
    shutil.copytree(project.folder / "target", state)
    clone = ["clone", "--state", str(state), "--target", "dev"]
    for more in ([], [], ["--full-refresh"]):
        run = project.dbt(*clone, *more)
        assert run.ok, run.text
        views = project.rows("show views in {s}_dev")
        assert sorted(row[1] for row in views if row[0]) == ["i", "s", "t", "v"]
    assert project.dbt("run", "--target", "dev", "--select", "t").ok
    assert project.rows("select a from {s}_dev.t") == [(1,)]
    assert project.dbt(*clone, "--full-refresh").ok
    project.spark.sql(f"insert into {project.schema}.t values (9)")
    assert project.rows("select a from {s}_dev.t order by a") == [(1,), (9,)]
