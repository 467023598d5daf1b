"""Partitions written whole: when, what is left of them, who comes between, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import DbtProject
from gate.gated import GatedProject

from icegate.gate.store import read_tables
from icegate.merge import plans
from icegate.merge.overwrite import Layout, Overwrite, is_lossless, layout_of, layout_sql
from icegate.tables.layout import partition_fields
from merge.test_in_dbt import FIRST, NEXT, check_refused, is_told, model, rows
from merge.test_in_dbt import told as told

pytestmark = pytest.mark.slow

WHOLE = {"merge_plan": "overwrite_partitions", "partition_by": ["bucket(2, id)"]}
PATIENCE_S = 60
ON_READ = {"write.merge.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}


def files(project: DbtProject, table: str) -> set[str]:
    """Return the data files and delete files of a table's `main`."""
    return {row[0] for row in project.rows(f"select file_path from {{s}}.{table}.all_files")}


def test_only_the_partitions_of_the_batch_are_written(project: DbtProject) -> None:
    """On `main`, by one commit, and their delete files are gone."""
    keys = {"unique_key": ["k", "id"], "partition_by": ["k"], "tblproperties": ON_READ}
    first = "select id % 4 as k, id, 'old' as v from range(40)"
    model(project, "t", f"select * from ({first}) where id in (1, 2)", first, **keys)
    for _ in range(2):
        assert project.dbt("run").ok
    counted = "select partition.k, count(*) from {s}.t.%s group by all order by 1"
    assert project.rows(counted % "delete_files") == [(1, 1), (2, 1)]
    before = files(project, "t")
    then = "select * from values (1L, 1L, 'new'), (1L, 77L, 'new') as t(k, id, v)"
    model(project, "t", then, first, merge_plan="overwrite_partitions", **keys)
    assert project.dbt("run").ok
    assert project.rows(counted % "delete_files") == [(2, 1)]
    changed = "select k, count(*), count_if(v = 'new') from {s}.t group by k order by k"
    assert project.rows(changed) == [(0, 10, 0), (1, 11, 2), (2, 10, 0), (3, 10, 0)]
    (new,) = files(project, "t") - before
    assert "/k=1/" in new
    operations = "select operation from {s}.t.snapshots order by committed_at"
    assert [row[0] for row in project.rows(operations)][2:] == ["overwrite"]


