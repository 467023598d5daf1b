"""Locks in a bucket: of several machines, of processes that end, and of such as fall silent."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from icegate import objects
from icegate.catalogs import lease
from icegate.catalogs.lease import LeaseLock
from targets.s3_server import S3Server, running

pytestmark = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as started:
        yield started


@pytest.fixture
def lock(server: S3Server) -> LeaseLock:
    return LeaseLock(f"s3://{server.bucket}/{uuid.uuid4().hex}", "a lock")


def holder(lock: LeaseLock, machine: str = "") -> subprocess.Popen[str]:
    """Start a process that holds a lock, maybe as one of another machine."""
    code = f"""
import sys
from icegate.catalogs import lease
if {machine!r}:
    lease._machine = lambda: {machine!r}
lease.LEASE_S, lease.RENEW_S = {lease.LEASE_S}, {lease.RENEW_S}
held = lease.LeaseLock({lock.folder.rpartition("/")[0]!r}, {lock.name!r}).take("test")
print("held", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    started = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    assert started.stdout is not None and started.stdout.readline() == "held\n"
    return started


def test_one_alone_or_many_together(lock: LeaseLock) -> None:
    assert not lock.is_held
    alone = lock.take("test")
    assert lock.is_held and lock.try_take("test") is None
    alone.close()
    shared = [lock.take("test", shared=True) for _ in range(2)]
    assert lock.is_held and lock.try_take("test") is None
    shared[0].close()
    assert lock.try_take("test") is None
    shared[1].close()
    assert not lock.is_held and objects.aged(lock.folder) == []


def test_never_two_at_a_time(lock: LeaseLock) -> None:
    inside, most, done, rounds = [0], [0], [0], 5

    def work() -> None:
        for _ in range(rounds):
            held = lock.take("test")
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            inside[0] -= 1
            done[0] += 1
            held.close()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == [1] and done == [4 * rounds] and objects.aged(lock.folder) == []


def test_who_is_killed_on_this_machine_holds_nothing(lock: LeaseLock) -> None:
    started = holder(lock)
    assert lock.is_held and lock.try_take("test") is None
    started.kill()
    started.wait()
    began = time.monotonic()
    assert not lock.is_held
    lock.take("test").close()
    assert time.monotonic() - began < 5


def test_who_falls_silent_on_another_machine_is_waited_for(
    lock: LeaseLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 4.0)
    monkeypatch.setattr(lease, "RENEW_S", 1.0)
    started = holder(lock, "another machine")
    time.sleep(6)
    assert lock.is_held and lock.try_take("test") is None  # it's kept young
    started.kill()
    started.wait()
    began = time.monotonic()
    lock.take("test").close()
    assert 2 < time.monotonic() - began < 10


def test_who_was_silent_for_too_long_takes_nothing_away(
    lock: LeaseLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 1.0)
    late = lock.take("test")  # it would say that it's alive every ten seconds
    time.sleep(2.5)
    other = lock.take("test")
    monkeypatch.setattr(lease, "LEASE_S", 60.0)
    late.close()
    assert lock.is_held and lock.try_take("test") is None
    other.close()
    assert not lock.is_held


def test_what_is_lost_is_logged(
    lock: LeaseLock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.2)
    held = lock.take("test")
    objects.delete(held.location)
    with caplog.at_level(logging.ERROR):
        held._thread.join(5)
    assert "lost: this process was out of reach" in caplog.text
    held.close()


def test_a_write_whose_answer_was_lost_is_its_own(server: S3Server) -> None:
    where = f"s3://{server.bucket}/{uuid.uuid4().hex}"
    tag = objects.write_over(where, b"mine", None)
    assert objects.write_over(where, b"mine", None) == tag
    with pytest.raises(FileExistsError):
        objects.write_over(where, b"another's", None)
    with pytest.raises(FileExistsError):
        objects.write_over(where, b"another's", '"0"')
    objects.delete(where, '"0"')
    assert objects.read(where) == b"mine"
