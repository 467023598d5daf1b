"""`icegate build`: what cron and Airflow call instead of `dbt build`."""

from __future__ import annotations

from pathlib import Path

import typer

from icegate.cli.common import Opened


def build(context: typer.Context) -> None:
    """Run `dbt build` with its own options, again where other writers got in its way."""
    from icegate import dbt_process

    given = dict(zip(context.args, context.args[1:], strict=False))
    project, profiles = (given.get(name) for name in ("--project-dir", "--profiles-dir"))
    at = Opened(
        Path(project) if project else None,
        Path(profiles) if profiles else None,
        given.get("--target") or given.get("-t"),
    )
    raise typer.Exit(dbt_process.build(at.lake, ["build", *context.args]))
