"""The shop: customers, products and orders, each row made from its index alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
import pyarrow
from numpy.typing import NDArray

from landing_data import text
from landing_data.plan import DAY, Numbers, Plan

HOUR = 3600
CHANGED_EACH_DAY = 50  # of 50 customers (or products), one changes each day
SPREAD_DAYS = 90  # the first day's orders reach that far back
LONGEST_LIFE_DAYS = 9  # an order that landed so long ago doesn't change any more

FIRST = (
    "James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara "
    "Richard Susan Joseph Jessica Thomas Sarah Zoë"
).split()
LAST = (
    "Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez "
    "O'Brien Núñez"
).split()
PLACES = [
    ("New York", "NY", "USA"), ("Los Angeles", "CA", "USA"), ("Chicago", "IL", "USA"),
    ("Houston", "TX", "USA"), ("Phoenix", "AZ", "USA"), ("Philadelphia", "PA", "USA"),
    ("Seattle", "WA", "USA"), ("London", "LND", "GBR"), ("Berlin", "BE", "DEU"),
]  # fmt: skip
CURRENCIES = {"USA": "USD", "GBR": "GBP", "DEU": "EUR"}
CATEGORIES = {
    "Electronics": ["Phones", "Laptops", "Tablets", "Audio"],
    "Clothing": ["Men", "Women", "Kids", "Accessories"],
    "Home & Garden": ["Furniture", "Decor", "Kitchen", "Outdoor"],
    "Sports": ["Fitness", "Outdoor", "Team Sports", "Water Sports"],
    **dict.fromkeys(["Books", "Toys", "Health", "Automotive"], ["General"] * 4),
}
STATUSES = ["pending", "processing", "shipped", "delivered", "cancelled"]
PENDING, PROCESSING, SHIPPED, DELIVERED, CANCELLED = range(5)


class Life(NamedTuple):
    """What happens to orders: when each was ordered, and is processed, shipped and delivered."""

    moments: list[Numbers]
    is_cancelled: NDArray[
        numpy.bool_
    ]  # then it is cancelled in the moment when it would have been shipped

    def stage(self, until: int) -> Numbers:
        """Count what has happened by then."""
        processed, shipped, delivered = (moment <= until for moment in self.moments[1:])
        return numpy.add(processed, shipped, dtype=numpy.int64) + (delivered & ~self.is_cancelled)


def customers(plan: Plan, day: int) -> Iterator[Any]:
    """Yield JSON lines: everybody on the first day, those who changed on a later one."""
    for index in _changed(plan, "customer", plan.customers, day):
        created = plan.epoch - DAY * (SPREAD_DAYS + 1) - plan.roll("joined", index, 365 * DAY)
        updated = plan.epoch + DAY * day + plan.roll(f"customer updated {day}", index, DAY)
        if day == 0:
            updated = created + plan.roll("customer updated", index, SPREAD_DAYS * DAY)
        first, last = (plan.roll(w, index, len(n)) for w, n in (("first", FIRST), ("last", LAST)))
        yield text.join(
            text.record(
                customer_id=text.string(text.key("CUST", plan.key_number("customer", index))),
                email=text.string(_email(plan, index, first, last)),
                first_name=text.string(text.pick(FIRST, first)),
                last_name=text.string(text.pick(LAST, last)),
                phone=text.string(_phone(plan, index, day)),
                address=_address(plan, index, day),
                created_at=text.string(text.moment(created)),
                updated_at=text.string(text.moment(updated)),
                source_system=text.string(
                    text.pick(["web", "mobile", "store"], plan.roll("system", index, 3))
                ),
            ),
            "\n",
        )


def products(plan: Plan, day: int) -> Iterator[Any]:
    """Yield tables: all products on the first day, those with a new price or stock on a later."""
    names = list(CATEGORIES)
    kinds = [kind for group in CATEGORIES.values() for kind in group]
    for index in _changed(plan, "product", plan.products, day):
        category = plan.roll("category", index, len(names))
        category_name = text.pick(names, category)
        kind = text.pick(kinds, category * 4 + plan.roll("kind", index, 4))
        cents = _price(plan, index) * (100 + plan.roll(f"rise {day}", index, 21) * (day > 0)) // 100
        created = plan.epoch - DAY * (SPREAD_DAYS + 1) - plan.roll("listed", index, 365 * DAY)
        updated = plan.epoch + DAY * day + plan.roll(f"product updated {day}", index, DAY)
        sku = text.pick([name[:3].upper() for name in names], category)
        yield pyarrow.table(
            {
                "product_id": text.join(text.key("PROD", plan.key_number("product", index))),
                "sku": text.join("SKU-", sku, "-", text.digits(index, 4)),
                "name": text.join(category_name, " ", kind, " Product ", text.digits(index)),
                "description": text.join(
                    "High quality ", text.compute.utf8_lower(category_name), " product"
                ),
                "category": category_name,
                "subcategory": kind,
                "price": _decimal(cents),
                "cost": _decimal(cents * (30 + plan.roll("cost", index, 41)) // 100),
                "stock_quantity": plan.roll(f"stock {day}", index, 1001).astype(numpy.int32),
                "attributes": _attributes(plan, index),
                "created_at": _instant(created),
                "updated_at": _instant(updated if day else created),
            }
        )


def orders(plan: Plan, day: int) -> Iterator[Any]:
    """Yield JSON lines: orders that land on ``day``, then those of earlier days that changed."""
    new = plan.first_order(day)
    for start in range(new, plan.first_order(day + 1), plan.block_rows):
        index = numpy.arange(start, min(start + plan.block_rows, plan.first_order(day + 1)))
        yield _orders(plan, index, day)
    midnight = plan.epoch + DAY * day
    for start in range(plan.first_order(max(0, day - LONGEST_LIFE_DAYS)), new, plan.block_rows):
        index = numpy.arange(start, min(start + plan.block_rows, new))
        life = _life(plan, index)
        changed = index[life.stage(midnight - 1) != life.stage(midnight + DAY - 1)]
        if len(changed):
            yield _orders(plan, changed, day)


def _orders(plan: Plan, index: Numbers, day: int) -> Any:
    life = _life(plan, index)
    stage = life.stage(plan.epoch + DAY * (day + 1) - 1)
    is_cancelled = life.is_cancelled & (stage == SHIPPED)
    ordered, _, shipped, delivered = life.moments
    customer = plan.roll("buyer", index, plan.customers)
    place = plan.roll("place 0", customer, len(PLACES))
    items, totals = _items(plan, index)
    return text.join(
        text.record(
            order_id=text.string(text.key("ORD", plan.key_number("order", index))),
            customer_id=text.string(text.key("CUST", plan.key_number("customer", customer))),
            order_status=text.string(
                text.pick(STATUSES, numpy.where(is_cancelled, CANCELLED, stage))
            ),
            order_date=text.string(text.moment(ordered)),
            required_date=text.string(
                text.moment(ordered + DAY * (3 + plan.roll("wait", index, 8)))
            ),
            shipped_date=_maybe(shipped, (stage >= SHIPPED) & ~is_cancelled),
            delivered_date=_maybe(delivered, stage == DELIVERED),
            items=items,
            shipping_address=_address(plan, customer, 0),
            payment_method=text.string(
                text.pick(["credit_card", "debit_card", "paypal"], plan.roll("pay", index, 3))
            ),
            currency=text.string(text.pick([CURRENCIES[c] for _, _, c in PLACES], place)),
            total_amount=text.hundredths(totals),
            updated_at=text.string(text.moment(numpy.choose(stage, life.moments))),
        ),
        "\n",
    )


def _life(plan: Plan, index: Numbers) -> Life:
    first_day = plan.first_order(1)
    landed = numpy.where(
        index < first_day, 0, 1 + (index - first_day) // max(1, plan.orders_per_day)
    )
    early = plan.epoch + DAY - 1 - plan.roll("early", index, SPREAD_DAYS * DAY)
    late_days = (1 + plan.roll("days late", index, 5)) * (plan.roll("late", index, 10) == 0)
    fresh = plan.epoch + DAY * (landed - late_days) + plan.roll("second", index, DAY)
    ordered = numpy.where(landed == 0, early, fresh)
    processed = ordered + HOUR + plan.roll("processed", index, 35 * HOUR)
    shipped = processed + 6 * HOUR + plan.roll("shipped", index, 66 * HOUR)
    delivered = shipped + DAY + plan.roll("delivered", index, 3 * DAY)
    return Life([ordered, processed, shipped, delivered], plan.roll("cancel", index, 12) == 0)


def _items(plan: Plan, index: Numbers) -> tuple[Any, Numbers]:
    """Return the items as JSON, and the orders' totals in cents."""
    counts = 1 + plan.roll("items", index, 5)
    ends = numpy.cumsum(counts)
    place = numpy.arange(ends[-1]) - numpy.repeat(ends - counts, counts)
    item = numpy.repeat(index, counts) * 8 + place
    product = plan.roll("product", item, plan.products)
    quantity, discount = 1 + plan.roll("quantity", item, 3), plan.roll("discount", item, 21)
    cents = _price(plan, product)
    json = text.record(
        product_id=text.string(text.key("PROD", plan.key_number("product", product))),
        quantity=text.digits(quantity),
        unit_price=text.hundredths(cents),
        discount=text.hundredths(discount),
    )
    amounts = (quantity * cents * (100 - discount) + 50) // 100  # half a cent goes up
    return text.array(counts, json), numpy.add.reduceat(amounts, ends - counts)


