"""A real Kafka on this machine: one Java that is broker and controller, for tests and benchmarks.

Py4J starts it, as it starts Spark: it ends when its stdin does, so also when Python is killed.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from icegate.errors import JarsError
from icegate.java import find_java
from icegate.locks import alone

KAFKA_VERSION = "4.1.2"
CACHE = Path(__file__).resolve().parents[3] / ".icegate" / "kafka"
JARS = CACHE / KAFKA_VERSION
SPARK_JARS = Path(pyspark.__file__).parent / "jars"  # with Ivy and Py4J
HOST = "127.0.0.1"
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
    "delete.topic.enable": "true",
    "log.retention.ms": "-1",  # records may be as old as a test likes
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A broker that was killed may come back only when its last session has ended.
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(4 * 2**20),
    "server.max.startup.time.ms": str(TIMEOUT_S * 1000),
}


class Record(NamedTuple):
    """A record to be written, or that was read; ``timestamp`` is in milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    partition: int | None = None
    timestamp: int | None = None


class Broker:
    """A Kafka whose data is in ``folder``; started again, it has the same data and ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"PLAINTEXT": _free_port(), "CONTROLLER": _free_port()}
        self.address = f"{HOST}:{self.ports['PLAINTEXT']}"
        self.client = {"bootstrap.servers": self.address, "log_level": 3}
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
        assert self._java, "the broker isn't running"
        return self._java.pid

    def start(self) -> None:
        """Start the broker; return when it answers."""
        assert not self._java, "the broker is running"
        self.folder.mkdir(parents=True, exist_ok=True)
        port, token, self._java = launch_gateway(
            jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(map(str, kafka_jars())),
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
        producer = Producer({**self.client, "linger.ms": 20, "enable.idempotence": True})

        def note(error: KafkaError | None, _: object) -> None:
            if error:
                refused.append(error)

        for record in records:
            key, value, partition, timestamp = Record(*record)
            more = {} if partition is None else {"partition": partition}
            more |= {} if timestamp is None else {"timestamp": timestamp}
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=note, **more)
                    break
                except BufferError:
                    producer.poll(0.1)
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
                    found.append(_record(message))
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
        conf = self._conf()
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(jvm, conf)
        time = jvm.org.apache.kafka.common.utils.Time.SYSTEM
        self._server = jvm.kafka.server.KafkaRaftServer(jvm.kafka.server.KafkaConfig(conf), time)
        self._server.startup()

    def _format(self, jvm: Any, conf: dict[str, str]) -> None:
        """Prepare an empty folder, as `kafka-storage.sh format` does."""
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
        cluster = jvm.org.apache.kafka.common.Uuid.randomUuid().toString()
        arguments = ["format", "--cluster-id", cluster, "--config", str(file)]
        array = self._gateway.new_array(jvm.String, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        said = jvm.java.io.ByteArrayOutputStream()
        if jvm.kafka.tools.StorageTool.execute(array, jvm.java.io.PrintStream(said)):
            raise RuntimeError(f"cannot format {self.folder}: {said.toString()}")

    def _conf(self) -> dict[str, str]:
        where = {name: f"{name}://{HOST}:{port}" for name, port in self.ports.items()}
        return {
            **CONF,
            "controller.quorum.voters": f"1@{HOST}:{self.ports['CONTROLLER']}",
            "listeners": ",".join(where.values()),
            "advertised.listeners": where["PLAINTEXT"],
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
        }

    def _write_logging(self) -> Path:
        file = self.folder / "log4j2.properties"
        file.write_text(
            "appender.file.type = File\nappender.file.name = file\n"
            f"appender.file.fileName = {self.folder / 'broker.log'}\n"
            "appender.file.layout.type = PatternLayout\n"
            "appender.file.layout.pattern = %d %p %c %m%n\n"
            "rootLogger.level = warn\nrootLogger.appenderRef.file.ref = file\n"
        )
        return file


def kafka_jars() -> list[Path]:
    """Return the broker's jars, which Spark's Ivy gets once; raise ``JarsError`` where it can't."""
    with alone(CACHE / "jars.lock", "get the jars of Kafka"):
        if not JARS.is_dir():
            partial = JARS.with_suffix(".partial")
            _get_jars(partial)
            partial.rename(JARS)
    return sorted(JARS.glob("*.jar"))


def _get_jars(folder: Path) -> None:
    java, ivy = find_java().home / "bin" / "java", next(SPARK_JARS.glob("ivy-*.jar"))
    command = [java, "-cp", ivy, "org.apache.ivy.Main", "-cache", CACHE / "ivy"]
    command += ["-dependency", "org.apache.kafka", "kafka_2.13", KAFKA_VERSION]
    command += ["-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode:
        raise JarsError(
            "cannot get the jars of Kafka",
            why=said.stdout[-2000:],
            fix="connect to the internet once and run this again",
        )


def _record(message: Message) -> Record:
    kept = (message.key(), message.value(), message.partition(), message.timestamp()[1])
    return Record(*kept)


def _free_port() -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port on {HOST} among 100 of {PORTS}")
