"""What models say of a table's past, in a build behind the gate and without it."""

from __future__ import annotations

import pytest
from conftest import DbtProject

from dbt.adapters.icegate.gate import Gate
from gate.gated import GatedProject
from icegate.gate.staging import NAMESPACE, final_names

# Each builds real tables and their versions, some seconds a test.
pytestmark = pytest.mark.slow

CHANGED = "select * from {{ changes_between(ref('orders'), %s, key='id') }} as c"

KEPT = {"materialized": "history", "unique_key": "id"}
VERSIONS = "select id, amount, is_current, is_deleted, change from {s}.past order by id, valid_from"


def test_a_model_reads_what_a_build_behind_the_gate_changes(gated: GatedProject) -> None:
    gated.values("orders", 10, 20, 30)
    gated.model("changed", CHANGED % "'release_1'")
    gated.model("opening", "select * from {{ as_of(ref('orders'), tag='release_1') }}")
    assert gated.dbt("run", "--select", "orders").ok
    # The newer version is what this build has written, which readers don't see before its tests.
    gated.values("orders", 10, 25)
    gated.tests(orders={"amount": ["not_null"]})
    assert gated.dbt("build").ok
    assert gated.seen("opening") == [(1, 10), (2, 20), (3, 30)]
    assert gated.seen("changed") == [
        ("delete", 3, 30),
        ("update_after", 2, 25),
        ("update_before", 2, 20),
    ]


def test_a_model_reads_what_a_clone_of_its_table_changes(gated: GatedProject) -> None:
    gated.values("orders", 10, 20)
    gated.model("changed", CHANGED % "'release_1'")
    gated.model("opening", "select * from {{ as_of(ref('orders'), release=1) }}")
    assert gated.dbt("run", "--select", "orders").ok
    # A new column can't be on a branch, so the table is built beside.
    gated.model("orders", "select 1 as id, 10 as amount, 'new' as note")
    assert gated.dbt("build").ok
    assert gated.seen("opening") == [(1, 10), (2, 20)]
    assert gated.seen("changed") == [
        ("delete", 2, 20, None),
        ("update_after", 1, 10, "new"),
        ("update_before", 1, 10, None),
    ]


def test_a_rejected_build_leaves_what_changed_unpublished(gated: GatedProject) -> None:
    gated.values("orders", 10)
    gated.tests(orders={"amount": ["not_null"]})
    gated.model("changed", CHANGED % "'release_1'")
    assert gated.dbt("run", "--select", "orders").ok
    gated.values("orders", None)
    assert not gated.dbt("build").ok
    assert "changed" not in gated.tables()
    assert gated.seen("orders") == [(1, 10)]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (CHANGED % "'relaese_1'", "has no tag or branch of this name"),
        (CHANGED.replace("'id'", "'idd'") % "'now'", "it has no column 'idd'"),
        ("select * from {{ as_of(ref('orders'), tag='now', snapshot=1) }}", "takes one thing"),
        ("select * from {{ as_of(ref('seen'), tag='now') }}", "a view has no versions"),
    ],
)
def test_a_model_that_asks_wrongly_says_so(project: DbtProject, sql: str, why: str) -> None:
    config = "{{ config(materialized='table') }}"
    project.write("models/orders.sql", f"{config} select 1 as id")
    project.write("models/seen.sql", "{{ config(materialized='view') }} select 1 as id")
    assert project.dbt("run").ok
    project.spark.sql(f"alter table {project.schema}.orders create tag now")
    project.write("models/asked.sql", f"-- depends_on: {{{{ ref('seen') }}}}\n{config} {sql}")
    run = project.dbt("run", "--select", "asked")
    assert not run.ok
    assert why in run.text
    assert "fix: " in run.text


def test_a_history_behind_the_gate(gated: GatedProject) -> None:
    gated.values("orders", 10, 20)
    gated.model("past", "select * from {{ ref('orders') }}", **KEPT)
    gated.tests(orders={"amount": ["not_null"]})
    assert gated.dbt("build").ok
    # What a test refuses isn't in the history either, nor does the next build miss anything.
    gated.values("orders", 15, None)
    assert not gated.dbt("build").ok
    gated.values("orders", 11)
    run = gated.dbt("build")
    assert run.ok, run.text
    gated.values("orders", 12)
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.rows(VERSIONS) == [
        (1, 10, False, False, "insert"),
        (1, 11, False, False, "update"),
        (1, 12, True, False, "update"),
        (2, 20, False, True, "insert"),
    ]


def test_an_iceberg_that_reads_the_past_of_clones_alone(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As 1.10 is, which tests/python/targets have: this one would read both."""
    monkeypatch.setattr(Gate, "iceberg", (1, 10))
    gated.values("orders", 10, 20)
    gated.model("past", "select * from {{ ref('orders') }}", **KEPT)
    gated.model("changed", CHANGED % "'release_1'")
    gated.model("opening", "select * from {{ as_of(ref('orders'), release=1) }}")
    gated.tests(orders={"amount": ["not_null"]})
    assert gated.dbt("run", "--select", "orders", "past").ok
    for amount in (None, 11):
        gated.values("orders", 10, amount)
        run = gated.dbt("build")
        assert run.ok == (amount is not None), run.text
        assert gated.staged() == []
    assert gated.rows(VERSIONS)[1:] == [
        (2, 20, False, False, "insert"),
        (2, 11, True, False, "update"),
    ]
    assert gated.seen("opening") == [(1, 10), (2, 20)]
    assert gated.seen("changed") == [("update_after", 2, 11), ("update_before", 2, 20)]
    compiled = next(gated.folder.glob("target/compiled/**/opening.sql")).read_text()
    assert f"from {NAMESPACE}.{gated.schema}__past_" in compiled
    assert f"from {gated.schema}.orders version as of" in final_names(compiled, {})


def test_a_new_column_behind_the_gate(gated: GatedProject) -> None:
    gated.values("orders", 10)
    gated.model("past", "select * from {{ ref('orders') }}", **KEPT)
    assert gated.dbt("build").ok
    gated.model("orders", "select 1 as id, 10 as amount, 'new' as note")
    run = gated.dbt("build")
    assert run.ok, run.text
    told = "select id, note, is_current from {s}.past order by valid_from"
    assert gated.rows(told) == [(1, None, False), (1, "new", True)]
    gated.model("orders", "select 2 as id, 10 as amount, 'new' as note")
    run = gated.dbt("build")
    assert run.ok, run.text
    told = "select id, note, is_current, is_deleted from {s}.past order by id, valid_from"
    assert gated.rows(told) == [
        (1, None, False, False),
        (1, "new", False, True),
        (2, "new", True, False),
    ]