def _changed(plan: Plan, what: str, count: int, day: int) -> Iterator[Numbers]:
    step = min(CHANGED_EACH_DAY, count) if day else 1
    first = int(plan.roll(f"{what} changes", numpy.array([day]), step)[0])
    for start in range(first, count, plan.block_rows * step):
        yield numpy.arange(start, min(start + plan.block_rows * step, count), step)


def _email(plan: Plan, index: Numbers, first: Numbers, last: Numbers) -> Any:
    """People type their address as they like: one in ten in capitals, one in ten with spaces."""
    names = (text.pick([_plain(n) for n in all_], i) for all_, i in ((FIRST, first), (LAST, last)))
    email = text.join(*names, text.digits(index), "@example.com")
    habit = plan.roll("typing", index, 10)
    shouted = text.compute.if_else(habit == 0, text.compute.utf8_upper(email), email)
    spaces = text.pick([""] + ["  "] + [""] * 8, habit)
    return spaces, shouted, spaces


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name)
    return "".join(letter for letter in letters if letter.isascii() and letter.isalpha()).lower()


def _phone(plan: Plan, index: Numbers, day: int) -> Any:
    area = text.digits(200 + plan.roll(f"area {day}", index, 800))
    line = text.digits(100 + plan.roll(f"line {day}", index, 100), 4)
    formats = [("+1-", "-", "-"), ("(", ") ", "-"), ("", ".", "."), ("", "", "")]
    shape = plan.roll(f"phone {day}", index, len(formats))
    before, middle, after = (text.pick([f[n] for f in formats], shape) for n in range(3))
    return before, area, middle, "555", after, line


