"""Builds in the Spark that spark-submit started: this project's version, and that of EMR."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from targets.emr_release import emr_environment, emr_jars
from targets.machine import ROWS, Machine, machine

pytestmark = pytest.mark.long

JOB = ROOT / "python_jobs" / "run_dbt.py"
EMR = [pytest.mark.targets]


class Submitted:
    """A project whose dbt runs in a job, on one core, with jars that the job names."""

    def __init__(self, at: Machine, submit: Path, *options: str) -> None:
        self.at, self.submit, self.options = at, submit, options

    def __call__(self, *args: str, code: int = 0, master: str = "local[1]") -> str:
        # It asks the `python` of the path where Spark is.
        env = {k: v for k, v in self.at.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        env |= {"PATH": f"{self.submit.parent}{os.pathsep}{os.environ['PATH']}"}
        conf = [
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.memory=1g"),
            *("--conf", "spark.app.name=a job of ours", "--driver-java-options", "-Dours=yes"),
        ]
        command = [str(self.submit), "--master", master, *conf, *self.options, str(JOB), "--"]
        done = subprocess.run(
            [*command, *args], cwd=self.at.folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["own", pytest.param("emr-spark-8.0", marks=EMR)])
def submitted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Submitted]:
    folder = tmp_path_factory.mktemp("target")
    if request.param == "own":
        with machine("local", folder) as at:
            jars = sorted((ROOT / ".icegate" / "ivy" / "jars").glob("*.jar"))
            where = os.pathsep.join(str(jar) for jar in jars if "aws" not in jar.name)
            submit = Path(sys.executable).with_name("spark-submit")
            yield _changed(at, Submitted(at, submit, "--driver-class-path", where))
        return
    with machine("glue, s3", folder) as at:
        bin = emr_environment() / "bin"
        yield _changed(at, Submitted(at, bin / "spark-submit", "--jars", emr_jars()))


def _changed(at: Machine, found: Submitted) -> Submitted:
    at.retarget(master="submitted", memory=None)
    return found


def test_a_build_is_done_by_the_spark_of_the_job(submitted: Submitted) -> None:
    submitted.at.write(
        "models/spark.py",
        """
def model(dbt, session):
    dbt.config(materialized="table")
    context = session.sparkContext
    java = context._jvm.java.lang.System
    told = (context.appName, context.master, session.version, java.getProperty("ours"))
    columns = "name string, master string, version string, ours string"
    return session.createDataFrame([told], columns)
""",
    )
    said = submitted("build")
    assert "release 1: 7 tables published" in said
    (row,) = submitted.at.rows("spark")
    assert (row["name"], row["master"], row["ours"]) == ("a job of ours", "local[1]", "yes")
    assert row["version"].startswith("4.0." if "emr" in str(submitted.submit) else "4.1.")
    assert submitted.at.rows("scored") == [{"id": 1, "score": 2.5}, {"id": 2, "score": 3.5}]
    (submitted.at.folder / "models" / "spark.py").unlink()


def test_the_next_days(submitted: Submitted) -> None:
    submitted.at.land(f"{ROWS}3,C-1003,\n")
    said = submitted("build", code=1)
    assert "not_null_orders_amount" in said and len(submitted.at.rows("orders")) == 2
    submitted.at.land(f"{ROWS.replace('7', '8')}3,C-1003,9\n")
    is_old = "emr" in str(submitted.submit)
    said = submitted("build", code=int(is_old))
    assert [row["amount"] for row in submitted.at.rows("totals")] == [5, 8, 9]
    versions = sorted((row["id"], row["amount"]) for row in submitted.at.rows("past"))
    if is_old:
        why = "this Iceberg reads no earlier version of a table while a build writes to branches"
        assert why in said and versions == [(1, 5), (2, 7)]
    else:
        assert versions == [(1, 5), (2, 7), (2, 8), (3, 9)]


def test_a_job_without_iceberg(submitted: Submitted) -> None:
    bare = Submitted(submitted.at, submitted.submit)
    before = submitted.at.rows("orders")
    said = bare("build", "--full-refresh", code=1)
    assert "cannot use the Spark of spark-submit" in said and "it has no Iceberg" in said
    assert "--jars" in said and submitted.at.rows("orders") == before


def test_without_a_job(submitted: Submitted) -> None:
    said = submitted.at.dbt("build", code=1)
    assert "this process wasn't started by spark-submit" in said and "run_dbt.py" in said
