"""What the gate costs: the same build of 20 models and their tests, gated and not gated."""

from __future__ import annotations

from dataclasses import replace

from _bench import HOME, Claim, Cost, Side, finish, options, our_side, refuse_unfair

BAR = 1 / 1.10  # of the time without a gate

ORDERS = """
{{{{ config(materialized='table') }}}}
select id as order_id, id % 97 as customer_id, cast(id * 1.5 as decimal(18, 2)) as amount,
    timestamp '2026-01-01' + make_interval(0, 0, 0, cast(id % 28 as int)) as ordered_at
from range({number}, {rows} + {number})
"""
LOG = """
{{{{ config(materialized='incremental', incremental_strategy='{strategy}'{key}) }}}}
select order_id, customer_id, amount, ordered_at from {{{{ ref('orders_{number}') }}}}
{{% if is_incremental() %}} where order_id >= {rows} - 1000 {{% endif %}}
"""
DAILY = """
{{{{ config(materialized='table') }}}}
select customer_id, date(ordered_at) as ordered_on, count(*) as orders, sum(amount) as revenue
from {{{{ ref('log_{number}') }}}} group by all
"""
SHOWN = """
{{{{ config(materialized='view') }}}}
select customer_id, sum(revenue) as revenue from {{{{ ref('daily_{number}') }}}} group by all
"""
DESCRIBED = """
  - name: {name}
    columns:
      - name: {column}
        data_tests: [not_null]
"""


def models(quick: bool) -> dict[str, str]:
    """Return six tables, six incremental models on them, six tables on these and two views."""
    rows, size = (10_000, 2) if quick else (500_000, 6)
    found = {}
    for n in range(size):
        strategy, key = ("append", "") if n % 2 else ("merge", ", unique_key='order_id'")
        found[f"orders_{n}"] = ORDERS.format(number=n, rows=rows)
        found[f"log_{n}"] = LOG.format(number=n, rows=rows, strategy=strategy, key=key)
        found[f"daily_{n}"] = DAILY.format(number=n)
    found |= {f"shown_{n}": SHOWN.format(number=n) for n in range(2)}
    tests = "".join(DESCRIBED.format(name=name, column="customer_id") for name in found)
    files = {f"models/{name}.sql": sql.strip() + "\n" for name, sql in found.items()}
    return {**files, "models/_models.yml": f"models:{tests}"}


def first_and_second(side: Side, costs: list[tuple[Cost, Cost]]) -> None:
    """Build from nothing, then once more."""
    side.forget()
    costs.append((side.dbt("--quiet", "build"), side.dbt("--quiet", "build")))
    print(f"{side.name}: first {costs[-1][0]}, second {costs[-1][1]}", flush=True)


def main() -> None:
    given = options(__doc__ or "", runs=5)
    refuse_unfair()
    files = models(given.quick)
    gated = our_side(HOME / "gate" / "gated", files, gate=True)
    plain = replace(our_side(HOME / "gate" / "plain", files), name="without a gate")
    costs: dict[str, list[tuple[Cost, Cost]]] = {gated.name: [], plain.name: []}
    for side in (gated, plain):
        side.dbt("--quiet", "parse")
    for number in range(given.runs):
        for side in (gated, plain) if number % 2 else (plain, gated):
            first_and_second(side, costs[side.name])
    claims = [
        Claim(what, *([pair[n] for pair in costs[side.name]] for side in (gated, plain)), BAR)
        for n, what in enumerate(("20 models, first build", "20 models, second build"))
    ]
    finish("gate", [replace(claim, peer=plain.name) for claim in claims])


if __name__ == "__main__":
    main()
