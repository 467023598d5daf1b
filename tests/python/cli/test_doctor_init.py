"""`icegate doctor` never crashes, and what `icegate init` makes is a project that dbt parses."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from shop import lake_of, run_icegate

from icegate.catalog import list_relations
from icegate.cli import doctor
from icegate.cli.common import Opened
from icegate.cli.init import create_project
from icegate.errors import ConfigError


def findings(ran) -> dict[str, dict]:
    return {finding["check"]: finding for finding in ran.json["findings"]}


def test_doctor_looks_at_everything(icegate):
    found = findings(icegate("doctor", "--json"))
    assert list(found) == [
        "python", "versions", "java", "profile",
        "jars", "home", "catalog", "gate", "format", "disk", "packages",
    ]  # fmt: skip
    assert found["python"]["status"] == "ok"
    assert found["catalog"]["message"].startswith("3 tables, 1 views")
    assert found["format"]["status"] == "ok"


def test_doctor_says_which_targets_take_stand_ins(own_shop):
    package = "packages: [{package: dbt-labs/dbt_utils, version: 1.3.0}]\n"
    for file in ("packages.yml", "package-lock.yml"):
        (own_shop / file).write_text(package)
    (own_shop / "standins").mkdir()
    for target, expected in (("local", ("warn", True)), ("server", ("fail", False))):
        found = findings(run_icegate(own_shop, "doctor", "--target", target, "--json"))["packages"]
        assert (found["status"], "ICEGATE_STANDINS" in found["fix"]) == expected


def test_doctor_names_readers_that_do_not_know_format_3(own_shop):
    entry = next(e for e in list_relations(lake_of(own_shop)) if e.kind == "table")
    metadata = json.loads(entry.metadata_file.read_text())
    entry.metadata_file.write_text(json.dumps({**metadata, "format-version": 3}))
    found = findings(run_icegate(own_shop, "doctor", "--json"))["format"]
    assert found["status"] == "warn"
    for said in (entry.full_name, "Athena", "EMR before 7.12", "PyIceberg 0.12 can't write"):
        assert said in found["message"]


def test_doctor_outside_a_project_says_so(tmp_path):
    found = findings(run_icegate(tmp_path, "doctor", "--json"))
    assert found["project"]["status"] == "warn"
    assert "catalog" not in found


def test_doctor_finds_a_typo_in_the_profile(own_shop):
    profiles = own_shop / "profiles.yml"
    profiles.write_text(profiles.read_text().replace("catalog_timeout_s: 1", "memry: 2g"))
    ran = run_icegate(own_shop, "doctor", "--json")
    assert ran.code == 1
    assert "did you mean 'memory'" in findings(ran)["profile"]["message"]


@pytest.mark.slow
def test_doctor_finds_a_moved_warehouse_and_a_lock(locked):
    lake = lake_of(locked)
    found = findings(run_icegate(locked, "doctor", "--json"))
    assert "lock" in found["catalog"]["message"]
    lake.warehouse.rename(lake.warehouse.with_name("elsewhere"))
    assert run_icegate(locked, "doctor").code == 1


def test_doctor_survives_a_broken_environment(monkeypatch):
    for name in ("packaging.requirements", "icegate.java", "dbt.adapters.icegate.credentials"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it now fails
    found = {f.check: f.status for f in doctor.examine(Opened(Path("/")))}
    assert found == {"python": "ok", "versions": "fail", "java": "fail", "project": "warn"}


@pytest.mark.parametrize(("free", "status"), [(2**30, "ok"), (2**30 - 1, "warn"),
                                              (200 * 2**20 - 1, "fail")])  # fmt: skip
def test_doctor_warns_before_the_disk_is_full(monkeypatch, shop, free, status):
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)
    assert doctor._disk(Opened(shop))[0] == status


def test_doctor_names_versions_that_do_not_fit(monkeypatch):
    found = {"pyspark": "3.4.1", "duckdb": "1.5.5", "duckdb-extension-avro": "1.5.4"}
    assert doctor._mismatched(found) == [
        "pyspark 3.4.1 isn't 4.1 or 4.0, as Iceberg's jars",
        "duckdb-extension-avro 1.5.4 isn't duckdb's 1.5.5",
    ]


@pytest.mark.parametrize(("in_job", "status", "said"), [
    (True, "ok", "pyspark of the job"), (False, "fail", "pyspark 3.5.6 isn't"),
])  # fmt: skip
def test_doctor_leaves_the_version_of_spark_to_a_job(monkeypatch, in_job, status, said):
    known = importlib.metadata.version
    of = {"pyspark": "3.5.6"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: of.get(name) or known(name))
    at = SimpleNamespace(lake=SimpleNamespace(is_submitted=in_job))
    found = doctor._versions(at)
    assert found[0] == status and said in found[1]


@pytest.mark.slow
def test_init_makes_a_project_that_dbt_parses(tmp_path):
    ran = run_icegate(tmp_path, "init", "my_shop")
    assert ran.code == 0
    folder = tmp_path / "my_shop"
    assert (folder / ".gitignore").is_file()
    assert not any("my_lakehouse" in f.read_text() for f in folder.rglob("*") if f.is_file())
    parse = [sys.executable, "-m", "dbt.cli.main", "--warn-error", "parse"]
    done = subprocess.run(parse, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["my-shop", "1shop", "a/b", "", "dbt_spark", "über"])
def test_init_refuses_names_that_dbt_refuses(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot call a project"):
        create_project(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


def test_init_keeps_what_is_there(tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes.txt").write_text("mine")
    ran = run_icegate(tmp_path, "init", "shop")
    assert ran.code == 2
    assert [file.name for file in (tmp_path / "shop").iterdir()] == ["notes.txt"]
