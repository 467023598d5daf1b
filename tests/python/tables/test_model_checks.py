"""Configs that do nothing are refused, and those of others let through."""

from __future__ import annotations

from icegate.tables.model_checks import check_configs


def test_a_config_of_another_warehouse_is_none_of_ours() -> None:
    config = {"cluster_by": "id", "partitioned_by": "day", "team": "sales"}
    check_configs({"name": "m", "config": config}, ["clustered_by", "partition_by"])
