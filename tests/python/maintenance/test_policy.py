"""Flat configs become a policy, or a message that says what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from icegate.errors import ConfigError
from icegate.maintenance.policy import KEYS, Policy, policies_of, policy_for, policy_of

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a typo": ({"maintenance_min_file": 5}, "did you mean 'maintenance_min_files'?"),
    "no such key": ({"maintenance_xyzzyx": 5}, "known: maintenance_enabled"),
    "too few files": ({"maintenance_min_files": 1}, "maintenance_min_files is 1: .*at least 2|2"),
    "no number": ({"maintenance_max_gb": "much"}, "maintenance_max_gb is 'much'"),
    "a share over 1": ({"maintenance_delete_ratio": 10}, "maintenance_delete_ratio is 10"),
    "no such scope": ({"maintenance_scope": "closed"}, "'all' or 'closed_partitions'"),
    "no such strategy": ({"maintenance_strategy": "zip"}, "'binpack', 'sort' or 'zorder'"),
    "an order of nothing": ({"maintenance_strategy": "zorder"}, "zorder needs the columns"),
    "an order for nothing": ({"maintenance_sort_by": "id"}, "binpack sorts nothing"),
    "orphans too young": ({"maintenance_orphan_days": 0.5}, "maintenance_orphan_days is 0.5"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_is_refused(what: str) -> None:
    config, said = WRONG[what]
    with pytest.raises(ConfigError, match=said) as error:
        policy_of(config, "orders")
    assert "orders" in error.value.what and error.value.exit_code == 2


def test_configs_of_a_model_are_its_policy() -> None:
    config = {
        "materialized": "table",
        "maintenance_min_files": 12,
        "maintenance_where": None,
        "maintenance_strategy": "sort",
        "maintenance_sort_by": "day",
    }
    assert policy_of(config, "m") == Policy(min_files=12, strategy="sort", sort_by=("day",))


def test_policies_by_table() -> None:
    node = {"schema": "Silver", "alias": "Orders", "name": "orders", "resource_type": "model"}
    nodes = [
        {**node, "config": {"maintenance_enabled": False}},
        {**node, "alias": "t", "resource_type": "test", "config": {"maintenance_x": 1}},
    ]
    off = Policy(enabled=False)
    assert policies_of(nodes) == {"silver.orders": off, "orders": off}


def test_a_table_keeps_its_policy_where_dbt_last_parsed_for_another_target() -> None:
    def node(schema: str, name: str, **config: Any) -> dict[str, Any]:
        told = {"schema": schema, "alias": name, "name": name, "config": config}
        return {**told, "resource_type": "model"}

    off = {"maintenance_enabled": False}
    nodes = [node("pr_1_silver", "orders", **off), node("a", "x", **off), node("b", "x")]
    policies = policies_of(nodes)
    assert not policy_for("silver.Orders", policies).enabled
    assert not policy_for("a.x", policies).enabled and policy_for("b.x", policies).enabled
    assert policy_for("c.x", policies) == Policy()  # whose is it?


def test_each_key_is_documented(pytestconfig: pytest.Config) -> None:
    text = (pytestconfig.rootpath / "docs" / "maintenance.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in text] == []
