"""`icegate env`: schemas in which a pull request builds what it changes, beside production's."""

from __future__ import annotations

import os
import re
import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Opened, Shown, group, on_lake
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.environments import Environment

Name = Annotated[str, typer.Argument(help="Its name, with which its schemas begin: pr_12.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it: without, it is only said.")]

env = group("env", "Build a pull request's models in schemas of their own, and drop these.")


@env.command()
@on_lake
def create(
    at: Opened,
    name: Name,
    dbt_args: Annotated[
        list[str] | None, typer.Argument(help="A dbt command to run in it, after `--`.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder with production's manifest.json; else target/.")
    ] = None,
) -> Shown:
    """Make an environment, and print the dbt command that builds in it, or run one."""
    from icegate import dbt_process, environments
    from icegate.nodes import read_manifest

    os.environ[environments.VARIABLE] = name  # what the target's schema is
    _check_target(at, name)
    manifest = read_manifest(at.project, "what production is made of", state)
    folder = environments.create(at.lake, name, manifest)
    command, *more = dbt_args or ["build"]
    select = [] if {"-s", "--select"} & {*more} else ["--select", "state:modified+"]
    # In target/ the manifest stays production's: maintenance reads its policies there.
    where = ["--state", str(folder), "--target-path", str(folder / "target")]
    args = [command, "--target", at.target, *select, "--defer", *where, *more]
    line = f"{environments.VARIABLE}={name} dbt {shlex.join(args)}"
    if not dbt_args:
        return Shown({"name": name, "state": str(folder), "command": line}, [line])
    folders = {"--project-dir": at.project, "--profiles-dir": at.profiles_dir}
    args += [f"{option}={value}" for option, value in folders.items() if value]
    return Shown({"name": name, "state": str(folder), "command": line}, [], dbt_process.run(args))


def _check_target(at: Opened, name: str) -> None:
    """Raise ``ConfigError`` for a target whose builds would be production's."""
    what = f"cannot build environment {name!r} with target {at.target!r}"
    if at.keys.get("schema") != name:
        raise ConfigError(
            what,
            why=f"its schema is {at.keys.get('schema')!r}, and would be built in",
            fix="name one with `schema: \"{{ env_var('ICEGATE_ENV') }}\"`; docs/environments.md",
        )
    if at.keys.get("gate"):
        raise ConfigError(
            what,
            why="it has the gate on: what it builds would be a release among production's",
            fix="leave `gate` out of that target: nobody reads an environment but its tests",
        )


@env.command("list")
@on_lake
def list_(at: Opened) -> Shown:
    """List environments: when they were made and last written, and what is in them."""
    from icegate.environments import environments

    rows = [_facts(found) for found in environments(at.lake).values()]
    grid = Grid("name created_at used_at schemas tables", rows, right=("tables",))
    return Shown({"environments": rows}, [grid if rows else "no environments"])


@env.command()
@on_lake
def drop(
    at: Opened,
    name: Name,
    yes: Yes = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="No error if it isn't.")] = False,
) -> Shown:
    """Drop an environment's schemas with all that is in them, and nothing else."""
    from icegate.environments import environments, find

    absent = if_exists and name not in environments(at.lake)
    return _dropped(at, [] if absent else [find(at.lake, name)], yes)


@env.command()
@on_lake
def expire(
    at: Opened,
    older_than: Annotated[str, typer.Option(help="As in 7d or 12h, since the last write.")] = "7d",
    yes: Yes = False,
) -> Shown:
    """Drop environments that nothing was written in for some time."""
    from icegate.environments import environments

    found = re.fullmatch(r"([0-9]{1,5})([dh])", older_than)
    if found is None:
        raise ConfigError(
            f"cannot expire environments older than {older_than!r}",
            why="that is no time",
            fix="write a number of days or hours, as in 7d or 12h",
        )
    hours = int(found[1]) * (24 if found[2] == "d" else 1)
    since = datetime.now(timezone.utc) - timedelta(hours=hours)
    old = [each for each in environments(at.lake).values() if each.used_at < since]
    return _dropped(at, old, yes)


def _dropped(at: Opened, chosen: list[Environment], yes: bool) -> Shown:
    from icegate import environments

    rows = [_facts(each) for each in chosen]
    notes = [
        f"{folder} stays: a table of another schema has its files there"
        for each in (chosen if yes else [])
        for folder in environments.drop(at.lake, each)
    ]
    verb = "dropped" if yes else "would drop"
    lines = [f"{verb} {row['name']}: {', '.join(row['dropped'])}" for row in rows]
    notes += ["nothing was dropped: `--yes` does it"] if rows and not yes else []
    return Shown({"yes": yes, "environments": rows}, lines or ["nothing to drop"], notes=notes)


def _facts(found: Environment) -> dict[str, Any]:
    return {
        "name": found.name,
        "created_at": found.created_at,
        "used_at": found.used_at,
        "schemas": found.schemas,
        "tables": len(found.entries),
        "dropped": found.schemas + [entry.full_name for entry in found.entries],
    }
