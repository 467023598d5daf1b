"""Run dbt in a process of its own, and again where other writers got in a build's way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from icegate.settings import Lake

# `python -m dbt.cli.main` warns of an import that it does itself.
DBT = (sys.executable, "-c", "from dbt.cli.main import cli; cli(prog_name='dbt')")
ATTEMPTS = 3
# Options of `dbt build` that `dbt retry` takes too; the others it knows from the last run.
KEPT = ("--project-dir", "--profiles-dir", "--target", "-t", "--threads", "--vars")


def run(args: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run dbt, pass on what would stop it, and return its exit code."""
    # In a session of its own dbt gets Ctrl-C once, from here, and not from the terminal too:
    # on the second one it gives up without cleaning up.
    dbt = subprocess.Popen([*DBT, *args], env=dict(environ), start_new_session=True)
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda number, _: dbt.send_signal(number))
    exit_code = dbt.wait()
    return exit_code if exit_code >= 0 else 128 - exit_code


def build(lake: Lake, args: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run dbt; while someone else's writes block tables of it, go on with these, three times.

    Each time is a process of its own: dbt isn't safe to be run again inside of one.
    """
    exit_code = run(args, environ)
    for attempt in range(2, ATTEMPTS + 1):
        if exit_code != 1 or not (blocked := _blocked(lake)):
            break
        print(f"build=again attempt={attempt} blocked={','.join(blocked)}", flush=True)
        exit_code = run(["retry", *_kept(args)], environ)
    return exit_code


def _blocked(lake: Lake) -> list[str]:
    """Return the tables that the last build couldn't publish, though nothing is wrong with them."""
    from icegate.gate import ledger

    events = ledger.read_events(lake)
    return sorted(json.loads(events[-1].detail or "{}").get("blocked", {})) if events else []


def _kept(args: Sequence[str]) -> list[str]:
    """Return those of the options, with their values, that `dbt retry` has to be told."""
    kept: list[str] = []
    for number, arg in enumerate(args):
        name, equals, _ = arg.partition("=")
        if name in KEPT:
            kept += [arg] if equals else args[number : number + 2]
    return kept
