"""The tests' Kafka keeps what it was given, whatever happens to it, and leaves nothing behind."""

from __future__ import annotations

import time

import pytest

from streams.broker import Broker, Record

pytestmark = pytest.mark.slow

MANY = 60_000


def test_records_outlive_a_kill(broker: Broker) -> None:
    broker.topic("orders", partitions=3)
    given = [Record(b"%d" % n, b"x" * 200, n % 3, 1_000 + n) for n in range(MANY)]
    began = time.monotonic()
    broker.produce("orders", given)
    assert time.monotonic() - began < 20
    address = broker.address
    broker.kill()
    broker.start()
    assert broker.address == address
    assert broker.end_offsets("orders") == {0: MANY / 3, 1: MANY / 3, 2: MANY / 3}
    found = broker.read("orders")
    for partition in range(3):
        mine = [record for record in given if record.partition == partition]
        assert [record for record in found if record.partition == partition] == mine
