"""`icegate report`: the page that says whether the data can be used today."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from icegate.cli.common import Opened, Shown, on_lake
from icegate.errors import ConfigError


@on_lake
def report(
    at: Opened,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file.", show_default="target/trust.html")
    ] = None,
) -> Shown:
    """Make a page that says whether the data can be used today, and why."""
    from icegate.trust.facts import read_facts
    from icegate.trust.page import headline, local_now, render

    facts = read_facts(at.lake, at.project, at.target, local_now())
    told = asdict(facts)
    if at.as_json and out is None:
        return Shown(told, [])
    folder = at.project / os.environ.get("DBT_TARGET_PATH", "target")
    file = out or folder / "trust.html"
    write(file, render(facts))
    return Shown(told, [*facts.notices, headline(facts), f"look: {file}"])


def write(file: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(
            f"cannot write {file}", why=str(error.strerror), fix="name another file with --out"
        ) from error
