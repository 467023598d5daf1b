"""`audits: true`: dbt's own commands prove their tests, and say the same as without."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import DbtProject

from audits.test_command import audit, write_shop
from icegate.audits.answer import Answer, Prover
from icegate.audits.tests import counted, read_tests
from icegate.settings import Lake

pytestmark = pytest.mark.slow

OF_STOCK = ("unique_id", "status", "failures", "message", "compiled_code")


class Audited(DbtProject):
    """A project whose target can have audits on or off."""

    def switch(self, on: bool) -> None:
        profiles = yaml.safe_load((self.folder / "profiles.yml").read_text())
        profiles["t"]["outputs"]["t"]["audits"] = on
        self.write_yaml("profiles.yml", profiles)

    def results(self, *args: str) -> tuple[Any, list[dict[str, Any]]]:
        """Run dbt; return what it did and what it wrote of each test, by id."""
        run = self.dbt(*args)
        results = json.loads((self.folder / "target" / "run_results.json").read_text())["results"]
        return run, sorted(results, key=lambda result: str(result["unique_id"]))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, lake: Lake, spark: Any) -> Audited:
    """A project that was built with audits on; no test changes its tables."""
    folder = tmp_path_factory.mktemp("audits") / "a project"
    project = Audited(folder, lake, spark, audits=True)
    write_shop(project)
    return project


def stock_of(results: list[dict[str, Any]]) -> list[list[Any]]:
    return [[result[key] for key in OF_STOCK] for result in results]


@pytest.mark.parametrize("command", ["test", "build"])
def test_results_are_those_of_stock(shop: Audited, command: str) -> None:
    shop.dbt("build")  # so that proofs are known
    shop.switch(False)
    stock, of_stock = shop.results(command)
    shop.switch(True)
    audited, of_ours = shop.results(command)
    assert stock_of(of_ours) == stock_of(of_stock)
    assert (audited.ok, audited.status, audited.message) == (False, stock.status, stock.message)
    tests = [result for result in of_ours if result["unique_id"].startswith("test.")]
    proofs = counted((result["adapter_response"]["proof"] for result in tests), ", ")
    # `dbt test` asks again of the very snapshots that the build has tested.
    expected = ["metadata"] * (command == "build") + ["added rows", "scan (spark)"]
    assert all(proof in proofs for proof in expected), proofs
    assert not any("proof" in result["adapter_response"] for result in of_stock)
    line = re.search(r"^tests: (.*)$", audited.notes, re.MULTILINE)
    assert line is not None, audited.notes
    assert sum(int(part.split(" by ")[0]) for part in line[1].split(" · ")) == len(tests)
    assert "tests: " not in stock.notes


def test_stored_failures_are_in_their_table(shop: Audited) -> None:
    shop.dbt("run")
    run, results = shop.results("test", "--store-failures", "--select", "not_null_orders_customer")
    assert (run.ok, results[0]["failures"]) == (False, 1)
    assert results[0]["adapter_response"].get("proof") is None  # Spark found them, as stock does
    audit_table = f"{shop.schema}_dbt_test__audit.not_null_orders_customer"
    assert [tuple(row) for row in shop.spark.sql(f"select id from {audit_table}").collect()] == [
        (3,)
    ]


def test_without_a_test_for_spark_none_is_started(
    shop: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dbt("run")

    started = []

    def refuse(*args: Any) -> Any:
        started.append(args)  # dbt may go on after an error
        raise AssertionError("no test needs Spark")

    monkeypatch.setattr("dbt.adapters.icegate.connections.start_session", refuse)
    monkeypatch.setattr("dbt.adapters.icegate.impl.start_early", refuse)
    run = shop.dbt("test", "--exclude", "only_spark_knows", "asked_of_the_sum")
    assert run.status["unique_orders_id"] == "pass"
    assert run.status["not_null_orders_customer"] == "fail"
    assert "error" not in run.status.values()
    assert started == []


def test_what_dbt_proved_the_command_knows(shop: Audited) -> None:
    shop.dbt("build")
    (test,) = read_tests(shop.folder, ["unique_orders_id"])
    found = Prover(shop.lake).answer(test.sql)
    assert isinstance(found, Answer)
    assert found.proof.startswith("added rows (0 of "), found


def test_a_build_is_tested_on_its_branch(own_project: DbtProject) -> None:
    folder, own = own_project.folder, own_project
    project = Audited(folder, own.lake, own.spark, audits=True, gate=True)
    incremental = "{{ config(materialized='incremental') }}\nselect %s as id, %s as name"
    project.write("models/m.sql", incremental % (1, "'a'"))
    tests = {"data_tests": ["not_null", "unique"], "name": "name"}
    project.write_yaml("models/m.yml", {"models": [{"name": "m", "columns": [tests]}]})
    assert project.dbt("build").ok
    project.write("models/m.sql", incremental % (2, "cast(null as string)"))
    run, results = project.results("build")
    assert run.status == {"m": "success", "not_null_m_name": "fail", "unique_m_name": "pass"}
    proofs = {r["unique_id"].split(".")[2]: r["adapter_response"].get("proof") for r in results}
    assert proofs["not_null_m_name"] == "added rows (1 of 2 files)"
    assert project.rows("select id from {s}.m") == [(1,)]
    assert "tests: 2 by added rows\n" in run.notes, run.notes
    project.write("models/m.sql", incremental % (3, "'b'"))
    run, results = project.results("build")
    assert (run.ok, project.rows("select id from {s}.m order by id")) == (True, [(1,), (3,)])
    # The row of the build that was held back is no part of what was proved.
    assert "tests: 1 by added rows · 1 by metadata\n" in run.notes, run.notes


def test_a_file_that_is_gone_is_named(own_project: DbtProject) -> None:
    project = Audited(own_project.folder, own_project.lake, own_project.spark, audits=True)
    project.write("models/m.sql", "{{ config(materialized='table') }}\nselect 1 as id")
    tests = {"data_tests": ["not_null"], "name": "id"}
    project.write_yaml("models/m.yml", {"models": [{"name": "m", "columns": [tests]}]})
    assert project.dbt("build").ok
    path = Path(str(project.rows("select file_path from {s}.m.files")[0][0]).removeprefix("file:"))
    path.unlink()
    run = project.dbt("test")
    assert run.status == {"not_null_m_id": "error"}
    said = f"cannot test {project.schema}.m: {path} is gone"
    assert said in str(run.message), run.message
    ran = audit(project)
    assert (ran.exit_code, said in ran.stdout) == (1, True), ran.stdout
    assert ran.stdout.splitlines()[-1] == "1 error"  # by no proof
