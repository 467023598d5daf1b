"""Can I use it today? The answers for tables and dashboards after real builds."""

from __future__ import annotations

import pytest

from icegate.trust.facts import Facts
from trust.conftest import Shop

pytestmark = pytest.mark.slow


def answers(facts: Facts) -> dict[str, str]:
    return {a.title: f"{a.said}: {a.why}" for a in (*facts.dashboards, *facts.read)}


def test_a_good_build_and_then_one_that_is_held_back(shop: Shop) -> None:
    assert shop.dbt("build").ok
    good = shop.facts()
    assert [a.answer for a in (*good.dashboards, *good.read)] == ["yes"] * 3
    at = f"{good.read[0].data_of:%H:%M}"
    assert answers(good)["Customers"] == f"Yes: 2 checks passed today, {at}."
    assert answers(good)["Revenue by day"].startswith("Yes: All that it reads passed its checks.")

    shop.orders(10, None, None)
    assert not shop.dbt("build").ok
    bad = answers(shop.facts())
    see = f"2 orders have no amount; you still see the figures of today, {at}."
    assert bad["Orders"] == f"Yes, but old: {see}"
    assert bad["Revenue by day"] == f"Yes, but old: {see}"
    where = "It is published together with “Orders”, where"
    assert bad["Customers"] == f"Yes, but old: {where} {see}"

    shop.orders(10, 30, 40)
    assert shop.dbt("build").ok
    assert {a.answer for a in shop.facts().read} == {"yes"}
