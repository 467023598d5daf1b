"""`icegate quarantine`: rows that were put aside because they fail a test of their model."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from icegate.catalog import CatalogEntry
from icegate.cli.common import Grid, Opened, Shown, find_entry, group, on_lake, pick
from icegate.errors import ConfigError

quarantine = group(
    "quarantine",
    "Rows that were put aside because they fail a test of their model: look, put back, drop.",
)

Model = typer.Argument(help="A model's table, as in `silver.curated_orders`.")
Build = Annotated[str | None, typer.Option(help="Only what this build put aside.")]
Yes = Annotated[bool, typer.Option("--yes", help="Delete: it can't be taken back.")]


@quarantine.command("list")
@on_lake
def list_(at: Opened, model: Annotated[str | None, Model] = None) -> Shown:
    """List what is in quarantine, by table and build."""
    from icegate.gate.quarantine import SUFFIX
    from icegate.gate.quarantined import kept, quarantines

    entries = pick(quarantines(at.lake), [f"{model}{SUFFIX}"] if model else [])
    rows = kept(at.lake, *entries)
    none = [] if rows else ["nothing is in quarantine"]
    return Shown({"quarantine": rows}, [Grid("table build rows waiting tests since", rows), *none])


@quarantine.command(context_settings={"ignore_unknown_options": True})
@on_lake
def retry(
    at: Opened,
    model: Annotated[str, Model],
    dbt_args: Annotated[list[str] | None, typer.Argument(help="Options for `dbt build`.")] = None,
) -> Shown:
    """Put rows that pass by now back into their table, in a build of it and what reads it."""
    from icegate import dbt_process
    from icegate.gate import quarantined as rows

    entry = find_entry(rows.quarantines(at.lake), f"{model}{rows.SUFFIX}", at.lake.catalog)
    table = entry.full_name.removesuffix(rows.SUFFIX)
    if not (before := _waiting(at, entry)):
        return Shown({"put_back": 0, "waiting": 0}, [f"no row waits in {entry.full_name}"])
    alias = entry.name.removesuffix(rows.SUFFIX)
    folders = {"--project-dir": at.project, "--profiles-dir": at.profiles_dir}
    given = [f"{name}={value}" for name, value in folders.items() if value]
    given += ["--log-level=none"] if at.as_json else []
    given += ["--target", at.target, "--select", f"{alias}+", f"config.alias:{alias}+"]
    environ = {**os.environ, rows.RETRY: table}
    code = dbt_process.build(at.lake, ["build", *given, *(dbt_args or [])], environ)
    waiting = _waiting(at, entry)
    said = f"{before - waiting:,} of {before:,} rows no longer wait in {entry.full_name}"
    return Shown({"put_back": before - waiting, "waiting": waiting}, [said], code)


def _waiting(at: Opened, entry: CatalogEntry) -> int:
    from icegate.gate.quarantined import kept

    return sum(build["waiting"] for build in kept(at.lake, entry))


@quarantine.command()
@on_lake
def drop(at: Opened, model: Annotated[str, Model], build: Build = None, yes: Yes = False) -> Shown:
    """Delete rows from quarantine."""
    from icegate.gate import quarantined as rows

    entry = find_entry(rows.quarantines(at.lake), f"{model}{rows.SUFFIX}", at.lake.catalog)
    held = rows.kept(at.lake, entry)
    gone = [found for found in held if build in (None, found["build"])]
    if not yes or (build and not gone):
        known = ", ".join(found["build"] for found in held)
        raise ConfigError(
            f"cannot drop rows from {entry.full_name}",
            why=f"it has rows of the builds {known}" if yes else "--yes is missing",
            fix=f"look first: `icegate quarantine list {model}`",
        )
    rows.drop(at.lake, entry, build)
    count = sum(found["rows"] for found in gone)
    return Shown({"dropped": gone}, [f"dropped {count:,} rows from {entry.full_name}"])
