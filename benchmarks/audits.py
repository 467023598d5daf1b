"""What twenty tests of one table cost, when nothing is known of it and after a small batch.

The usual mix: fourteen that metadata can decide, two of unique keys that grow, one of relationships
and three expressions. Both sides build the same tables, and add the same batches of 50,000 rows;
whole processes, from a compiled project. `icegate audit` and our `dbt test` against dbt-spark's.
"""

from __future__ import annotations

import json

import yaml
from _bench import Claim, Cost, Side, finish, options, sides, timed

# Rows of the table, and how much less CPU and wall time an audit has to take of which nothing is
# known; how much less after a batch, and how much less our `dbt test` then.
SIZES, QUICK = {5_000_000: 15.0, 25_000_000: 10.0}, {200_000: 15.0}
AFTER_A_BATCH, BY_DBT = 60.0, 15.0
BATCH = 50_000
SHOPS = 5000
ORDERS = """
{{{{ config(materialized='incremental') }}}}
select id as order_id, concat('R', lpad(cast(id as string), 12, '0')) as reference,
    id % {shops} as shop_id,
    cast(id % 40 + 1 as int) as quantity, cast(id % 9973 as decimal(12, 2)) as net,
    cast(id % 97 as decimal(12, 2)) as tax,
    cast(id % 9973 as decimal(12, 2)) + cast(id % 97 as decimal(12, 2)) as gross,
    date_add(date '2026-01-01', cast(id % 300 as int)) as ordered_on,
    date_add(date '2026-01-02', cast(id % 300 as int)) as shipped_on,
    element_at(array('open', 'shipped', 'done'), cast(id % 3 + 1 as int)) as status
from range({{{{ var('first', 0) }}}}, {{{{ var('last', {rows}) }}}}, 1, 8)
"""
SHOP_SQL = f"""
{{{{ config(materialized='table') }}}}
select id as shop_id from range({SHOPS})
"""
GENERIC = """
{% test at_least(model, column_name, least) %}
select * from {{ model }} where not ({{ column_name }} >= {{ least }})
{% endtest %}
{% test holds(model, expression) %}
select * from {{ model }} where not ({{ expression }})
{% endtest %}
"""
NAMES = "order_id reference shop_id quantity net tax gross ordered_on".split()
RANGES = {"order_id": 0, "shop_id": 0, "quantity": 1, "net": 0, "tax": 0, "gross": 0}
HOLD = ["net + tax = gross", "shipped_on > ordered_on", "quantity <= 40 or status = 'open'"]


def tests() -> str:
    """Return the tests of the table as YAML."""
    columns: dict[str, list[object]] = {name: ["not_null"] for name in NAMES}
    for name, least in RANGES.items():
        columns[name].append({"at_least": {"arguments": {"least": least}}})
    for name in ("order_id", "reference"):
        columns[name].append("unique")
    parents = {"arguments": {"to": "ref('shops')", "field": "shop_id"}}
    columns["shop_id"].append({"relationships": parents})
    held = [
        {"holds": {"name": f"holds_{number}", "arguments": {"expression": text}}}
        for number, text in enumerate(HOLD)
    ]
    listed = [{"name": name, "data_tests": given} for name, given in columns.items()]
    return yaml.safe_dump({"models": [{"name": "orders", "columns": listed, "data_tests": held}]})


def add_batch(both: tuple[Side, Side], first: int) -> None:
    """Append a batch to the table of each side."""
    chosen = json.dumps({"first": first, "last": first + BATCH})
    for side in both:
        side.dbt("--quiet", "run", "--select", "orders", "--vars", chosen)
    both[0].dbt("--quiet", "compile")  # a run leaves the tests parsed only


def compare(rows: int, bar: float, runs: int) -> list[Claim]:
    """Return what was measured with a table of so many rows."""
    orders = ORDERS.format(rows=rows, shops=SHOPS).strip() + "\n"
    files = {"models/orders.sql": orders, "models/shops.sql": SHOP_SQL.strip() + "\n"}
    files |= {"models/_models.yml": tests(), "macros/tests.sql": GENERIC}
    ours, peer = sides("audits", files, audits=True)
    for side in (ours, peer):
        side.dbt("--quiet", "run")
        side.dbt("--quiet", "compile")
    command = [str(ours.python.parent / "icegate"), "audit"]
    unknown, audited, by_dbt, stock, after = [list[Cost]() for _ in range(5)]
    for number in range(runs):
        unknown.append(timed(command, ours.folder, {**ours.env, "ICEGATE_FULL": "1"}))
        stock.append(peer.dbt("--quiet", "test"))
        add_batch((ours, peer), rows + 2 * number * BATCH)
        audited.append(timed(command, ours.folder, ours.env))
        add_batch((ours, peer), rows + (2 * number + 1) * BATCH)
        by_dbt.append(ours.dbt("--quiet", "test"))
        after.append(peer.dbt("--quiet", "test"))
        shown = [costs[-1] for costs in (unknown, stock, audited, by_dbt, after)]
        print("unknown {}, stock {}, after a batch {}, dbt test {}, stock {}".format(*shown))
    size = f"20 tests, {rows:,} rows"
    return [
        Claim(f"{size}, nothing known", unknown, stock, bar),
        Claim(f"{size}, after a batch", audited, after, AFTER_A_BATCH),
        Claim(f"{size}, after a batch, dbt test", by_dbt, after, BY_DBT),
    ]


def main() -> None:
    given = options(__doc__ or "", runs=3)
    sizes = (QUICK if given.quick else SIZES).items()
    finish("audits", [claim for rows, bar in sizes for claim in compare(rows, bar, given.runs)])


if __name__ == "__main__":
    main()
