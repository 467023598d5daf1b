"""A real standalone cluster of Spark on this machine: a master and workers on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from icegate.java import find_java
from icegate.server_launch import free_port

HOST = "127.0.0.1"
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LIMIT_S = 60
# What a driver on the same machine needs, beside the master; two workers of a core each.
CONF = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.executor.memory": "768m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass
class Cluster:
    """A master and its workers, each a process group."""

    folder: Path
    port: int = field(default_factory=lambda: free_port(None))
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, workers: int) -> None:
        where = ("--host", HOST, "--webui-port", "0")
        self._launch("master.Master", *where, "--port", str(self.port))
        self._wait_for("I have been elected leader", 1)
        for number in range(workers):
            work = ("--work-dir", str(self.folder / f"work-{number}"))
            self._launch("worker.Worker", *where, *work, "-c", "1", "-m", "1g", self.master)
        self._wait_for("Registering worker", workers)

    def executors(self, worker: int) -> list[int]:
        """Return the processes of a worker's executors."""
        command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
        listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        found = [line.split(maxsplit=2) for line in listed if "ExecutorBackend" in line]
        own = str(self.processes[1 + worker].pid)
        return [int(pid) for pid, parent, _ in found if parent == own]

    def kill_worker(self, worker: int) -> None:
        """Kill a worker and its executors, as when a machine fails."""
        with suppress(ProcessLookupError):
            os.killpg(self.processes[1 + worker].pid, signal.SIGKILL)
        self.processes[1 + worker].wait()

    def _launch(self, name: str, *args: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # on a port of its own
        }
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *args],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _wait_for(self, said: str, times: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.log.read_text(errors="replace").count(said) < times:
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)


@contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster in ``folder``, and end it."""
    folder.mkdir(parents=True)
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        for process in cluster.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
