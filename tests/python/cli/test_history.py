"""`icegate history` as a user runs it."""

from __future__ import annotations

import json

from shop import run_icegate


def test_a_row_has_when_it_came_and_what_it_was(icegate):
    ran = icegate("history", "silver.curated_orders", "--key", "order_id=C")
    title, head, line = ran.out.splitlines()
    assert (ran.code, title) == (0, "silver.curated_orders, order_id=C")
    assert head.split() == ["at", "change", "snapshot", "id", "what"]
    assert line.endswith("order_id: C, total: 9")
    assert "nothing is masked" in ran.err
    (change,) = icegate(
        "history", "silver.curated_orders", "--key", "order_id=C", "--key", "total=9", "--json"
    ).json["changes"]
    assert change["change"] == "insert"
    assert change["columns"]["total"] == {"old": None, "new": 9}
    assert (change["release"], change["build"]) == (None, None)


def test_personal_data_is_masked(own_shop):
    column = {"name": "total", "meta": {"pii": "text"}}
    node = {"resource_type": "model", "schema": "silver", "alias": "curated_orders",
            "columns": {"total": column}}  # fmt: skip
    (own_shop / "target").mkdir()
    manifest = {"nodes": {"model.shop.curated_orders": node}}
    (own_shop / "target" / "manifest.json").write_text(json.dumps(manifest))
    asked = ("history", "silver.curated_orders", "--key", "order_id=C")
    ran = run_icegate(own_shop, *asked)
    assert "total: •••" in ran.out
    assert "masked: total" in ran.err
    assert "total: 9" in run_icegate(own_shop, *asked, "--unmasked").out


def test_a_row_that_is_not_there_is_said(icegate):
    ran = icegate("history", "silver.curated_orders", "--key", "order_id=Z")
    assert ran.code == 1
    assert "no version that is kept has this row" in ran.out


def test_what_cannot_be_asked_is_said(icegate):
    for table, key, why in (
        ("gold.who_bought", "order_id=A", "a view has no versions"),
        ("silver.curated_orders", "order=A", "it has no column 'order'"),
        ("silver.curated_orders", "total=much", "total is long, and 'much' isn't"),
        ("silver.curated_order", "order_id=A", "the catalog has no such table"),
    ):
        ran = icegate("history", table, "--key", key)
        assert ran.code == 2, why
        assert why in ran.err
        assert "fix: " in ran.err
