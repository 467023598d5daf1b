"""Builds in the Spark that spark-submit started: this project's version, and that of EMR."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from icegate.errors import IcegateError
from icegate.spark_conf import found_jars
from icegate.submitted import check_python, python_of
from targets.emr_release import CONF, JOB, RELEASES, environ_of
from targets.machine import ROWS, Machine, machine

pytestmark = pytest.mark.long

OWN = "4.1."
EMR = [pytest.param(name, marks=pytest.mark.targets) for name in RELEASES]


# Noon in New York; elsewhere it's noon in UTC. Spark takes the time zone of the session.
MADE = """
import datetime, decimal
import pyarrow as pa

def model(dbt, session):
    dbt.config(materialized="table")
    noon, at = datetime.datetime(2024, 3, 1, 12), pa.timestamp("us")
    return pa.table({
        "id": pa.array([2**60, None]),
        "at": pa.array([noon, None], pa.timestamp("ns")),
        "zoned": pa.array([noon, None], pa.timestamp("us", "UTC")),
        "told": pa.array([{"at": noon}, None], pa.struct([("at", at)])),
        "by": pa.array([[("a", noon)], None], pa.map_(pa.string(), at)),
        "list": pa.array([[1, None], None]),
        "price": pa.array([decimal.Decimal("1.20"), None]),
        "kind": pa.array(["x", None]).dictionary_encode(),
        "nothing": pa.nulls(2),
    })
"""
STRICT = "select if(id > 1, raise_error('no such thing'), id) as id from {{ ref('orders') }}"


class Submitted:
    """A project whose dbt runs in a job, on one core, with jars that the job names."""

    def __init__(self, at: Machine, submit: Path, *options: str, spark: str = OWN) -> None:
        self.at, self.submit, self.options, self.spark = at, submit, options, spark

    def __call__(self, *args: str, code: int = 0, master: str = "local[1]") -> str:
        env = environ_of(self.submit, self.at.environ)
        named = ("--conf", "spark.app.name=a job of ours", "--driver-java-options", "-Dours=yes")
        options = [*CONF, *named, *self.options]
        command = [str(self.submit), "--master", master, *options, str(JOB), "--"]
        done = subprocess.run(
            [*command, *args], cwd=self.at.folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["own", *EMR])
def submitted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Submitted]:
    folder = tmp_path_factory.mktemp("target")
    if request.param == "own":
        with machine("local", folder) as at:
            where = os.pathsep.join(map(str, found_jars(at.lake)))
            submit = Path(sys.executable).with_name("spark-submit")
            yield _changed(at, Submitted(at, submit, "--driver-class-path", where))
        return
    with machine("glue, s3", folder) as at:
        release = RELEASES[request.param]
        jars = ("--jars", release.jars)
        yield _changed(at, Submitted(at, release.submit, *jars, spark=release.spark))


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
    assert row["version"].startswith(submitted.spark)
    assert submitted.at.rows("scored") == [{"id": 1, "score": 2.5}, {"id": 2, "score": 3.5}]
    (submitted.at.folder / "models" / "spark.py").unlink()


def test_the_next_days(submitted: Submitted) -> None:
    submitted.at.land(f"{ROWS}3,C-1003,\n")
    said = submitted("build", code=1)
    assert "not_null_orders_amount" in said and len(submitted.at.rows("orders")) == 2
    submitted.at.land(f"{ROWS.replace('7', '8')}3,C-1003,9\n")
    submitted("build")
    assert [row["amount"] for row in submitted.at.rows("totals")] == [5, 8, 9]
    versions = sorted((row["id"], row["amount"]) for row in submitted.at.rows("past"))
    assert versions == [(1, 5), (2, 7), (2, 8), (3, 9)]


def test_what_python_models_return(submitted: Submitted) -> None:
    model = submitted.at.folder / "models" / "made.py"
    model.write_text(MADE)
    submitted.at.retarget(spark_conf={"spark.sql.session.timeZone": "America/New_York"})
    submitted("build", "--select", "made")
    (row,) = [row for row in submitted.at.rows("made") if row["id"] is not None]
    noon = datetime(2024, 3, 1, 17, tzinfo=timezone.utc)
    assert (row["at"], row["told"]["at"], dict(row["by"])) == (noon, noon, {"a": noon})
    assert (row["id"], row["zoned"], row["list"]) == (2**60, noon.replace(hour=12), [1, None])
    assert (row["price"], row["kind"], row["nothing"]) == (Decimal("1.20"), "x", None)
    model.unlink()
    submitted.at.retarget(spark_conf=None)


def test_an_error_that_a_model_raises(submitted: Submitted) -> None:
    model = submitted.at.folder / "models" / "strict.sql"
    model.write_text("{{ config(materialized='table') }}\n" + STRICT)
    said = submitted("build", "--select", "strict", code=1)
    assert "no such thing" in said and "Job aborted" not in said.partition("Done.")[0]
    model.unlink()


def test_a_job_without_iceberg(submitted: Submitted) -> None:
    bare = Submitted(submitted.at, submitted.submit)
    before = submitted.at.rows("orders")
    said = bare("build", "--full-refresh", code=1)
    assert "cannot use the Spark of spark-submit" in said and "it has no Iceberg" in said
    assert "--jars" in said and submitted.at.rows("orders") == before


def test_workers_with_another_python(submitted: Submitted, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\necho 3 9\n")
    old.chmod(0o755)
    own = submitted.submit.with_name("python")
    pythons = (f"spark.pyspark.driver.python={own}", f"spark.pyspark.python={old}")
    conf = [text for python in pythons for text in ("--conf", python)]
    job = Submitted(submitted.at, submitted.submit, *submitted.options, *conf)
    before = submitted.at.rows("orders")
    said = job("build", "--full-refresh", code=1)
    assert f"and workers would on 3.9, as `{old}` is" in said and "spark.pyspark.python=" in said
    assert submitted.at.rows("orders") == before


@pytest.mark.parametrize(
    ("own", "workers", "said"),
    [
        ((3, 11), (3, 11), ""),
        ((3, 10), None, ""),  # of an archive that only workers have
        ((3, 11), (3, 9), "dbt runs on Python 3.11, and workers would on 3.9, as `python3` is"),
        ((3, 9), (3, 9), "dbt runs on Python 3.9\n"),
    ],
)
def test_pythons_of_a_job(own: Any, workers: Any, said: str) -> None:
    with pytest.raises(IcegateError, match=said) if said else nullcontext():
        check_python(own, workers, "python3")
    assert python_of(sys.executable) == sys.version_info[:2] and python_of("no-python") is None


def test_without_a_job(submitted: Submitted) -> None:
    said = submitted.at.dbt("build", code=1)
    assert "this process wasn't started by spark-submit" in said and "run_dbt.py" in said
