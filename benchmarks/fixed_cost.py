"""What a small project costs: 30 small models, cold and on a warm server, and one heavy model.

The heavy one is here since settings that make a small run cheap can make a large one slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from _bench import (
    HOME,
    Claim,
    Cost,
    Side,
    adopt_orphans,
    finish,
    options,
    our_side,
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


WARM = "icegate, warm server"
SMALL = ("--quiet", "run", "--exclude", "tag:heavy")


def first_and_second(side: Side, costs: list[tuple[Cost, Cost]]) -> None:
    """Build the small models from nothing, then once more, and note both."""
    if side.name == WARM:
        side.dbt("--quiet", "run-operation", "forget")
    else:
        side.forget()
    costs.append((side.dbt(*SMALL), side.dbt(*SMALL)))
    print(f"{side.name}: first {costs[-1][0]}, second {costs[-1][1]}", flush=True)


def heavy_run(side: Side, costs: list[Cost]) -> None:
    cost = side.dbt("--quiet", "run", "--select", "tag:heavy")
    costs.append(Cost(side.node_seconds("heavy"), cost.cpu))
    print(f"{side.name}: heavy {costs[-1]}", flush=True)


@contextmanager
def served(files: dict[str, str]) -> Iterator[Side]:
    """Hold our project on a server of its own that has run the models some times."""
    side = replace(our_side(HOME / "fixed_cost" / "warm", files, "connect"), name=WARM)
    icegate = [str(side.python.parent / "icegate"), "server"]
    side.forget()
    adopt_orphans(False)  # the server stays when its starter ends
    timed([*icegate, "start"], side.folder, side.env)
    adopt_orphans(True)
    try:
        side.dbt("--quiet", "parse")
        for _ in range(WARM_UPS):
            first_and_second(side, [])
        yield side
    finally:
        timed([*icegate, "stop"], side.folder, side.env)


def main() -> None:
    given = options(__doc__ or "", runs=5)
    files = models(given.quick)
    ours, peer = sides("fixed_cost", files)
    other = sqlmesh("fixed_cost", files)
    pairs: dict[str, list[tuple[Cost, Cost]]] = {ours.name: [], peer.name: [], WARM: []}
    heavy: dict[str, list[Cost]] = {ours.name: [], peer.name: []}
    others: list[Cost] = []
    with served(files) as warm:
        for _ in range(given.runs):
            for side in (ours, peer, warm):
                first_and_second(side, pairs[side.name])
            for side in (ours, peer):
                heavy_run(side, heavy[side.name])
            others.append(first_plan(other))
            print(f"{other.name}: first {others[-1]}", flush=True)
    first, second = ({name: [p[n] for p in found] for name, found in pairs.items()} for n in (0, 1))
    was = f"server warm after {WARM_UPS} pairs"
    finish(
        "fixed_cost",
        [
            Claim("30 models, first run", first[ours.name], first[peer.name], COLD_BAR),
            Claim("30 models, second run", second[ours.name], second[peer.name], COLD_BAR),
            Claim(f"30 models, first run, {was}", first[WARM], first[peer.name], WARM_BAR),
            Claim(f"30 models, second run, {was}", second[WARM], second[peer.name], WARM_BAR),
            Claim("30 million rows, one model", heavy[ours.name], heavy[peer.name], HEAVY_BAR),
            Claim("30 models, first run", first[ours.name], others, peer=other.name),
        ],
    )


if __name__ == "__main__":
    main()
