"""The workflows of deploy/github/, and their steps in a project as `icegate init` makes it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, make_home

from deploy.runner import WORKFLOWS, Ran, Runner
from icegate.catalog import list_relations
from icegate.cli.init import create_project
from icegate.settings import Lake

FILES = ("pull-request.yml", "main.yml")
# As docs/environments.md shows it.
PR_TARGET = """
    pr:
      type: icegate
      schema: "{{ env_var('ICEGATE_ENV') }}"
      ansi: true
      spark_conf: {spark.sql.session.timeZone: UTC}
"""


@pytest.fixture(scope="module", params=FILES)
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    content: dict[Any, Any] = yaml.safe_load((WORKFLOWS / request.param).read_text())
    return {"on": content.pop(True), **content}  # YAML takes the key `on` for true


def test_each_job_may_read_and_no_more_than_it_needs(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        comments = {"contents": "read", "pull-requests": "write"} if name == "compare" else None
        assert job.get("permissions") == comments
        assert 0 < job["timeout-minutes"] <= 120
    assert "pull_request_target" not in workflow["on"]


def test_actions_are_pinned_and_leave_no_token(workflow: dict[str, Any]) -> None:
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert steps
    for step in steps:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
        if "checkout" in step["uses"]:
            assert step["with"] == {"persist-credentials": False}


def test_production_is_built_by_one_job_at_a_time() -> None:
    production = yaml.safe_load((WORKFLOWS / "main.yml").read_text())
    assert production["concurrency"] == {"group": "production", "cancel-in-progress": False}
    assert [*production["jobs"]] == ["build"]
    assert production["jobs"]["build"]["environment"] == "production"


def test_secrets_are_in_the_environment_only_and_only_where_they_are_used() -> None:
    assert "secrets." not in (WORKFLOWS / "pull-request.yml").read_text()
    production = yaml.safe_load((WORKFLOWS / "main.yml").read_text())
    (job,) = production.pop("jobs").values()
    steps = job.pop("steps")
    secret = {"DBT_ENV_SECRET_CATALOG_PASSWORD": "${{ secrets.CATALOG_PASSWORD }}"}
    assert "secrets." not in str(production) + str(job)
    assert {step["name"] for step in steps if step.get("env") == secret} == {
        *("build", "maintain", "report")
    }
    # Text of an event in a command would be run as one: it comes by variables.
    commands = [step.pop("run") for step in steps if "run" in step]
    commands += [
        step["run"]
        for each in yaml.safe_load((WORKFLOWS / "pull-request.yml").read_text())["jobs"].values()
        for step in each["steps"]
        if "run" in step
    ]
    assert len(commands) > 10 and not any("${{" in command for command in commands)


@pytest.mark.parametrize("folder", [WORKFLOWS, ROOT / ".github" / "workflows"])
def test_code_of_strangers_runs_on_no_runner_of_yours(folder: Path) -> None:
    jobs = yaml.safe_load((folder / "pull-request.yml").read_text())["jobs"]
    for name, job in jobs.items():
        own = "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
        assert own == ("self-hosted" in job["runs-on"]), name


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner's folder in which the step `install` has run, with this checkout as Icegate."""
    folder = tmp_path_factory.mktemp("runner")
    checkout = folder / "checkout"
    checkout.mkdir()
    locked = f"-c {ROOT / 'requirements' / 'lock.txt'}\n"
    (checkout / "requirements.txt").write_text(f"{locked}icegate @ {ROOT.as_uri()}\n")
    runner = Runner(folder, checkout, {})
    ran = runner.run(
        "pull-request.yml", "build", but=("packages", "lint", "doctor", "build", "report")
    )
    assert ran.codes == {"install": 0}, ran.text[-3000:]
    return runner.temp


@pytest.fixture
def new_runner(installed: Path, tmp_path: Path) -> Callable[..., Runner]:
    """What makes a runner whose checkout is a new project; ``home`` is production's lake."""

    def make(name: str, home: Path | None = None) -> Runner:
        checkout = tmp_path / name
        create_project(checkout, "my_shop")
        with (checkout / "profiles.yml").open("a") as profiles:
            profiles.write(PR_TARGET.lstrip("\n"))
        given = {"github.event.number": "12", "vars.ICEGATE_HOME": str(home or "")}
        runner = Runner(tmp_path / f"{name} runner", checkout, given)
        shutil.copy(installed / "path", runner.temp / "path")
        if home is None:
            make_home(checkout / ".icegate")
        return runner

    return make


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Production's, empty."""
    home = make_home(tmp_path / "a lake")
    return Lake(home=home, warehouse=home / "warehouse")


