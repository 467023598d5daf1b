"""Maintenance from inside of dbt: by `dbt run-operation`, or at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timezone
from typing import Any

from icegate.catalog import list_relations
from icegate.cli.common import pick_tables
from icegate.errors import ConfigError, IcegateError
from icegate.maintenance.lake import plan_lake
from icegate.maintenance.policy import policies_of
from icegate.maintenance.run import FAILED, Run, lease
from icegate.settings import Lake


def in_dbt(
    lake: Lake | None,
    nodes: Iterable[Mapping[str, Any]],
    on_spark: Callable[[str], tuple[Any, Any]],
    select: Sequence[str],
    max_gb: float | None,
    tell: Callable[[str], None],
) -> None:
    """Maintain tables as `icegate maintain` does, and tell what was done.

    ``on_spark`` is dbt's own way to run a statement, which returns a table of agate. While another
    process maintains, nothing is done. Raises ``IcegateError`` at its end for what failed.
    """
    if lake is None:
        raise ConfigError(
            "cannot plan the maintenance of this target's tables",
            why="their metadata isn't in a catalog of this machine",
            fix="call `compact` and `expire_snapshots` on the tables that `icegate health` names",
        )
    policies = policies_of(nodes)
    chosen = pick_tables(list_relations(lake), select)
    failed: list[str] = []
    with ExitStack() as stack:
        try:
            stack.enter_context(lease(lake))
        except IcegateError as error:
            return tell(error.render())
        plans = plan_lake(lake, chosen, policies, datetime.now(timezone.utc))
        run = Run(lake, lambda sql: _rows(on_spark(sql)), max_gb=max_gb)
        for done in run.carry_out(plans):
            action = done.action
            tell(f"{action.table} {action.kind}: {done.outcome}: {done.said}")
            failed += [action.table] if done.outcome == FAILED else []
    for each in plans:
        for said in (*each.left, *each.refused):
            tell(f"{each.table}: {said}")
        failed += [each.table] if each.refused else []
    if failed:
        raise IcegateError(f"maintenance failed of {', '.join(failed)}", why="it's told above")


def _rows(answer: tuple[Any, Any]) -> list[dict[str, Any]]:
    table = answer[1]
    return [dict(zip(table.column_names, row.values(), strict=True)) for row in table.rows]
