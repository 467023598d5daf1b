"""Run dbt with the right packages: ``run_dbt.py [options] -- build --select tag:commerce``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from edr import leave_out
from icegate.catalog import catalog_of
from icegate.dbt_process import build, options, run, tell
from icegate.errors import IcegateError
from icegate.profiles import load_target
from icegate.settings import lake_from_target
from icegate.storage import shown
from packages import Choice, choose_packages

BUILDING = ("build", "run", "seed", "snapshot", "retry")

cli = typer.Typer(add_completion=False)


@cli.command(context_settings={"allow_interspersed_args": False})
def run_dbt(
    dbt_args: Annotated[list[str], typer.Argument(help="What dbt is to do, as after `dbt`.")],
    require_real: Annotated[
        bool, typer.Option("--require-real", help="Exit 3 instead of using stand-ins.")
    ] = False,
    standins_allowed: Annotated[
        bool, typer.Option("--standins-allowed", help="Use stand-ins without the hub.")
    ] = False,
) -> None:
    """Choose the dbt packages, run dbt with them, and say where the tables are."""
    command = next((arg for arg in dbt_args if not arg.startswith("-")), "")
    try:
        if command in ("deps", "clean"):
            raise typer.Exit(run(dbt_args, Choice({}).environment(os.environ)))
        project_dir, target_name, target = _target(dbt_args)
        choice = choose_packages(
            project_dir, target_name, standins_allowed=standins_allowed, require_real=require_real
        )
        _announce(choice)
        environ, lake = choice.environment(os.environ), lake_from_target(target, project_dir)
        if command in ("build", "run") and not (target.get("host") or choice.standins_because):
            dbt_args = [*dbt_args, *leave_out(dbt_args, project_dir, target, lake)]
        gated = command == "build" and target.get("gate")
        exit_code = build(lake, dbt_args, environ) if gated else run(dbt_args, environ)
        if command in BUILDING:
            known = options(dbt_args)
            tell(known.project_dir, known.profiles_dir, known.target, environ)
        if exit_code == 0 and command in BUILDING and target.get("host") is None:
            print(f"\ntables:  {shown(lake.root)}\ncatalog: {catalog_of(lake)}")
            print(f"look at them: {_near(Path(sys.executable).parent / 'icegate')} tables")
        _announce(choice)
    except IcegateError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    raise typer.Exit(exit_code)


def _target(dbt_args: list[str]) -> tuple[Path, str, dict[str, Any]]:
    """Return the project, and the target that dbt will take from the same arguments."""
    known = options(dbt_args)
    project_dir = Path(known.project_dir or os.environ.get("DBT_PROJECT_DIR") or ".").absolute()
    profiles_dir = Path(known.profiles_dir) if known.profiles_dir else None
    return project_dir, *load_target(project_dir, profiles_dir, known.target)


def _announce(choice: Choice) -> None:
    if not choice.standins_because:
        return
    packages = ", ".join(f"{name} {version}" for name, version in choice.versions.items())
    print(
        f"\n{'*' * 100}\n"
        f"  STAND-INS ARE IN USE for {packages}\n"
        f"  {choice.standins_because}\n"
        "  dbt_utils' tests run as this repository's own code; elementary's tests DO NOT RUN.\n"
        "  With internet access this command takes the real packages; `dbt deps` does as well.\n"
        f"{'*' * 100}\n",
        flush=True,
    )


def _near(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    cli()
