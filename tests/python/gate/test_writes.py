"""Writes that are sure of themselves: a lost reply, one node at a time, rows of one release."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from gate.gated import GatedProject
from icegate.gate import writes
from icegate.gate.build import Build

pytestmark = pytest.mark.slow

LOST = "org.apache.iceberg.exceptions.CommitStateUnknownException: the reply was lost"


def lose_reply(monkeypatch: pytest.MonkeyPatch, session: Any, before: bool) -> list[str]:
    """Break the connection once, before or after the first insert was committed."""
    lost: list[str] = []
    kind = type(session)
    original = kind.sql

    def sql(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        loses = (
            not lost and query.lstrip().lower().startswith(("insert", "/*")) and "insert" in query
        )
        if loses and before:
            lost.append(query)
            raise RuntimeError(LOST)
        found = original(self, query, *args, **kwargs)
        if loses:
            lost.append(query)
            raise RuntimeError(LOST)
        return found

    monkeypatch.setattr(kind, "sql", sql)
    return lost


@pytest.mark.parametrize("before", [False, True])
def test_a_lost_reply_is_looked_up(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    gated.values("events", 10, materialized="incremental", incremental_strategy="append")
    assert gated.dbt("build").ok
    lost = lose_reply(monkeypatch, gated.spark, before)
    run = gated.dbt("build")
    assert len(lost) == 1
    assert run.ok is not before
    assert len(gated.seen("events")) == (1 if before else 2)  # once, whatever happened


@pytest.mark.own_files
def test_each_commit_tells_whose_it_is(gated: GatedProject) -> None:
    gated.values("events", 10)
    assert gated.dbt("build").ok
    metadata = gated.metadata("events")
    (event,) = gated.events()
    summary = metadata["snapshots"][-1]["summary"]
    assert summary["icegate.build"] == event.build
    assert summary["icegate.invocation"] == event.invocation_id
    assert summary["icegate.release"] == "1"
    assert summary["icegate.node"] == "model.t.events"
    gated.model("events", "select 1 as id, 'one' as amount")  # built beside, and taken over
    assert gated.dbt("build").ok
    old, *_, new = (snapshot["summary"] for snapshot in gated.metadata("events")["snapshots"])
    assert (old["icegate.release"], new["icegate.release"]) == ("1", "2")
    assert new["icegate.node"] == "model.t.events"


def test_batches_of_one_model_write_in_turns(gated: GatedProject) -> None:
    """Else another batch's commit would pass for the one whose reply was lost."""
    build, order = Build("0a1b2c3d", "x", False), []

    def write(name: str) -> None:
        with writes.writing(gated.lake, build, "s.events"):
            order.append(name)
            time.sleep(0.2)
            order.append(name)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order[::2] == order[1::2]


def test_processes_of_one_build_write_a_table_in_turns(gated: GatedProject) -> None:
    gated.values("events", 10)
    assert gated.dbt("build").ok
    build, order = Build("nightly", "x", True), []

    def write(name: str, wait_s: float) -> None:
        with writes.writing(gated.lake, build, f"{gated.schema}.events"):
            order.append(f"{name} begins")
            time.sleep(wait_s)
            order.append(f"{name} ends")

    threads = [threading.Thread(target=write, args=(name, 0.3)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert order == ["a begins", "a ends", "b begins", "b ends"]


def test_tables_are_joined_as_of_one_release(gated: GatedProject) -> None:
    gated.values("orders", 10)
    gated.model("joined", "select max(amount) as amount from {{ as_of(ref('orders'), 1) }} as o")
    assert gated.dbt("run", "--select", "orders").ok
    gated.values("orders", 20)
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 20)]
    assert gated.seen("joined") == [(10,)]
    gated.model("joined", "select * from {{ as_of(ref('orders'), release=9) }}")
    run = gated.dbt("build", "--select", "joined")
    assert "cannot read" in run.text and "as of release 9" in run.text
    assert "why: there is no such release: the last one is 2" in run.text


def test_a_table_that_another_process_of_the_build_made_is_not_doubled(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when both listed the tables before either had made it."""
    from dbt.adapters.icegate.impl import IcegateAdapter

    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.values("events", 10, materialized="incremental", incremental_strategy="append")
    assert gated.dbt("run").ok
    monkeypatch.setattr(IcegateAdapter, "get_relation", lambda *args, **kwargs: None)
    assert gated.dbt("run").ok
    assert gated.waiting("events") == [(1, 10)]
