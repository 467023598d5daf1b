"""What the tests of incremental models share: a model in both languages, a table's commits."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from conftest import DbtProject

MERGE_ON_READ = {"write.merge.mode": "merge-on-read"}


def write_model(
    project: DbtProject, name: str, language: str, config: dict[str, Any], first: str, then: str
) -> None:
    """Write an incremental model that returns ``first`` for a new table, and ``then`` later."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
    if language == "py":
        text = f"""
        def model(dbt, spark):
            dbt.config(materialized="incremental", {arguments})
            return spark.sql({then!r} if dbt.is_incremental else {first!r})
        """
    else:
        text = f"""
        {{{{ config(materialized='incremental', {arguments}) }}}}
        {{% if is_incremental() %}} {then} {{% else %}} {first} {{% endif %}}
        """
    project.write(f"models/{name}.{language}", dedent(text))


def operations(project: DbtProject, table: str) -> list[str]:
    """Return what each commit of a table was, oldest first."""
    found = project.rows(f"select operation from {{s}}.{table}.snapshots order by committed_at")
    return [operation for (operation,) in found]
