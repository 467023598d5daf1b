"""Plain English: numbers, days and sizes as people write them, and what a test says."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from icegate.trust import words
from icegate.trust.project import Model, Owner, Test

NOW = datetime(2026, 11, 23, 7, 33, tzinfo=timezone.utc)  # a Monday


def a_test(kind: str, column: str = "customer_id", **more: Any) -> Test:
    given = {"arguments": {}, "description": "", "meta": {}, "of_kind": "", **more}
    fixed = {"id": "t", "name": f"{kind}_x", "kind": kind, "column": column, "severity": "error"}
    return Test(**fixed, attached="m", reads=("m",), sql="", where="", **given)


def a_model(description: str = "What was ordered. One row per order.") -> Model:
    return Model("m", "fct_orders", "gold.fct_orders", "model", description, {}, (), (),
                 (), {}, Owner(), "models/x.sql")  # fmt: skip


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (datetime(2026, 11, 23, 0, 1), "today"),
        (date(2026, 11, 22), "yesterday"),
        (date(2026, 11, 17), "Tuesday"),
        (date(2026, 11, 16), "16 November"),  # a week ago Monday is another one
        (date(2025, 3, 3), "3 March 2025"),
        (date(2026, 11, 24), "24 November"),
        (None, "never"),
    ],
)
def test_day(at: date | None, said: str) -> None:
    assert words.day(at, NOW) == said


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "order", "1 order"),
        (0, "order", "0 orders"),
        (1234, "entry", "1,234 entries"),
        (2, "day", "2 days"),
        (2, "batch", "2 batches"),
        (3, "change of an order", "3 changes of an order"),
    ],
)
def test_count(number: int, noun: str, said: str) -> None:
    assert words.count(number, noun) == said


def test_names() -> None:
    assert words.title("gold.fct_order_items") == "Order items"
    assert words.human("net_amount_usd") == "net amount (USD)"
    assert words.human("battery_pct") == "battery (%)"
    assert words.human("usd") == "usd"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed(["a", "b", "c", "d", "e"], "or") == "a, b, c or 2 more"
    assert words.cut(["a", "b", "c", "d"], 2) == ["a", "b", "and 2 more"]
    assert words.cut(["a", "b", "c"], 2) == ["a", "b", "c"]
    assert words.listed([]) == ""


def test_ages() -> None:
    spans = timedelta(minutes=1), timedelta(minutes=89), timedelta(hours=26), timedelta(days=3)
    assert [words.age(s) for s in spans] == ["1 minute", "89 minutes", "26 hours", "3 days"]


@pytest.mark.parametrize(
    ("test", "failures", "said"),
    [
        (a_test("not_null"), 1, "1 order has no customer id"),
        (a_test("not_null"), 3, "3 orders have no customer id"),
        (a_test("unique"), 1, "1 value of customer id occurs twice or more"),
        (
            a_test("relationships", arguments={"to": "ref('dim_customers')", "field": "id"}),
            3,
            "3 orders have a customer id that isn’t in “Customers”",
        ),
        (
            a_test("accepted_values", "status", arguments={"values": ["a", "b"]}),
            2,
            "2 values of status are none of a and b",
        ),
        (
            a_test("accepted_range", "amount", arguments={"min_value": 0}),
            2,
            "2 orders have an amount that isn’t 0 or more",
        ),
        (a_test("x", meta={"failing": "have a negative amount"}), 3,
         "3 orders have a negative amount"),
        (a_test("x", description="Amounts are never negative."), 3,
         "3 orders break the rule “Amounts are never negative”"),
        (a_test("not_null", description="Every order has a buyer."), 1,
         "1 order breaks the rule “Every order has a buyer”"),
    ],
)  # fmt: skip
def test_fault(test: Test, failures: int, said: str) -> None:
    assert words.fault(test, failures, a_model()) == said


def test_a_grain_of_two_things_is_a_row() -> None:
    model = a_model("Health. One row per device and day.")
    assert words.fault(a_test("not_null"), 2, model) == "2 rows have no customer id"


def test_rule_is_the_description_else_the_macros_else_a_default() -> None:
    assert words.rule(a_test("x", description="Own words.")) == "Own words."
    assert words.rule(a_test("mine", of_kind="No key is lost. And more.")) == "No key is lost."
    assert words.rule(a_test("not_null")) == "Every row has a value for customer id."
    assert words.rule(a_test("assert_no_gaps", "")) == "No gaps."
