"""Make landing data: files as the shop's and the sensors' systems would drop them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from icegate.errors import IcegateError
from landing_data.faults import FAULTS, Fault, choose
from landing_data.generate import generate
from landing_data.plan import Plan

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
Count = Annotated[int, typer.Option(min=1)]


@app.command()
def main(
    out: Annotated[
        Path, typer.Option(envvar="ICEGATE_LANDING", help="Folder of landing data.")
    ] = Path("landing"),
    seed: Annotated[int, typer.Option(help="Another seed makes other data.")] = 42,
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="First day.")] = datetime(
        2026, 1, 1
    ),
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days, each with a folder.")] = 3,
    customers: Count = 1_000,
    products: Count = 500,
    orders: Annotated[int, typer.Option(min=1, help="New orders, over all days.")] = 5_000,
    scale: Annotated[int, typer.Option(min=1, help="Times as many orders and customers.")] = 1,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of a file, at most.")] = 100_000,
    faults: Annotated[
        str,
        typer.Option(
            help="Faults to plant in the last day: names, loader, contract, test, "
            "or all; `list` shows them."
        ),
    ] = "",
) -> None:
    """Write landing data; the same options give the same bytes."""
    if faults == "list":
        for fault in FAULTS.values():
            typer.echo(f"{fault.name:<19}{fault.caught_by:<10}{fault.plants} -> {fault.shows}")
        return
    try:
        chosen = choose(faults)
        plan = Plan(out, seed, start.date(), days, customers, products, orders, part_rows)
        planted = _run(plan.scaled(scale), chosen)
    except IcegateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    if planted:
        typer.echo(json.dumps({"planted": planted}, indent=1, ensure_ascii=False))


def _run(plan: Plan, faults: list[Fault]) -> list[dict[str, Any]]:
    # Changed rows come on top of the orders; how many, is only known at the end.
    expected = int(plan.customers + plan.products + 1.3 * plan.orders + 6_000 * plan.days)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} rows"))
    progress = Progress(*columns, TimeElapsedColumn())
    shown = progress.console.is_terminal
    with progress if shown else nullcontext():
        task = progress.add_task("landing data", total=expected)

        def report(path: Path, rows: int) -> None:
            if shown:
                progress.update(task, advance=rows, description=str(path.relative_to(plan.out)))
            else:
                typer.echo(f"landed file={path} rows={rows}")

        planted = generate(plan, faults, report)
        progress.update(task, total=progress.tasks[0].completed, description=f"{plan.out}: done")
    return planted


if __name__ == "__main__":
    app()
