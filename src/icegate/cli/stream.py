"""`icegate stream`: records of Kafka or of files that come, into tables, each exactly once."""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, group, on_lake
from icegate.errors import IcegateError

if TYPE_CHECKING:
    from icegate.streams.control import Control

NOT_RUNNING = 3  # as `systemctl status` has it
UP_S = 120

stream = group("stream", "Bring records of Kafka or of files into tables, each exactly once.")

Name = Annotated[str, typer.Argument(help="A file python_jobs/streams/<name>.yml.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a batch to end.")]


@stream.command()
@on_lake
def start(
    at: Opened,
    name: Name,
    once: Annotated[
        bool, typer.Option("--once", help="Read what is there now, and end, as for cron.")
    ] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Return once it runs, and let it run on.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Begin anew: without the checkpoint of before.")
    ] = False,
) -> Shown:
    """Run a stream, until Ctrl-C or `icegate stream stop`: the batch in hand comes to its end."""
    from icegate.streams.config import load_stream
    from icegate.streams.run import Run

    found = load_stream(at.project, name)
    if background:
        return _in_background(at, name, once, forget)
    _log_to_stderr()
    run = Run(at.lake, found, at.project, at.target)
    run.start(once, forget)
    return Shown(_facts(run.control), _lines(run.control))


@stream.command()
@on_lake
def stop(at: Opened, name: Name, wait: Wait = 300) -> Shown:
    """Let the batch in hand come to its end, and end the stream's process."""
    control = _control(at, name)
    ran = control.stop(wait)
    return Shown(_facts(control), _lines(control) if ran else [f"{name} isn't running"])


@stream.command()
@on_lake
def restart(at: Opened, name: Name, wait: Wait = 300) -> Shown:
    """Stop a stream, and start it in the background, with what its file says now."""
    from icegate.streams.config import load_stream

    load_stream(at.project, name)  # rather than stop what can't be started
    _control(at, name).stop(wait)
    return _in_background(at, name, once=False, forget=False)


@stream.command()
@on_lake
def status(
    at: Opened,
    name: Annotated[str | None, typer.Argument(help="A stream; else all.")] = None,
) -> Shown:
    """Say how streams go; the exit code is 3 when one that is named doesn't run."""
    from icegate.streams.config import find_streams

    if name:
        control = _control(at, name)
        code = 0 if control.is_running else NOT_RUNNING
        return Shown(_facts(control), _lines(control), code)
    controls = [_control(at, each) for each in find_streams(at.project)]
    rows = [_facts(control) for control in controls]
    grid = Grid("stream state batch rows behind errors_waiting release held error at", rows)
    return Shown({"streams": rows}, [grid if rows else "no streams in python_jobs/streams"])


@stream.command(name="replay-errors")
@on_lake
def replay_errors(at: Opened, name: Name, wait: Wait = 300) -> Shown:
    """Read records that were kept as errors again, by what the stream's file says now."""
    from icegate.streams.config import load_stream
    from icegate.streams.run import Run

    found, control = load_stream(at.project, name), _control(at, name)
    if control.is_running:
        control.ask("replay")
        control.wait_for("replay", wait)
        done = control.told().get("replay") or {}
        if done.get("error"):
            raise IcegateError(f"cannot replay the errors of {name}", why=done["error"])
    else:
        _log_to_stderr()
        done = Run(at.lake, found, at.project, at.target).replay()
    line = f"{done.get('replayed', 0)} records replayed, {done.get('waiting', 0)} wait still"
    more = "select error, count(*) from icegate.stream_errors where replayed_at is null group by 1"
    notes = [f'why: icegate sql "{more}"'] if done.get("waiting") else []
    return Shown({"stream": name, **done}, [line], notes=notes)


def _control(at: Opened, name: str) -> Control:
    from icegate.streams.config import load_stream
    from icegate.streams.control import Control

    try:
        load_stream(at.project, name)
    except IcegateError:
        if not Control(at.lake, name).folder.is_dir():  # one whose file is broken can be stopped
            raise
    return Control(at.lake, name)


def _facts(control: Control) -> dict[str, Any]:
    told = control.told()
    state = told.get("state", "never started")
    if not control.is_running and state not in ("done", "stopped", "failed", "never started"):
        state = "killed"
    rows = told.get("rows") or {}
    facts = {"stream": control.name, "state": state, "rows": sum(rows.values()) or None}
    kept = ("batch", "behind", "errors_waiting", "release", "held", "error", "pid", "at")
    facts |= {key: told.get(key) for key in kept}
    return facts | {"tables": rows, "log": str(control.log)}


def _lines(control: Control) -> list[str | Line]:
    facts = _facts(control)
    if facts["state"] == "never started":
        return [f"{control.name} was never started"]
    parts = [f"{control.name}: {facts['state']}"]
    parts += [f"batch {facts['batch']}"] if facts["batch"] is not None else []
    parts += [f"{rows:,} rows into {table}" for table, rows in facts["tables"].items()]
    parts += [f"{facts['behind']:,} records behind in a partition"] if facts["behind"] else []
    parts += [f"release {facts['release']}"] if facts["release"] else []
    lines: list[str | Line] = [" · ".join(parts)]
    if facts["errors_waiting"]:
        lines.append(f"{facts['errors_waiting']:,} records wait in icegate.stream_errors")
    lines += [Line(f"held back: {each}", "bold red") for each in facts["held"] or []]
    return lines + ([Line(facts["error"], "bold red")] if facts["error"] else [])


def _in_background(at: Opened, name: str, once: bool, forget: bool) -> Shown:
    from icegate.dbt_process import ICEGATE

    control = _control(at, name)
    control.folder.mkdir(parents=True, exist_ok=True)
    if control.is_running:
        return Shown(_facts(control), [f"{name} runs already", *_lines(control)])
    options = ["--project-dir", str(at.project), "--target", at.target]
    options += ["--profiles-dir", str(at.profiles_dir)] if at.profiles_dir else []
    options += ["--once"] * once + ["--forget"] * forget
    before = control.told().get("at")
    command = [*ICEGATE, "stream", "start", name, *options]
    with control.log.open("a") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        told = control.told()
        is_new = told.get("pid") == process.pid and told.get("at") != before
        if is_new and told.get("state") not in ("starting", None):
            return Shown(_facts(control), _lines(control), int(told["state"] == "failed"))
        if process.poll() is not None:
            break
        time.sleep(0.2)
    said = _last_lines(control.log)
    raise IcegateError(f"stream {name} didn't start", why=said, fix=f"its log is {control.log}")


def _last_lines(log: Path) -> str:
    return "\n       ".join(log.read_text(errors="replace").splitlines()[-5:])


def _log_to_stderr() -> None:
    """Show what a stream does, line by line, as a service's log has it."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S"))
    for part in ("streams", "retries"):
        logger = logging.getLogger(f"icegate.{part}")
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
