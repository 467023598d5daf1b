"""The steps of the workflow for pull requests, on this project with a changed silver model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, make_home
from deploy.runner import stub_gh

from icegate.catalog import list_relations, read_metadata
from icegate.settings import Lake
from icegate.tables.metadata import columns, current_snapshot
from landing_data.generate import generate
from landing_data.plan import Plan

pytestmark = pytest.mark.long

LEFT_OUT = (".git", ".venv", ".icegate", "target", "logs", "dbt_packages", "landing", "__pycache__")


class Runner:
    """The machine of a runner: a lake, the project as deployed, and the checkout of a change."""

    def __init__(self, folder: Path) -> None:
        self.home = make_home(folder / "a home")
        self.lake = Lake(home=self.home, warehouse=self.home / "warehouse")
        self.production, self.checkout = folder / "production", folder / "checkout"
        for copy in (self.production, self.checkout):
            shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
            (copy / ".venv").symlink_to(ROOT / ".venv")
        landing, programs = folder / "landing", folder / "bin"
        generate(Plan(landing, customers=150, products=60, orders=900), [], lambda path, rows: None)
        stub_gh(programs)
        own = {name: text for name, text in os.environ.items() if not name.startswith("DBT_")}
        self.environ = own | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ICEGATE_LANDING": str(landing),
            "ICEGATE_HOME": str(self.home),
            "PRODUCTION": str(self.production),
            "ICEGATE_ENV": "pr_12",
            "NUMBER": "12",
        }

    def run(self, script: str, folder: Path) -> str:
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(
            command, cwd=folder, env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def steps(self, job: str) -> list[dict[str, Any]]:
        workflow = yaml.safe_load((ROOT / ".github/workflows/pull-request.yml").read_text())
        found = [step for step in workflow["jobs"][job]["steps"] if "run" in step]
        return [step for step in found if step["name"] != "setup"]

    def outside(self) -> dict[str, str]:
        entries = list_relations(self.lake)
        return {e.full_name: e.metadata_location for e in entries if e.namespace[:5] != "pr_12"}


def test_the_steps_of_the_workflow(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    untested = "--exclude-resource-type test unit_test"
    build = "python_jobs/run_dbt.py --standins-allowed -- build"
    runner.run(f".venv/bin/python {build} {untested}", runner.production)
    before = runner.outside()
    model = runner.checkout / "models/silver/commerce/curated_products.sql"
    changed = "    description,\n    length(description) as description_length,\n"
    model.write_text(model.read_text().replace("    description,\n", changed))
    for step in runner.steps("build"):
        runner.run(step["run"], runner.checkout)
    built = {e.full_name: e for e in list_relations(runner.lake) if e.namespace[:5] == "pr_12"}
    assert {"pr_12_silver.curated_products", "pr_12_gold.dim_products"} <= built.keys()
    assert "pr_12_silver.curated_orders" not in built  # it's read from production
    products = read_metadata(built["pr_12_silver.curated_products"])
    assert "description_length" in [column["name"] for column in columns(products)]
    theirs = next(
        e for e in list_relations(runner.lake) if e.full_name == "silver.curated_products"
    )
    assert rows(products) == rows(read_metadata(theirs)) > 0  # as it goes on from there
    assert runner.outside() == before
    assert "description_length" in (runner.checkout / "diff.md").read_text()
    assert "pr comment 12" in (runner.checkout / "gh.log").read_text()
    for step in runner.steps("drop"):
        runner.run(step["run"], runner.checkout)
    assert not [e for e in list_relations(runner.lake) if e.namespace.startswith("pr_12")]
    assert runner.outside() == before
    listed = json.loads(runner.run(".venv/bin/icegate env list --json", runner.checkout))
    assert listed == {"environments": []}


def rows(metadata: dict[str, Any]) -> int:
    return int(current_snapshot(metadata)["summary"]["total-records"])
