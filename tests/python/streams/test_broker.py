"""The tests' Kafka keeps what it was given, whatever happens to it, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from icegate.processes import start_of
from streams.broker import Broker, Record

pytestmark = pytest.mark.slow

MANY = 60_000
HERE = Path(__file__).parents[1]
STARTED = """
import sys, time
from pathlib import Path
from streams.broker import Broker
with Broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    time.sleep(600)
"""


def test_records_outlive_a_kill(broker: Broker) -> None:
    broker.topic("orders", partitions=3)
    given = [Record(b"%d" % n, b"x" * 200, n % 3, 1_000 + n) for n in range(MANY)]
    began = time.monotonic()
    broker.produce("orders", given)
    assert time.monotonic() - began < 20
    pid, address = broker.pid, broker.address
    broker.kill()
    assert not start_of(pid, "java")
    broker.start()
    assert broker.address == address
    assert broker.end_offsets("orders") == {0: MANY / 3, 1: MANY / 3, 2: MANY / 3}
    found = broker.read("orders")
    for partition in range(3):
        mine = [record for record in given if record.partition == partition]
        assert [record for record in found if record.partition == partition] == mine


def test_deleted_records_are_gone_and_nothing_else(broker: Broker) -> None:
    broker.topic("orders", partitions=2, cleanup_policy="delete")
    broker.produce("orders", [(None, b"%d" % n, n % 2) for n in range(10)])
    broker.delete_before("orders", 1, 3)
    broker.produce("orders", [(b"a tombstone", None, 1)])
    broker.stop()
    broker.start()
    assert broker.start_offsets("orders") == {0: 0, 1: 3}
    assert broker.end_offsets("orders") == {0: 5, 1: 6}
    found = sorted((record.partition, record.value or b"") for record in broker.read("orders"))
    assert found == [(0, b"%d" % n) for n in (0, 2, 4, 6, 8)] + [(1, b""), (1, b"7"), (1, b"9")]


def test_a_door_opens_for_those_who_have_its_key(tmp_path: Path, broker_jars: None) -> None:
    user = ("ann", 's3 "cr\\et, é')
    with Broker(tmp_path / "a broker", user=user, tls=True) as broker:
        broker.topic("orders")
        trust = {"ssl.ca.location": str(broker.certificates / "ca.pem")}
        own = str(broker.certificates / "client.pem")
        tls = {**trust, "security.protocol": "SSL"}
        scram = {**trust, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
        scram |= {"sasl.username": user[0], "sasl.password": user[1]}
        with_key = {"ssl.certificate.location": own, "ssl.key.location": own}
        assert is_open(broker, "PLAINTEXT", {})
        assert is_open(broker, "SCRAM", scram)
        assert is_open(broker, "TLS", {**tls, **with_key})
        assert not is_open(broker, "SCRAM", {**scram, "sasl.password": "another"})
        assert not is_open(broker, "TLS", tls)


def is_open(broker: Broker, name: str, options: dict[str, str]) -> bool:
    where = {"bootstrap.servers": broker.addresses[name], "log_level": 0}
    try:
        return "orders" in AdminClient({**where, **options}).list_topics(timeout=3).topics
    except KafkaException:
        return False


def test_it_ends_with_the_python_that_started_it(tmp_path: Path, broker_jars: None) -> None:
    command = [sys.executable, "-c", STARTED, str(tmp_path / "a broker")]
    python = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True)
    assert python.stdout
    pid = int(python.stdout.readline())
    assert start_of(pid, "java")
    python.kill()
    python.wait()
    deadline = time.monotonic() + 20
    while start_of(pid, "java") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not start_of(pid, "java")
