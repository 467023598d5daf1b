"""`icegate maintain` as people call it: a plan, what was done, and what can't be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from health.tables import Made, append, write
from shop import lake_of, make_project, make_tables, run_icegate

from icegate.catalog import catalog_of
from icegate.locks import held_alone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path / "a b")


def parse(folder: Path, **configs: dict[str, Any]) -> None:
    """Write the manifest of a project with models `s.<name>` of these configs."""
    nodes = {
        name: {
            "name": name,
            "schema": "s",
            "alias": name,
            "resource_type": "model",
            "config": config,
        }
        for name, config in configs.items()
    }
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "manifest.json").write_text(json.dumps({"nodes": nodes}))


def test_a_plan_says_what_why_and_what_it_is_worth(folder: Path) -> None:
    made = Made(lake_of(folder))
    write(made.table("sick"), *[1.0] * 120)
    write(made.table("well"), 400)
    write(made.table("held", days=True), *[1.0] * 120, day="a")
    parse(folder, held={"maintenance_scope": "closed_partitions"})
    ran = run_icegate(folder, "maintain", "--plan")
    assert ran.code == 0, ran.err
    columns, sick, held = ran.out.splitlines()
    assert columns.split() == ["table", "procedure", "rewrites", "saves", "why"]
    assert sick.split() == (
        "s.sick rewrite_data_files 120 MiB 476 MiB 120 small files where 1 would do".split()
    )
    assert held == "s.held: left: 1 partition written to less than 1 hours ago"
    assert run_icegate(folder, "maintain", "s.well", "--plan").out == "nothing to do\n"


def test_json_has_the_calls(folder: Path) -> None:
    write(Made(lake_of(folder)).table("sick"), *[1.0] * 120)
    parse(folder)
    (table,) = run_icegate(folder, "maintain", "--plan", "--json").json["tables"]
    (action,) = table["actions"]
    assert table["table"] == "s.sick" and table["score"] < 100 and table["refused"] == []
    assert action["call"].startswith("call system.rewrite_data_files(table => '`s`.`sick`'")
    assert action["rewrites"] == 120 * 2**20


def test_what_nobody_may_do_ends_with_1(folder: Path) -> None:
    made = Made(lake_of(folder))
    append(made.table("broken"), "a")
    made.entry("broken").metadata_file.unlink()
    parse(folder)
    ran = run_icegate(folder, "maintain", "--plan")
    assert ran.code == 1 and "s.broken: refused: its metadata file isn't there" in ran.out
    assert run_icegate(folder, "maintain").code == 1  # and no Spark for it


def test_wrong_policies(folder: Path) -> None:
    Made(lake_of(folder)).table("sick")
    parse(folder, sick={"maintenance_min_file": 3})
    ran = run_icegate(folder, "maintain", "--plan")
    assert ran.code == 2 and "did you mean 'maintenance_min_files'?" in ran.err
    parse(folder, sick={"maintenance_min_files": 0})
    ran = run_icegate(folder, "maintain")
    assert ran.code == 2 and "maintenance_min_files is 0" in ran.err


def test_a_project_that_was_not_parsed_has_no_policies(folder: Path) -> None:
    ran = run_icegate(folder, "maintain")
    assert ran.code == 2 and "dbt parse" in ran.err
    (folder / "target").mkdir()
    (folder / "target" / "manifest.json").write_text("{")
    assert "isn't whole" in run_icegate(folder, "maintain").err


def test_policies_that_have_changed_since(folder: Path) -> None:
    write(Made(lake_of(folder)).table("sick"), *[1.0] * 120)
    parse(folder)
    assert run_icegate(folder, "maintain", "--plan").err == ""
    (folder / "models").mkdir()
    (folder / "models" / "sick.sql").write_text("select 1 as id")
    said = run_icegate(folder, "maintain", "--plan").err
    assert "dbt's last parse; since then models/sick.sql changed" in said


def test_names(folder: Path) -> None:
    make_tables(lake_of(folder))
    parse(folder)
    assert run_icegate(folder, "maintain", "gold", "--plan").out == "nothing to do\n"
    ran = run_icegate(folder, "maintain", "gold.dim_customer", "--plan")
    assert ran.code == 2 and "did you mean gold.dim_customers?" in ran.err


def test_one_at_a_time(folder: Path) -> None:
    lake = lake_of(folder)
    Made(lake)
    parse(folder)
    with held_alone(catalog_of(lake).lock("maintenance"), "maintain"):
        ran = run_icegate(folder, "maintain")
        assert ran.code == 1 and "another process does: it holds" in ran.err
        assert run_icegate(folder, "maintain", "--plan").code == 0
    assert run_icegate(folder, "maintain").out == "nothing to do\n"


@pytest.mark.slow
def test_a_run_that_is_killed_is_taken_up_by_the_next(folder: Path, home_with_jars: Path) -> None:
    lake = lake_of(folder)
    made = Made(lake)
    for name in ("one", "two", "three"):
        table = made.table(name)
        for _ in range(6):
            append(table, "a", "b")
    parse(folder, **{name: {"maintenance_min_files": 5} for name in ("one", "two", "three")})
    command = [sys.executable, "-u", "-m", "icegate.cli.main", "maintain"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert "rewrite_data_files: done in" in first and "6 files into 1" in first
    left = run_icegate(folder, "maintain", "--plan").out
    assert first.split()[0] not in left and "rewrite_data_files" in left
    ran = run_icegate(folder, "maintain")
    assert ran.code == 0 and run_icegate(folder, "maintain", "--plan").out == "nothing to do\n"
    for name in ("one", "two", "three"):
        assert made.catalog.load_table(f"s.{name}").scan().count() == 12


@pytest.mark.slow
def test_by_spark_submit(folder: Path, home_with_jars: Path) -> None:
    table = Made(lake_of(folder)).table("sick")
    for _ in range(6):
        append(table, "a", "b")
    parse(folder, sick={"maintenance_min_files": 5})
    submit = Path(sys.executable).with_name("spark-submit")
    job = Path(__file__).parents[3] / "python_jobs" / "maintain.py"
    # It asks the `python` of the path where Spark is, and takes no name that has a space.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    env["PATH"] = f"{submit.parent}{os.pathsep}{os.environ['PATH']}"
    told = {"capture_output": True, "text": True, "check": False}
    done = subprocess.run([submit, job], cwd=folder, env=env, **told)
    assert done.returncode == 0, done.stderr
    assert "s.sick rewrite_data_files: done in" in done.stdout and "6 files into 1" in done.stdout
    # Spark's own log isn't ours, but that of the Spark that maintains is quiet as ever.
    assert "INFO" not in done.stderr and "ClassNotFound" not in done.stderr


@pytest.fixture
def home_with_jars(folder: Path) -> Path:
    from conftest import make_home

    return make_home(lake_of(folder).home)
