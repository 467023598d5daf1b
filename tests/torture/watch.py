"""A reader in a process of its own: polls `main` by PyIceberg or Spark, and checks what it sees.

A line of its standard input is the home of a lake, which it polls until the next line comes; then
it answers with what it found, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Protocol

SHOWN = 20


@dataclass
class Findings:
    """What a reader saw of one lake."""

    polls: int = 0
    changes: int = 0
    undos: int = 0
    releases: int = 0
    asked_again: int = 0  # queries that Spark refused, since their table had changed meanwhile
    violations: list[str] = field(default_factory=list)

    def add(self, where: str, faults: Iterable[str]) -> None:
        """Note faults, with when and where they were seen, as far as they are new."""
        for fault in faults:
            if len(self.violations) < SHOWN and not any(v.endswith(fault) for v in self.violations):
                now = time.strftime("%H:%M:%S", time.gmtime())
                self.violations.append(f"{now} {where}: {fault}")


class Watcher(Protocol):
    """Looks at one lake."""

    findings: Findings

    def look(self) -> None:
        """Read everything once, and check it."""


def commands() -> Queue[str | None]:
    """Return the lines of standard input as they come, and None at its end."""
    found: Queue[str | None] = Queue()

    def read() -> None:
        for line in sys.stdin:
            found.put(line.strip())
        found.put(None)

    Thread(target=read, daemon=True).start()
    return found


def run(kind: str) -> None:
    """Watch one lake after the other; the line that ends a watch says nothing else."""
    lines = commands()
    while (home := lines.get()) is not None:
        watcher = _watcher(kind, Path(home))
        while True:
            watcher.look()
            with suppress(Empty):
                ended = lines.get(timeout=watcher.pause_s)
                break
        watcher.look()
        print(json.dumps(asdict(watcher.findings)), flush=True)
        if ended is None:
            return


def _watcher(kind: str, home: Path) -> Any:
    if kind == "pyiceberg":
        from watch_pyiceberg import PyIcebergWatcher

        return PyIcebergWatcher(home)
    from watch_spark import SparkWatcher

    return SparkWatcher(home)


if __name__ == "__main__":
    run(sys.argv[1])
