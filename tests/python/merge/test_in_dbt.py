"""Merges by plan in dbt: what is chosen and told, what is refused, and what a crash leaves."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from conftest import DbtProject
from gate.gated import GatedProject
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, UUIDType

from dbt.adapters.icegate import batches
from icegate.catalog import open_catalog
from icegate.gate import refs
from icegate.gate.rollback import rollback
from icegate.merge import plans, statements

pytestmark = pytest.mark.slow

MERGE = {"materialized": "incremental", "incremental_strategy": "merge", "unique_key": "id"}
SPLIT = {**MERGE, "merge_plan": "delete_and_insert"}
INCREMENTAL = "{%% if is_incremental() %%} %s {%% else %%} %s {%% endif %%}"


def rows(*given: tuple[Any, ...]) -> str:
    """Return a select of id and amount, whose rows go into one file."""
    values = ", ".join(f"({'null' if id is None else id}, {amount})" for id, amount in given)
    return f"select /*+ coalesce(1) */ * from values {values} as rows(id, amount)"


FIRST, NEXT = rows((1, 10), (2, 20), (3, 30)), rows((2, 21), (3, 31), (4, 41))


def model(project: Any, name: str, then: str, first: str = FIRST, **config: Any) -> None:
    """Write a model that returns ``first`` for a new table, and ``then`` later."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in {**MERGE, **config}.items())
    text = INCREMENTAL % (then, first)
    project.write(f"models/{name}.sql", f"{{{{ config({arguments}) }}}}\n{text}\n")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What merges tell, by dbt's logger."""
    lines: list[str] = []
    for level in ("info", "warning"):
        monkeypatch.setattr(batches.logger, level, lines.append)
    return lines


def is_told(told: list[str], *said: str) -> bool:
    """Tell whether a line says all of it."""
    return any(all(text in line for text in said) for line in told)


def snapshots(project: GatedProject, table: str) -> list[str]:
    """Return the operations of a table's snapshots."""
    return [s["summary"]["operation"] for s in project.metadata(table)["snapshots"]]


