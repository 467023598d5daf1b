"""What stands for EMR on EC2 on this machine: its API, and the Spark of a cluster's primary node.

A client of AWS checks each request against the service's own model; what is answered here has that
model's shapes, too (`test_emr.py`).
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from deploy import templates
from icegate import objects
from icegate.server_launch import free_port
from targets.emr_release import EMR_8, environ_of
from targets.programs import Program, answers, listening

ID, TAGS = "j-2AXXXXXXGAPLF", {"project": "shop", "stage": "test"}
HIVE_SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"

Environ = Mapping[str, str]


def defaults(warehouse: str) -> dict[str, str]:
    """Return what the template sets for all Sparks of its cluster, and what suits this machine."""
    (found,) = (
        each["ConfigurationProperties"]
        for each in templates.read("cluster")["Resources"]["Cluster"]["Properties"][
            "Configurations"
        ]
        if each["Classification"] == "spark-defaults"
    )
    conf = {key: text for key, text in found.items() if isinstance(text, str)}
    own = {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    return conf | own | {"spark.sql.catalog.lake.warehouse": warehouse}


class Primary(Program):
    """The server on a primary node: one application with Thrift and Spark Connect."""

    def __init__(self, folder: Path, environ: dict[str, str], warehouse: str) -> None:
        super().__init__(folder)
        self.warehouse, self.connect_port = warehouse, free_port(None)
        self.submit = EMR_8.submit
        self.environ = environ_of(self.submit, environ)

    def start(self) -> None:
        self.launch(self.command(), partial(answers, self.port, self.connect_port), self.environ)

    def command(self) -> list[str]:
        """Return what the template's step starts, with its cluster's settings, on this machine."""
        server = templates.read("cluster")["Resources"]["Server"]["Properties"]
        _, _, *words = server["HadoopJarStep"]["Args"]
        conf = defaults(self.warehouse)
        conf |= {"spark.connect.grpc.binding.address": "127.0.0.1"}
        conf |= {"spark.connect.grpc.binding.port": str(self.connect_port)}
        hive = [
            f"hive.server2.thrift.{each}" for each in (f"port={self.port}", "bind.host=127.0.0.1")
        ]
        command = [str(self.submit), "--master", "local[2]", "--class", HIVE_SERVER]
        command += ["--driver-class-path", EMR_8.jars.replace(",", os.pathsep)]
        at = words.index("--hiveconf")
        of_spark, of_hive = words[:at], words[at:]
        command += of_spark + [w for pair in conf.items() for w in ("--conf", "=".join(pair))]
        return [*command, "spark-internal", *of_hive, *(w for h in hive for w in ("--hiveconf", h))]


class Step:
    """A step, which is a real process, and what it prints, brought into the bucket each time."""

    def __init__(self, asked: dict[str, Any], folder: Path, logs: str, environ: Environ) -> None:
        self.asked, self.logs, self.was_cancelled = asked, logs, False
        self.ended_at: float | None = None
        folder.mkdir(parents=True)
        self.files = {name: folder / name for name in ("stdout", "stderr")}
        out, err = (path.open("wb") for path in self.files.values())
        self.process = subprocess.Popen(
            asked["HadoopJarStep"]["Args"],
            cwd=folder,
            env={**environ, "TMPDIR": str(folder)},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    def told(self) -> dict[str, Any]:
        """Return its status by now, with the logs so far brought."""
        code = self.process.poll()
        for name, path in self.files.items():
            objects.write(f"{self.logs}/{name}.gz", gzip.compress(path.read_bytes()))
        ended = "CANCELLED" if self.was_cancelled else "FAILED" if code else "COMPLETED"
        if code is None:
            return {"State": "RUNNING", "StateChangeReason": {}}
        self.ended_at = self.ended_at or time.time()
        state = {"State": ended, "Timeline": {"EndDateTime": self.ended_at}}
        return state | ({"FailureDetails": {"Reason": "it failed"}} if ended == "FAILED" else {})

    def cancel(self) -> None:
        """End its process, and only that one, as EMR does."""
        self.was_cancelled = True
        self.process.terminate()


class Emr:
    """The API: clusters by their ids, as `DescribeCluster` tells them, and their steps."""

    def __init__(self, folder: Path | None = None, environ: Environ | None = None) -> None:
        self.clusters: dict[str, dict[str, Any]] = {}
        self.steps: list[Step] = []
        self.asked: list[str] = []
        self.folder, self.environ = folder or Path(), environ or {}
        self.add(ID, "WAITING", TAGS)

    def add(self, id: str, state: str, tags: dict[str, str], host: str = "127.0.0.1") -> None:
        self.clusters[id] = {
            "Id": id,
            "Name": "shop-cluster",
            "Status": {"State": state, "StateChangeReason": {}},
            "ReleaseLabel": "emr-spark-8.0.0",
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            **({"MasterPublicDnsName": host} if host else {}),
        }

    def end(self, id: str, why: str) -> None:
        reason = {"Code": "USER_REQUEST", "Message": why}
        self.clusters[id]["Status"] = {"State": "TERMINATED", "StateChangeReason": reason}

    def answer(self, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what EMR answers; raises ``LookupError`` for a cluster that isn't there."""
        self.asked.append(action)
        if action == "ListClusters":
            states = asked["ClusterStates"]
            found = [c for c in self.clusters.values() if c["Status"]["State"] in states]
            return {"Clusters": [{k: c[k] for k in ("Id", "Name", "Status")} for c in found]}
        id = asked.get("ClusterId") or asked["JobFlowId"]
        cluster = self.clusters.get(id)
        if cluster is None:
            raise LookupError(f"Cluster id '{id}' is not valid.")
        if action == "DescribeCluster":
            return {"Cluster": cluster}
        if action == "ListInstances":
            return {"Instances": [{"Id": "ci-1", "InstanceType": "m7i.xlarge"}]}
        if action == "AddJobFlowSteps":
            step = f"s-{len(self.steps)}"
            logs = f"{cluster['LogUri'].replace('s3n:', 's3:')}{id}/steps/{step}"
            (wanted,) = asked["Steps"]
            self.steps.append(Step(wanted, self.folder / step, logs, self.environ))
            return {"StepIds": [step]}
        if action == "CancelSteps":
            (step,) = asked["StepIds"]
            self.steps[int(step[2:])].cancel()
            return {"CancelStepsInfoList": [{"StepId": step, "Status": "SUBMITTED"}]}
        assert action == "DescribeStep", action
        step = asked["StepId"]
        return {"Step": {"Id": step, "Status": self.steps[int(step[2:])].told()}}


def _handler(emr: Emr) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = self.headers["X-Amz-Target"].partition(".")[2]
            try:
                code, said = 200, emr.answer(action, asked)
            except LookupError as error:
                code = 400
                said = {"__type": "InvalidRequestException", "Message": error.args[0]}
            body = json.dumps(said).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


def serving(emr: Emr) -> AbstractContextManager[str]:
    """Serve the API, and give its address."""
    return listening(_handler(emr))


@contextmanager
def primary(folder: Path, environ: dict[str, str], warehouse: str) -> Iterator[Primary]:
    """Start the primary node's server, and end it."""
    folder.mkdir()
    node = Primary(folder, environ, warehouse)
    try:
        node.start()
        yield node
    finally:
        node.stop()
