"""The macros of `macros/iceberg`: in hooks, in configs, and by `dbt run-operation`."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from conftest import ROOT, DbtProject

ROWS = """
{{ config(materialized='incremental', incremental_strategy='append'%s) }}
select 1 as id, "it's" as name
"""


@pytest.fixture
def orders(own_project: DbtProject) -> DbtProject:
    """A project with the macros and a table of three files."""
    shutil.copytree(ROOT / "macros" / "iceberg", own_project.folder / "macros")
    own_project.write("models/orders.sql", ROWS % "")
    own_project.rows("create namespace {s}")
    own_project.rows("create table {s}.orders (id int, name string) using iceberg")
    for _ in range(3):
        own_project.rows('insert into {s}.orders values (1, "it\'s")')
    return own_project


def operate(project: DbtProject, macro: str, **args: Any) -> Any:
    return project.dbt("run-operation", macro, "--args", json.dumps(args))


def files(project: DbtProject, table: str = "orders") -> int:
    return len(project.rows(f"select 1 from {{s}}.{table}.files"))


def refs(project: DbtProject) -> dict[str, str]:
    return dict(project.rows("select name, type from {s}.orders.refs"))


@pytest.mark.parametrize("name", ["orders", "{s}.orders"])
def test_compact_by_hand(orders: DbtProject, name: str) -> None:
    assert files(orders) == 3
    done = operate(orders, "compact", table=name.format(s=orders.schema), min_files=3)
    assert done.ok, done.text
    assert files(orders) == 1
    assert orders.rows("select count(*) from {s}.orders") == [(3,)]


def test_few_files_are_left_alone(orders: DbtProject) -> None:
    assert operate(orders, "compact", table="orders", min_files=4).ok
    assert files(orders) == 3


def test_compact_takes_a_condition_with_quotes(orders: DbtProject) -> None:
    for name, left in [("its", 3), ("it''s", 1)]:
        done = operate(orders, "compact", table="orders", min_files=3, where=f"name = '{name}'")
        assert done.ok, done.text
        assert files(orders) == left


@pytest.mark.parametrize("how", ["operation", "hook"])
def test_a_verified_compaction_publishes_what_has_the_same_rows(
    orders: DbtProject, how: str
) -> None:
    if how == "operation":
        assert operate(orders, "compact_verified", table="orders", min_files=3).ok
    else:
        hook = ", post_hook='{{ compact_verified(this, min_files=4) }}'"
        orders.write("models/orders.sql", ROWS % hook)
        run = orders.dbt("run")
        assert run.ok, run.text
    assert files(orders) == 1
    assert refs(orders) == {"main": "BRANCH"}
    assert orders.rows("select count(*) from {s}.orders") == [(3 if how == "operation" else 4,)]


def test_a_compaction_that_changes_rows_is_not_published(
    orders: DbtProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """The statement that compacts is replaced by one that loses a row's name."""
    path = orders.folder / "macros" / "compaction.sql"
    text = path.read_text()
    call = "{{ return(iceberg_call('rewrite_data_files'"
    assert call in text
    loses = "{{ return('update ' ~ iceberg_table(table) ~ '.branch_compaction set name = null') }}"
    path.write_text(text.replace(call, loses + call))
    assert not operate(orders, "compact_verified", table="orders").ok
    assert "changed its rows, and is not published" in capsys.readouterr().out
    assert files(orders) == 3 and "compaction" in refs(orders)
    path.write_text(text)
    assert operate(orders, "compact_verified", table="orders", min_files=3).ok
    assert files(orders) == 1 and "compaction" not in refs(orders)


def test_expire_snapshots_by_hand(orders: DbtProject) -> None:
    assert len(orders.rows("select 1 from {s}.orders.snapshots")) == 3
    assert operate(orders, "expire_snapshots", table="orders").ok
    assert len(orders.rows("select 1 from {s}.orders.snapshots")) == 3
    assert operate(orders, "expire_snapshots", table="orders", older_than_days=0, retain_last=2).ok
    assert len(orders.rows("select 1 from {s}.orders.snapshots")) == 2


def test_manifests_by_hand(orders: DbtProject) -> None:
    assert len(orders.rows("select 1 from {s}.orders.manifests")) == 3
    assert operate(orders, "rewrite_manifests", table="orders").ok
    assert len(orders.rows("select 1 from {s}.orders.manifests")) == 1


