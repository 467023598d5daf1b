"""What befalls the builds of a round, each a function that runs them to their end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from builds import ENV, HANGS, Build, Builder
from lakes import moves_at_once
from proxy import LossyProxy

from icegate.gate.ledger import last_release
from icegate.gate.steps import FAIL_AT, KILL_AT

# In the order in which a build comes by; a pair is a step of the transaction that publishes.
STEPS = (
    *("moving", "moved", "staging", "metadata_written", "ledger_staged"),
    *("ledger_staged,moving", "ledger_staged,moved"),
)
LOST = ("moved", "ledger_staged,moved")
# Where tables move one after the other.
SINGLY = [f"ledger_staged,moving{',moved_one' * number}" for number in (1, 2, 3, 4)]
ANY_MOMENT = ((0.0, 1.0), (0.6, 1.0))  # shares of a build's time, the last ones more often
# Until it is known how long builds take.
FIRST_GUESS_S = {"session": 8.0, "connect": 5.0}


@dataclass
class Stage:
    """What a mishap needs; ``took`` are the seconds of earlier builds, by method.

    ``warm`` is the share of builds that use the server: they take a third of the time.
    """

    builder: Builder
    random: Random
    took: dict[str, list[float]]
    warm: float
    kills: int = 0
    undos: int = 0
    foreign: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def start(self, method: str = "", **env: str) -> Build:
        is_warm = self.random.random() < self.warm
        self.method = method or ("connect" if is_warm else "session")
        return self.builder.start(self.method, **env)

    def end(self, *builds: Build) -> int:
        """Wait for builds; return the exit code of the last, and see that none hangs."""
        codes = [build.wait() for build in builds]
        hanging = [b.log for b, code in zip(builds, codes, strict=True) if code == HANGS]
        self.faults += [f"it hangs: {log}" for log in hanging]
        return codes[-1]

    def sleep_into(self, build: Build, shares: tuple[Any, ...] = ANY_MOMENT) -> None:
        """Wait for a random moment of a build."""
        known = self.took[self.method][-5:] or [FIRST_GUESS_S[self.method]]
        length = sum(known) / len(known)
        build.sleep_until(length * self.random.uniform(*self.random.choice(shares)))


def nothing(stage: Stage) -> int:
    """Let the build run, and learn how long it takes."""
    build = stage.start()
    build.sleep_until(0)
    code = stage.end(build)
    stage.took[stage.method].append(build.seconds)
    return code


def kill_all(stage: Stage) -> None:
    build = stage.start()
    stage.sleep_into(build)
    build.kill_all()
    stage.kills += 1
    stage.end(build)


def kill_dbt(stage: Stage) -> None:
    build = stage.start()
    stage.sleep_into(build)
    build.kill_dbt()
    stage.kills += 1
    stage.end(build)


def kill_jvm(stage: Stage) -> None:
    build = stage.start()
    stage.sleep_into(build)
    if stage.method == "connect":
        stage.builder.kill_server()
        stage.kills += 1
    else:
        stage.kills += build.kill_jvm()
    stage.end(build)


def kill_at(step: str, stage: Stage) -> None:
    build = stage.start(**{KILL_AT: step})
    stage.kills += stage.end(build) == -9


def lose_reply(step: str, stage: Stage) -> int:
    """Lose what the catalog answers to a commit; the build has to find out by itself."""
    return stage.end(stage.start(**{FAIL_AT: step}))


def fail_commit(stage: Stage) -> None:
    stage.end(stage.start(**{FAIL_AT: "ledger_staged,moving"}))


def lose_answers(stage: Stage) -> None:
    """Lose what the server answers for a while, then break the connection."""
    stage.builder.keep_server()
    port = stage.builder.server()["port"]
    proxy = LossyProxy(port)
    stage.builder.set_port(proxy.port)
    build = stage.start("connect")
    stage.sleep_into(build)
    proxy.lose()
    time.sleep(stage.random.uniform(0.2, 1.5))
    proxy.cut()
    stage.end(build)
    stage.builder.set_port(port)
    proxy.close()


def two_builds(stage: Stage) -> None:
    first = stage.start("connect")
    time.sleep(stage.random.uniform(0, 3))
    stage.end(first, stage.start())


def two_of_one_name(stage: Stage) -> None:
    """Two processes of one release, which a person then publishes or, failing that, drops."""
    name = f"by_hand_{len(stage.builder.builds)}"
    first = stage.start("connect", ICEGATE_RELEASE=name)
    time.sleep(stage.random.uniform(0, 3))
    stage.end(first, stage.start(ICEGATE_RELEASE=name))
    if stage.builder.run("release", "publish", name) and stage.builder.run(
        "release", "reject", name
    ):
        stage.faults.append(f"build {name} can be neither published nor rejected")


def foreign_writer(stage: Stage) -> None:
    seed = str(stage.random.randrange(10**6))
    build = stage.start()
    stage.sleep_into(build, ((0.0, 0.7),))
    script = Path(__file__).with_name("foreign_writer.py")
    command = [sys.executable, str(script), str(stage.builder.shop.lake.home), seed]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    stage.foreign |= set(done.stdout.split())
    if done.returncode:
        stage.faults.append(f"the other writer failed: {done.stderr[-1000:]}")
    stage.end(build)


def roll_back(stage: Stage) -> None:
    """Take all tables back to one of the last releases: the only thing that ever undoes."""
    last = last_release(stage.builder.shop.lake)
    if last > 1:
        to = stage.random.randint(max(1, last - 2), last - 1)
        if stage.builder.run("release", "rollback", str(to)):
            stage.faults.append(f"release {to} can't be gone back to")
        stage.undos += last_release(stage.builder.shop.lake) > last


# Without a return value it's open how such a build ends.
MISHAPS: dict[str, Callable[[Stage], int | None]] = {
    "nothing": nothing,
    "kill dbt and its JVM": kill_all,
    "kill dbt": kill_dbt,
    "kill the JVM": kill_jvm,
    **{f"kill at {step}": partial(kill_at, step) for step in STEPS},
    **{f"lose the reply at {step}": partial(lose_reply, step) for step in LOST},
    "fail the commit": fail_commit,
    **{f"kill at {step}": partial(kill_at, step) for step in SINGLY},
    **{f"lose the reply at {step}": partial(lose_reply, step) for step in SINGLY},
    "lose answers of the server": lose_answers,
    "two builds": two_builds,
    "two processes of one release": two_of_one_name,
    "another writer": foreign_writer,
    "roll back": roll_back,
}
# What comes up more often than the rest.
WEIGHTS = {"nothing": 3, "kill dbt and its JVM": 3, "kill dbt": 2, "kill the JVM": 2}
NEEDS_TABLES = ("another writer", "roll back")


def deck(random: Random) -> Iterator[str]:
    """Yield mishaps without end, each as often as its weight says before any comes again."""
    while True:
        known = [name for name in MISHAPS if not (moves_at_once() and "moved_one" in name)]
        cards = [name for name in known for _ in range(WEIGHTS.get(name, 1))]
        random.shuffle(cards)
        yield from cards
