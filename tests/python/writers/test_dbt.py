"""Writers that meet in a run of dbt: what is written, logged, kept in the ledger and reported."""

from __future__ import annotations

import html
import json
import threading
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject
from gate.gated import GatedProject
from pyiceberg.exceptions import CommitFailedException

from icegate import retries
from icegate.session import start_session
from icegate.settings import Lake
from icegate.trust.engineers import APART
from icegate.trust.facts import Facts, read_facts
from icegate.trust.page import render

pytestmark = pytest.mark.slow

LOST = "org.apache.iceberg.exceptions.CommitStateUnknownException: the reply was lost"
CONFLICT = "org.apache.iceberg.exceptions.ValidationException: Found conflicting files"


@pytest.fixture
def gated(tmp_path: Path, own_lake: Lake, spark: Any) -> GatedProject:
    return GatedProject(tmp_path / "a project", own_lake, start_session(own_lake), gate=True)


def build_among_writers(project: GatedProject) -> None:
    """Merge into a table, while someone else appends to it until they have met."""
    project.values("other", 1)
    merged = {"materialized": "incremental", "incremental_strategy": "merge", "unique_key": "id"}
    # A merge names the keys of its batch, so that others meet it only between them.
    rows = "select id, cast(1 as int) as amount from values (1), (1000000) as t(id)"
    project.model("shared", rows, gate=False, **merged)
    run = project.dbt("build")
    assert run.ok, run.text
    log, ended, added = project.folder / "logs/dbt.log", threading.Event(), list[int]()
    log.unlink()

    def append() -> None:
        while not ended.is_set() and not (log.exists() and "conflict table=" in log.read_text()):
            with suppress(CommitFailedException):  # the merge came first
                project.append("shared", {"id": 1000 + len(added), "amount": 0})
                added.append(1)

    writer = threading.Thread(target=append)
    writer.start()
    run = project.dbt("build")
    ended.set()
    writer.join()
    assert run.ok, run.text
    rows = project.seen("shared")
    assert len(rows) == len(dict(rows)) == 2 + len(added)


def responses(project: DbtProject) -> dict[str, Any]:
    found = json.loads((project.folder / "target/run_results.json").read_text())
    return {r["unique_id"].split(".")[2]: r["adapter_response"] for r in found["results"]}


def facts(project: DbtProject) -> Facts:
    return read_facts(project.lake, project.folder, "t", datetime.now(timezone.utc))


def test_conflicts_are_in_the_log_the_ledger_and_the_report(gated: GatedProject) -> None:
    build_among_writers(gated)
    response = responses(gated)["shared"]
    # A wait is of up to a second, by chance, and told in tenths: it may be none.
    assert response["conflicts"] > 0 and response["waited_s"] >= 0 and response["how"] in APART
    log = (gated.folder / "logs/dbt.log").read_text().replace("`", "")
    assert f"conflict table={gated.schema}.shared how=" in log
    nodes = {node["name"]: node for node in gated.last_detail()["report"]["nodes"]}
    assert {key: nodes["shared"][key] for key in ("conflicts", "waited_s", "how")} == {
        key: response[key] for key in ("conflicts", "waited_s", "how")
    }
    assert nodes["other"]["conflicts"] == 0
    told = facts(gated)
    assert told.engineers is not None
    (finding,) = told.engineers.writers
    assert finding.about == f"{gated.schema}.shared"
    assert "met other writers" in finding.what and APART[response["how"]] in finding.what
    assert finding.what in html.unescape(render(told))


def test_without_the_gate_the_report_tells_of_the_last_run(gated: GatedProject) -> None:
    gated.retarget(gate=False)
    build_among_writers(gated)
    told = facts(gated).engineers
    assert told is not None
    (finding,) = told.writers
    assert f"met other writers {responses(gated)['shared']['conflicts']} time" in finding.what


@pytest.mark.parametrize("is_committed", [True, False])
def test_without_the_gate_a_lost_reply_is_looked_up(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    project.write("models/a.sql", "{{ config(materialized='incremental') }} select 1 as id")
    assert project.dbt("run").ok
    original, lost = type(project.spark).sql, list[str]()

    def sql(self: Any, query: str, *args: Any, **options: Any) -> Any:
        loses = not lost and "insert into" in query
        found = original(self, query, *args, **options) if is_committed or not loses else None
        if loses:
            lost.append(query)
            raise RuntimeError(LOST)
        return found

    monkeypatch.setattr(type(project.spark), "sql", sql)
    run = project.dbt("run")
    assert lost and run.ok is is_committed, run.text
    assert len(project.rows("select * from {s}.a")) == 1 + is_committed


def test_a_hook_that_meets_a_writer_is_run_again(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = "update {{ this }} set n = n + 1"
    config = f"materialized='table', post_hook='{hook}'"
    project.write("models/a.sql", f"{{{{ config({config}) }}}} select 1 as id, 1 as n")
    original, met = type(project.spark).sql, list[str]()

    def sql(self: Any, query: str, *args: Any, **options: Any) -> Any:
        if "update" in query and len(met) < 2:
            met.append(query)
            raise RuntimeError(CONFLICT)
        return original(self, query, *args, **options)

    monkeypatch.setattr(type(project.spark), "sql", sql)
    monkeypatch.setattr(retries, "LONGEST_S", 0)
    run = project.dbt("run")
    assert run.ok and len(met) == 2, run.text
    assert project.rows("select n from {s}.a") == [(2,)]
    assert responses(project)["a"]["conflicts"] == 2
