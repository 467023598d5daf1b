"""The DAG whose tasks are jobs of EMR Serverless, on a real Airflow with Amazon's provider."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from deploy.real_airflow import Airflow

from icegate.emr.submit import Call, spark_submit
from targets import emr_server
from targets.machine import ROWS
from targets.test_submit import Submitting, submitting  # noqa: F401 - a fixture

pytestmark = [pytest.mark.long, pytest.mark.targets]

DAG = "icegate_emr_serverless"


@pytest.fixture
def dags(submitting: Submitting, tmp_path: Path) -> tuple[Airflow, dict[str, str]]:  # noqa: F811
    at = submitting.at
    path = at.folder / "profiles.yml"
    profile = yaml.safe_load(path.read_text())
    profile["shop"]["outputs"]["emr_serverless"] = profile["shop"]["outputs"]["t"]
    path.write_text(yaml.safe_dump(profile))
    return Airflow(tmp_path, at, "airflow-emr"), {
        "ICEGATE_APPLICATION": emr_server.APPLICATION,
        "ICEGATE_JOB_ROLE": "arn:aws:iam::123456789012:role/jobs",
        "ICEGATE_WAREHOUSE": str(profile["shop"]["outputs"]["t"]["warehouse"]).replace(" ", "_"),
        "ICEGATE_SCHEMA": "main",
        "ICEGATE_LOOK_EVERY_S": "2",
        "ICEGATE_JOB_PYTHON": submitting.options[-1],
    }


def send(submitting: Submitting) -> str:  # noqa: F811
    said = submitting.at.icegate("submit", *submitting.options, "--only-upload", "--", "dbt", "ls")
    return said.partition("app: ")[2].split()[0]


def test_days_of_jobs(
    submitting: Submitting,  # noqa: F811
    dags: tuple[Airflow, dict[str, str]],
) -> None:
    airflow, environ = dags
    folder = send(submitting)
    said = airflow.test(DAG, "2026-01-01", **environ, ICEGATE_APP_FOLDER=folder)
    assert "6 tables published" in said and "icegate: exit code 0" in said
    build, maintain = submitting.jobs.asked
    where = ["--project-dir", "project", "--profiles-dir", "project", "--target"]
    call = Call(
        folder,
        ["dbt", "build", *where, "emr_serverless"],
        {name: environ[name] for name in ("ICEGATE_WAREHOUSE", "ICEGATE_SCHEMA")},
        environ["ICEGATE_JOB_PYTHON"],
    )
    known = spark_submit(call)
    given = build["jobDriver"]["sparkSubmit"]
    conf = given.pop("sparkSubmitParameters").split("--conf ")
    wanted = known.pop("sparkSubmitParameters").split("--conf ")
    assert {*map(str.strip, conf)} == {*map(str.strip, wanted)}
    assert given == known
    assert maintain["jobDriver"]["sparkSubmit"]["entryPointArguments"][:2] == [
        "icegate",
        "maintain",
    ]
    assert len(submitting.at.rows("orders")) == 2

    submitting.at.land(f"{ROWS}3,C-1003,\n")
    said = airflow.test(DAG, "2026-01-02", code=1, **environ, ICEGATE_APP_FOLDER=send(submitting))
    reason = said.rpartition("AirflowFailException: the job ")[2]
    assert "not_null_orders_amount" in said and "icegate: exit code 1" in reason
    assert [job["name"] for job in submitting.jobs.asked] == ["build", "maintain"] * 2
    states = [job["state"] for job in submitting.jobs.told.values()]
    assert states == ["SUCCESS", "SUCCESS", "FAILED", "SUCCESS"]
    assert len(submitting.at.rows("orders")) == 2


def test_a_variable_that_is_missing_is_told(dags: tuple[Airflow, dict[str, str]]) -> None:
    airflow, environ = dags
    said = airflow.test(DAG, "2026-01-01", code=1, **environ)
    assert "ICEGATE_APP_FOLDER isn't: docs/deploy.md" in said
