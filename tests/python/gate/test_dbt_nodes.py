"""The gate is the same for every kind of node, strategy and language, and for many threads."""

from __future__ import annotations

from typing import Any

import pytest

from gate.gated import NOT_NULL, GatedProject

pytestmark = pytest.mark.slow

DAYS = "(1, 'old', '2026-01-01'), (2, 'old', '2026-01-02')"
NEXT = "(2, {v}, '2026-01-02'), (3, 'new', '2026-01-02')"
ADDED = [(1, "old"), (2, "new"), (2, "old"), (3, "new")]
MERGED = [(1, "old"), (2, "new"), (3, "new")]
BY_DAY = {"incremental_strategy": "insert_overwrite", "partition_by": ["day"]}
BATCHES = {
    "incremental_strategy": "microbatch",
    "event_time": "day",
    "begin": "2026-01-01",
    "batch_size": "day",
}
STRATEGIES: dict[str, tuple[dict[str, Any], list[tuple[int, str]]]] = {
    "added": ({"incremental_strategy": "append"}, ADDED),
    "merged": ({"incremental_strategy": "merge", "unique_key": "id"}, MERGED),
    "deleted": ({"incremental_strategy": "delete+insert", "unique_key": "id"}, MERGED),
    "by_day": (BY_DAY, MERGED),
    "all_over": ({"incremental_strategy": "insert_overwrite"}, [(2, "new"), (3, "new")]),
    "batches": (BATCHES, MERGED),
    "batches_by_day": ({**BATCHES, "partition_by": ["days(day)"]}, MERGED),
}
SPAN = ["--event-time-start", "2026-01-0{}", "--event-time-end", "2026-01-03"]


def write_strategies(project: GatedProject, rows: str) -> None:
    select = f"select id, v, timestamp(day) as day from values {rows} as t(id, v, day)"
    project.model("raw", select, gate=False, event_time="day")
    for name, (config, _) in STRATEGIES.items():
        arguments = {"materialized": "incremental", **config}
        project.model(f"{name}_sql", "select * from {{ ref('raw') }}", **arguments)
        text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        project.write(
            f"models/{name}_py.py",
            f"def model(dbt, spark):\n    dbt.config({text})\n    return dbt.ref('raw')\n",
        )
    tables = [f"{name}_{language}" for name in STRATEGIES for language in ("sql", "py")]
    project.tests(**{table: {"v": ["not_null"]} for table in tables})


def build(project: GatedProject, first_day: int) -> Any:
    span = [option.format(first_day) for option in SPAN]
    return project.dbt("build", "--threads", "8", *span)


@pytest.mark.long
def test_each_strategy_of_both_languages(gated: GatedProject) -> None:
    tables = {f"{n}_{x}": after for n, (_, after) in STRATEGIES.items() for x in ("sql", "py")}
    write_strategies(gated, DAYS)
    run = build(gated, 1)
    assert run.ok, run.text
    before = [(1, "old"), (2, "old")]
    assert {t: [row[:2] for row in gated.seen(t)] for t in tables} == dict.fromkeys(tables, before)
    for value in ("cast(null as string)", "'new'"):
        write_strategies(gated, NEXT.format(v=value))
        run = build(gated, 2)
        statuses = {t: run.status[t] for t in tables}
        assert set(statuses.values()) == {"success"}, run.text
        good = "null" not in value
        assert run.ok == good
        seen = {t: [row[:2] for row in gated.seen(t)] for t in tables}
        assert seen == (tables if good else dict.fromkeys(tables, before))
        waiting = {len(gated.builds(t)) for t in tables}
        assert waiting == {0 if good else 1}


@pytest.mark.long
def test_many_models_in_many_threads(gated: GatedProject) -> None:
    names = [f"m{number:02}" for number in range(12)]
    for name in names:
        gated.values(name, 1)
    gated.tests(**dict.fromkeys(names, NOT_NULL))
    assert gated.dbt("build", "--threads", "8").ok
    bad = set(names[::3])
    for name in names:
        gated.values(name, 2, None if name in bad else 2)
    run = gated.dbt("build", "--threads", "8")
    assert not run.ok
    seen = {name: gated.seen(name) for name in names}
    assert {name for name, rows in seen.items() if rows == [(1, 1)]} == bad
    assert {name for name, rows in seen.items() if rows == [(1, 2), (2, 2)]} == set(names) - bad
    tags = {name: "release_2" in gated.metadata(name)["refs"] for name in names}
    assert tags == {name: name not in bad for name in names}


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "laid_out": {"partition_by": ["id"], "sort_by": ["amount"]},
    "grows": {"materialized": "incremental", "incremental_strategy": "append"},
    "merges": {
        "materialized": "incremental",
        "incremental_strategy": "merge",
        "unique_key": "id",
    },
}


@pytest.mark.parametrize("how", ["models", "target"])
def test_switched_off_it_takes_its_property_away_and_writes_main(
    gated: GatedProject, how: str
) -> None:
    for name, config in KINDS.items():
        gated.values(name, 1, **config)
    gated.tests(**dict.fromkeys(KINDS, NOT_NULL))
    assert gated.dbt("build").ok
    assert all(gated.is_wap(name) for name in KINDS)
    off = {"gate": False} if how == "models" else {}
    for name, config in KINDS.items():
        gated.values(name, None, **config, **off)
    if how == "target":
        gated.retarget(gate=False)
    run = gated.dbt("build")
    assert not run.ok and run.status["grows"] == "success", run.text
    after = {name: [(1, None)] for name in KINDS} | {"grows": [(1, 1), (1, None)]}
    assert {name: gated.seen(name) for name in KINDS} == after
    assert {name: gated.is_wap(name) for name in KINDS} == dict.fromkeys(KINDS, False)
    assert {name: gated.builds(name) for name in KINDS} == dict.fromkeys(KINDS, [])
    assert len(gated.events()) == 1 and run.notes == ""
