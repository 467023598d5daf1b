"""A real Kafka on this machine: one Java that is broker and controller, for tests and benchmarks.

Py4J starts it, as it starts Spark: it ends when its stdin does, so also when Python is killed.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from certificates import make_certificates
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from maven import SPARK_JARS, jars_of
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from icegate.java import find_java
from icegate.server_launch import properties

HOST = "127.0.0.1"
KAFKA = "kafka", "org.apache.kafka", "kafka_2.13", "4.1.2"
# Below those that systems give to clients: one that calls while the broker is away could be given
# the very port, and then talks to itself.
PORTS = range(20000, 30000)
TIMEOUT_S = 60
JAVA = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
CONF = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",  # records may be as old as a test likes
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed may come back only when its last session has ended.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 * 2**20),
    "server.max.startup.time.ms": str(TIMEOUT_S * 1000),
}
SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.scram.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}


class Record(NamedTuple):
    """A record to be written, or that was read; ``timestamp`` is in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None


class Broker:
    """A Kafka whose data is in ``folder``; started again, it has the same data and ports.

    It always listens without any security, as `PLAINTEXT`. With ``user``, a name and a password,
    also as `SCRAM` (SHA-512); with ``tls`` that is encrypted, and `TLS` wants a client's
    certificate: ``certificates`` is where they are. ``addresses`` has each name's host and port.
    """

    def __init__(
        self, folder: Path, user: tuple[str, str] | None = None, tls: bool = False
    ) -> None:
        self.folder, self.user, self.tls = folder, user, tls
        self.certificates = folder / "certificates"
        names = ["PLAINTEXT", "CONTROLLER", *["SCRAM"] * bool(user), *["TLS"] * tls]
        ports = zip(names, _free_ports(len(names)), strict=True)
        self.addresses = {name: f"{HOST}:{port}" for name, port in ports}
        self.address = self.addresses["PLAINTEXT"]
        self.client: dict[str, Any] = {"bootstrap.servers": self.address, "log_level": 3}
        self._java: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        self._server: Any = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._java, "the broker doesn't run"
        return self._java.pid

    def start(self) -> None:
        """Start the broker; return when it answers."""
        assert not self._java, "the broker is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        port, token, self._java = launch_gateway(
            jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(map(str, jars_of(*KAFKA))),
            javaopts=[*JAVA, f"-Dlog4j2.configurationFile={self._write_logging()}"],
            java_path=str(find_java().home / "bin" / "java"),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        # Else Python tells a Java that was killed which of its objects it may forget.
        forget = {"enable_memory_management": False}
        reached = GatewayParameters(port=port, auth_token=token, auto_convert=True, **forget)
        self._gateway = JavaGateway(gateway_parameters=reached)
        try:
            self._serve(self._gateway.jvm)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Shut the broker down in an orderly way; do nothing when it doesn't run."""
        if self._java:
            try:
                self._server.shutdown()
            finally:
                self.kill()

    def kill(self) -> None:
        """Take the broker away from one moment to the next."""
        if self._java:
            self._java.kill()
            self._java.wait()
            self._gateway.close()
            self._java = self._gateway = self._server = None

    def topic(self, name: str, partitions: int = 1, **conf: str) -> None:
        """Make a topic; ``conf`` is Kafka's, with ``_`` for each dot."""
        config = {key.replace("_", "."): value for key, value in conf.items()}
        made = NewTopic(name, partitions, 1, config=config)
        admin = AdminClient(self.client)
        admin.create_topics([made])[name].result(TIMEOUT_S)

    def produce(self, topic: str, records: Iterable[Sequence[Any]]) -> None:
        """Write records, each a ``Record`` or its first fields; return when the broker has them.

        Those of one partition stay in order. Raises ``RuntimeError`` when one wasn't taken.
        """
        refused: list[KafkaError] = []
        keep = {"queue.buffering.max.messages": 0, "queue.buffering.max.kbytes": 2**31 - 1}
        options = {"linger.ms": 20, "enable.idempotence": True, **keep}
        producer = Producer({**self.client, **options})

        def note(error: KafkaError | None, _: object) -> None:
            if error:
                refused.append(error)

        for record in records:
            key, value, partition, timestamp = Record(*record)
            more = {} if partition is None else {"partition": partition}
            more |= {} if timestamp is None else {"timestamp": timestamp}
            producer.produce(topic, value, key, on_delivery=note, **more)
            producer.poll(0)
        left = producer.flush(TIMEOUT_S)
        if left or refused:
            told = f"{left} records weren't sent, {len(refused)} refused"
            raise RuntimeError(f"{told}: {', '.join(map(str, refused[:1]))}")

    def read(self, topic: str) -> list[Record]:
        """Return all records of a topic; those of one partition are in order."""
        left, starts = self.end_offsets(topic), self.start_offsets(topic)
        left = {partition: end for partition, end in left.items() if end > starts[partition]}
        options = {"group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self.client, **options})
        consumer.assign([TopicPartition(topic, part, starts[part]) for part in left])
        found: list[Record] = []
        while left:
            for message in consumer.consume(10_000, 1):
                ended = message.error()
                if ended and ended.code() == KafkaError._PARTITION_EOF:
                    left.pop(message.partition(), None)
                elif ended:
                    raise RuntimeError(f"cannot read {topic}: {ended}")
                else:
                    where, at = message.partition(), message.timestamp()[1]
                    found.append(Record(message.key(), message.value(), where, at))
        consumer.close()
        return found

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset that each partition's next record gets."""
        return self._offsets(topic, OffsetSpec.latest())

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of each partition's first record that is still there."""
        return self._offsets(topic, OffsetSpec.earliest())

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Let the records of a partition before ``offset`` be gone."""
        where, admin = TopicPartition(topic, partition, offset), AdminClient(self.client)
        admin.delete_records([where])[where].result(TIMEOUT_S)

    def _offsets(self, topic: str, which: OffsetSpec) -> dict[int, int]:
        admin = AdminClient(self.client)
        parts = admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        asked = admin.list_offsets({TopicPartition(topic, part): which for part in sorted(parts)})
        return {part.partition: said.result(TIMEOUT_S).offset for part, said in asked.items()}

    def _serve(self, jvm: Any) -> None:
        is_new = not (self.folder / "data" / "meta.properties").exists()
        if is_new:
            self._format(jvm)
        time = jvm.org.apache.kafka.common.utils.Time.SYSTEM
        config = jvm.kafka.server.KafkaConfig(self._conf())
        self._server = jvm.kafka.server.KafkaRaftServer(config, time)
        self._server.startup()
        if is_new and self.user:
            name, password = self.user
            hashed = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            made = UserScramCredentialUpsertion(name, hashed, password.encode())
            admin = AdminClient(self.client)
            admin.alter_user_scram_credentials([made])[name].result(TIMEOUT_S)

    def _format(self, jvm: Any) -> None:
        """Prepare an empty folder, as `kafka-storage.sh format` does."""
        if self.tls:
            make_certificates(self.certificates)
        file = self.folder / "server.properties"
        file.write_text(properties(self._conf()))
        cluster = jvm.org.apache.kafka.common.Uuid.randomUuid().toString()
        arguments = ["format", "--cluster-id", cluster, "--config", str(file)]
        array = self._gateway.new_array(jvm.String, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        said = jvm.java.io.ByteArrayOutputStream()
        if jvm.kafka.tools.StorageTool.execute(array, jvm.java.io.PrintStream(said)):
            raise RuntimeError(said.toString())

    def _conf(self) -> dict[str, str]:
        where = {name: f"{name}://{address}" for name, address in self.addresses.items()}
        return {
            **CONF,
            **SCRAM,
            **(self._tls_conf() if self.tls else {}),
            "controller.quorum.voters": f"1@{self.addresses['CONTROLLER']}",
            "listeners": ",".join(where.values()),
            "advertised.listeners": ",".join(where[name] for name in where if name != "CONTROLLER"),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
            f"SCRAM:{'SASL_SSL' if self.tls else 'SASL_PLAINTEXT'}",
            "log.dirs": str(self.folder / "data"),
        }

    def _tls_conf(self) -> dict[str, str]:
        return {
            "listener.name.tls.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates / "ca.pem"),
        }

    def _write_logging(self) -> Path:
        file = self.folder / "log4j2.properties"
        conf = {
            "rootLogger.level": "warn",
            "rootLogger.appenderRef.file.ref": "file",
            "appender.file.type": "File",
            "appender.file.name": "file",
            "appender.file.fileName": str(self.folder / "broker.log"),
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "%d %p %c %m%n",
        }
        file.write_text(properties(conf))
        return file


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, 100):  # the other one is seeded by tests
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"not {count} free ports on {HOST} among 100 of {PORTS}")
