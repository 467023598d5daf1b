"""Faults to plant, each with who has to catch it and where it then shows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet

from icegate.errors import ConfigError
from landing_data import text
from landing_data.files import DayFolder
from landing_data.plan import Plan

Row = dict[str, Any]
Plant = Callable[[DayFolder, Plan], str]
Change = Callable[[Row, Plan], "Row | list[Row]"]

CATCHERS = ("loader", "contract", "test")
ORDERS, PRODUCTS, CUSTOMERS = (
    "orders-00000.jsonl",
    "products-00000.parquet",
    "customers-00000.jsonl",
)
ROOMS, READINGS = "room_data-00000.jsonl", "readings-00000.parquet"
ROWS = 3  # a handful
HOT_LINES = (91, 94, 97)  # the living room from 10:35 on


@dataclass(frozen=True)
class Fault:
    """A pathology; ``plant`` makes it in the last day and says where."""

    name: str
    plants: str
    caught_by: str  # one of CATCHERS
    shows: str
    plant: Plant
    source: str = "shop"
    # After the marker's numbers are taken, as on the way here; else the sender itself is wrong.
    on_the_way: bool = False


def choose(names: str) -> list[Fault]:
    """Return the faults in a list of names, of who catches them, or ``all``."""
    chosen: set[str] = set()
    for name in filter(None, (name.strip() for name in names.split(","))):
        group = {f.name for f in FAULTS.values() if name in ("all", f.caught_by, f.name)}
        if not group:
            close = get_close_matches(name, [*FAULTS, *CATCHERS, "all", "list"], n=1, cutoff=0.5)
            raise ConfigError(
                f"no fault is named {name!r}",
                why=f"did you mean {close[0]!r}?" if close else "it isn't in the list",
                fix="`--faults list` shows them all",
            )
        chosen |= group
    return [fault for fault in FAULTS.values() if fault.name in chosen]


def orders_needed(faults: Iterable[Fault]) -> int:
    """Return how many new orders the last day must have for these faults."""
    names = {fault.name for fault in faults}
    return ROWS * len(IN_ORDERS) if names & {row[0] for row in IN_ORDERS} else bool(names)


def _edit(day: DayFolder, name: str, lines: Iterable[int], change: Callable[[Row], Any]) -> str:
    """Replace the rows at ``lines`` by what ``change`` makes of them; read line by line."""
    wanted, aside = set(lines), day.path / f".{name}"
    rows = 0
    with (day.path / name).open("rb") as before, aside.open("wb") as after:
        for number, line in enumerate(before):
            made = change(json.loads(line)) if number in wanted else None
            for row in made if isinstance(made, list) else [made]:
                compact = json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"
                after.write(compact.encode() if row else line)
                rows += 1
    os.replace(aside, day.path / name)
    day.files[name]["rows"] = rows
    return f"{name}, lines {min(wanted) + 1} to {max(wanted) + 1}"


def _in_orders(change: Change, place: int) -> Plant:
    """Give each fault rows of its own, at the start of the day's first file."""
    lines = range(ROWS * place, ROWS * (place + 1))
    return lambda day, plan: _edit(day, ORDERS, lines, lambda row: change(row, plan))


def _orphan(row: Row, plan: Plan) -> Row:
    nobody = plan.key_number("customer", numpy.array([plan.customers]))
    return {**row, "customer_id": text.join(text.key("CUST", nobody))[0].as_py()}


def _negative(row: Row, plan: Plan) -> Row:
    items = [{**item, "unit_price": -item["unit_price"]} for item in row["items"]]
    return {**row, "items": items, "total_amount": -row["total_amount"]}


def _wordy(row: Row, plan: Plan) -> Row:
    return {**row, "total_amount": f"{row['total_amount']:,.2f} {row['currency']}"}


def _mixed_up(row: Row, plan: Plan) -> Row:
    return {**row, "currency": "EUR", "total_amount": round(row["total_amount"] * 1.08, 2)}


