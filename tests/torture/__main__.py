"""Torture the gate: builds that are killed, doubled and lied to, while readers poll main.

Prints rounds, kills, polls, undos and violations; exits with 1 where there is a violation.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from builds import BROKEN, ENV, Builder, sabotaged
from gated_shop import FAULTS, Shop
from lakes import server
from mishaps import NEEDS_TABLES, Stage, deck
from rounds import GOOD, play

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
ROUNDS_PER_LAKE = 10


class Reader:
    """A process that polls main all the while."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        command = [sys.executable, str(HERE / "watch.py"), kind]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=ENV, stdin=pipe, stdout=pipe, text=True)

    def send(self, line: str) -> None:
        """Have it poll another lake; an empty line ends that."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def found(self) -> dict[str, Any]:
        """Return what it found in the lake before."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"violations": [f"the {self.kind} reader died"]}


@dataclass
class Torture:
    """All lakes, one after the other, and what is printed at the end."""

    given: argparse.Namespace
    folder: Path
    readers: list[Reader] = field(default_factory=lambda: [Reader("pyiceberg"), Reader("spark")])
    counts: Counter[str] = field(default_factory=Counter)
    played: Counter[str] = field(default_factory=Counter)
    took: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    violations: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Play all rounds."""
        only = self.given.only
        cards = (card for card in deck(Random(self.given.seed)) if not only or only in card)
        drawn = list(enumerate(islice(cards, self.given.rounds)))
        for first in range(self.given.first, self.given.rounds, ROUNDS_PER_LAKE):
            self._lake(first, drawn[first : first + ROUNDS_PER_LAKE])
            print(f"so far: {self.figures()}", flush=True)
        for reader in self.readers:
            reader.process.communicate(timeout=60)

    def _lake(self, first: int, drawn: Iterable[tuple[int, str]]) -> None:
        """Play rounds on a lake of its own, whose folder stays where something was wrong."""
        folder, noted = self.folder / f"lake-{first}", len(self.violations)
        shop = Shop(folder, ROOT / ".icegate" / "ivy", Random(f"{self.given.seed}-{first}"))
        stage = Stage(Builder(shop), shop.random, self.took, self.given.warm)
        for reader in self.readers:
            reader.send(str(shop.lake.home))
        try:
            for number, name in drawn:
                name = "nothing" if number == first and name in NEEDS_TABLES else name
                print(f"{number:4} {play(stage, name, self.given.planted)}", flush=True)
                self._note(first, [f"round {number} ({name}): {fault}" for fault in stage.faults])
                stage.faults.clear()
                self.played[name] += 1
        finally:
            stage.builder.close()
        for reader in self.readers:
            self._note(first, self._ended(reader, stage))
        self.counts.update(builds=len(stage.builder.builds), kills=stage.kills, undos=stage.undos)
        if len(self.violations) == noted:
            shutil.rmtree(folder)

    def _note(self, first: int, violations: list[str]) -> None:
        again = shlex.join([*sys.argv[1:], "--seed", str(self.given.seed), "--first", str(first)])
        for violation in violations:
            print(f"VIOLATION {violation} [{self.folder}/lake-{first}, {again}]", flush=True)
        self.violations += violations

    def _ended(self, reader: Reader, stage: Stage) -> list[str]:
        """Return what a reader saw in a lake that should not be."""
        reader.send("")
        found = reader.found()
        self.counts[f"polls by {reader.kind}"] += found.get("polls", 0)
        if again := found.get("asked_again"):
            self.counts["queries asked again"] += again
        if reader.kind == "pyiceberg":
            self.counts["releases"] += found.get("releases", 0)
        if (undos := found.get("undos")) != stage.undos:
            found["violations"].append(f"{reader.kind} saw {undos} undos of {stage.undos}")
        return found["violations"]

    def figures(self) -> str:
        """Return what was done and seen until now, in one line."""
        said = [f"{sum(self.played.values())} rounds"]
        said += [f"{count:,} {name}" for name, count in self.counts.items()]
        return f"{', '.join(said)}, {len(self.violations)} violations"

    def tell(self) -> None:
        """Print the figures."""
        print(", ".join(f"{count} {name}" for name, count in sorted(self.played.items())))
        print(f"torture: {self.figures()}", flush=True)


def options() -> argparse.Namespace:
    """Read the options, and make the seed."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="default 200")
    parser.add_argument("--seed", type=int, default=Random().randrange(10**6), help="as printed")
    parser.add_argument("--first", type=int, default=0, help="the round to begin with: 10, 20, …")
    parser.add_argument("--only", help="rounds with this in the name of what happens")
    parser.add_argument("--planted", default="", choices=[*FAULTS, GOOD], help="in each batch")
    parser.add_argument("--warm", type=float, default=0.75, help="share of builds on a server")
    said = "but for `sqlite`, the builds on the server are another machine's"
    kinds = ["sqlite", "postgres", "nessie", "glue", "rest"]
    parser.add_argument("--catalog", default=kinds[0], choices=kinds, help=said)
    parser.add_argument("--sabotage", help="break the gate, to see that it's noticed")
    return parser.parse_args()


def main() -> None:
    given, started = options(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and leave nothing running
    if given.sabotage:
        BROKEN.update(sabotaged(given.sabotage))
    folder = Path(tempfile.mkdtemp(prefix="icegate-torture-"))
    print(f"seed {given.seed}, in {folder}", flush=True)
    with server(given.catalog) as known:
        ENV.update(known)
        torture = Torture(given, folder)
        torture.run()
        torture.tell()
    print(f"seed {given.seed}, {time.monotonic() - started:.0f} s")
    if torture.violations:
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
