"""A stream and a real broker: who may read, what when the broker is away or has lost records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.broker import Broker
from streams.commanded import Commanded
from streams.killed import HASTE

pytestmark = pytest.mark.long

PASSWORD = 's3 "cr\\et: {é'
PROFILES = {
    "scram": {
        "type": "scram",
        "username": "ann",
        "password": "{{ env_var('T_PASSWORD') }}",
        "ca": "{{ env_var('T_CERTIFICATES') }}/ca.pem",
    },
    "mtls": {
        "type": "mtls",
        "certificate": "{{ env_var('T_CERTIFICATES') }}/client.pem",
        "key": "{{ env_var('T_CERTIFICATES') }}/client.key",
        "ca": "{{ env_var('T_CERTIFICATES') }}/ca.pem",
    },
}
ROUTE = {"table": "t.first", "columns": {"id": "int"}}


def write(project: Commanded, address: str, **keys: Any) -> None:
    source = {"kafka": address, "topics": "sales", "options": HASTE} | keys.pop("source", {})
    content = {"source": source, "batch": {"seconds": 0.3}, "routes": [ROUTE], **keys}
    project.write("python_jobs/streams/tills.yml", content)


def sales(*ids: int) -> list[tuple[None, bytes, int]]:
    return [(None, b'{"id": %d}' % n, n % 2) for n in ids]


def test_by_password_and_by_certificate(
    project: Commanded, tmp_path: Path, broker_jars: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(tmp_path / "a broker", user=("ann", PASSWORD), tls=True) as broker:
        broker.topic("sales", partitions=2)
        broker.produce("sales", sales(1, 2))
        project.write("profiles/kafka.yml", PROFILES)
        monkeypatch.setenv("T_CERTIFICATES", str(broker.certificates))
        monkeypatch.setenv("T_PASSWORD", "swordfish")
        write(project, broker.addresses["SCRAM"], source={"auth": "scram"}, give_up_minutes=0.05)
        refused = project.icegate("stream", "start", "tills", "--once")
        said = refused.out + refused.err
        assert refused.code == 1 and "uthentication failed" in said, said
        assert "swordfish" not in said and "\tat " not in refused.err.split("error: ")[-1]
        monkeypatch.setenv("T_PASSWORD", PASSWORD)
        done = project.icegate("stream", "start", "tills", "--once")
        assert done.code == 0, done.err
        assert project.ids("t.first") == [1, 2]
        broker.produce("sales", sales(3))
        write(project, broker.addresses["TLS"], source={"auth": "mtls"})
        done = project.icegate("stream", "start", "tills", "--once")
        assert done.code == 0, done.err
        assert project.ids("t.first") == [1, 2, 3]
        secret = (broker.certificates / "client.key").read_text().splitlines()[1]
        files = [*project.control.folder.rglob("*")]
        texts = [file.read_text(errors="replace") for file in files if file.is_file()]
        assert not [text for text in [*texts, done.err] if secret in text or "cr\\et" in text]


def test_a_broker_that_goes_away(project: Commanded, broker: Broker) -> None:
    broker.topic("sales", partitions=2)
    broker.produce("sales", sales(1, 2))
    write(project, broker.address, give_up_minutes=10)
    assert project.icegate("stream", "start", "tills", "--background").code == 0
    project.wait(lambda: project.batch_of("t.first"))
    pid = project.control.told()["pid"]
    broker.kill()
    project.wait(lambda: project.control.told()["state"] == "waiting for the broker")
    shown = project.icegate("stream", "status", "tills")
    assert shown.code == 0 and "tills: waiting for the broker" in shown.out, shown.out
    broker.start()
    broker.produce("sales", sales(3, 4))
    project.wait(lambda: project.ids("t.first") == [1, 2, 3, 4])
    project.wait(lambda: project.control.told()["state"] == "running")
    assert project.control.told()["pid"] == pid and not project.control.told()["error"]
    write(project, broker.address, give_up_minutes=0.1)
    assert project.icegate("stream", "restart", "tills").code == 0
    broker.kill()
    project.wait(lambda: not project.control.is_running)
    shown = project.icegate("stream", "status", "tills")
    assert shown.code == 3 and "tills: failed" in shown.out
    message = project.control.told()["error"]
    assert "gave up: its broker didn't answer for 0.1 minutes" in message, message
    assert len(message.splitlines()) == 3 and broker.address in message, message
    broker.start()
    broker.produce("sales", sales(5))
    assert project.icegate("stream", "start", "tills", "--once").code == 0
    assert project.ids("t.first") == [1, 2, 3, 4, 5]


def test_records_that_are_gone_before_they_were_read(project: Commanded, broker: Broker) -> None:
    broker.topic("sales", partitions=2)
    broker.produce("sales", sales(0, 1))
    write(project, broker.address)
    assert project.icegate("stream", "start", "tills", "--once").code == 0
    broker.produce("sales", sales(2, 3, 4, 5, 6, 7))
    broker.delete_before("sales", 0, 3)  # 2 and 4
    for _ in range(2):
        ended = project.icegate("stream", "start", "tills", "--once")
        message = ended.err[ended.err.index("error: ") :]
        assert ended.code == 1
        assert "cannot go on: records that it hasn't read are gone from Kafka" in message
        assert len(message.splitlines()) == 3 and "failOnDataLoss" in message, message
        assert project.ids("t.first") == [0, 1]
    write(project, broker.address, source={"options": {**HASTE, "failOnDataLoss": False}})
    done = project.icegate("stream", "start", "tills", "--once")
    assert done.code == 0, done.err
    assert project.ids("t.first") == [0, 1, 3, 5, 6, 7]
