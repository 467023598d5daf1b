"""`icegate build`: what cron and Airflow call instead of `dbt build`."""

from __future__ import annotations

from pathlib import Path

import typer

from icegate.cli.common import Opened


def build(context: typer.Context) -> None:
    """Run `dbt build` with its own options, again where other writers got in its way."""
    from icegate import dbt_process

    known = dbt_process.options(context.args)
    project, profiles = (Path(d) if d else None for d in (known.project_dir, known.profiles_dir))
    at = Opened(project, profiles, known.target)
    exit_code = dbt_process.build(at.lake, ["build", *context.args])
    dbt_process.tell(known.project_dir, known.profiles_dir, known.target)
    raise typer.Exit(exit_code)
