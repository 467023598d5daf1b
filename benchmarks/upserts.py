"""What it costs to update 1 % of a table's rows, round after round: `merge_plan: auto` and the gate
against dbt-spark's `merge`, copy-on-write, each in one process with a warm Spark, in turns.

Ten rounds of keys at random, all columns read after each; then what our rounds leave to be tidied
up, a compaction of all files with deletes, counts as ours. Then the newest keys, on these tables
and on fresh ones.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from _bench import Claim, Cost, Side, options, save, sides
from _turns import Step, in_turns, of

BAR, READ_BAR, RECENT_BAR, BYTES_BAR = 6.0, 1 / 1.15, 10.0, 1.1
ROWS, QUICK_ROWS, ROUNDS, PRIME = 10_000_000, 500_000, 10, 6_700_417
ORDERS = """
{{{{ config(materialized='incremental', incremental_strategy='merge', unique_key='order_id') }}}}
{{% if target.type == 'icegate' %}}
    {{{{ config(merge_plan='auto', tblproperties={{'format-version': '3'}}) }}}}
{{% endif %}}
{{% set round = var('round', 0) %}}
select id as order_id, id % 5000 as shop_id,
    cast(hash(id, {{{{ round }}}}) % 100000 as decimal(12, 2)) as net,
    cast(hash({{{{ round }}}}, id) % 9973 as decimal(12, 2)) as tax,
    date_add(date '2026-01-01', cast(id div {day} as int)) as ordered_on,
    element_at(array('open', 'shipped', 'done'), int(pmod(hash(id, {{{{ round }}}}), 3)) + 1)
        as status,
    concat('R', hex(xxhash64(id, {{{{ round }}}}))) as reference,
    timestamp_seconds(1767225600 + id + {{{{ round }}}} * 86400) as updated_at
{{% if not is_incremental() %}}
from range(0, {rows}, 1, 8)
{{% elif var('recent', false) %}}
from range({rows} - {batch}, {rows}, 1, 4)
{{% else %}}
from (
    select (id * {prime}) % {rows} as id
    from range({{{{ round }}}} * {batch}, ({{{{ round }}}} + 1) * {batch}, 1, 4)
)
{{% endif %}}
"""
KEY = """
models:
  - name: {name}
    columns:
      - name: order_id
        constraints: [{{type: primary_key}}]
"""
READ = """
select count(*), sum(order_id), sum(shop_id), sum(net), sum(tax), max(ordered_on), max(status),
    max(reference), max(updated_at) from bench.{table}
"""
WRITTEN = """
select sum(if(operation = 'append', bytes, 0)), sum(bytes) from (
    select operation, cast(summary['added-files-size'] as bigint) as bytes
    from bench.orders.snapshots order by committed_at desc limit 2
)
"""
COMPACT = """
call lake.system.rewrite_data_files(table => 'bench.orders', options => map(
    'delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))
"""


def files_of(rows: int) -> dict[str, str]:
    """Return two models of the same rows, whose key is declared."""
    text = ORDERS.format(rows=rows, batch=rows // 100, day=rows // 300, prime=PRIME)
    names = ("orders", "fresh")
    files = {f"models/{name}.sql": text.strip() + "\n" for name in names}
    return files | {f"models/{name}.yml": KEY.format(name=name) for name in names}


def steps(side: Side) -> list[Step]:
    """Return what a side does, in order; round 1 only warms Spark up."""
    ours = side.name == "icegate"
    found: list[Step] = [{"name": "first build", "dbt": ["run"]}]

    def round_of(name: str, number: int, recent: bool, table: str) -> None:
        chosen = json.dumps({"round": number, "recent": recent})
        found.append({"name": name, "dbt": ["run", "-s", table, "--vars", chosen]})
        found.append({"name": f"read after {name}", "sql": READ.format(table=table)})

    written: list[Step] = [{"name": "written", "sql": WRITTEN}] * ours
    round_of("warm-up", 1, False, "orders")
    found += written
    for number in range(2, ROUNDS + 2):
        round_of("random", number, False, "orders")
    found += written
    if ours:
        found.append({"name": "compact", "sql": COMPACT})
        found.append({"name": "read after compact", "sql": READ.format(table="orders")})
    for number in range(12, 17):
        round_of("recent", number, True, "orders")
    for number in range(17, 22):
        round_of("fresh", number, True, "fresh")
    return found


def summed(costs: list[Cost]) -> Cost:
    """Return what costs are together."""
    return Cost(sum(cost.wall for cost in costs), sum(cost.cpu for cost in costs))


def claims_of(ours: list[list[Step]], peers: list[list[Step]]) -> list[Claim]:
    """Return the claims of runs, each of which is the steps of a side."""

    def pairs(name: str) -> list[list[Cost]]:
        return [[cost for run in side for cost in of(run, name)] for side in (ours, peers)]

    sums = {
        names: [[summed([c for n in names for c in of(run, n)]) for run in side] for side in both]
        for both in [(ours, peers)]
        for names in [("random", "compact"), ("read after random",)]
    }
    newest = "a round of the newest keys, on"
    return [
        Claim(
            f"{ROUNDS} rounds of 1 % random keys and compaction",
            *sums["random", "compact"],
            BAR,
            of="cpu",
        ),
        Claim(
            f"{ROUNDS} full reads, one after each round",
            *sums[("read after random",)],
            READ_BAR,
            of="cpu",
        ),
        Claim("a round of random keys", *pairs("random"), of="cpu"),
        Claim(f"{newest} these tables", *pairs("recent"), RECENT_BAR, of="cpu"),
        Claim(f"{newest} fresh tables", *pairs("fresh"), of="cpu"),
    ]


def check_rows(ours: list[Step], peers: list[Step]) -> None:
    """End the program where both tables aren't the same after a round."""
    names = {"read after warm-up", "read after random", "read after recent", "read after fresh"}
    mine, theirs = ([s for s in side if s["name"] in names] for side in (ours, peers))
    for one, other in zip(mine, theirs, strict=True):
        if one["rows"] != other["rows"]:
            sys.exit(f"error: the tables differ: {one} {other}")


def main() -> None:
    given = options(__doc__ or "", runs=1)
    rows = QUICK_ROWS if given.quick else ROWS
    ours, peer = sides("upserts", files_of(rows), gate=True)
    runs = [in_turns((ours, peer), steps) for _ in range(given.runs)]
    for run in runs:
        check_rows(*run)
    claims = claims_of([mine for mine, _ in runs], [theirs for _, theirs in runs])
    sizes = [s["rows"][0] for s in runs[-1][0] if s["name"] == "written"]
    first, last = [int(written) / int(own) for own, written in sizes]
    save("upserts", claims=[asdict(claim) for claim in claims], rows=rows, written=[first, last])
    for claim in claims:
        print(claim.line("upserts"))
    few = first <= BYTES_BAR
    verdict = "met" if few else "missed"
    print(
        f"upserts: bytes that a round writes: {first:.2f} times the changed rows' own size, "
        f"{last:.2f} times in round {ROUNDS + 1} (bar {BYTES_BAR}: {verdict})"
    )
    sys.exit(0 if few and all(claim.met for claim in claims) else 1)


if __name__ == "__main__":
    main()
