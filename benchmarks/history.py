"""What it costs to keep each version of each row of a table of which 1 % changes between runs:
the materialization `history` against `dbt snapshot` of dbt-spark, both on a warm Spark, in turns.

Changes of the newest keys, then of keys at random; both must tell the same versions.
"""

from __future__ import annotations

import sys
from functools import partial

from _bench import Claim, Side, finish, options, sides
from _turns import Step, in_turns, of

BAR = 5.0
ROWS, QUICK_ROWS, ROUNDS, PRIME = 10_000_000, 500_000, 3, 6_700_417
COLUMNS = """
id as order_id, id % 5000 as shop_id, cast(hash(id, {round}) % 100000 as decimal(12, 2)) as net,
element_at(array('open', 'shipped', 'done'), int(pmod(hash(id, {round}), 3)) + 1) as status,
concat('R', hex(xxhash64(id))) as reference,
timestamp_seconds(1767225600 + {round} * 86400) as updated_at
"""
MADE = """
create table bench.orders using iceberg tblproperties ('format-version' = '2',
    'write.merge.mode' = '{mode}') as select {columns} from range(0, {rows}, 1, 8)
"""
CHANGED = """
merge into bench.orders t using (select {columns} from {changed}) s
on t.order_id = s.order_id when matched then update set * when not matched then insert *
"""
SOURCE = """
sources:
  - name: shop
    schema: bench
    tables: [{name: orders}]
"""
OURS = """
{{ config(materialized='history', unique_key='order_id') }}
select * from {{ source('shop', 'orders') }}
"""
THEIRS = """
snapshots:
  - name: kept
    relation: source('shop', 'orders')
    config: {unique_key: order_id, strategy: timestamp, updated_at: updated_at,
      file_format: iceberg}
"""
TOLD = {
    "icegate": "select count(*), count_if(is_current), sum(net) from bench.kept",
    "dbt-spark": "select count(*), count_if(dbt_valid_to is null), sum(net) from bench.kept",
}
WARM = "warm-up"
NAMED = (("newest", "the newest keys", BAR), ("random", "random keys", None))


OWN = {"icegate": ("models/kept.sql", OURS), "dbt-spark": ("snapshots/kept.yml", THEIRS)}
FILES = {"models/shop.yml": SOURCE.lstrip(), "models/one.sql": "select 1 as id\n"}  # starts Spark


def steps(side: Side, rows: int, mode: str) -> list[Step]:
    """Return what a side does, in order; the first round only warms Spark up."""
    run = ["run", "--select", "kept"] if side.name == "icegate" else ["snapshot"]
    few, first = rows // 100, COLUMNS.format(round=0)
    found: list[Step] = [
        {"name": "start", "dbt": ["run", "--select", "one"]},
        {"name": "make", "sql": "create namespace if not exists bench"},
        {"name": "make", "sql": MADE.format(mode=mode, columns=first, rows=rows)},
        {"name": "first", "dbt": run},
    ]
    for number in range(1, 2 * ROUNDS + 2):
        changed = f"range({rows} - {few}, {rows}, 1, 4)"
        name = "newest" if number > 1 else WARM
        if number > ROUNDS + 1:
            name = "random"
            begin = number * few
            changed = f"(select (id * {PRIME}) % {rows} as id from range({begin}, {begin + few}))"
        columns = COLUMNS.format(round=number)
        found.append({"name": "change", "sql": CHANGED.format(columns=columns, changed=changed)})
        found.append({"name": name, "dbt": run})
    return [*found, {"name": "told", "sql": TOLD[side.name]}]


def main() -> None:
    given = options(__doc__ or "", runs=1)
    rows = QUICK_ROWS if given.quick else ROWS
    ours, peer = sides("history", FILES)
    for side in (ours, peer):
        name, text = OWN[side.name]
        (side.folder / name).parent.mkdir(exist_ok=True)
        (side.folder / name).write_text(text.lstrip())
    claims = []
    for mode in ("copy-on-write", "merge-on-read"):
        mine, theirs = in_turns((ours, peer), partial(steps, rows=rows, mode=mode))
        if mine[-1]["rows"] != theirs[-1]["rows"]:
            sys.exit(f"error: {mode}: ours told {mine[-1]['rows']}, dbt {theirs[-1]['rows']}")
        print(f"{mode}: {mine[-1]['rows']} versions, current ones, sum of net", flush=True)
        for name, what, bar in NAMED:
            said = f"a run after 1 % of {rows} rows changed: {what}, source {mode}"
            pair = of(mine, name), of(theirs, name)
            claims.append(Claim(said, *pair, bar, "dbt snapshot", of="cpu"))
    finish("history", claims)


if __name__ == "__main__":
    main()
