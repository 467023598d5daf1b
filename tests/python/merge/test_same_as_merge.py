"""Every plan leaves the rows that Iceberg's one MERGE leaves, whatever the options."""

from __future__ import annotations

from typing import Any

import pytest
from gate.gated import GatedProject

from icegate.merge import plans, run

pytestmark = pytest.mark.slow

OURS = ("skip_unchanged_rows", "merge_fixed_columns")
MERGE = {"materialized": "incremental", "incremental_strategy": "merge", "unique_key": "id"}
INCREMENTAL = "{%% if is_incremental() %%} %s {%% else %%} %s {%% endif %%}"
# Numbers, texts, a day and a moment; the second batch has old keys, new ones and one unchanged row.
HELD = """
    select int(id) as id, concat('k', id % 7) as code, cast(id as decimal(9, 2)) as amount,
        date_add(date '2026-01-01', int(id % 5)) as day,
        timestamp_seconds(1.79e9 + id) as seen_at, 'i' as op
    from range({first}, {last})
"""
FIRST = HELD.format(first=0, last=60)
NEXT = f"""
    select id, code, if(id = 55, amount, amount + 1) as amount, day,
        if(id = 55, seen_at, seen_at + interval 1 day) as seen_at,
        if(id = 55, 'i', if(id % 3 = 0, 'd', 'u')) as op
    from ({HELD.format(first=50, last=66)})
"""
NULLS = (
    f"{FIRST} union all select null, 'n', 1, date '2026-01-02', timestamp '2026-01-01', 'i'",
    f"{NEXT} union all select null, 'n', 2, date '2026-01-02', timestamp '2026-01-01', 'i'",
)
NO_DAY = tuple(
    f"select id, code, amount, if(id % 4 = 1, null, day) as day, seen_at, op from ({rows})"
    for rows in (FIRST, NEXT)
)
SAME_TIME = FIRST, NEXT.replace("seen_at + interval 1 day", "seen_at")
BUCKETS, TWO_FIELDS = {"partition_by": ["bucket(4, id)"]}, ["truncate(2, code)", "bucket(3, id)"]
TWICE = (f"{FIRST} union all select * from ({FIRST}) where id in (51, 52)", NEXT)

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "plain": ({}, FIRST, NEXT),
    "days": ({"unique_key": ["id", "day"], "partition_by": ["day"]}, FIRST, NEXT),
    "fixed": ({"merge_fixed_columns": "day", "partition_by": ["months(day)"]}, FIRST, NEXT),
    "fixed_nulls": ({"merge_fixed_columns": "day", "partition_by": ["day"]}, *NO_DAY),
    "moments": ({"unique_key": ["seen_at", "code"]}, FIRST, NEXT),
    "texts": ({"unique_key": ["code", "amount"]}, FIRST, NEXT),
    "buckets": (BUCKETS, FIRST, NEXT),
    "years": ({"unique_key": ["day", "id"], "partition_by": ["years(day)"]}, FIRST, NEXT),
    "hours": ({"unique_key": ["id", "seen_at"], "partition_by": ["hours(seen_at)"]}, *SAME_TIME),
    "two_fields": ({"unique_key": ["ID", "code"], "partition_by": TWO_FIELDS}, FIRST, NEXT),
    "bucket_nulls": (BUCKETS, *NULLS),
    "bucket_nulls_meet": ({**BUCKETS, "null_safe_keys": True}, *NULLS),
    "bucket_twice": (BUCKETS, *TWICE),
    "bucket_new": (BUCKETS, FIRST, HELD.format(first=100, last=120)),
    "bucket_unchanged": ({**BUCKETS, "skip_unchanged_rows": True}, FIRST, NEXT),
    "nulls": ({}, *NULLS),
    "nulls_meet": ({"null_safe_keys": True}, *NULLS),
    "twice": ({}, *TWICE),
    "all_new": ({}, FIRST, HELD.format(first=100, last=120)),
    "all_old": ({}, FIRST, HELD.format(first=0, last=60).replace("'i' as op", "'u' as op")),
    "empty": ({}, FIRST, f"select * from ({NEXT}) where id < 0"),
    "some_columns": ({"merge_update_columns": ["op"]}, FIRST, NEXT),
    "not_all_columns": ({"merge_exclude_columns": ["amount"]}, FIRST, NEXT),
    "matched": ({"matched_condition": "DBT_INTERNAL_SOURCE.op = 'u'"}, FIRST, NEXT),
    "not_matched": ({"not_matched_condition": "DBT_INTERNAL_SOURCE.op <> 'd'"}, FIRST, NEXT),
    "deleting": ({"delete_condition": "DBT_INTERNAL_SOURCE.op = 'd'"}, FIRST, NEXT),
    "by_source": ({"not_matched_by_source_action": "delete"}, FIRST, NEXT),
    "predicates": ({"incremental_predicates": ["DBT_INTERNAL_DEST.id < 55"]}, FIRST, NEXT),
    "unchanged": ({"skip_unchanged_rows": True}, FIRST, NEXT),
    "unchanged_twice": ({"skip_unchanged_rows": True}, *TWICE),
    "unchanged_all": ({"skip_unchanged_rows": True}, FIRST, FIRST),
}
SPLIT = (
    "plain days fixed fixed_nulls moments texts buckets nulls nulls_meet all_old unchanged "
    "years hours two_fields bucket_nulls bucket_nulls_meet bucket_unchanged"
).split()
# Those whose partitions can be written whole, and where the table has a key twice it's merged.
WHOLE = (
    "days fixed fixed_nulls buckets years hours two_fields bucket_nulls bucket_nulls_meet "
    "bucket_new bucket_unchanged"
).split()
MAY_BE_WHOLE = {*WHOLE, "bucket_twice"}


