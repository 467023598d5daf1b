"""A gated project of a shop, as its report sees it after a build."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from gate.conftest import gated as gated
from gate.gated import GatedProject

from icegate.trust.facts import Facts, read_facts

PEOPLE = "(1, 'ann@example.com'), (2, 'bob@example.com')"


class Shop(GatedProject):
    """Two gold tables, one made of the other, and a dashboard that reads both."""

    def begin(self) -> None:
        self.retarget(audits=True)
        self.model("gold/dim_customers", f"select id, email from values {PEOPLE} as t(id, email)")
        self.orders(10, 20)
        self.write_yaml("models/_models.yml", described())

    def orders(self, *amounts: int | None) -> None:
        """Write the model of orders, one an amount."""
        rows = ", ".join(
            f"({i}, 1, {'null' if a is None else a})" for i, a in enumerate(amounts, 1)
        )
        sql = f"select id, customer_id, cast(amount as int) as amount from values {rows}"
        self.model("gold/fct_orders", f"{sql} as t(id, customer_id, amount)")

    def facts(self) -> Facts:
        return read_facts(self.lake, self.folder, "t", datetime.now(timezone.utc))


def described() -> dict[str, Any]:
    """Return the YAML of the shop."""
    personal = {"name": "email", "config": {"meta": {"pii": "email"}}}
    known = {"relationships": {"arguments": {"to": "ref('dim_customers')", "field": "id"}}}
    ann = {"owner": {"name": "Ann", "email": "ann@example.com"}}
    customers = [{"name": "id", "data_tests": ["unique", "not_null"]}, personal]
    orders = [
        {"name": "id", "data_tests": ["unique"]},
        {"name": "customer_id", "data_tests": [known]},
        {"name": "amount", "data_tests": ["not_null"]},
    ]
    return {
        "models": [
            {
                "name": "dim_customers",
                "description": "Customers as they are now. One row per customer.",
                "config": {"meta": ann},
                "columns": customers,
            },
            {
                "name": "fct_orders",
                "description": "What was ordered. One row per order.",
                "columns": orders,
            },
        ],
        "exposures": [
            {
                "name": "revenue",
                "label": "Revenue by day",
                "type": "dashboard",
                "owner": {"name": "Controlling", "email": "controlling@example.com"},
                "depends_on": ["ref('fct_orders')", "ref('dim_customers')"],
            }
        ],
    }


@pytest.fixture
def shop(request: pytest.FixtureRequest) -> Shop:
    """The shop, before its first build."""
    made = request.getfixturevalue("gated")
    made.__class__ = Shop
    made.begin()
    return made
