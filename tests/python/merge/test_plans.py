"""The planner's parts that need no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from icegate.errors import ConfigError
from icegate.merge.bounds import LONGEST, Bound, Column, bounded
from icegate.merge.facts import Batch, Touched, batch_sql, read_batch
from icegate.merge.overwrite import Layout, Overwrite
from icegate.merge.plans import Choice, Plan, choose, may_overwrite, mode_of, why_not_split
from icegate.tables.merge_plan import Columns, MergePlan
from icegate.tables.state import quote

BATCH = Batch(rows=10, of_one_key=1, without_key=0, bounds=())
LARGE, SMALL = Touched(8, 1000, 10**9, 8), Touched(1, 1000, 10**6, 8)
NONE = Touched(0, 0, 0, 8)
COW, MOR = {"write.merge.mode": "copy-on-write"}, {"write.merge.mode": "merge-on-read"}


def merge_of(**config: Any) -> MergePlan:
    """Return the merge of a model with the columns id and amount."""
    names = ["id", "amount"]
    given = {"unique_key": "id", "incremental_predicates": config.pop("predicates", None)}
    return MergePlan({"name": "m", "config": config}, given, Columns(names, names, names))


@pytest.mark.parametrize(
    ("config", "touched", "properties", "has_branch", "wanted"),
    [
        ({}, LARGE, {}, True, Plan.DELETE_AND_INSERT),
        ({}, LARGE, MOR, True, Plan.DELETE_AND_INSERT),
        ({}, LARGE, COW, True, Plan.COPY_ON_WRITE),
        ({}, LARGE, {}, False, Plan.MERGE_ON_READ),
        ({}, SMALL, {}, True, Plan.COPY_ON_WRITE),
        ({}, SMALL, MOR, False, Plan.MERGE_ON_READ),
        ({}, Touched(8, 49, 10**9, 8), {}, True, Plan.COPY_ON_WRITE),
        ({}, NONE, COW, True, Plan.APPEND),
        ({}, NONE, {}, False, Plan.COPY_ON_WRITE),  # another writer could add the key meanwhile
        ({}, None, {}, False, Plan.MERGE_ON_READ),
        ({"matched_condition": "true"}, LARGE, {}, True, Plan.MERGE_ON_READ),
        ({"predicates": ["true"]}, LARGE, {}, True, Plan.MERGE_ON_READ),
        ({"not_matched_by_source_action": "delete"}, NONE, {}, True, Plan.COPY_ON_WRITE),
        ({"not_matched_by_source_action": "delete"}, LARGE, MOR, True, Plan.MERGE_ON_READ),
    ],
)
def test_choices(
    config: Any, touched: Any, properties: Any, has_branch: bool, wanted: Plan
) -> None:
    choice = choose(merge_of(**config), BATCH, touched, properties, has_branch)
    assert choice.plan is wanted and choice.why


class Old:
    """Where Spark 3.5 runs a merge."""

    has_session, has_options = True, False

    def layout(self, fields: Any) -> Layout:
        return Layout(1, True)


def test_partitions_are_not_overwritten_without_options() -> None:
    """Without them Iceberg drops what another writer added."""
    merge = merge_of(merge_plan="overwrite_partitions", partition_by=["bucket(2, id)"])
    kinds = {"id": "bigint", "amount": "int"}
    whole, engine = Overwrite(merge, "t", (kinds, kinds)), Old()
    with pytest.raises(ConfigError, match="Spark 3.5 has no `with"):
        whole.check(engine)  # type: ignore[arg-type]
    engine.has_options = True
    whole.check(engine)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plan", "touched", "wanted"),
    [
        (Plan.COPY_ON_WRITE, Touched(8, 49, 10**9, 8), True),
        (Plan.COPY_ON_WRITE, LARGE, False),  # as its properties say, for few rows
        (Plan.COPY_ON_WRITE, Touched(1, 9, 10**6, 8), False),
        (Plan.COPY_ON_WRITE, None, False),
        (Plan.MERGE_ON_READ, Touched(8, 49, 10**9, 8), False),
    ],
)
def test_when_partitions_are_looked_at(plan: Plan, touched: Any, wanted: bool) -> None:
    assert may_overwrite(Choice(plan, ""), BATCH, touched) is wanted


@pytest.mark.parametrize(
    "config",
    [
        {"matched_condition": "true"},
        {"not_matched_condition": "true"},
        {"delete_condition": "true"},
        {"not_matched_by_source_action": "delete"},
        {"merge_update_columns": ["amount"]},
        {"merge_update_columns": []},
        {"merge_exclude_columns": ["amount"]},
        {"predicates": "true"},
    ],
)
def test_what_only_a_merge_does(config: Any) -> None:
    assert why_not_split(merge_of()) == ""
    assert why_not_split(merge_of(**config))


def test_the_mode_that_a_plan_needs() -> None:
    assert mode_of(Plan.COPY_ON_WRITE) == COW and mode_of(Plan.MERGE_ON_READ) == MOR
    assert mode_of(Plan.APPEND) == {}


def test_only_columns_whose_order_both_sides_share_have_bounds() -> None:
    table = {"a": "int", "b": "string", "c": "string", "d": "double", "e": "decimal(9,2)"}
    table |= {"f": "varchar(3)", "g": "string collate UTF8_LCASE", "h": "date"}
    batch = {**table, "a": "bigint", "c": "int", "e": "decimal(9,3)"}
    found = bounded(list(table), table, batch, quote)
    assert [(column.name, column.kind) for column in found] == [
        ("a", "bigint"),
        ("b", "string"),
        ("h", "date"),
    ]


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("bigint", "-5", "-5"),
        ("string", "it's \\", "'it\\'s \\\\'"),
        ("date", "2026-02-01", "date '2026-02-01'"),
        ("timestamp", "1790000000000001", "timestamp_micros(1790000000000001)"),
        ("timestamp_ntz", "2026-02-01 00:00:00", "timestamp_ntz '2026-02-01 00:00:00'"),
        ("decimal(9,2)", "1.50", "cast('1.50' as decimal(9,2))"),
    ],
)
def test_literals(kind: str, text: str, said: str) -> None:
    assert Column("k", "`k`", kind).literal(text) == said


def test_conditions() -> None:
    column = Column("k", "`k`", "int")
    assert Bound(column, "1", "9").condition("d.") == "(d.`k` >= 1 and d.`k` <= 9)"
    assert Bound(column, "1", "9", ("1", "9")).condition("d.") == "(d.`k` in (1, 9))"
    with_nulls = Bound(column, "1", "9", nulls=True).condition("d.")
    assert with_nulls == "(d.`k` >= 1 and d.`k` <= 9 or d.`k` is null)"
    text = Column("k", "`k`", "string")
    assert Bound(text, "a", "b" * (LONGEST + 1)).condition("d.") == ""


def test_a_null_widens_a_bound_only_where_it_meets_one() -> None:
    column = Column("k", "`k`", "int")
    row, keys = [12, 1, 2, True, "3", "7"], ["`k`"]
    plain, with_null = Bound(column, "3", "7"), Bound(column, "3", "7", nulls=True)
    assert read_batch(row, keys, True, [column]).bounds == (with_null,)
    assert read_batch(row, keys, False, [column]).bounds == (plain,)
    assert read_batch(row, ["`id`"], False, [column]).bounds == (with_null,)
    assert read_batch([2, 0, 2, True, None, None], keys, False, [column]).bounds == ()
    assert "if(`k` is null, 0, dbt_rows)" in batch_sql("b", keys, False, [column])


@pytest.mark.parametrize(
    ("constraints", "config", "declared"),
    [
        ({"id": "primary_key"}, {}, True),
        ({"id": "unique"}, {}, True),
        ({"id": "unique"}, {"null_safe_keys": True}, False),
        ({"id": "primary_key"}, {"null_safe_keys": True}, True),
        ({"id": "not_null"}, {}, False),
        ({"amount": "unique"}, {}, False),
    ],
)
def test_a_constraint_declares_the_key(constraints: Any, config: Any, declared: bool) -> None:
    names = ["id", "amount"]
    listed = {name: {"constraints": [{"type": kind}]} for name, kind in constraints.items()}
    model = {"name": "m", "config": config, "columns": listed}
    columns = Columns(names, names, names)
    assert MergePlan(model, {"unique_key": "id"}, columns).is_key_declared is declared
    together = [{"type": "unique", "columns": ["ID", "amount"]}]
    model = {"name": "m", "config": {}, "constraints": together}
    assert not MergePlan(model, {"unique_key": "id"}, columns).is_key_declared
    assert MergePlan(model, {"unique_key": ["amount", "id"]}, columns).is_key_declared
