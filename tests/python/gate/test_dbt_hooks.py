"""What is no node's table goes straight to main, and is there after a rejected build too."""

from __future__ import annotations

import shutil

import pytest
from conftest import ROOT

from gate.gated import GatedProject

pytestmark = pytest.mark.slow

LOG = "insert into {{ target.schema }}.log values "
GROWS = {"materialized": "incremental", "incremental_strategy": "append"}
NOTE = """
    {% macro note(what) %}
        {% do run_query("insert into " ~ target.schema ~ ".log values ('" ~ what ~ "')") %}
    {% endmacro %}
"""


def logged(project: GatedProject) -> list[str]:
    return [what for (what,) in project.seen("log")]


@pytest.fixture
def hooked(gated: GatedProject) -> GatedProject:
    """A project whose hooks all write to a table, of which no model knows."""
    gated.write("macros/note.sql", NOTE)
    gated.configure(**{
        "on-run-start": [
            "create schema if not exists {{ target.schema }}",
            "create table if not exists {{ target.schema }}.log (what string)",
            LOG + "('start')",
        ],
        "on-run-end": [LOG + "('end {{ results | map(attribute='status') | join(' ') }}')"],
    })  # fmt: skip
    hooks = {"pre_hook": [LOG + "('pre')"], "post_hook": [LOG + "('post')"]}
    gated.values("orders", None, **hooks)
    gated.model("report", "select * from {{ ref('orders') }}")
    gated.tests(orders={"amount": [{"not_null": {"config": {"store_failures": True}}}]})
    return gated


def test_hooks_and_stored_failures_survive_a_rejected_build(hooked: GatedProject) -> None:
    run = hooked.dbt("build")
    assert not run.ok and hooked.seen("orders") == []
    assert logged(hooked) == ["end success fail skipped", "post", "pre", "start"]
    own, hooked.schema = hooked.schema, f"{hooked.schema}_dbt_test__audit"
    assert hooked.seen("not_null_orders_amount") == [(1, None)]
    assert not hooked.is_wap("not_null_orders_amount")
    hooked.schema = own
    assert not hooked.is_wap("log") and hooked.builds("log") == []


def test_run_operation_writes_main(hooked: GatedProject) -> None:
    assert not hooked.dbt("build").ok
    before = len(hooked.events())
    run = hooked.dbt("run-operation", "note", "--args", "{what: by hand}")
    assert run.ok, run.text
    assert "by hand" in logged(hooked)
    assert run.notes == "" and len(hooked.events()) == before


def test_a_hook_that_fails_at_the_start_publishes_nothing(hooked: GatedProject) -> None:
    hooked.configure(**{"on-run-start": ["select * from nowhere"]})
    run = hooked.dbt("build")
    assert not run.ok and "orders" not in hooked.tables()


def test_a_hook_that_fails_at_the_end_changes_no_verdict(hooked: GatedProject) -> None:
    hooked.values("orders", 1)
    hooked.configure(**{"on-run-end": ["select * from nowhere"]})
    run = hooked.dbt("build")
    assert not run.ok and hooked.seen("orders") == hooked.seen("report") == [(1, 1)]
    assert "release 1: 2 tables published" in run.notes


def test_compact_in_a_hook_works_on_the_branch_of_the_build(gated: GatedProject) -> None:
    shutil.copytree(ROOT / "macros" / "iceberg", gated.folder / "macros")
    gated.values("orders", 1, **GROWS)
    assert gated.dbt("build").ok and gated.dbt("build").ok
    gated.tests(orders={"amount": ["not_null"]})
    hook = "{{ compact(this, min_files=3) }}"
    gated.values("orders", None, **GROWS, post_hook=hook)
    assert not gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (1, 1)] and files(gated) == 2
    (held,) = gated.builds("orders")
    assert gated.waiting("orders") == [(1, 1), (1, 1), (1, None)]
    assert files(gated, f" version as of 'build_{held}'") == 1
    gated.values("orders", 3, **GROWS, post_hook=hook)
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (1, 1), (1, 3)] and files(gated) == 1


def test_manifests_are_not_rewritten_in_a_hook_behind_the_gate(gated: GatedProject) -> None:
    shutil.copytree(ROOT / "macros" / "iceberg", gated.folder / "macros")
    gated.values("orders", 1, **GROWS)
    assert gated.dbt("build").ok
    gated.values("orders", 2, **GROWS, post_hook="{{ rewrite_manifests(this) }}")
    run = gated.dbt("build")
    assert "dbt run-operation rewrite_manifests --args '{table: orders}'" in run.text
    assert gated.seen("orders") == [(1, 1)]


def test_expiry_in_a_hook_keeps_what_releases_and_the_build_need(gated: GatedProject) -> None:
    shutil.copytree(ROOT / "macros" / "iceberg", gated.folder / "macros")
    hook = "{{ expire_snapshots(this, older_than_days=0, retain_last=1) }}"
    gated.values("orders", 1, **GROWS, post_hook=hook)
    for _ in range(3):
        run = gated.dbt("build")
        assert run.ok, run.text
    assert gated.seen("orders") == [(1, 1)] * 3
    for release in (1, 2, 3):
        rows = gated.rows(f"select count(*) from {{s}}.orders version as of 'release_{release}'")
        assert rows == [(release,)]


def files(gated: GatedProject, version: str = "") -> int:
    """Return how many data files readers open."""
    (found,) = gated.rows(f"select count(distinct _file) from {{s}}.orders{version}")
    return int(found[0])
