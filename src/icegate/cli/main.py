"""The entry point: commands, and errors turned into a message and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from icegate.cli.app import app as look
from icegate.cli.audit import audit
from icegate.cli.build import build
from icegate.cli.diff import diff
from icegate.cli.doctor import doctor
from icegate.cli.env import env
from icegate.cli.erase import erase
from icegate.cli.gate import eject, plan, status
from icegate.cli.health import health
from icegate.cli.history import history
from icegate.cli.init import init
from icegate.cli.maintain import maintain
from icegate.cli.notify import notify
from icegate.cli.quarantine import quarantine
from icegate.cli.refs import refs
from icegate.cli.release import release
from icegate.cli.report import report
from icegate.cli.server import server
from icegate.cli.show import show
from icegate.cli.sql import sql
from icegate.cli.stream import stream
from icegate.cli.submit import submit
from icegate.cli.tables import tables
from icegate.cli.wait import wait
from icegate.errors import IcegateError

app = typer.Typer(
    name="icegate",
    help="Look after a lakehouse that dbt builds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 something was found or failed, 2 wrong usage or configuration.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"icegate {version('icegate')}")
        raise typer.Exit


@app.callback()
def _icegate(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


VIEWS = (tables, show, history, refs, health, sql, audit, status, plan, diff, report, look, notify)
for command in (init, doctor, *VIEWS, maintain, erase, eject, wait, submit):
    app.command()(command)
app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(build)
app.add_typer(release)
app.add_typer(quarantine)
app.add_typer(env)
app.add_typer(server)
app.add_typer(stream)


def main() -> None:
    """Run the command that the arguments name."""
    try:
        app()
    except IcegateError as error:
        _show(error)
        sys.exit(error.exit_code)


def _show(error: IcegateError) -> None:
    if "--json" in sys.argv:
        from icegate.cli.output import print_json

        print_json({"error": {"what": error.what, "why": error.why, "fix": error.fix}})
        return
    lines = f"error: {error.render()}"
    if sys.stderr.isatty():
        lines = lines.replace("error:", "\033[1;31merror:\033[0m", 1)
    print(lines, file=sys.stderr)


if __name__ == "__main__":
    main()
