"""`icegate submit`: builds as jobs of what stands for EMR Serverless, with its versions."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from targets import emr_server
from targets.emr_release import EMR_8
from targets.machine import ICEGATE, ROWS, Machine, machine
from targets.s3_server import using

pytestmark = [pytest.mark.long, pytest.mark.targets]

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Submitting:
    """A project whose builds are jobs."""

    def __init__(self, at: Machine, jobs: emr_server.Jobs) -> None:
        self.at, self.jobs = at, jobs
        # The Python without any package of ours: what a job has, it was given.
        python = Path(sys.base_prefix) / "bin" / f"python{VERSION}"
        assert at.objects is not None
        self.options = [
            *("--application", emr_server.APPLICATION, "--role", "arn:aws:iam::1:role/jobs"),
            *("--app", f"s3://{at.objects.bucket}/app", "--python-version", VERSION),
            *("--python", str(python)),
        ]

    def __call__(self, *words: str, code: int = 0) -> str:
        return self.at.icegate("submit", *self.options, "--", *words, code=code)


@pytest.fixture(scope="module")
def submitting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitting]:
    folder = tmp_path_factory.mktemp("target")
    with machine("glue, s3", folder) as at:
        spark = EMR_8.home
        conf = ("spark.ui.enabled=false", "spark.driver.memory=1g", "spark.app.name=ours")
        submit = [str(spark / "bin" / "spark-submit"), "--master", "local[1]"]
        submit += [word for each in conf for word in ("--conf", each)]
        submit += ["--jars", EMR_8.jars]
        kept = ("PATH", "JAVA_HOME", "AWS_")
        environ = {k: v for k, v in at.environ.items() if k.startswith(kept)}
        environ |= {"HOME": str(folder), "SPARK_HOME": str(spark)}
        logs = {"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": at.environ["AWS_ENDPOINT_URL_GLUE"]}
        jobs = emr_server.Jobs(folder / "jobs", submit, environ)
        with using(**logs), emr_server.running(jobs) as url:
            at.environ |= logs | {"AWS_ENDPOINT_URL_EMR_SERVERLESS": url}
            at.retarget(master="submitted", memory=None, home=None)
            yield Submitting(at, jobs)


def test_days_of_jobs(submitting: Submitting) -> None:
    said = submitting("dbt", "build")
    assert "packages for Python" in said and "job: success" in said
    assert "release 1: 6 tables published" in said
    assert submitting.at.rows("scored") == [{"id": 1, "score": 2.5}, {"id": 2, "score": 3.5}]
    submitting.at.land(f"{ROWS}3,C-1003,\n")
    said = submitting("dbt", "build", code=1)
    assert "packages for Python" not in said and "not_null_orders_amount" in said
    assert "job: failed" in said and len(submitting.at.rows("orders")) == 2
    said = submitting("dbt", "ls", "--no-such-option", code=2)
    assert "No such option" in said and "icegate: exit code 2" in said


def test_ctrl_c_cancels_the_job(submitting: Submitting) -> None:
    (asked, begun) = (len(submitting.jobs.asked), time.monotonic())
    words = ["submit", *submitting.options, "--", "dbt", "build"]
    process = submitting.at.begin(*ICEGATE, *words)
    while len(submitting.jobs.running) == asked and time.monotonic() - begun < 120:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, said
    assert "job: cancelled" in said
    assert all(job.poll() is not None for job in submitting.jobs.running.values())


def test_no_such_application(submitting: Submitting) -> None:
    before = len(submitting.jobs.asked)
    said = submitting.at.icegate(
        *("submit", *submitting.options, "--application", "0000", "--", "dbt", "build"), code=1
    )
    assert "cannot find the application 0000" in said and "correct --application" in said
    assert len(submitting.jobs.asked) == before


def test_a_python_that_the_release_does_not_have(submitting: Submitting) -> None:
    said = submitting.at.icegate(
        *("submit", *submitting.options, "--python", "/usr/bin/python2.9", "--", "dbt", "build"),
        code=1,
    )
    assert 'Cannot run program "/usr/bin/python2.9"' in said and "job: failed" in said
