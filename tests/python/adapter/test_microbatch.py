"""Microbatch: each batch replaces its span of event time, however the table is partitioned."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject
from incremental_models import MERGE_ON_READ, operations

pytestmark = pytest.mark.slow

MICROBATCH = {
    "materialized": "incremental",
    "incremental_strategy": "microbatch",
    "event_time": "at",
    "begin": "2026-01-01",
    "batch_size": "day",
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain_on_read": {"tblproperties": MERGE_ON_READ},
    "by_month": {"partition_by": ["months(at)"]},
    "by_day": {"partition_by": ["days(at)"]},
    "by_hour": {"partition_by": ["region", "hours(at)"]},
    "by_region": {"partition_by": ["region"]},
}
ONE = ["--threads", "8", "--event-time-start", "2026-01-02", "--event-time-end", "2026-01-03"]
ALL = ["--threads", "8", "--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04"]


def write_source(project: DbtProject, values: str) -> None:
    project.write(
        "models/events.sql",
        f"""
        {{{{ config(materialized='table', event_time='at') }}}}
        select id, timestamp(at) as at, region, map('a', id) as more
        from values {values} as events(id, at, region)
    """,
    )


def write_batches(project: DbtProject, name: str, language: str, **config: Any) -> None:
    arguments = ", ".join(f"{key}={value!r}" for key, value in {**MICROBATCH, **config}.items())
    project.write(
        f"models/{name}.{language}",
        f"""
        def model(dbt, spark):
            dbt.config({arguments})
            return dbt.ref("events")
    """
        if language == "py"
        else f"{{{{ config({arguments}) }}}} select * from {{{{ ref('events') }}}}",
    )


FIRST = """
    (1, '2026-01-01 05:00', 'a'), (2, '2026-01-02 00:00', 'a'), (3, '2026-01-02 23:59', 'b'),
    (4, '2026-01-03 00:00', 'b')
"""
THEN = "(11, '2026-01-01 05:00', 'a'), (12, '2026-01-02 07:00', 'c'), (14, '2026-01-03 00:00', 'b')"


def test_a_batch_replaces_its_span_and_nothing_else(project: DbtProject) -> None:
    for name, config in LAYOUTS.items():
        write_batches(project, name, "sql", **config)
    write_batches(project, "in_python", "py")
    write_batches(project, "in_python_by_day", "py", partition_by=["days(at)"])
    names = [*LAYOUTS, "in_python", "in_python_by_day"]
    write_source(project, FIRST)
    run = project.dbt("run", *ALL)
    assert run.ok, run.text
    for name in names:
        assert project.rows(f"select id from {{s}}.{name} order by id") == [(1,), (2,), (3,), (4,)]
    before = {name: len(operations(project, name)) for name in names}
    write_source(project, THEN)
    run = project.dbt("run", *ONE)
    assert run.ok, run.text
    for name in names:
        assert project.rows(f"select id from {{s}}.{name} order by id") == [(1,), (4,), (12,)], name
        assert len(operations(project, name)) == before[name] + 1, name


def test_batches_at_once_lose_and_double_no_row(project: DbtProject) -> None:
    days = [(n, f"2026-01-{1 + n % 6:02d} 0{n % 10}:00", "a") for n in range(60)]
    write_source(project, ", ".join(map(str, days)))
    for name in ("plain", "plain_on_read", "by_day"):
        write_batches(project, name, "sql", concurrent_batches=True, **LAYOUTS[name])
    for _ in range(2):  # the second run finds rows of all days in each file, and rewrites them
        run = project.dbt("run", *ALL[:-1], "2026-01-07")
        assert run.ok, run.text
    for name in ("plain", "plain_on_read", "by_day"):
        assert project.rows(f"select count(*), count(distinct id) from {{s}}.{name}") == [(60, 60)]
