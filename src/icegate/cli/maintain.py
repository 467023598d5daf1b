"""`icegate maintain`: compact, expire and clean up where it pays, as the models' policies say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, on_lake, pick_tables

if TYPE_CHECKING:
    from icegate.maintenance.plan import TablePlan
    from icegate.maintenance.run import Done


@on_lake
def maintain(
    at: Opened,
    select: Annotated[
        list[str] | None, typer.Argument(help="Schemas or tables, as in `silver '*.dim_*'`.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and why.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compact on a branch, and compare its rows.")
    ] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List and delete files that nothing refers to, too.")
    ] = False,
    max_gb: Annotated[float | None, typer.Option(min=0, help="What a run may rewrite.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="After these it begins nothing more.")
    ] = None,
) -> Shown:
    """Maintain tables as their models' policies say: what pays, and nothing else."""
    from icegate.catalog import list_relations
    from icegate.maintenance import lake as of_lake
    from icegate.maintenance.run import FAILED, lease

    policies, note = of_lake.read_policies(at.project)
    chosen = pick_tables(list_relations(at.lake), select or [])
    now = datetime.now(timezone.utc)
    if plan:
        plans = of_lake.plan_lake(at.lake, chosen, policies, now, orphans=orphans)
        return _planned(plans, note)
    with lease(at.lake):
        plans = of_lake.plan_lake(at.lake, chosen, policies, now, orphans=orphans, keep=True)
        how = {"verify": verify, "max_gb": max_gb, "max_minutes": max_minutes}
        done = [*_carry_out(at, plans, how)] if any(each.actions for each in plans) else []
    bad = any(each.outcome == FAILED for each in done) or any(each.refused for each in plans)
    facts = {"tables": [_facts(each) for each in plans], "done": [_done(each) for each in done]}
    blocks: list[str | Line | Grid] = [] if done else ["nothing to do"]
    return Shown(facts, [*blocks, *_notes(plans)], int(bad), [note] if note else [])


def _carry_out(at: Opened, plans: list[TablePlan], how: dict[str, Any]) -> Iterator[Done]:
    """Yield what became of each call; told at once, since one can take minutes."""
    from icegate.cli.output import print_line
    from icegate.maintenance.run import Run

    def sql(text: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in at.spark.sql(text).collect()]

    for each in Run(at.lake, sql, **how).carry_out(plans):
        if not at.as_json:
            took = f" in {each.seconds:.1f} s" if each.seconds else ""
            action = each.action
            print_line(f"{action.table} {action.kind}: {each.outcome}{took}: {each.said}")
        yield each


def _planned(plans: list[TablePlan], note: str) -> Shown:
    from icegate.health.reasons import size

    rows = [
        {
            "table": each.table,
            "procedure": action.kind,
            "partitions": len(action.partitions) or "",
            "rewrites": size(action.rewrites) if action.rewrites else "",
            "saves": size(action.saves) if action.saves else "",
            "why": action.why,
        }
        for each in plans
        for action in each.actions
    ]
    columns = "table procedure partitions rewrites saves why"
    grid = Grid(columns, rows, right=("rewrites", "saves"))
    blocks = [grid if rows else "nothing to do", *_notes(plans)]
    refused = any(each.refused for each in plans)
    facts = {"tables": [_facts(each) for each in plans]}
    return Shown(facts, blocks, int(refused), [note] if note else [])


def _notes(plans: list[TablePlan]) -> Iterator[str | Line]:
    for each in plans:
        for said in each.left:
            yield f"{each.table}: left: {said}"
        for said in each.refused:
            yield Line(f"{each.table}: refused: {said}", "bold red")


def _facts(each: TablePlan) -> dict[str, Any]:
    actions = [{**asdict(action), "call": action.call()} for action in each.actions]
    for action in actions:
        del action["parts"]  # `partitions` names them
    told = {"table": each.table, "score": each.score, "actions": actions}
    return told | {"left": each.left, "refused": each.refused}


def _done(each: Done) -> dict[str, Any]:
    action = {"table": each.action.table, "procedure": each.action.kind}
    return action | {"outcome": each.outcome, "said": each.said, "seconds": each.seconds}
