"""`icegate notify`: tell people what a release published and what it held back."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, on_lake
from icegate.errors import ConfigError
from icegate.locks import alone

if TYPE_CHECKING:
    from icegate.trust.deliver import Outcome
    from icegate.trust.digest import Writer
    from icegate.trust.project import Project


@on_lake
def notify(
    at: Opened,
    again: Annotated[bool, typer.Option("--again", help="Tell also what isn't new.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be told to whom, and tell nobody.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 when one isn't told.")] = False,
) -> Shown:
    """Tell people what the last release published, and what is held back and why."""
    from icegate.catalog import catalog_of
    from icegate.trust import deliver

    # One process at a time, so that two don't tell the same.
    with nullcontext() if dry_run else alone(catalog_of(at.lake).lock("notify"), "tell anyone"):
        outcomes, notes, refused = _outcomes(at, again)
        if not dry_run:
            deliver.tell(at.lake, outcomes)
    facts = [outcome.to_dict() for outcome in outcomes]
    blocks: list[Any] = [Grid("channel name result why", facts)]
    due = [outcome for outcome in outcomes if dry_run and outcome.result == deliver.DUE]
    for outcome in due:
        title = f"{outcome.channel.label}: {outcome.digest.title}"
        blocks += ["", Line(title, "bold"), "", outcome.digest.text]
    is_bad = bool(notes) or any(outcome.result == deliver.FAILED for outcome in outcomes)
    code = refused[0].exit_code if refused else int(strict and is_bad)
    notes += [f"error: {error.render()}" for error in refused]
    return Shown({"channels": facts, "notes": notes}, blocks, code, notes)


def _outcomes(at: Opened, again: bool) -> tuple[list[Outcome], list[str], list[ConfigError]]:
    """Return what there is to tell at each channel, and which channels can't be used, and why."""
    from icegate.trust import channels, deliver
    from icegate.trust.project import read_project

    project = read_project(at.project)
    if not project.was_parsed:
        return [], ["dbt has not run yet: there is nothing to tell"], []
    names, refused = channels.named(project)
    found = channels.channels(names, os.environ)
    known = {channel.name for channel in found}
    notes = [
        f"{channels.variable(name)} isn't set: nobody is told there"
        for name in ("", *names)
        if name not in known
    ]
    writer = _writer(at, project) if found else None
    if writer is None or writer.is_empty:
        return [], notes, refused
    return deliver.plan(at.lake, writer, found, again=again), notes, refused


def _writer(at: Opened, project: Project) -> Writer:
    from icegate.trust.digest import Writer
    from icegate.trust.facts import Reading
    from icegate.trust.page import local_now

    news = os.environ.get("ICEGATE_DIGEST") or "changes"
    if news not in ("changes", "releases"):
        raise ConfigError(
            f"cannot use ICEGATE_DIGEST={news}",
            why="it's neither `changes` nor `releases`",
            fix="correct it, or leave it out",
        )
    page = os.environ.get("ICEGATE_REPORT_URL", "")
    return Writer(Reading(at.lake, project, local_now()), page, each_release=news == "releases")
