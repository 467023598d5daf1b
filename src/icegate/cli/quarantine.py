"""`icegate quarantine`: rows that were put aside because they fail a test of their model."""

from __future__ import annotations

from typing import Annotated

import typer

from icegate.cli.common import Grid, Opened, Shown, find_entry, on_lake, pick
from icegate.errors import ConfigError

quarantine = typer.Typer(
    name="quarantine",
    help="Look at rows that were put aside because they fail a test of their model; drop them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Model = typer.Argument(help="A model's table, as in `silver.curated_orders`.")
Build = Annotated[str | None, typer.Option(help="Only what this build put aside.")]
Yes = Annotated[bool, typer.Option("--yes", help="Delete: it can't be taken back.")]


@quarantine.command("list")
@on_lake
def list_(at: Opened, model: Annotated[str | None, Model] = None) -> Shown:
    """List what is in quarantine, by table and build."""
    from icegate.gate.quarantine import SUFFIX, kept, quarantines

    entries = pick(quarantines(at.lake), [f"{model}{SUFFIX}"] if model else [])
    rows = [build for entry in entries for build in kept(at.lake, entry)]
    none = [] if rows else ["nothing is in quarantine"]
    return Shown({"quarantine": rows}, [Grid("table build rows tests since", rows), *none])


@quarantine.command()
@on_lake
def drop(at: Opened, model: Annotated[str, Model], build: Build = None, yes: Yes = False) -> Shown:
    """Delete rows from quarantine."""
    from icegate.gate import quarantine as rows

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
