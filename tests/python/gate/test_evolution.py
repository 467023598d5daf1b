"""A column that is renamed behind the gate: readers have the old one until it's published."""

from __future__ import annotations

from typing import Any

import pytest

from gate.gated import GatedProject
from icegate.gate.compare import diff
from icegate.tables.metadata import by_id

pytestmark = pytest.mark.slow


def ids(gated: GatedProject, table: str) -> dict[str, int]:
    found = gated.metadata(table)
    schema = by_id(found["schemas"], "schema-id", found["current-schema-id"])
    return {field["name"]: field["id"] for field in schema["fields"]}


def declare(gated: GatedProject) -> None:
    column = {"name": "total", "data_tests": ["not_null"], "meta": {"renamed_from": "amount"}}
    gated.write_yaml("models/_models.yml", {"models": [{"name": "events", "columns": [column]}]})


@pytest.mark.parametrize("kind", ["incremental", "table"])
def test_a_rename_is_seen_at_publish(gated: GatedProject, kind: str) -> None:
    config: dict[str, Any] = {"materialized": kind, "on_schema_change": "sync_all_columns"}
    gated.model("events", "select 1 as id, 5 as amount", **config)
    gated.model("below", "select * from {{ ref('events') }}")
    assert gated.dbt("build").ok
    old, uuid = ids(gated, "events"), gated.metadata("events")["table-uuid"]
    declare(gated)
    gated.model("events", "select 2 as id, cast(null as int) as total", **config)
    for _ in range(2):  # held back, and tried once more
        assert not gated.dbt("build").ok
        assert gated.seen("events") == [(1, 5)] and ids(gated, "events") == old
        assert gated.columns("below") == ["id", "amount"]
    gated.model("events", "select 2 as id, 6 as total", **config)
    for times in (1, 2):
        run = gated.dbt("build")
        assert run.ok, run.text
        rows = [(2, 6)] if kind == "table" else [(1, 5), *[(2, 6)] * times]
        assert gated.seen("events") == rows
        assert ids(gated, "events") == {"id": old["id"], "total": old["amount"]}
    assert gated.columns("below") == ["id", "total"] and gated.staged() == []
    assert gated.metadata("events")["table-uuid"] == uuid
    (changed,) = [t for t in diff(gated.lake, "1", "main") if t["table"].endswith(".events")]
    assert changed["columns_renamed"] == ["amount -> total"]
    assert changed["columns_added"] == changed["columns_dropped"] == []
    query = "select id, amount from {s}.events version as of 'release_1'"
    assert gated.rows(query) == [(1, 5)]


def test_what_would_lose_a_column_stops_before_it_is_staged(gated: GatedProject) -> None:
    config = {"materialized": "incremental", "on_schema_change": "sync_all_columns"}
    gated.model("events", "select 1 as id, 5 as amount", **config)
    gated.model("prices", "select 1 as id, 5 as amount", allow_destructive=False)
    assert gated.dbt("build").ok
    before = {name: gated.metadata(name) for name in ("events", "prices")}
    gated.model("events", "select 2 as id", **config)
    gated.model("prices", "select 2 as id", allow_destructive=False)
    run = gated.dbt("build")
    assert not run.ok
    for name in before:
        assert f"cannot drop column amount of model {name}" in run.message[name], run.text
    assert {name: gated.metadata(name)["schemas"] for name in before} == {
        name: old["schemas"] for name, old in before.items()
    }
    assert gated.seen("events") == gated.seen("prices") == [(1, 5)] and gated.staged() == []
