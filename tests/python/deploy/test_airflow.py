"""The DAGs on a real Airflow: good days, bad days, tasks that are tried again or killed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.real_airflow import Airflow
from deploy.scheduled import BAD, GOOD, MODELS, REPAIRED, Lakehouse, wait_until

pytestmark = pytest.mark.long

TOTALS = "select * from main.totals order by 1"
FAILED = "not_null_orders_customer: Got 1 result, configured to fail if != 0"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """Airflow, and a lakehouse that was built from its first day."""
    folder = tmp_path_factory.mktemp("airflow")
    lakehouse = Lakehouse(folder)
    made = Airflow(folder, lakehouse)
    lakehouse.land("2026-01-01", GOOD)
    said = made.test("icegate_daily", "2026-01-01")
    assert "release 1: 4 tables published" in said
    assert "nothing to do" in said  # the last task's
    return made


@pytest.fixture
def bad_day(airflow: Airflow) -> Lakehouse:
    """The lakehouse with a second day that fails a test."""
    airflow.lakehouse.write("models/orders.sql", MODELS["orders.sql"])
    airflow.lakehouse.land("2026-01-02", BAD)
    return airflow.lakehouse


def test_a_good_day_is_one_release(airflow: Airflow) -> None:
    assert len(airflow.lakehouse.rows(TOTALS)) == 2
    (release,) = airflow.lakehouse.releases()
    assert release["build"].startswith("icegate_daily_20")
    assert (airflow.lakehouse.folder / "target" / "trust.html").is_file()


@pytest.mark.parametrize("how", ["publish", "keep", "reject"])
def test_a_bad_day(airflow: Airflow, bad_day: Lakehouse, how: str) -> None:
    before, releases = bad_day.rows(TOTALS), len(bad_day.releases())
    said = airflow.test("icegate_daily", "2026-01-02", code=1, ICEGATE_BAD_DAY=how)
    assert said.count(f"AirflowFailException: {FAILED}") == 1
    assert "task_id=maintain" not in said.partition("DAG TEST] end task task_id=build")[2]
    assert bad_day.rows(TOTALS) == before
    newest, opened = bad_day.releases()[0], bad_day.json("release", "list")["open"]
    if how == "publish":
        assert (newest["state"], newest["release"]) == ("published", 2)
        assert newest["held"][0]["table"] == "main.orders"
        assert "1 held back since release 1: a test failed on main.orders" in said
    elif how == "keep":
        assert len(bad_day.releases()) == releases
        assert [build["state"] for build in opened if "daily" in build["name"]]
    else:
        assert (newest["state"], newest["reason"]) == ("rejected", "a bad day")


def test_files_that_contradict_their_marker_are_not_built(airflow: Airflow) -> None:
    airflow.lakehouse.land("2026-01-04", GOOD)
    airflow.lakehouse.write("landing/2026-01-04/orders-0.jsonl", "{}\n")
    before = airflow.lakehouse.releases()
    said = airflow.test("icegate_daily", "2026-01-04", code=1)
    assert "contradicting" in said and "task_id=build map_index" not in said
    assert airflow.lakehouse.releases() == before
    shutil.rmtree(airflow.lakehouse.folder / "landing" / "2026-01-04")


def test_a_project_that_isnt_there_is_told(airflow: Airflow, tmp_path: Path) -> None:
    said = airflow.test("icegate_daily", "2026-01-01", code=1, ICEGATE_PROJECT=str(tmp_path))
    assert f"cannot run icegate: there is no {tmp_path}/dbt_project.yml on this worker" in said


def test_a_task_for_each_model(airflow: Airflow, bad_day: Lakehouse) -> None:
    before = bad_day.rows(TOTALS)
    said = airflow.test("icegate_models", "2026-01-02", code=1)
    ran = [task for task in TASKS if f"starting task_id={task} " in said]
    assert ran == [*TASKS[:5], "publish", "report"]  # not what reads the model, nor maintenance
    assert f"AirflowFailException: {FAILED}" in said
    assert bad_day.rows(TOTALS) == before
    assert bad_day.releases()[0]["build"].startswith("icegate_models_20")
    bad_day.write("models/orders.sql", REPAIRED)
    bad_day.dbt("parse")
    said = airflow.test("icegate_models", "2026-01-02")
    assert [task for task in TASKS if f"starting task_id={task} " in said] == TASKS
    assert bad_day.releases()[0]["held"] == []


TASKS = [
    "wait",
    "models.raw_orders_run",
    "models.orders.run",
    "models.files_run",
    "models.orders.test",
    "models.totals_run",
    "publish",
    "report",
    "maintain",
]


def test_a_scheduler_tries_again_and_kills(airflow: Airflow, bad_day: Lakehouse) -> None:
    with airflow.scheduler():
        run = airflow.trigger("2026-01-02")
        assert airflow.ended(run)["build"] == "failed"
        assert FAILED in airflow.log(run, "build")
        bad_day.write("models/orders.sql", REPAIRED)
        clear(airflow, run)
        assert set(airflow.ended(run).values()) == {"success"}
        again = airflow.log(run, "build", attempt=2)
        assert "1+result:fail" in again
        assert "model main.orders" in again and "main.raw_orders" not in again
        newest = bad_day.releases()[0]
        name = newest["build"]
        assert (newest["state"], newest["held"]) == ("published", [])

        run = airflow.trigger("2026-01-01")
        wait_until(lambda: "START sql" in airflow.log(run, "build"))
        task = f"dags/icegate_daily/dagRuns/{run}/taskInstances/build"
        airflow.call("PATCH", task, {"new_state": "failed"})
        wait_until(lambda: not running_dbt(bad_day), 60)
        assert airflow.ended(run)["build"] == "failed"
        assert bad_day.releases()[0]["build"] == name
        clear(airflow, run)
        assert set(airflow.ended(run).values()) == {"success"}


def clear(airflow: Airflow, run: str) -> None:
    """Have the build tried again, and what comes after it, as by a click."""
    body = {"dag_run_id": run, "task_ids": ["build"], "include_downstream": True}
    body |= {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
    airflow.call("POST", "dags/icegate_daily/clearTaskInstances", body)


def running_dbt(lakehouse: Lakehouse) -> list[str]:
    """Return the processes of dbt in the folder of a project."""
    listed = subprocess.run(["pgrep", "-f", "bin/dbt build"], capture_output=True, text=True)
    folders = (Path(f"/proc/{pid}/cwd") for pid in listed.stdout.split())
    return [str(f) for f in folders if f.exists() and f.resolve() == lakehouse.folder.resolve()]