def _twice(row: Row, plan: Plan) -> list[Row]:
    first, *others = row["items"]
    price, share = round(first["unit_price"] * 100), round(first["discount"] * 100)
    pieces = first["quantity"]
    one, more = ((n * price * (100 - share) + 50) // 100 for n in (pieces, pieces + 1))
    total = (round(row["total_amount"] * 100) - one + more) / 100
    return [
        row,
        {**row, "items": [{**first, "quantity": pieces + 1}, *others], "total_amount": total},
    ]


def _heat(day: DayFolder, plan: Plan) -> str:
    return _edit(day, ROOMS, HOT_LINES, lambda row: {**row, "current_temperature": 105.0})


def _drop_column(day: DayFolder, plan: Plan) -> str:
    gone = "current_humidity"
    lines = range(day.files[ROOMS]["rows"])
    return _edit(day, ROOMS, lines, lambda row: {k: v for k, v in row.items() if k != gone})


def _change_type(day: DayFolder, plan: Plan) -> str:
    table = pyarrow.parquet.read_table(day.path / PRODUCTS)
    prices = table["price"].cast(pyarrow.string())
    table = table.set_column(table.schema.get_field_index("price"), "price", prices)
    pyarrow.parquet.write_table(table, day.path / PRODUCTS)
    return PRODUCTS


def _truncate(name: str, share: float) -> Plant:
    def plant(day: DayFolder, plan: Plan) -> str:
        os.truncate(day.path / name, int(day.files[name]["bytes"] * share))
        return name

    return plant


def _contradict(day: DayFolder, plan: Plan) -> str:
    day.files[ORDERS]["rows"] += 1
    return f"_SUCCESS, {ORDERS}"


def _forget_marker(day: DayFolder, plan: Plan) -> str:
    day.files.clear()
    return "_SUCCESS"


# The last one adds rows, which would move those of a fault behind it.
IN_ORDERS: list[tuple[str, str, str, str, Change]] = [
    ("orphan_key", "a customer_id that no customer has",
     "test", "relationships on silver.curated_orders.customer_id", _orphan),
    ("null_key", "an order_id that is null",
     "test", "not_null on bronze.raw_orders.order_id (warns)",
     lambda row, _: {**row, "order_id": None}),
    ("negative_amount", "unit prices below zero, and a total_amount that agrees with them",
     "test", "accepted_range on silver.curated_orders.subtotal_amount", _negative),
    ("impossible_date", "an order_date of 30 February",
     "contract", "bronze.raw_orders__rejected: ordered_at, not a valid timestamp",
     lambda row, plan: {**row, "order_date": f"{plan.start.year}-02-30T10:00:00"}),
    ("text_in_number", "a total_amount like 1,234.50 USD",
     "contract", "bronze.raw_orders__rejected: total_amount, not a valid decimal(12, 2)", _wordy),
    ("unknown_status", "an order_status `returned`",
     "test", "accepted_values on silver.curated_orders.order_status",
     lambda row, _: {**row, "order_status": "returned"}),
    ("currency_mix_up", "a total_amount in dollars for items in euros",
     "test", "assert_orders_equal_their_items", _mixed_up),
    ("duplicate_key", "an order twice with one updated_at, and a piece more in the second row",
     "test", "one_newest_version on silver.curated_orders", _twice),
]  # fmt: skip

FAULTS = {fault.name: fault for fault in [
    *(Fault(name, plants, catcher, shows, _in_orders(change, place))
      for place, (name, plants, catcher, shows, change) in enumerate(IN_ORDERS)),
    Fault("hot_reading", "105 °C in the living room",
          "test", "accepted_range on silver.curated_rooms.temperature_c", _heat, "sensors"),
    Fault("gone_column", "room data without current_humidity",
          "loader", "column 'current_humidity' is gone", _drop_column, "sensors"),
    Fault("changed_type", "price as text in a Parquet file of products",
          "loader", "column 'price' is string, not decimal(10,2)", _change_type),
    Fault("truncated_file", "a file of customers without its second half",
          "loader", "truncated: … bytes, and _SUCCESS promises …",
          _truncate(CUSTOMERS, 0.5), on_the_way=True),
    Fault("empty_file", "a file of readings with no bytes",
          "loader", "it is empty, and _SUCCESS promises … rows",
          _truncate(READINGS, 0), "sensors", on_the_way=True),
    Fault("marker_contradicts", "a _SUCCESS that promises one order more",
          "loader", "it has … rows, and _SUCCESS promises …", _contradict, on_the_way=True),
    Fault("missing_success", "a day of sensors without _SUCCESS",
          "loader", "waits for the day, says so, and loads nothing of it",
          _forget_marker, "sensors", on_the_way=True),
]}  # fmt: skip
