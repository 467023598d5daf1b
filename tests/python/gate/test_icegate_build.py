"""`icegate build`: a build that someone else's write blocked is repeated, in a new process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gate.gated import GatedProject

pytestmark = [pytest.mark.slow, pytest.mark.long]

ICEGATE = [sys.executable, "-m", "icegate.cli.main", "build"]
# Appends to main of the table that it reads, as another writer would, in the first build only.
MEDDLE = """
def model(dbt, session):
    from pathlib import Path
    import pyarrow
    from pyiceberg.catalog.sql import SqlCatalog

    flag, rows = Path("meddled"), dbt.ref("events")
    if not flag.exists() and {meddles}:
        flag.touch()
        catalog = SqlCatalog("lake", uri="sqlite:///{db}", warehouse="file://{warehouse}")
        table = catalog.load_table("{schema}.events")
        table.append(pyarrow.table({{"id": [7], "amount": [70]}}, table.schema().as_arrow()))
    return rows.select("id")
"""


def meddle(project: GatedProject, *, meddles: bool) -> None:
    lake = project.lake
    paths = {"db": lake.catalog_db, "warehouse": lake.warehouse, "schema": project.schema}
    project.write("models/meddler.py", MEDDLE.format(meddles=meddles, **paths))


def icegate_build(project: GatedProject) -> subprocess.CompletedProcess[str]:
    return subprocess.run(ICEGATE, cwd=project.folder, capture_output=True, text=True, check=False)


def test_it_goes_on_on_top_of_what_someone_else_wrote(gated: GatedProject) -> None:
    gated.values("events", 10, materialized="incremental", incremental_strategy="append")
    meddle(gated, meddles=False)
    assert gated.dbt("build").ok
    meddle(gated, meddles=True)
    run = icegate_build(gated)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"build=again attempt=2 blocked={gated.schema}.events" in run.stdout
    assert gated.seen("events") == [(1, 10), (1, 10), (7, 70)]
    assert gated.seen("meddler") == [(1,), (1,), (7,)]


def test_a_failed_test_is_not_repeated(gated: GatedProject) -> None:
    gated.values("events", None)
    gated.tests(events={"amount": ["not_null"]})
    run = icegate_build(gated)
    assert run.returncode == 1
    assert "build=again" not in run.stdout and "1 held back" in run.stdout
