"""What goes wrong before or below a model: one clear message, and the tables as they were."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from conftest import DbtProject

from icegate import session
from icegate.settings import Lake


def retarget(project: DbtProject, **keys: object) -> None:
    """Change keys of the project's target."""
    path = project.folder / "profiles.yml"
    profiles = yaml.safe_load(path.read_text())
    profiles["t"]["outputs"]["t"].update(keys)
    project.write_yaml("profiles.yml", profiles)


TABLE = "{{ config(materialized='table') }} select 1 as a"


def test_a_typing_error_in_the_profile(project: DbtProject) -> None:
    project.write("models/m.sql", TABLE)
    retarget(project, memori="4g")
    run = project.dbt("run")
    assert not run.ok and "unknown key 'memori': did you mean 'memory'?" in run.text


def test_a_wrong_value_in_the_profile(project: DbtProject) -> None:
    project.write("models/m.sql", TABLE)
    retarget(project, memory="lots")
    run = project.dbt("run")
    assert not run.ok and "memory: 'lots'" in run.text and "docs/profiles.md" in run.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "said"), [("lots", "memory: 'lots'"), ("100m", "Spark can't start")]
)
def test_what_is_wrong_at_the_start_comes_without_a_traceback(
    project: DbtProject, memory: str, said: str
) -> None:
    project.write("models/m.sql", TABLE)
    retarget(project, memory=memory)
    command = [sys.executable, "-m", "dbt.cli.main", "run"]
    environment = {**os.environ, "DBT_PROFILES_DIR": str(project.folder)}
    done = subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stdout
    assert said in done.stdout and "fix: correct" in done.stdout
    assert 'File "' not in done.stdout


def test_an_unknown_method(project: DbtProject) -> None:
    retarget(project, method="sesion")
    run = project.dbt("run")
    assert not run.ok and "unknown method 'sesion': did you mean 'session'?" in run.text


KILLED = """
import os, signal, sys
from pathlib import Path
from dbt.adapters.icegate.connections import SessionCursor, Work
from icegate.session import start_session
from icegate.settings import Lake

home = Path(sys.argv[1])
cursor = SessionCursor(Work(start_session(Lake(home=home, warehouse=home / "warehouse"))))
cursor.session.sql("select 1 as a").createOrReplaceTempView("a_view")
cursor.held.append("a_view")
os.kill(cursor.session.sparkContext._gateway.proc.pid, signal.SIGKILL)
cursor.close()
os._exit(7)
"""


@pytest.mark.slow
def test_a_connection_closes_though_its_jvm_was_killed(lake_copy: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(lake_copy)], timeout=120)
    assert done.returncode == 7


@pytest.mark.slow
def test_a_catalog_that_another_process_has_locked(own_project: DbtProject) -> None:
    own_project.write("models/m.sql", TABLE)
    assert own_project.dbt("run").ok
    retarget(own_project, catalog_timeout_s=1)
    holder = sqlite3.connect(own_project.lake.catalog_db, isolation_level=None)
    holder.execute("begin exclusive")
    own_project.write("models/m.sql", TABLE.replace("1", "2"))
    run = own_project.dbt("run")
    holder.execute("rollback")
    assert (
        not run.ok and "another process has held its lock" in run.text and "\tat " not in run.text
    )
    assert own_project.rows("select a from {s}.m") == [(1,)]
    assert own_project.dbt("run").ok


def test_all_threads_of_a_first_run_share_one_session(lake_copy: Path, spark: object) -> None:
    lake = Lake(home=lake_copy, warehouse=lake_copy / "warehouse")
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(lambda _: session.start_session(lake), range(8)))
    assert {id(one) for one in opened} == {id(opened[0])}
    assert opened[0].sql("show namespaces").collect() == []


def test_a_warehouse_that_was_moved(own_project: DbtProject, tmp_path: Path) -> None:
    own_project.write("models/m.sql", TABLE)
    assert own_project.dbt("run").ok
    own_project.lake.warehouse.rename(tmp_path / "elsewhere")
    session._sessions.clear()  # a new dbt process knows no session
    run = own_project.dbt("run")
    assert not run.ok and "metadata files of 1 of 1 tables are gone" in run.text
    (tmp_path / "elsewhere").rename(own_project.lake.warehouse)
    assert own_project.rows("select a from {s}.m") == [(1,)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk(own_project: DbtProject, small_disk: Path) -> None:
    retarget(own_project, warehouse=str(small_disk / "warehouse"))
    own_project.write("models/m.sql", TABLE)
    assert own_project.dbt("run").ok
    own_project.write(
        "models/m.sql",
        """
        {{ config(materialized='table') }} select uuid() as a, uuid() as b from range(1000000)
    """,
    )
    run = own_project.dbt("run")
    assert not run.ok and "the disk is full" in run.text and "\tat " not in run.text
    assert own_project.rows("select a from {s}.m") == [(1,)]


def test_a_data_test_that_cannot_run_says_why(
    project: DbtProject, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = "(select explode(array('1', 'x')) as a)"
    project.write("tests/assert_numbers.sql", f"select * from {texts} where cast(a as int) > 5")
    run = project.dbt("test")
    assert not run.ok and "Database Error in test assert_numbers" in run.text
    assert "CAST_INVALID_INPUT" in run.text and "\tat " not in run.text
    assert "QueryContextLogger" not in capfd.readouterr().err


def test_a_python_model_that_fails_names_its_line(project: DbtProject) -> None:
    project.write(
        "models/m.py",
        """
        def halve(value):
            return value / 0

        def model(dbt, spark):
            return halve(1)
    """,
    )
    run = project.dbt("run")
    assert not run.ok and "models/m.py, line 2: return value / 0" in run.text


def test_a_python_model_that_returns_nothing(project: DbtProject) -> None:
    project.write("models/m.py", "def model(dbt, spark):\n    return None\n")
    run = project.dbt("run")
    assert not run.ok and "`model` returned NoneType" in run.text