def test_a_failed_insert_leaves_no_row_deleted(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(gated, "orders", NEXT, merge_plan="delete_and_insert")
    assert gated.dbt("run").ok
    with monkeypatch.context() as broken:
        broken.setattr(statements, "insert_sql", lambda *a: "insert into nowhere select 1")
        assert not gated.dbt("run").ok
    assert snapshots(gated, "orders")[1:] == ["delete"]
    assert gated.seen("orders") == [(1, 10), (2, 20), (3, 30)]
    # What comes again needn't have the keys that were deleted.
    model(gated, "orders", rows((3, 32)), merge_plan="delete_and_insert")
    run = gated.dbt("retry")
    assert run.ok, run.text
    assert gated.seen("orders") == [(1, 10), (2, 20), (3, 32)]


def test_a_finished_merge_of_a_named_build_stays(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    model(gated, "orders", NEXT, merge_plan="delete_and_insert")
    assert gated.dbt("run").ok  # the first build has no branch, so it's a clone
    monkeypatch.delenv("ICEGATE_RELEASE")
    model(gated, "sales", NEXT, merge_plan="delete_and_insert")
    assert gated.dbt("run", "-s", "sales").ok
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    for amount in (22, 23):
        model(gated, "sales", rows((amount, amount), (2, amount)), merge_plan="delete_and_insert")
        assert gated.dbt("run", "-s", "sales").ok
    assert gated.waiting("sales") == [(1, 10), (2, 23), (22, 22), (23, 23), (3, 30)]


def test_the_choice_is_told_with_its_estimate(
    gated: GatedProject, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("small", "few", "many", "fresh"):
        then = rows((8, 8), (9, 9)) if name == "fresh" else NEXT
        model(gated, name, then, merge_plan="auto")
    assert gated.dbt("run").ok
    assert gated.dbt("run", "-s", "small", "fresh").ok
    monkeypatch.setattr(plans, "LITTLE", 0)
    assert gated.dbt("run", "-s", "many").ok
    monkeypatch.setattr(plans, "MUCH", 1)
    assert gated.dbt("run", "-s", "few").ok
    one = " rows=3 files=1 of=1 their_rows=3 their_mb=0.0: "
    for table, plan, said in (
        ("small", "copy_on_write", f"{one}there is little to rewrite"),
        ("fresh", "append", " rows=2 files=0 of=1 their_rows=0 their_mb=0.0: no file may have"),
        ("many", "copy_on_write", f"{one}so many rows change"),
        ("few", "delete_and_insert", f"{one}few of the rows change"),
    ):
        line = f"merge_plan={plan} table={gated.schema}.{table}{said}"
        assert is_told(told, line), told
    assert snapshots(gated, "few")[1:] == ["delete", "append"]
    assert snapshots(gated, "fresh")[1:] == ["append"]


def test_without_a_gate_readers_never_see_half_a_merge(
    project: DbtProject, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "LITTLE", 0)
    monkeypatch.setattr(plans, "MUCH", 1)
    model(project, "orders", NEXT, merge_plan="auto")
    model(project, "fresh", rows((8, 8)), merge_plan="auto")
    model(project, "split", NEXT, merge_plan="delete_and_insert")
    project.dbt("run")
    run = project.dbt("run")
    assert run.status == {"orders": "success", "fresh": "success", "split": "error"}
    assert "no branch keeps them apart" in run.message["split"]
    assert "gate: true" in run.message["split"]
    for name, plan in (("orders", "merge_on_read"), ("fresh", "copy_on_write")):
        assert is_told(told, f"merge_plan={plan} table={project.schema}.{name} "), told
    assert project.rows("select * from {s}.orders order by id") == [
        (1, 10),
        (2, 21),
        (3, 31),
        (4, 41),
    ]


def test_a_declared_order_settles_doubled_keys(gated: GatedProject, told: list[str]) -> None:
    twice = rows((2, 21), (2, 22), (5, 50), (5, 49), (None, 1), (None, 2))
    for plan in ("copy_on_write", "delete_and_insert"):
        model(gated, f"by_{plan}", twice, merge_plan=plan, merge_order_by="amount desc")
    model(gated, "tied", rows((2, 21), (2, 21)), merge_order_by="amount desc")
    gated.dbt("run")
    run = gated.dbt("run")
    assert run.status == {"by_copy_on_write": "success", "by_delete_and_insert": "success",
                          "tied": "error"}  # fmt: skip
    assert '2 rows have the key {"id":2}' in run.message["tied"]
    for plan in ("copy_on_write", "delete_and_insert"):
        assert gated.seen(f"by_{plan}") == [
            (1, 10), (2, 22), (3, 30), (5, 50), (None, 1), (None, 2)
        ]  # fmt: skip
        assert is_told(told, f"2 rows for {gated.schema}.by_{plan} have no key: null in id")


def test_unchanged_rows_are_not_written(gated: GatedProject) -> None:
    same = rows((1, 10), (2, 20), (3, 33))
    ways = {"cow": "copy_on_write", "mor": "merge_on_read", "split": "delete_and_insert"}
    for name, plan in ways.items():
        config = {"merge_plan": plan, "skip_unchanged_rows": True}
        model(gated, name, same, **config)
        model(gated, f"{name}_all", FIRST, **config)
    assert gated.dbt("run").ok
    assert gated.dbt("run").ok
    for name in ways:
        assert gated.seen(name) == [(1, 10), (2, 20), (3, 33)], name
        assert gated.seen(f"{name}_all") == [(1, 10), (2, 20), (3, 30)], name
        if name != "mor":
            assert len(snapshots(gated, f"{name}_all")) == 1, name
    added = [s["summary"].get("added-records") for s in gated.metadata("split")["snapshots"]]
    assert added == ["3", None, "1"]
    assert [s["summary"].get("added-records") for s in gated.metadata("mor")["snapshots"]][
        -1
    ] == "1"


def test_the_conditions_on_the_table_are_literals(gated: GatedProject) -> None:
    first, then = (f"select *, date '2026-02-01' as day from ({q})" for q in (FIRST, NEXT))
    keys = {"unique_key": ["id", "day"], "partition_by": ["months(day)"]}
    model(gated, "listed", then, first, **keys)
    model(gated, "fixed", then, first, merge_fixed_columns="day", partition_by=["day"])
    for _ in range(2):
        assert gated.dbt("run").ok
    ranged = "(DBT_INTERNAL_DEST.`id` >= 2 and DBT_INTERNAL_DEST.`id` <= 4)"
    listed = "(DBT_INTERNAL_DEST.`day` in (date '2026-02-01'))"
    for name in ("listed", "fixed"):
        (file,) = (gated.folder / "target" / "run").rglob(f"{name}.sql")
        assert f"on {ranged} and {listed} and" in file.read_text()


def test_a_mode_that_was_set_by_hand_stays_without_a_plan(project: DbtProject) -> None:
    model(project, "orders", NEXT)
    assert project.dbt("run").ok
    project.rows("alter table {s}.orders set tblproperties ('write.merge.mode'='merge-on-read')")
    assert project.dbt("run").ok
    files = "select count(*) from {s}.orders.delete_files"
    assert project.rows(files) == [(1,)]


def test_a_declared_key_is_not_looked_up(gated: GatedProject) -> None:
    first = rows((1, 10), (2, 20), (2, 20), (3, 30))
    for name in ("declared", "plain"):
        model(gated, name, rows((2, 21)), first, merge_plan="delete_and_insert")
    key = {"name": "id", "constraints": [{"type": "unique"}]}
    gated.write_yaml("models/m.yml", {"models": [{"name": "declared", "columns": [key]}]})
    for _ in range(2):
        assert gated.dbt("run").ok
    assert gated.seen("plain") == [(1, 10), (2, 21), (2, 21), (3, 30)]
    assert gated.seen("declared") == [(1, 10), (2, 21), (3, 30)]


REFUSED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "unknown": (
        {"merge_plan": "merge_on_raed"},
        NEXT,
        ["unknown merge_plan 'merge_on_raed'", "did you mean 'merge_on_read'?"],
    ),
    "contradicts": (
        {"merge_plan": "copy_on_write", "tblproperties": {"write.merge.mode": "merge-on-read"}},
        NEXT,
        ["contradicts its table properties", "take out"],
    ),
    "unsound": (
        {"merge_plan": "delete_and_insert", "matched_condition": "DBT_INTERNAL_SOURCE.id > 1"},
        NEXT,
        ["isn't the same as the merge of model unsound", "matched_condition"],
    ),
    "some_columns": (
        {"merge_plan": "delete_and_insert", "merge_exclude_columns": ["amount"]},
        NEXT,
        ["only some columns are updated"],
    ),
    "appended": (
        {"merge_plan": "append"},
        NEXT,
        ["it has keys of the batch", "2 of its rows have one", "merge_plan: auto"],
    ),
    "no_fixed": ({"merge_fixed_columns": ["amonut"]}, NEXT, ["did you mean 'amount'"]),
    "lost": ({"merge_plan": "auto"}, "select 1 as id", ["no longer has the column amount"]),
    "map": (
        {"skip_unchanged_rows": True},
        "select 1 as id, map('a', 1) as amount",
        ["can't compare 'amount'", "take out skip_unchanged_rows"],
    ),
}


def test_what_is_refused_changes_nothing(gated: GatedProject) -> None:
    for name, (config, then, _) in REFUSED.items():
        model(gated, name, then, then if name == "map" else FIRST, **config)
    assert gated.dbt("run").ok
    check_refused(gated, {name: said for name, (*_, said) in REFUSED.items()})


def check_refused(gated: GatedProject, said: dict[str, list[str]]) -> None:
    """See that a run refuses these models with these texts, and leaves their tables alone."""
    before = {name: gated.seen(name) for name in said}
    run = gated.dbt("run")
    for name, texts in said.items():
        assert run.status[name] == "error", name
        for text in texts:
            assert text in run.message[name], run.message[name]
        assert gated.seen(name) == before[name]
        assert len(snapshots(gated, name)) == 1, name


def test_format_3_goes_through_the_gate(gated: GatedProject) -> None:
    """Raised from 2, written by two statements, with a column more, and rolled back."""
    config = {"merge_plan": "delete_and_insert", "on_schema_change": "sync_all_columns"}
    model(gated, "orders", NEXT, **config)
    assert gated.dbt("run").ok
    config["tblproperties"] = {"format-version": "3"}
    model(gated, "orders", NEXT, **config)
    assert gated.dbt("run").ok
    assert gated.metadata("orders")["format-version"] == 3
    assert gated.seen("orders") == [(1, 10), (2, 21), (3, 31), (4, 41)]
    model(gated, "orders", f"select id, 'x' as note, amount from ({rows((4, 42))})", **config)
    assert gated.dbt("run").ok
    added = [(1, 10, None), (2, 21, None), (3, 31, None), (4, 42, "x")]
    assert gated.seen("orders") == added
    found = gated.metadata("orders")
    assert refs.releases(found).keys() == {1, 2, 3}
    rollback(gated.lake, 2, [], "t", dry_run=False)
    assert [row[:2] for row in gated.seen("orders")] == [(1, 10), (2, 21), (3, 31), (4, 41)]


@pytest.mark.parametrize("plan", ["copy_on_write", "delete_and_insert"])
def test_keys_that_another_engine_wrote_as_uuid(gated: GatedProject, plan: str) -> None:
    gated.rows("create schema if not exists {s}")
    ids = [uuid.UUID(f"{first}{'0' * 31}") for first in "0379abf"]
    fields = NestedField(1, "id", UUIDType()), NestedField(2, "amount", IntegerType())
    table = open_catalog(gated.lake).create_table(f"{gated.schema}.orders", Schema(*fields))
    amounts = pa.array([1] * len(ids), pa.int32())
    kept = table.schema().as_arrow().field("id").type
    column = pa.array([id.bytes for id in ids], pa.binary(16)).cast(kept)
    table.append(pa.table({"id": column, "amount": amounts}))
    values = ", ".join(f"('{id}', 2)" for id in ids)
    model(gated, "orders", f"select * from values {values} as r(id, amount)", merge_plan=plan)
    assert gated.dbt("run").ok
    assert gated.rows("select count(*), sum(amount) from {s}.orders") == [(7, 14)]