def check(ran: Ran, failed: tuple[str, ...] = ()) -> str:
    assert {name for name, code in ran.codes.items() if code} == {*failed}, ran.text[-4000:]
    return ran.text


def plant_a_bad_order(checkout: Path) -> None:
    orders = checkout / "seeds" / "landed_orders.csv"
    orders.write_text(
        orders.read_text() + "O-6,tea,0,4.80,2026-01-04 09:00:00,2026-01-04 09:00:00\n"
    )


@pytest.mark.long
def test_a_pull_request_is_built_on_a_lake_of_its_own(new_runner: Callable[..., Runner]) -> None:
    runner = new_runner("checkout")
    (runner.checkout / ".sqlfluff").write_text(
        "[sqlfluff]\ndialect = sparksql\ntemplater = jinja\nmax_line_length = 100\n"
        "exclude_rules = AL05, AM04, RF04, ST06\n"
        "[sqlfluff:templater:jinja]\napply_dbt_builtins = True\n"
    )
    ran = runner.run("pull-request.yml", "build", but=("install",))
    said = check(ran)
    assert [*ran.codes] == ["packages", "lint", "doctor", "build", "report"]
    assert "All Finished" in said and "Completed successfully" in said and "release 1:" in said
    assert "my_shop" in (runner.checkout / "target" / "trust.html").read_text()


@pytest.mark.long
def test_a_pull_request_that_fails_a_test_says_which(new_runner: Callable[..., Runner]) -> None:
    runner = new_runner("checkout")
    plant_a_bad_order(runner.checkout)
    ran = runner.run("pull-request.yml", "build", but=("install",))
    said = check(ran, failed=("build",))
    assert "Failure in test assert_order_totals_are_positive" in said
    assert "Got 1 result, configured to fail if != 0" in said
    assert "held back" in said
    assert ran.codes["report"] == 0  # the page comes all the same
    assert (runner.checkout / "target" / "trust.html").is_file()


@pytest.mark.long
def test_production_is_built_and_a_pull_request_compared_with_it(
    new_runner: Callable[..., Runner], lake: Lake
) -> None:
    production = new_runner("production", lake.home)
    ran = production.run("main.yml", "build", but=("install",))
    check(ran)
    assert [*ran.codes] == ["packages", "build", "keep", "maintain", "report"]
    before = tables(lake)
    assert before["silver.curated_orders"]
    kept = json.loads((lake.home / "production" / "manifest.json").read_text())
    assert "model.my_shop.curated_orders" in kept["nodes"]

    change = new_runner("change", lake.home)
    model = change.checkout / "models" / "silver" / "curated_orders.sql"
    model.write_text(
        model.read_text().replace("    updated_at,\n", "    updated_at,\n    1 as one,\n")
    )
    check(change.run("pull-request.yml", "compare", but=("install",)))
    assert "one" in (change.checkout / "diff.md").read_text()
    assert "pr comment 12 --body-file diff.md" in (change.checkout / "gh.log").read_text()
    during = tables(lake)
    assert {"pr_12_silver.curated_orders", "pr_12_gold.agg_expected_sales"} <= during.keys()
    assert before.items() <= during.items()
    check(change.run("pull-request.yml", "drop", but=("install",)))
    assert tables(lake) == before


@pytest.mark.long
def test_production_keeps_what_readers_have_when_a_test_fails(
    new_runner: Callable[..., Runner], lake: Lake
) -> None:
    check(new_runner("good", lake.home).run("main.yml", "build", but=("install",)))
    before = tables(lake)
    kept = (lake.home / "production" / "manifest.json").read_bytes()
    bad = new_runner("bad", lake.home)
    plant_a_bad_order(bad.checkout)
    ran = bad.run("main.yml", "build", but=("install",))
    said = check(ran, failed=("build",))
    assert "keep" not in ran.codes and "maintain" not in ran.codes
    assert "held back since release 1: a test failed on silver.curated_orders" in said
    assert (lake.home / "production" / "manifest.json").read_bytes() == kept
    assert "old" in said.partition("== report")[2]
    assert tables(lake).keys() == before.keys()


def tables(lake: Lake) -> dict[str, str]:
    """Return where each table's metadata is, but for the gate's own."""
    entries = list_relations(lake)
    return {e.full_name: e.metadata_location for e in entries if e.namespace != "icegate"}