def test_a_branch_and_a_tag_by_hand(orders: DbtProject) -> None:
    assert operate(orders, "create_tag", table="orders", name="before", retain_days=30).ok
    assert operate(orders, "create_branch", table="orders", name="fix", retain_days=7).ok
    orders.rows("insert into {s}.orders.branch_fix values (2, null)")
    assert refs(orders) == {"main": "BRANCH", "before": "TAG", "fix": "BRANCH"}
    assert orders.rows("select count(*) from {s}.orders") == [(3,)]
    assert operate(orders, "publish_branch", table="orders", name="fix").ok
    assert orders.rows("select count(*) from {s}.orders") == [(4,)]
    assert orders.rows("select count(*) from {s}.orders version as of 'before'") == [(3,)]
    assert operate(orders, "create_tag", table="orders", name="before").ok  # it stays where it is
    assert orders.rows("select count(*) from {s}.orders version as of 'before'") == [(3,)]


def test_each_retention_is_as_iceberg_parses_it(orders: DbtProject) -> None:
    (first, *_), *_ = orders.rows(
        "select snapshot_id from {s}.orders.snapshots order by committed_at"
    )
    kept = {"retain_days": 7, "min_snapshots": 10, "snapshot_days": 3}
    for without in [None, *kept]:
        given = {name: number for name, number in kept.items() if name != without}
        assert operate(orders, "create_branch", table="orders", name=f"b_{without}", **given).ok
    assert operate(orders, "create_tag", table="orders", name="t", retain_days=2, snapshot=first).ok
    columns = "max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms"
    found = orders.rows(f"select name, {columns} from {{s}}.orders.refs where name <> 'main'")
    day = 24 * 3600 * 1000
    assert sorted(found) == [
        ("b_None", 7 * day, 10, 3 * day),
        ("b_min_snapshots", 7 * day, None, 3 * day),
        ("b_retain_days", None, 10, 3 * day),
        ("b_snapshot_days", 7 * day, 10, None),
        ("t", 2 * day, None, None),
    ]
    at_first = orders.rows("select snapshot_id from {s}.orders.refs where name = 't'")
    assert at_first == [(first,)]


@pytest.mark.parametrize(
    ("macro", "args", "says"),
    [
        ("compact", {"table": "order"}, "there is no table 'order'"),
        ("compact", {"table": "nowhere.orders"}, "nowhere has nothing of this name"),
        ("create_branch", {"table": "orders", "name": "build_x"}, "can't be called 'build_x'"),
        ("create_tag", {"table": "orders", "name": "release_7"}, "can't be called 'release_7'"),
        ("create_tag", {"table": "orders", "name": "x", "retain_days": 0}, "retain_days is '0'"),
        ("create_branch", {"table": "orders", "name": "x", "min_snapshots": "ten"}, "is 'ten'"),
        ("publish_branch", {"table": "orders", "name": "build_x"}, "icegate release publish x"),
        ("merge_on_read", {"isolation": "some"}, "isolation is 'some'"),
    ],
)
def test_what_cannot_be_done_is_said(
    orders: DbtProject,
    macro: str,
    args: dict[str, Any],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not operate(orders, macro, **args).ok
    assert says in capsys.readouterr().out
    assert refs(orders) == {"main": "BRANCH"}


def test_compact_in_a_hook(orders: DbtProject) -> None:
    orders.write("models/orders.sql", ROWS % ", post_hook='{{ compact(this, min_files=4) }}'")
    assert orders.dbt("run").ok
    assert files(orders) == 1


def test_write_modes_in_a_config(own_project: DbtProject) -> None:
    shutil.copytree(ROOT / "macros" / "iceberg", own_project.folder / "macros")
    for mode in ("merge_on_read", "copy_on_write"):
        own_project.write(f"models/{mode}.sql", ROWS % f", tblproperties={mode}()")
    assert own_project.dbt("run").ok
    for mode in ("merge_on_read", "copy_on_write"):
        found = dict(own_project.rows(f"show tblproperties {{s}}.{mode}"))
        assert found["write.merge.mode"] == mode.replace("_", "-")