@pytest.mark.parametrize("kind", ["project", "gated"])
def test_auto_takes_it_where_much_of_the_partitions_changes(
    kind: str, request: Any, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = request.getfixturevalue(kind)
    monkeypatch.setattr(plans, "LITTLE", 0)
    auto = {"merge_plan": "auto", "partition_by": ["bucket(2, id)"]}
    many = rows(*((id, 1) for id in range(100)))
    model(used, "whole", NEXT, **auto)
    model(used, "kept", NEXT, **auto, tblproperties={"write.merge.mode": "copy-on-write"})
    model(used, "small", rows((5, 2), (6, 2)), many, **auto)
    model(used, "elsewhere", NEXT, merge_plan="auto", partition_by=["amount"])
    for _ in range(2):
        assert used.dbt("run").ok
    for name in ("whole", "kept"):
        said = f"merge_plan=overwrite_partitions table={used.schema}.{name} rows=3 files=2 of=2"
        assert is_told(told, said, ": many of the 3 rows of their partitions change"), told
    assert not is_told(told, "merge_plan=overwrite_partitions", ".small")
    assert is_told(told, f"merge_plan=copy_on_write table={used.schema}.elsewhere")
    wanted = [(1, 10), (2, 21), (3, 31), (4, 41)]
    assert used.rows("select * from {s}.kept order by id") == wanted
    assert used.rows("select * from {s}.whole order by id") == wanted


@pytest.mark.parametrize("kind", ["project", "gated"])
def test_what_others_add_meanwhile_is_not_lost(
    kind: str, request: Any, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the read of a partition and the commit, on `main` and on a build's branch."""
    used = request.getfixturevalue(kind)
    begun, added = used.folder / "begun", used.folder / "added"
    config = {**WHOLE, "partition_by": ["bucket(1, id)"]}
    model(used, "orders", rows((1, 11)), rows((1, 10), (2, 20)), **config)
    assert used.dbt("run").ok

    def wait(id: int, begun: str = str(begun), added: str = str(added)) -> int:
        import time  # in a process of Spark's, for each row that stays
        from pathlib import Path

        Path(begun).touch()
        until = time.time() + PATIENCE_S
        while not Path(added).exists() and time.time() < until:
            time.sleep(0.05)
        return id

    def append() -> None:
        until = time.time() + PATIENCE_S
        while not begun.exists() and time.time() < until:
            time.sleep(0.05)
        sessions[0].sql(f"insert into {used.schema}.orders select 9 as id, 90 as amount")
        added.touch()

    sessions, (run_it, sql) = list[Any](), (Overwrite.run, Overwrite.sql)

    def run_slowly(self: Overwrite, engine: Any, *given: Any) -> str:
        sessions.append(engine.batches.session())  # whose writes go where the model's go
        sessions[0].udf.register("dbt_wait", wait, "int")
        return run_it(self, engine, *given)

    slow = lambda *given: f"{sql(*given)} and dbt_wait(DBT_INTERNAL_DEST.id) >= 0"  # noqa: E731
    monkeypatch.setattr(Overwrite, "run", run_slowly)
    monkeypatch.setattr(Overwrite, "sql", slow)
    writer = threading.Thread(target=append)
    writer.start()
    run = used.dbt("run")
    writer.join()
    assert run.ok, run.text
    assert used.rows("select * from {s}.orders order by id") == [(1, 11), (2, 20), (9, 90)]
    assert is_told(told, "another writer changed these partitions meanwhile"), told


REFUSED: dict[str, tuple[dict[str, Any], str, Sequence[str]]] = {
    "elsewhere": (
        {**WHOLE, "partition_by": ["amount"]},
        NEXT,
        ["isn't the same as the merge of model elsewhere", "amount isn't in its unique_key"],
    ),
    "unpartitioned": (
        {"merge_plan": "overwrite_partitions"},
        NEXT,
        ["it takes a partition_by", "merge_plan: auto"],
    ),
    "wider": (
        WHOLE,
        f"select id, cast(amount as double) as amount from ({NEXT})",
        ["amount is int in the table, and double in the batch"],
    ),
    "one_by_one": (
        {**WHOLE, "delete_condition": "DBT_INTERNAL_SOURCE.id > 3"},
        NEXT,
        ["delete_condition treats rows"],
    ),
    "some_columns": (
        {**WHOLE, "merge_exclude_columns": ["amount"]},
        NEXT,
        ["only some columns are updated"],
    ),
    "repartitioned": (
        {**WHOLE, "partition_by": ["bucket(3, id)"]},
        NEXT,
        ["files of the table lie under another partitioning", "rewrite-all"],
    ),
}


def test_what_is_refused_changes_nothing(gated: GatedProject) -> None:
    for name in REFUSED:
        model(gated, name, NEXT, **WHOLE)
    for name in ("elsewhere", "unpartitioned"):
        model(gated, name, NEXT, **REFUSED[name][0])
    assert gated.dbt("run").ok
    for name, (config, then, _) in REFUSED.items():
        model(gated, name, then, **config)
    check_refused(gated, {name: said for name, (*_, said) in REFUSED.items()})


def test_where_a_batch_is_in_too_many_partitions_it_is_merged(
    project: DbtProject, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from icegate.merge import overwrite

    monkeypatch.setattr(overwrite, "MOST_VALUES", 1)
    model(project, "t", NEXT, **{**WHOLE, "partition_by": ["id"]})
    for _ in range(2):
        assert project.dbt("run").ok
    assert is_told(told, "merge_plan=copy_on_write", "too many partitions")
    assert project.rows("select * from {s}.t order by id") == [(1, 10), (2, 21), (3, 31), (4, 41)]


def test_manifests_and_spark_say_the_same_of_the_layout(project: DbtProject) -> None:
    project.rows("create namespace {s}")
    project.rows("create table {s}.t (id bigint, day date) partitioned by (day)")
    day, both = (partition_fields(terms, "t") for terms in (["day"], ["day", "bucket(4, id)"]))

    def is_even(fields: Any) -> bool:
        (table,) = read_tables(project.lake, [f"{project.schema}.t"])
        found = layout_of(table, "", fields)
        by_spark = Layout(*project.rows(layout_sql(f"{project.schema}.t", fields))[0])
        assert found == by_spark
        return found.is_even

    assert is_even(day) and not is_even(both)
    project.rows("insert into {s}.t select id, date '2026-01-01' from range(4)")
    assert is_even(day) and not is_even(both)
    project.rows("alter table {s}.t add partition field bucket(4, id)")
    assert not is_even(day) and not is_even(both)
    project.rows("insert into {s}.t select id, date '2026-01-02' from range(4)")
    assert not is_even(day) and not is_even(both)


@pytest.mark.parametrize(
    ("table", "batch", "wanted"),
    [
        ("int", "bigint", True),
        ("bigint", "double", False),
        ("decimal(9,2)", "decimal(10,3)", True),
        ("decimal(38,10)", "decimal(30,2)", True),
        ("decimal(38,2)", "decimal(30,10)", False),
        ("decimal(9,2)", "int", False),
        ("string", "uuid", False),
        ("date", "timestamp", False),
    ],
)
def test_types_that_a_union_leaves_as_they_are(table: str, batch: str, wanted: bool) -> None:
    assert is_lossless(table, batch) is wanted


def test_the_first_rows(project: DbtProject) -> None:
    model(project, "t", NEXT, f"select * from ({FIRST}) where false", **WHOLE)
    for _ in range(2):
        assert project.dbt("run").ok
    assert project.rows("select count(*) from {s}.t") == [(3,)]
