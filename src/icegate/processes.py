"""Know a process again by its id and start, also after its id was given to another one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

POLL_S = 0.1


def start_of(pid: int, marker: str) -> str | None:
    """Return when process ``pid`` began, or None unless it lives and runs ``marker``.

    The text only serves to be compared with an earlier one.
    """
    folder = Path("/proc") / str(pid)
    if not folder.parent.joinpath("self").exists():  # not Linux
        state, began, command = _ps(pid)
    else:
        try:
            # The second field is the program's name in parentheses, with any character in it.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            return None
        state, began = fields[0], fields[19]
    return began if state not in ("", "Z") and marker in command else None


def memory_bytes(pid: int) -> int | None:
    """Return the memory that process ``pid`` holds, or None when that can't be known."""
    try:
        pages = int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def end(pid: int, marker: str, began: str, wait_s: float) -> None:
    """Ask a process to end, and kill it after ``wait_s`` seconds; return when it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if start_of(pid, marker) != began:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + wait_s
        while start_of(pid, marker) == began and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _ps(pid: int) -> tuple[str, str, str]:
    command = ["ps", "-o", "state=,lstart=,command=", "-p", str(pid)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return (said[0][:1], " ".join(said[1:6]), " ".join(said[6:])) if len(said) > 6 else ("", "", "")
