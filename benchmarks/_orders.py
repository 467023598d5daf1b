"""Tables of orders with the usual mix of tests, and batches that come to them.

Twenty tests a table: fourteen that metadata can decide, two of unique keys that grow, one of
relationships and three expressions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import yaml
from _bench import Side

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
STATES = ["open", "shipped", "done"]
HOLD = ["net + tax = gross", "shipped_on > ordered_on", "quantity <= 40 or status = 'open'"]


def files_of(rows: int, tables: Sequence[str] = ("orders",), tests: int = 20) -> dict[str, str]:
    """Return a project of such tables, which have so many tests in all: 20 to 22 each."""
    orders = ORDERS.format(rows=rows, shops=SHOPS).strip() + "\n"
    found = {"models/shops.sql": SHOP_SQL.strip() + "\n", "macros/tests.sql": GENERIC}
    for number, name in enumerate(tables):
        more = (tests + len(tables) - 1 - number) // len(tables) - 20
        found[f"models/{name}.sql"] = orders
        found[f"models/{name}.yml"] = yaml_of(name, [STATES, [*STATES, "lost"]][: max(more, 0)])
    return found


def add_batch(sides: Iterable[Side], first: int, rows: int, tables: str = "orders") -> None:
    """Append a batch to tables of each side."""
    chosen = json.dumps({"first": first, "last": first + rows})
    for side in sides:
        side.dbt("--quiet", "run", "--select", tables, "--vars", chosen)
        side.dbt("--quiet", "compile")  # a run leaves the tests parsed only


def yaml_of(table: str, accepted: Sequence[Sequence[str]]) -> str:
    """Return the tests of a table as YAML, with one more for each list of accepted states."""
    columns: dict[str, list[object]] = {name: ["not_null"] for name in NAMES}
    for name, least in RANGES.items():
        columns[name].append({"at_least": {"arguments": {"least": least}}})
    for name in ("order_id", "reference"):
        columns[name].append("unique")
    parents = {"arguments": {"to": "ref('shops')", "field": "shop_id"}}
    columns["shop_id"].append({"relationships": parents})
    columns["status"] = [{"accepted_values": {"arguments": {"values": v}}} for v in accepted]
    held = [
        {"holds": {"name": f"holds_{number}_{table}", "arguments": {"expression": text}}}
        for number, text in enumerate(HOLD)
    ]
    listed = [{"name": name, "data_tests": given} for name, given in columns.items()]
    return yaml.safe_dump({"models": [{"name": table, "columns": listed, "data_tests": held}]})
