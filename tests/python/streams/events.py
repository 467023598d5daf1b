"""Events by chance, and in plain Python what a stream has to make of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from streams.broker import Record

KEYS = 900
ORDERS, CLICKS = "silver.orders", "bronze.clicks"
Place = tuple[int, int]  # partition, offset


class Rules(NamedTuple):
    """What the stream's file says: kinds that are clicks, and operations that update."""

    clicks: tuple[str, ...] = ("click",)
    updates: tuple[str, ...] = ("c", "u")

    def routes(self) -> list[dict[str, Any]]:
        """Return the same as routes; that without a key comes first."""
        operation = {"path": "$.op", "update": [*self.updates], "delete": ["d"]}
        columns = {
            "id": {"path": "$.order.id", "type": "bigint"},
            "amount": {"path": "$.order.amount", "type": "decimal(12,2)", "required": True},
            "note": {"path": "$.order.note"},
        }
        clicks = {"when": {"$.type": [*self.clicks]}, "table": CLICKS, "columns": {"n": "bigint"}}
        orders = {"when": {"$.type": ["order"]}, "table": ORDERS, "key": ["id"]}
        return [clicks, {**orders, "operation": operation, "columns": columns}]


FIRST = Rules()
# Reads what was unknown before: another kind, and another name for an update.
LATER = Rules(("click", "visit"), ("c", "u", "fix"))


class Expected(NamedTuple):
    """Rows by place, records that are bad, and the places of deletes."""

    orders: list[tuple[Any, ...]]
    clicks: list[tuple[Any, ...]]
    bad: dict[Place, bytes | None]


def make_events(count: int, seed: int) -> Iterator[Record]:
    """Yield events; all of a key have the same Kafka key, hence one partition."""
    dice = random.Random(seed)
    for number in range(count):
        key = dice.randrange(KEYS)
        yield Record(b"%d" % key, _value(dice, number, key))


def _value(dice: random.Random, number: int, key: int) -> bytes | None:
    kind = dice.random()
    if kind < 0.30:
        return _json(type="click", n=number)
    if kind < 0.34:
        return _json(type="visit", n=number)
    if kind < 0.35:
        return None
    if kind < 0.37:
        return dice.choice([b'{"type": "order", "op"', b"\xff\xfe", b"[]", b"", b"{} {}"])
    op = dice.choices(["c", "u", "d", "fix", "?"], [30, 40, 20, 8, 2])[0]
    order: dict[str, Any] = {"id": key, "note": f"no. {number}"}
    if op != "d":
        amount = f"{dice.randrange(10**8) / 100:.2f}"
        order["amount"] = dice.choices([amount, "much", None], [90, 5, 5])[0]
    if dice.random() < 0.02:
        del order["id"]
    return _json(type="order", op=op, order=order)


def _json(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


def expect(records: Sequence[Record], rules: Rules) -> Expected:
    """Return what tables have to hold once a topic's records are read by these rules.

    ``records`` are all of a topic; those of a partition are in order, from offset 0 on.
    """
    orders: dict[int, tuple[Any, ...]] = {}
    clicks, bad, ends = [], {}, dict.fromkeys((r.partition for r in records), 0)
    for record in records:
        place = (record.partition, ends[record.partition])
        ends[record.partition] += 1
        event = _read(record.value)
        if event.get("type") in rules.clicks:
            clicks.append((event["n"], *place))
        elif not _is_order(event, rules):
            bad[place] = record.value
        elif event["op"] == "d":
            orders.pop(event["order"]["id"], None)
        else:
            order = event["order"]
            row = (order["id"], Decimal(order["amount"]), order["note"], *place)
            orders[order["id"]] = row
    return Expected(sorted(orders.values()), sorted(clicks), bad)


def _read(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_order(event: dict[str, Any], rules: Rules) -> bool:
    if event.get("type") != "order" or "id" not in event["order"]:
        return False
    if event["op"] == "d":
        return True
    return event["op"] in rules.updates and event["order"]["amount"] not in (None, "much")
