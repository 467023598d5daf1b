"""A real standalone cluster: master and two workers on loopback, one of which is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, DbtProject, make_home

from icegate.catalog import list_relations, open_catalog
from icegate.dbt_process import DBT
from icegate.settings import Lake
from landing_data.generate import generate
from landing_data.plan import Plan
from targets.cluster import CONF, Cluster, running

pytestmark = [pytest.mark.long, pytest.mark.targets]

ICEGATE = (sys.executable, "-m", "icegate.cli.main")
ROWS = 200_000
MERGE = f"""
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}}}
select id, cast(rand(1) * 1000 as int) as amount from range({ROWS})
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path / "cluster") as started:
        yield started


class Machine:
    """The machine of a driver: a home, and a profile that has the target `connect`."""

    def __init__(self, folder: Path, master: str) -> None:
        self.folder, self.home = folder, make_home(folder / "a home")
        landing = folder / "landing"
        generate(Plan(landing, customers=150, products=60, orders=900), [], lambda path, rows: None)
        outputs = yaml.safe_load((ROOT / "profiles" / "profiles.yml").read_text())["icegate"]
        target = {**outputs["outputs"]["connect"], "memory": "1g", "spark_conf": CONF}
        profile = {"target": "local", "outputs": {"local": target}}
        (folder / "profiles.yml").write_text(yaml.safe_dump({"icegate": profile}))
        own = {key: value for key, value in os.environ.items() if not key.startswith("DBT_")}
        self.environ = own | {
            "ICEGATE_MASTER": master,
            "ICEGATE_HOME": str(self.home),
            "ICEGATE_LANDING": str(landing),
            "ICEGATE_STANDINS": "1",
            "DBT_PROFILES_DIR": str(folder),
        }
        self.lake = Lake(home=self.home, warehouse=self.home / "warehouse")

    def begin(self, *command: str, folder: Path = ROOT) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str, folder: Path = ROOT) -> str:
        process = self.begin(*command, folder=folder)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return said

    def build(self) -> subprocess.Popen[str]:
        paths = ("--target-path", str(self.folder / "target"))
        return self.begin(*DBT, "build", *paths, "--log-path", str(self.folder / "logs"))

    def rows(self, table: str) -> int:
        return open_catalog(self.lake).load_table(table).scan().count()


@pytest.fixture
def machine(tmp_path: Path, cluster: Cluster) -> Iterator[Machine]:
    made = Machine(tmp_path, cluster.master)
    made.run(*ICEGATE, "server", "start")
    yield made
    made.run(*ICEGATE, "server", "stop")


def wait_until(is_so: Callable[[], object], process: subprocess.Popen[str]) -> None:
    while not is_so():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_a_worker_that_is_killed_in_the_middle_of_a_build(
    machine: Machine, cluster: Cluster
) -> None:
    build = machine.build()
    begun = "silver__"  # a new table is built in staging, and moves when the build is done
    wait_until(lambda: any(e.name.startswith(begun) for e in list_relations(machine.lake)), build)
    assert build.poll() is None and not list_relations(machine.lake, "silver")
    assert len(cluster.executors(0)) == len(cluster.executors(1)) == 1
    cluster.kill_worker(0)
    said, _ = build.communicate(timeout=400)
    assert build.returncode == 0, said
    assert "ERROR=0 SKIP=0" in said and "release 1: 23 tables published" in said
    assert "Lost executor" in (machine.home / "server.log").read_text()
    orders = machine.rows("bronze.raw_orders")
    assert orders >= 900 and machine.rows("silver.curated_orders") == 900
    again = machine.build()
    said, _ = again.communicate(timeout=300)
    assert again.returncode == 0 and "23 unchanged" in said
    assert machine.rows("bronze.raw_orders") == orders


def test_rows_that_a_merge_holds_are_not_lost_with_a_worker(
    machine: Machine, cluster: Cluster, tmp_path: Path
) -> None:
    project = DbtProject(tmp_path / "a project", machine.lake, None)
    profile = yaml.safe_load((tmp_path / "profiles.yml").read_text())["icegate"]
    project.write_yaml("profiles.yml", {"t": profile, "icegate": profile})
    project.write("models/m.sql", MERGE)
    machine.environ["DBT_PROFILES_DIR"] = str(project.folder)
    machine.run(*DBT, "run", folder=project.folder)
    project.write("models/m.sql", MERGE.replace("rand(1)", "rand()"))
    run = machine.begin(*DBT, "run", folder=project.folder)
    held = machine.lake.checkpoints
    wait_until(lambda: [*held.glob("server/*/rdd-*/part-*")], run)
    cluster.kill_worker(0)
    said, _ = run.communicate(timeout=300)
    assert run.returncode == 0, said
    assert machine.rows("main.m") == ROWS
    machine.run(*ICEGATE, "server", "stop")
    assert not [*held.rglob("part-*")]  # they are rows


def test_spark_in_dbts_own_process_works_on_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    machine = Machine(tmp_path, cluster.master)
    project = DbtProject(
        tmp_path / "a project", machine.lake, None, master=cluster.master, memory="1g"
    )
    target = yaml.safe_load((project.folder / "profiles.yml").read_text())
    target["t"]["outputs"]["t"] |= {"gate": True, "spark_conf": CONF}
    project.write_yaml("profiles.yml", target)
    project.write("models/m.sql", MERGE)
    machine.environ["DBT_PROFILES_DIR"] = str(project.folder)
    process = machine.begin(*DBT, "build", folder=project.folder)
    wait_until(lambda: cluster.executors(0) or cluster.executors(1), process)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0 and "release 1: 1 table published" in said, said
    assert machine.rows(f"{project.schema}.m") == ROWS
    assert [*machine.lake.checkpoints.glob("session")]
    assert not [*machine.lake.checkpoints.glob("session/*")]


@pytest.mark.parametrize(
    ("conf", "why"),
    [({"spark.executor.memory": "64g"}, "ran no task within"), ({}, "found no master there")],
)
def test_a_cluster_that_gives_no_worker(
    tmp_path: Path, cluster: Cluster, conf: dict[str, str], why: str
) -> None:
    master = cluster.master if conf else "spark://127.0.0.1:1"
    machine = Machine(tmp_path, master)
    keys: dict[str, Any] = {"master": master, "memory": "1g", "spark_conf": {**CONF, **conf}}
    project = DbtProject(tmp_path / "a project", machine.lake, None, **keys)
    project.write("models/m.sql", MERGE)
    machine.environ["DBT_PROFILES_DIR"] = str(project.folder)
    process = machine.begin(*DBT, "run", folder=project.folder)
    said, _ = process.communicate(timeout=200)
    assert process.returncode != 0
    assert f"cannot use the cluster {master}" in said and why in said, said
    assert "Traceback" not in said
