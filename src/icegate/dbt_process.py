"""Run dbt in a process of its own, and again where other writers got in a build's way."""

from __future__ import annotations

import argparse
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
        given = vars(options(args)).items()  # what else there was it knows from the last run
        kept = (f"--{name.replace('_', '-')}={value}" for name, value in given if value)
        exit_code = run(["retry", *kept], environ)
    return exit_code


def _blocked(lake: Lake) -> list[str]:
    """Return the tables that the last build couldn't publish, though nothing is wrong with them."""
    from icegate.gate import ledger

    events = ledger.read_events(lake)
    return sorted(json.loads(events[-1].detail or "{}").get("blocked", {})) if events else []


def options(args: Sequence[str]) -> argparse.Namespace:
    """Read those options of dbt that say which project and target is meant, and how it's run."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("--project-dir", "--profiles-dir", "--threads", "--vars"):
        parser.add_argument(name)
    parser.add_argument("--target", "-t")
    return parser.parse_known_args(args)[0]
