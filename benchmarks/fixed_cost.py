"""What a small project costs: 30 small models, cold and on a warm server, and one heavy model.

The heavy one is here since settings that make a small run cheap can make a large one slow.
"""

from __future__ import annotations

from dataclasses import replace

import yaml
from _bench import (
    MEMORY,
    THREADS,
    Claim,
    Cost,
    Side,
    adopt_orphans,
    finish,
    options,
    sides,
    timed,
)
from _sqlmesh import first_plan, sqlmesh

COLD_BAR, WARM_BAR, HEAVY_BAR = 1.6, 4.0, 1 / 1.02
HEAVY_ROWS = 30_000_000
WARM_UPS = 3  # pairs of runs that a server has behind it before it counts as warm

STAGING = """
{{{{ config(materialized='view') }}}}
select id as order_id, id % 17 as customer_id, cast(id * 1.5 as decimal(18, 2)) as amount,
    timestamp '2026-01-01' + make_interval(0, 0, 0, cast(id % 28 as int)) as ordered_at
from range({number}, 1000 + {number})
"""
TABLE = """
{{{{ config(materialized='table') }}}}
select customer_id, date(ordered_at) as ordered_on, count(*) as orders, sum(amount) as revenue
from {{{{ ref('stg_{number}') }}}} group by all
"""
INCREMENTAL = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}'{key}) }}}}
select order_id, customer_id, amount, ordered_at from {{{{ ref('stg_{number}') }}}}
{{% if is_incremental() %}} where order_id >= 900 {{% endif %}}
"""
REPORT = """
{{{{ config(materialized='{kind}') }}}}
select sales.customer_id, sum(sales.revenue) as revenue, count(history.order_id) as orders
from {{{{ ref('daily_{number}') }}}} as sales
left join {{{{ ref('log_{log}') }}}} as history on sales.customer_id = history.customer_id
group by all
"""
# A model before the heavy one: whoever runs first waits for Spark's start, which isn't meant here.
NUMBERS = """
{{{{ config(materialized='view', tags=['heavy']) }}}}
select id from range(0, {rows}, 1, 8)
"""
HEAVY = """
{{{{ config(materialized='table', tags=['heavy']) }}}}
select customer_id % 1000 as bucket, count(*) as customers, sum(orders) as orders,
    sum(revenue) as revenue, max(label) as label
from (
    select customer_id, count(*) as orders, sum(amount) as revenue, max(label) as label,
        count(distinct day) as days
    from (
        select hash(id) % 1000000 as customer_id, id % 365 as day,
            cast(id % 9973 as double) * 1.1 as amount,
            concat('n', cast(id % 100 as string)) as label
        from {{{{ ref('numbers') }}}}
    )
    group by customer_id
)
group by customer_id % 1000
"""


FORGET = """
{% macro forget() %}
    {% do adapter.drop_schema(api.Relation.create(schema=target.schema)) %}
{% endmacro %}
"""


def models(quick: bool) -> dict[str, str]:
    """Return ten views, eight tables, six incremental models and six reports, or a third."""
    size = 1 if quick else 3
    found = {f"stg_{n}": STAGING.format(number=n) for n in range(3 * size + 1)}
    found |= {f"daily_{n}": TABLE.format(number=n) for n in range(3 * size - 1)}
    for n in range(2 * size):
        strategy, key = ("append", "") if n % 2 else ("merge", ", unique_key='order_id'")
        found[f"log_{n}"] = INCREMENTAL.format(number=n, strategy=strategy, key=key)
    for n in range(2 * size):
        kind = "view" if n % 2 else "table"
        found[f"report_{n}"] = REPORT.format(number=n, log=n, kind=kind)
    rows = HEAVY_ROWS // 100 if quick else HEAVY_ROWS
    found |= {"numbers": NUMBERS.format(rows=rows), "heavy": HEAVY.format()}
    files = {f"models/{name}.sql": sql.strip() + "\n" for name, sql in found.items()}
    return {**files, "macros/forget.sql": FORGET.strip() + "\n"}


SMALL = ("--quiet", "run", "--exclude", "tag:heavy")


def warm_runs(ours: Side, runs: int) -> tuple[list[Cost], list[Cost]]:
    """Return first and second runs against a server that has run the models some times before."""
    ours.forget()
    adopt_orphans(False)  # the server stays
    warm = on_server(ours)
    icegate = [str(ours.python.parent / "icegate"), "server"]
    timed([*icegate, "start"], warm.folder, warm.env)
    try:
        warm.dbt("--quiet", "parse")
        first, second = [], []
        for number in range(-WARM_UPS, runs):
            warm.dbt("--quiet", "run-operation", "forget")
            pair = warm.dbt(*SMALL), warm.dbt(*SMALL)
            when = "warm" if number >= 0 else "not measured"
            print(f"icegate, server, {when}: first {pair[0]}, second {pair[1]}", flush=True)
            if number >= 0:
                first.append(pair[0])
                second.append(pair[1])
    finally:
        timed([*icegate, "stop"], warm.folder, warm.env)
    return first, second


def on_server(ours: Side) -> Side:
    """Return our side with a target on its own warm server, in the same folder."""
    target = {"type": "icegate", "method": "connect", "schema": "bench", "memory": MEMORY}
    folder = ours.folder / "warm"
    folder.mkdir(exist_ok=True)
    profile = {"bench": {"target": "bench", "outputs": {"bench": {"threads": THREADS, **target}}}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
    env = {"DBT_PROFILES_DIR": str(folder), "DBT_TARGET_PATH": str(folder / "target")}
    return replace(ours, env={**ours.env, **env})


def main() -> None:
    given = options(__doc__ or "", runs=5)
    files = models(given.quick)
    ours, peer = sides("fixed_cost", files)
    other = sqlmesh("fixed_cost", files)
    others: list[Cost] = []
    first: tuple[list[Cost], list[Cost]] = ([], [])
    second: tuple[list[Cost], list[Cost]] = ([], [])
    heavy: tuple[list[Cost], list[Cost]] = ([], [])
    for _ in range(given.runs):
        for number, side in enumerate((ours, peer)):
            side.forget()
            first[number].append(side.dbt(*SMALL))
            second[number].append(side.dbt(*SMALL))
            cost = side.dbt("--quiet", "run", "--select", "tag:heavy")
            heavy[number].append(Cost(side.node_seconds("heavy"), cost.cpu))
            print(f"{side.name}: first {first[number][-1]}, second {second[number][-1]}, "
                  f"heavy {heavy[number][-1]}", flush=True)  # fmt: skip
        others.append(first_plan(other))
        print(f"{other.name}: first {others[-1]}", flush=True)
    warm = warm_runs(ours, given.runs)
    finish(
        "fixed_cost",
        [
            Claim("30 models, first run", *first, COLD_BAR),
            Claim("30 models, second run", *second, COLD_BAR),
            Claim(
                f"30 models, first run, server warm after {WARM_UPS} pairs",
                warm[0],
                first[1],
                WARM_BAR,
            ),
            Claim("30 models, second run, warm server", warm[1], second[1], WARM_BAR),
            Claim("30 million rows, one model", *heavy, HEAVY_BAR),
            Claim("30 models, first run", first[0], others, peer=other.name),
        ],
    )


if __name__ == "__main__":
    main()
