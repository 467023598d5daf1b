"""What twenty tests of one table cost, when nothing is known of it: `icegate audit` and `dbt test`.

The usual mix: fourteen that metadata can decide, two of unique keys, one of relationships and three
expressions. Both sides have built the same tables before; whole processes, from a compiled project.
"""

from __future__ import annotations

import yaml
from _bench import Claim, finish, options, sides, timed

# Rows of the table, and how much less CPU and wall time an audit has to take.
SIZES, QUICK = {5_000_000: 15.0, 25_000_000: 10.0}, {200_000: 15.0}
SHOPS = 5000
ORDERS = """
{{{{ config(materialized='table') }}}}
select id as order_id, sha2(cast(id as string), 224) as reference, id % {shops} as shop_id,
    cast(id % 40 + 1 as int) as quantity, cast(id % 9973 as decimal(12, 2)) as net,
    cast(id % 97 as decimal(12, 2)) as tax,
    cast(id % 9973 as decimal(12, 2)) + cast(id % 97 as decimal(12, 2)) as gross,
    date_add(date '2026-01-01', cast(id % 300 as int)) as ordered_on,
    date_add(date '2026-01-02', cast(id % 300 as int)) as shipped_on,
    element_at(array('open', 'shipped', 'done'), cast(id % 3 + 1 as int)) as status
from range(0, {rows}, 1, 8)
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


def main() -> None:
    given = options(__doc__ or "", runs=3)
    claims = []
    for rows, bar in (QUICK if given.quick else SIZES).items():
        orders = ORDERS.format(rows=rows, shops=SHOPS).strip() + "\n"
        files = {"models/orders.sql": orders, "models/shops.sql": SHOP_SQL.strip() + "\n"}
        files |= {"models/_models.yml": tests(), "macros/tests.sql": GENERIC}
        ours, peer = sides("audits", files)
        for side in (ours, peer):
            side.dbt("--quiet", "run")
            side.dbt("--quiet", "compile")
        audit = [str(ours.python.parent / "icegate"), "audit"]
        mine, theirs = [], []
        for _ in range(given.runs):
            mine.append(timed(audit, ours.folder, ours.env))
            theirs.append(peer.dbt("--quiet", "test"))
            print(f"{ours.name}: {mine[-1]}, {peer.name}: {theirs[-1]}", flush=True)
        claims.append(Claim(f"20 tests, {rows:,} rows", mine, theirs, bar))
    finish("audits", claims)


if __name__ == "__main__":
    main()