@pytest.mark.long
@pytest.mark.parametrize("version", ["2", "3"])
def test_every_plan_is_the_same_as_one_merge(
    gated: GatedProject, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "LITTLE", 0)
    monkeypatch.setattr(plans, "MUCH", 10)
    ways = {"stock": {}, "auto": {"merge_plan": "auto"}, "mor": {"merge_plan": "merge_on_read"}}
    ways["cow"] = {"merge_plan": "copy_on_write"}
    ways["whole"] = {"merge_plan": "overwrite_partitions"}
    for case, (config, first, then) in CASES.items():
        for way, plan in ways.items():
            format = {"tblproperties": {"format-version": version}}
            given = {**MERGE, **config, **plan, **format}
            if way == "stock":
                given = {k: v for k, v in given.items() if k not in OURS}
            if way != "whole" or case in MAY_BE_WHOLE:
                gated.model(f"{case}_{way}", INCREMENTAL % (then, first), **given)
    assert gated.dbt("run", "--threads", "8").ok
    with monkeypatch.context() as plain:  # what is compared with has no conditions but its keys
        plain.setattr(run, "conditions", lambda bounds, prefix: [])
        assert gated.dbt("run", "--threads", "8", "--select", "*_stock").ok
    done = gated.dbt("run", "--threads", "8", "--exclude", "*_stock")
    assert done.ok, done.text
    for case in CASES:
        wanted = gated.seen(f"{case}_stock")
        for way in ways if case in MAY_BE_WHOLE else [way for way in ways if way != "whole"]:
            assert gated.seen(f"{case}_{way}") == wanted, f"{case} {way} {version}"
    assert {case for case in CASES if has_halves(gated, f"{case}_auto")} == {*SPLIT}
    assert {case for case in MAY_BE_WHOLE if is_whole(gated, f"{case}_whole")} == {*WHOLE}


def has_halves(project: GatedProject, table: str) -> bool:
    """Tell whether a table was written by a delete and an insert."""
    newest = project.metadata(table)["snapshots"][-2:]
    return [s["summary"]["operation"] for s in newest] == ["delete", "append"]


def is_whole(project: GatedProject, table: str) -> bool:
    """Tell whether the newest commit replaced partitions."""
    newest = project.metadata(table)["snapshots"][-1]
    return newest["summary"].get("replace-partitions") == "true"
