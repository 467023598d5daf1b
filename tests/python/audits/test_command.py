"""`icegate audit` says of each test what `dbt test` says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import DbtProject
from typer.testing import CliRunner

from icegate.audits.tests import read_tests
from icegate.cli.main import app
from icegate.errors import ConfigError
from icegate.settings import Lake

pytestmark = pytest.mark.slow

MODELS = {
    "orders": "select id, if(id = 3, null, id) as customer, 'open' as status from range(5)",
    "customers": "select id from range(3)",
}
TESTS = """
models:
  - name: orders
    columns:
      - name: id
        data_tests: [unique, not_null]
      - name: customer
        data_tests:
          - not_null
          - not_null: {name: some_may_be_null, config: {error_if: '> 1', warn_if: '> 0'}}
          - not_null: {name: only_warns, config: {severity: warn}}
          - not_null: {name: none_of_the_first, config: {where: id < 3}}
          - relationships: {arguments: {to: ref('customers'), field: id}}
          - relationships:
              name: at_most_one_is_told
              arguments: {to: ref('customers'), field: id}
              config: {limit: 1, severity: warn}
      - name: status
        data_tests:
          - accepted_values: {arguments: {values: [open, closed]}}
          - accepted_values:
              name: asked_of_the_sum
              arguments: {values: [closed]}
              config: {fail_calc: sum(n_records)}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, lake: Lake, spark: Any) -> DbtProject:
    """A project that was built; no test changes it."""
    project = DbtProject(tmp_path_factory.mktemp("audits") / "a project", lake, spark)
    write_shop(project)
    project.dbt("build")
    return project


def write_shop(project: DbtProject) -> None:
    """Write two models, and tests of which each engine has some."""
    project.configure(models={"+materialized": "table"})
    for name, sql in MODELS.items():
        project.write(f"models/{name}.sql", sql)
    project.write("models/_models.yml", TESTS)
    of_spark = "select 1 from {{ ref('orders') }} where hash(id) = 0"
    project.write("tests/only_spark_knows.sql", of_spark)


def audit(project: DbtProject, *options: str) -> Any:
    folders = ["--project-dir", str(project.folder), "--profiles-dir", str(project.folder)]
    return CliRunner().invoke(app, ["audit", *folders, *options], catch_exceptions=False)


def test_it_says_what_dbt_says(shop: DbtProject) -> None:
    stock = shop.dbt("test")
    ran = audit(shop, "--json")
    told = {test["test"]: test for test in json.loads(ran.stdout)["tests"]}
    assert {name: test["result"] for name, test in told.items()} == stock.status
    assert ran.exit_code == 1
    assert {test["proof"] for test in told.values()} == {
        "metadata", "added rows (0 of 2 files)", "scan (duckdb)", "scan (spark)"
    }  # fmt: skip
    rows = json.loads((shop.folder / "target" / "run_results.json").read_text())["results"]
    for row in rows:
        name = row["unique_id"].split(".")[2]
        # Of a test that passes dbt leaves its failures out.
        assert told[name]["result"] == "pass" or told[name]["failures"] == row["failures"]


def test_people_get_a_table_and_a_last_line(shop: DbtProject) -> None:
    ran = audit(shop, "--select", "unique_*", "--select", "only_spark_knows", "--explain")
    assert ran.exit_code == 0
    assert ran.stdout.splitlines()[-1] == "2 pass · 1 by added rows, 1 by scan (spark)"
    assert "may mean something else there than to Spark" in ran.stdout, ran.stdout


def test_a_model_selects_its_tests(shop: DbtProject) -> None:
    assert len(read_tests(shop.folder, ["orders"])) == 10
    assert len(read_tests(shop.folder, [f"{shop.schema}.*"])) == 10
    with pytest.raises(ConfigError, match="cannot find a test for 'order'") as raised:
        read_tests(shop.folder, ["order"])
    assert "orders" in raised.value.fix


def test_a_table_that_is_gone_is_an_error(shop: DbtProject, spark: Any) -> None:
    spark.sql(f"alter table {shop.schema}.customers rename to {shop.schema}.moved")
    ran = audit(shop, "--select", "relationships_*")
    spark.sql(f"alter table {shop.schema}.moved rename to {shop.schema}.customers")
    assert ran.exit_code == 1
    assert "1 error" in ran.stdout
    assert "TABLE_OR_VIEW_NOT_FOUND" in ran.stdout


def test_a_test_that_a_build_skipped_is_an_error_and_the_others_run(shop: DbtProject) -> None:
    path = shop.folder / "target" / "manifest.json"
    whole = path.read_text()
    manifest = json.loads(whole)
    skipped = next(n for id, n in manifest["nodes"].items() if ".only_spark_knows" in id)
    skipped["compiled_code"] = None
    path.write_text(json.dumps(manifest))
    try:
        ran = audit(shop, "--select", "unique_*", "--select", "only_spark_knows")
        with pytest.raises(ConfigError, match="cannot run test only_spark_knows") as alone:
            audit(shop, "--select", "only_spark_knows")
    finally:
        path.write_text(whole)
    assert ran.exit_code == 1
    assert "only_spark_knows: cannot run test only_spark_knows" in ran.stdout, ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("1 error, 1 pass"), ran.stdout
    assert "dbt compile" in alone.value.fix


def test_without_compiled_tests_it_says_what_to_do(project: DbtProject) -> None:
    with pytest.raises(ConfigError) as raised:
        read_tests(project.folder, [])
    assert "dbt compile" in raised.value.fix
