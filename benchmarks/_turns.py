"""Give sides their steps in turns, each in one process with a warm Spark (`_rounds.py`).

In turns, since a machine that others use too is slower in some minutes than in others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from _bench import Cost, Side, await_all

Step = dict[str, Any]


def in_turns(sides: Sequence[Side], steps: Callable[[Side], list[Step]]) -> list[list[Step]]:
    """Run all steps of each side; return these with `cpu`, `wall` (seconds) and `rows`."""
    found: list[list[Step]] = [[] for _ in sides]
    with ExitStack() as stack:
        workers = [stack.enter_context(_started(side)) for side in sides]
        for turn in zip_longest(*map(steps, sides)):
            for worker, step, done in zip(workers, turn, found, strict=True):
                if step:
                    done.append(worker(step))
    await_all()
    return found


def of(found: list[Step], name: str) -> list[Cost]:
    """Return what the steps of a name cost."""
    return [Cost(step["wall"], step["cpu"]) for step in found if step["name"] == name]


@contextmanager
def _started(side: Side) -> Iterator[Callable[[Step], Step]]:
    side.forget()
    command = [str(side.python), str(Path(__file__).parent / "_rounds.py")]
    with (
        (side.folder / "log.txt").open("w") as log,
        subprocess.Popen(
            command,
            cwd=side.folder,
            env={**os.environ, **side.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin and process.stdout

        def work(step: Step) -> Step:
            print(json.dumps(step), file=process.stdin, flush=True)
            said = process.stdout.readline()
            if not said:
                sys.exit(f"error: {side.name} failed in {step['name']}, see {log.name}")
            return json.loads(said)

        yield work
