"""Run dbt in a process of its own, and again where other writers got in a build's way."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from icegate.settings import Lake

# `python -m dbt.cli.main` warns of an import that it does itself.
DBT = (sys.executable, "-c", "from dbt.cli.main import cli; cli(prog_name='dbt')")
ICEGATE = (sys.executable, "-m", "icegate.cli.main")
ATTEMPTS = 3
STDERR = 2
TELL_S = 60  # to read what became of a build, and to tell people of it


def run(args: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run dbt, stop it with this process, and return its exit code, or 128 and the signal's."""
    dbt: subprocess.Popen[bytes] | None = None
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        if dbt:  # at others it ends at once, and what it runs on a server goes on
            dbt.send_signal(signal.SIGINT)

    # Before dbt begins: it would ignore Ctrl-C for ever if this process did, as what a shell runs
    # in its background does.
    at_signals(stop)
    # In a session of its own dbt gets Ctrl-C once, from here, and not from the terminal too:
    # on the second one it gives up without cleaning up.
    dbt = subprocess.Popen([*DBT, *args], env=dict(environ), start_new_session=True)
    exit_code = dbt.wait()
    if stopped:
        return 128 + stopped[0]
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


def tell(
    project_dir: object,
    profiles_dir: object,
    target: object,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Run `icegate notify` where a channel is set, for ``TELL_S`` seconds at most.

    In a process of its own, and with what it says on the error output: whatever becomes of it,
    the command that it follows ends as it would have.
    """
    if not any(value and name.startswith("ICEGATE_CHANNEL") for name, value in environ.items()):
        return
    given = {"project-dir": project_dir, "profiles-dir": profiles_dir, "target": target}
    options = [f"--{name}={value}" for name, value in given.items() if value]
    command = [*ICEGATE, "notify", *options]
    sys.stdout.flush()
    try:
        telling = subprocess.Popen(command, env=dict(environ), stdout=STDERR)
        at_signals(telling.send_signal)
        telling.wait(TELL_S)
    except OSError as error:
        print(f"nobody was told: {error}", file=sys.stderr)
    except subprocess.TimeoutExpired:
        telling.kill()
        print(f"not everybody was told within {TELL_S} seconds", file=sys.stderr)


def at_signals(do: Callable[[int], None]) -> None:
    """Have the signals that stop a program, by their numbers, do something else."""
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda number, _: do(number))


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
