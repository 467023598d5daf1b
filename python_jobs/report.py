"""Make elementary's page of tests and runs; with `--alerts` tell Slack or Teams what is new."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from edr import CHANNELS, run_edr
from icegate.errors import ConfigError, IcegateError
from icegate.packages import are_installed
from icegate.profiles import load_target

NO_PAGE = (
    "elementary's tests did not run, and there is no page of it: the real package isn't installed. "
    "With internet access `make build` takes it."
)

# Its fonts are on a server, and so is what would count its readers. Nothing leaves this page.
NO_SERVERS = (
    '<meta http-equiv="Content-Security-Policy" content="default-src '
    "'unsafe-inline' 'unsafe-eval' data: blob:\">"
)


def main(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("target/elementary.html"),
    alerts: Annotated[
        bool, typer.Option("--alerts", help="Send what failed since the last time, make no page.")
    ] = False,
) -> None:
    """Make the page, or send alerts; without the real package say that there are none."""
    try:
        raise typer.Exit(_alerts() if alerts else _page(out.absolute()))
    except IcegateError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error


def _page(out: Path) -> int:
    project_dir = Path.cwd()
    if not are_installed(project_dir):
        print(NO_PAGE)
        return 0
    out.unlink(missing_ok=True)  # where making it fails, none stays that looks new
    options = ("--file-path", str(out), "--open-browser", "false")
    code = run_edr(project_dir, load_target(project_dir)[1], "report", *options)
    if not out.exists():
        print("edr made no page", file=sys.stderr)
        return code or 1
    out.write_text(out.read_text().replace("<head>", f"<head>{NO_SERVERS}", 1))
    print(f"elementary's page: {out}")
    return code


def _alerts() -> int:
    project_dir = Path.cwd()
    if not any(os.environ.get(name) for name in CHANNELS):
        raise ConfigError(
            "cannot send alerts",
            why=f"none of {', '.join(CHANNELS)} is set",
            fix="set one to the address of an incoming webhook",
        )
    if not are_installed(project_dir):
        print(NO_PAGE)
        return 0
    return run_edr(project_dir, load_target(project_dir)[1], "monitor")


if __name__ == "__main__":
    typer.run(main)