def _address(plan: Plan, index: Numbers, day: int) -> Any:
    place = plan.roll(f"place {day}", index, len(PLACES))
    city, state, country = (text.pick([p[n] for p in PLACES], place) for n in range(3))
    number = text.digits(100 + plan.roll(f"street {day}", index, 9900))
    return text.record(
        street=text.string((number, " Main Street")),
        city=text.string(city),
        state=text.string(state),
        zip=text.string(text.digits(plan.roll(f"zip {day}", index, 100_000), 5)),
        country=text.string(country),
    )


def _attributes(plan: Plan, index: Numbers) -> Any:
    weight = text.join(text.hundredths(10 + plan.roll("weight", index, 4990)), " kg")
    color = text.pick(["Black", "White", "Red", "Blue"], plan.roll("color", index, 4))
    months = text.pick(["12 months", "24 months", "36 months"], plan.roll("warranty", index, 3))
    values = [value for row in zip(weight, color, months, strict=True) for value in row]
    names = ["weight", "color", "warranty"] * len(index)
    ends = pyarrow.array(numpy.arange(len(index) + 1, dtype=numpy.int32) * 3)
    return pyarrow.MapArray.from_arrays(ends, names, pyarrow.array(values))


def _price(plan: Plan, product: Numbers) -> Numbers:
    return 999 + plan.roll("price", product, 99_000)


def _maybe(seconds: Numbers, has_happened: Numbers) -> Any:
    return text.compute.if_else(has_happened, text.join(text.string(text.moment(seconds))), "null")


def _decimal(cents: Numbers) -> Any:
    halves = numpy.zeros((len(cents), 2), numpy.int64)  # 128 bits, the low half first
    halves[:, 0] = cents
    buffers = [None, pyarrow.py_buffer(halves)]
    return pyarrow.Array.from_buffers(pyarrow.decimal128(10, 2), len(cents), buffers)


def _instant(seconds: Numbers) -> Any:
    return pyarrow.array(seconds * 1_000_000, pyarrow.timestamp("us", tz="UTC"))
