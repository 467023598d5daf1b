"""What a stream's process and the commands beside it tell each other: files in one folder."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Any

from icegate.errors import IcegateError
from icegate.locks import FileLock, held_alone
from icegate.settings import Lake

POLL_S = 0.2


class Control:
    """The folder of a stream: its checkpoint, its state, its log, and what is asked of it."""

    def __init__(self, lake: Lake, name: str) -> None:
        self.name = name
        self.folder = lake.home / "streams" / name
        self.log = self.folder / "log.txt"
        self._lock, self._state = FileLock(self.folder / "lock"), self.folder / "state.json"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold while this process runs the stream; raise ``IcegateError`` when another does."""
        with held_alone(self._lock, f"run stream {self.name}"):
            for asked in ("stop", "replay"):
                (self.folder / asked).unlink(missing_ok=True)
            yield

    @property
    def is_running(self) -> bool:
        """Tell whether a process runs the stream."""
        return self._lock.is_held

    def tell(self, **facts: Any) -> None:
        """Write down how it goes; what was told before and isn't named stays."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        told = {**self.told(), **facts, "pid": os.getpid(), "at": now}
        beside = self._state.with_suffix(".new")
        beside.write_text(json.dumps(told, indent=1))
        beside.replace(self._state)

    def told(self) -> dict[str, Any]:
        """Return what the process told last."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(self._state.read_text())
            return found
        return {}

    def ask(self, what: str) -> None:
        """Ask the running process to `stop` or to `replay`."""
        (self.folder / what).touch()

    def is_asked(self, what: str) -> bool:
        """Tell whether that was asked, and isn't done yet."""
        return (self.folder / what).exists()

    def done(self, what: str) -> None:
        """Say that it's done."""
        (self.folder / what).unlink(missing_ok=True)

    def stop(self, wait_s: float) -> bool:
        """Have the process end after the batch in hand; tell whether there was one."""
        was_running = self.is_running
        if was_running:
            self.ask("stop")
            self.wait_for("stop", wait_s)
        return was_running

    def wait_for(self, what: str, wait_s: float) -> None:
        """Wait until the process did what was asked, or has ended."""
        deadline = time.monotonic() + wait_s
        while self.is_running and (what == "stop" or self.is_asked(what)):
            if time.monotonic() > deadline:
                raise IcegateError(
                    f"stream {self.name} didn't {what} within {wait_s:g} s",
                    why="a batch still runs, and isn't cut short",
                    fix=f"wait on with a longer --wait; its log is {self.log}",
                )
            time.sleep(POLL_S)


@contextmanager
def signals(stop: Any) -> Iterator[None]:
    """Stop at the first signal; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def at_signal(number: int, frame: Any) -> None:
        stop()
        signal.signal(number, signal.default_int_handler)

    old = {number: signal.signal(number, at_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
