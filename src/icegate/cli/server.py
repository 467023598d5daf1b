"""`icegate server`: a warm Spark for the project's lake, which runs of dbt needn't start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli import output
from icegate.cli.common import AsJson, ProfilesDir, ProjectDir, Target, open_lake

if TYPE_CHECKING:
    from icegate.server import Server

NOT_RUNNING = 3  # as `systemctl status` has it

server = typer.Typer(
    name="server",
    help="Keep a warm Spark Connect server for this project, on this machine only.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@server.command()
def start(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port.", show_default="a free one")
    ] = None,
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Start the server, and return when it answers queries."""
    from icegate.server import differences, start_server

    lake = open_lake(project_dir, profiles_dir, target)
    if not as_json:
        output.note("starting Spark …")
    running, is_new = start_server(lake, port)
    if as_json:
        output.print_json({"started": is_new, **_facts(running)})
        return
    output.print_line(f"{'running' if is_new else 'already running'}: {_line(running)}")
    for difference in differences(lake, running):
        output.note(f"{difference}; `icegate server stop` and `start` take it over")
    if is_new:
        output.note("dbt uses it with `method: connect` in a target; `icegate server stop` ends it")


@server.command()
def stop(
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Stop the server, and what runs on it."""
    from icegate.server import stop_server

    stopped = stop_server(open_lake(project_dir, profiles_dir, target))
    if as_json:
        output.print_json({"stopped": stopped is not None})
    else:
        output.print_line(f"stopped: process {stopped.pid}" if stopped else "not running")


@server.command()
def status(
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Say whether the server runs; the exit code is 3 when it doesn't."""
    from icegate.server import find_server, log_file

    lake = open_lake(project_dir, profiles_dir, target)
    found = find_server(lake)
    listens = found is not None and found.is_listening()
    if as_json:
        output.print_json({"running": listens, **(_facts(found) if found else {})})
    elif found is None:
        output.print_line("not running")
    elif not listens:
        output.print_line(
            f"process {found.pid} doesn't listen on port {found.port} (yet): see {log_file(lake)}"
        )
    else:
        output.print_line(f"running: {_line(found)}")
    if not listens:
        raise typer.Exit(NOT_RUNNING)


def _facts(running: Server) -> dict[str, Any]:
    from icegate.processes import memory_bytes

    return {
        "pid": running.pid,
        "port": running.port,
        "uptime_s": round(time.time() - running.started_at),
        "memory_bytes": memory_bytes(running.pid),
        "spark": running.spark,
        "catalog": running.lake.get("catalog"),
    }


def _line(running: Server) -> str:
    facts = _facts(running)
    memory = facts["memory_bytes"]
    parts = [
        f"Spark {running.spark}",
        f"127.0.0.1:{running.port}",
        f"process {running.pid}",
        f"up {_duration(facts['uptime_s'])}",
        *([f"{output.size(memory)} of memory"] if memory else []),
    ]
    return ", ".join(parts)


def _duration(seconds: int) -> str:
    hours, rest = divmod(max(0, seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
