"""Streams and brokers that are killed at bad moments: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.broker import Broker, Record
from streams.events import CLICKS, FIRST, LATER, ORDERS, Expected, Rules, expect, make_events
from streams.killed import ERRORS, TOPIC, Process, Project

SEED = 20261
AT_CHANCE = "at chance"
BEFORE, SHORT, LONG = "before", "short", "long"  # the broker: killed before the stream's start, …


class Kill(NamedTuple):
    """When a run of the stream is killed, and what happens to the broker meanwhile."""

    after: str  # the commit of this table
    broker: str = ""


# `make kill-stream` sets 60,000 and has all of the kills.
EVENTS = int(os.environ.get("ICEGATE_STREAM_EVENTS", "12000"))
KILLS = (
    Kill(CLICKS),
    Kill(ERRORS, BEFORE),
    Kill(CLICKS, LONG),
    Kill(ORDERS, SHORT),
    Kill(AT_CHANCE, BEFORE),
    Kill(AT_CHANCE, SHORT),
)


class Producing:
    """Events that come into the topic meanwhile."""

    def __init__(self, broker: Broker, count: int, a_second: int) -> None:
        self.failed: list[BaseException] = []
        self.made, self._pace = list(make_events(count, SEED)), a_second
        self.thread = threading.Thread(target=self._run, args=(broker,), daemon=True)
        self.thread.start()

    def _run(self, broker: Broker) -> None:
        try:
            broker.produce(TOPIC, self._paced())
        except BaseException as error:
            self.failed.append(error)

    def _paced(self) -> Iterator[Record]:
        for number, record in enumerate(self.made):
            if number % self._pace == 0:
                time.sleep(1)
            yield record

    def finish(self) -> None:
        self.thread.join(300)
        assert not self.failed and not self.thread.is_alive(), self.failed


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """Processes that end with the test, however it ends."""
    found: list[Process] = []
    yield found
    for process in found:
        process.kill()


def interrupted_run(project: Project, broker: Broker, kill: Kill, dice: random.Random) -> Process:
    """Run the stream up to a kill; it goes on by itself when the broker is killed."""
    if kill.broker == BEFORE:
        broker.kill()
    process = project.start("start")
    if kill.broker == BEFORE:
        time.sleep(dice.uniform(0, 4))
        broker.start()
    process.await_batches(1)
    if kill.broker in (SHORT, LONG):
        broker.kill()
        time.sleep(20 if kill.broker == LONG else dice.uniform(0, 2))
        broker.start()
        process.await_batches(1)
    if kill.after == AT_CHANCE:
        process.await_chance(dice)
    else:
        process.await_commit(kill.after)
    process.kill()
    return process


def check(project: Project, records: Sequence[Record], rules: Rules) -> Expected:
    """Compare tables with what the records of the topic have to become."""
    wanted = expect(records, rules)
    place = ("source_partition", "source_offset")
    clicks = project.rows(CLICKS, "n", *place)
    assert clicks == wanted.clicks, f"{len(clicks)} clicks of {len(wanted.clicks)}"
    assert project.rows(ORDERS, "id", "amount", "note", *place) == wanted.orders
    waiting = "kind = 'error' and replayed_at is null"
    bad = project.rows(ERRORS, "partition", "offset", "raw", where=waiting)
    assert sorted((*where, raw) for where, raw in wanted.bad.items()) == bad
    return wanted


def check_replay(project: Project, records: Sequence[Record]) -> None:
    """Read errors again by other rules: as if these had been the rules from the beginning."""
    before = expect(records, FIRST)
    passed = len(before.bad) - len(expect(records, LATER).bad)
    assert f"{passed} records replayed" in project.run("replay-errors")
    check(project, records, LATER)
    replayed = project.rows(ERRORS, "partition", "offset", where="replayed_at is not null")
    assert len(set(replayed)) == len(replayed) == passed


def check_kills(
    broker: Broker, project: Project, count: int, kills: Sequence[Kill], started: list[Process]
) -> list[Record]:
    """Let a stream and its broker be killed while events come; return the topic's records."""
    dice, cut = random.Random(SEED), set[str]()
    broker.topic(TOPIC, 4)
    project.set_rules(FIRST)
    producing = Producing(broker, count, a_second=count // 60 + 200)
    for kill in kills:
        started.append(interrupted_run(project, broker, kill, dice))
        cut |= {",".join(project.half_done())}
    producing.finish()
    project.run("start", "--once")
    records = broker.read(TOPIC)
    key = _by_value
    assert sorted((r[:2] for r in records), key=key) == sorted(
        (r[:2] for r in producing.made), key=key
    )
    check(project, records, FIRST)
    # A kill between two commits is what the test is about: it must have met one.
    between = (CLICKS in tables and ORDERS not in tables for tables in cut)
    assert any(between), f"no kill came between two commits: {cut}"
    return records


def _by_value(record: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    return record[0] or b"", record[1] or b""


@pytest.fixture
def projects(tmp_path: Path, broker: Broker) -> Callable[[int], Project]:
    return lambda max_records: Project(tmp_path / "a project", broker.address, max_records)


@pytest.mark.long
def test_a_kill_between_two_commits(
    broker: Broker, projects: Callable[[int], Project], started: list[Process]
) -> None:
    project = projects(1_000)
    records = check_kills(broker, project, 3_000, [Kill(CLICKS)], started)
    project.set_rules(LATER)
    check_replay(project, records)


@pytest.mark.long
def test_many_kills(
    broker: Broker, projects: Callable[[int], Project], started: list[Process]
) -> None:
    kills = KILLS[: 3 if EVENTS < 60_000 else None]
    project = projects(EVENTS // 24)
    records = check_kills(broker, project, EVENTS, kills, started)
    assert "broker=away" in project.said()
    project.set_rules(LATER)
    started.append(project.start("replay-errors"))
    started[-1].await_commit(CLICKS)
    started[-1].kill()
    check_replay(project, records)
    assert "0 records replayed" in project.run("replay-errors")
    check(project, records, LATER)
    broker.produce(TOPIC, make_events(500, SEED + 1))
    project.run("start", "--once")
    check(project, broker.read(TOPIC), LATER)


@pytest.mark.long
def test_errors_that_are_kept_twice(broker: Broker, projects: Callable[[int], Project]) -> None:
    """Begun anew, a stream keeps what it can't read again; a replay brings each in once."""
    project = projects(1_000)
    project.set_rules(FIRST)
    broker.topic(TOPIC, 2)
    broker.produce(TOPIC, make_events(600, SEED))
    project.run("start", "--once")
    project.run("start", "--once", "--forget")
    project.set_rules(LATER)
    project.run("replay-errors")
    wanted, found = expect(broker.read(TOPIC), LATER), project.rows(CLICKS, "n")
    visits = {row[:1] for row in wanted.clicks} - {
        row[:1] for row in expect(broker.read(TOPIC), FIRST).clicks
    }
    assert visits and sorted(visits) == [row for row in found if row in visits]
    place = ("source_partition", "source_offset")
    assert project.rows(ORDERS, "id", "amount", "note", *place) == wanted.orders
