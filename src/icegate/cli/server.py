"""`icegate server`: a warm Spark for the project's lake, which runs of dbt needn't start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from icegate.cli import output
from icegate.cli.common import Opened, Shown, group, on_lake

if TYPE_CHECKING:
    from icegate.server import Server

NOT_RUNNING = 3  # as `systemctl status` has it

server = group("server", "Keep a warm Spark Connect server for this project, on this machine only.")


@server.command()
@on_lake
def start(
    at: Opened,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port.", show_default="a free one")
    ] = None,
    thrift: Annotated[
        bool, typer.Option("--thrift", help="Answer Thrift, too: any user of this machine may ask.")
    ] = False,
    thrift_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of Thrift.", show_default="a free one"),
    ] = None,
) -> Shown:
    """Start the server, and return when it answers queries."""
    from icegate.server import differences, start_server

    if not at.as_json:
        output.note("starting Spark …")
    thrift = thrift or thrift_port is not None
    running, is_new = start_server(at.lake, port, thrift=thrift, thrift_port=thrift_port)
    notes = [
        f"{difference}; `icegate server stop` and `start` take it over"
        for difference in differences(at.lake, running)
    ]
    if is_new:
        notes.append(
            f"dbt uses it with `method: {'thrift' if thrift else 'connect'}` in a target; "
            "`icegate server stop` ends it"
        )
    line = f"{'running' if is_new else 'already running'}: {_line(running)}"
    return Shown({"started": is_new, **_facts(running)}, [line], notes=notes)


@server.command()
@on_lake
def stop(at: Opened) -> Shown:
    """Stop the server, and what runs on it."""
    from icegate.server import stop_server

    stopped = stop_server(at.lake)
    line = f"stopped: process {stopped.pid}" if stopped else "not running"
    return Shown({"stopped": stopped is not None}, [line])


@server.command()
@on_lake
def status(at: Opened) -> Shown:
    """Say whether the server runs; the exit code is 3 when it doesn't."""
    from icegate.server import find_server, log_file

    found = find_server(at.lake)
    if found is None:
        return Shown({"running": False}, ["not running"], NOT_RUNNING)
    if found.is_listening():
        return Shown({"running": True, **_facts(found)}, [f"running: {_line(found)}"])
    log = log_file(at.lake)
    line = f"process {found.pid} doesn't listen on port {found.port} (yet): see {log}"
    return Shown({"running": False, **_facts(found)}, [line], NOT_RUNNING)


def _facts(running: Server) -> dict[str, Any]:
    from icegate.processes import memory_bytes

    return {
        "pid": running.pid,
        "port": running.port,
        "thrift_port": running.thrift_port,
        "uptime_s": round(time.time() - running.started_at),
        "memory_bytes": memory_bytes(running.pid),
        "spark": running.spark,
        "catalog": running.lake.get("catalog"),
    }


def _line(running: Server) -> str:
    facts = _facts(running)
    hours, rest = divmod(max(0, facts["uptime_s"]), 3600)
    up = f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
    memory = facts["memory_bytes"]
    used = f", {decimal(memory)} of memory" if memory else ""
    thrift = f" and {running.thrift_port} (Thrift)" if running.thrift_port else ""
    where = f"127.0.0.1:{running.port}{thrift}, process {running.pid}"
    return f"Spark {running.spark}, {where}, up {up}{used}"
