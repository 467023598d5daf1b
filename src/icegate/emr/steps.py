"""Steps of a cluster of EMR on EC2: begun, looked at, and cancelled.

Names and shapes of requests are those of its API, of 2009-03-31.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from icegate import aws, objects
from icegate.emr.clusters import Cluster, explained
from icegate.emr.follow import Job
from icegate.emr.submit import Call

RUNNER = "command-runner.jar"
STATES = {"COMPLETED": "SUCCESS", "INTERRUPTED": "CANCELLED", "CANCEL_PENDING": "CANCELLING"}
ARM = re.compile(r"(?:a1|[a-z]+\d+g[a-z]*)\.")  # Graviton's, by the `g` behind the generation
# A driver on YARN has no archives, so they are unpacked before: on the primary node, in a folder
# that stays until the next step of another day. What ends the step ends Spark.
SCRIPT = r"""
set -euo pipefail
app=$1 minutes=$2
shift 2
disk=$([ -d /mnt/tmp ] && echo /mnt/tmp || echo "${TMPDIR:-/tmp}")
find "$disk" -maxdepth 1 -name 'icegate-step.*' -mmin +1440 -exec rm -rf {} + || true
cd "$(mktemp -d "$disk/icegate-step.XXXXXX")"
for name in environment.tar.gz project.tar.gz job.py; do
    aws s3 cp --only-show-errors "$app/$name" "$name"
done
for name in environment project; do
    mkdir "$name"
    tar -xzf "$name.tar.gz" -C "$name"
done
while [ "$1" != -- ]; do
    export "$1"
    shift
done
shift
exec timeout -k 60 "${minutes}m" spark-submit --deploy-mode client "$@"
"""


class Steps:
    """A cluster of EMR on EC2, whose steps are jobs of YARN with their driver on its first node."""

    late_s = 600.0  # EMR brings logs every five minutes

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def named(self) -> str:
        return f"cluster {self.cluster.id}"

    @cached_property
    def architecture(self) -> str:
        """The kind of its machines, which are all of one."""
        with explained(f"cannot look at the machines of the {self.named}"):
            found = self._client.list_instances(ClusterId=self.cluster.id)
        kinds = [str(each.get("InstanceType")) for each in found["Instances"]]
        return "ARM64" if any(map(ARM.match, kinds)) else "X86_64"

    def start(self, name: str, call: Call, minutes: int) -> str:
        """Begin a step, which leaves the cluster and its other steps alone when it fails.

        It has the role of the cluster's machines.
        """
        step: dict[str, Any] = {
            "Name": name,
            "ActionOnFailure": "CONTINUE",
            "HadoopJarStep": {"Jar": RUNNER, "Args": words(call, minutes)},
        }
        with explained(f"cannot begin a step of the {self.named}"):
            begun = self._client.add_job_flow_steps(JobFlowId=self.cluster.id, Steps=[step])
        return str(begun["StepIds"][0])

    def job(self, run: str) -> Job:
        with explained(f"cannot follow a step of the {self.named}"):
            told = self._client.describe_step(ClusterId=self.cluster.id, StepId=run)["Step"]
        status = told["Status"]
        failed, changed = status.get("FailureDetails") or {}, status.get("StateChangeReason") or {}
        said = failed.get("Message") or failed.get("Reason") or changed.get("Message") or ""
        ended = (status.get("Timeline") or {}).get("EndDateTime")
        at = ended.timestamp() if ended else 0
        return Job(STATES.get(status["State"], status["State"]), said, at)

    def cancel(self, run: str) -> None:
        with explained(f"cannot cancel a step of the {self.named}"):
            self._client.cancel_steps(
                ClusterId=self.cluster.id,
                StepIds=[run],
                StepCancellationOption="TERMINATE_PROCESS",
            )

    def log(self, run: str, name: str) -> StepLog | None:
        if not self.cluster.logs:
            return None
        folder = re.sub(r"^s3[an]?://", "s3://", self.cluster.logs).rstrip("/")
        return StepLog(f"{folder}/{self.cluster.id}/steps/{run}/{name}.gz")

    @property
    def _client(self) -> Any:
        return aws.client("emr")


class StepLog:
    """What a step prints, as EMR brings it into a bucket: the whole of it, each time."""

    def __init__(self, location: str) -> None:
        self._location, self._given = location, 0
        self._known: objects.Stat | None = None

    @property
    def brought_at(self) -> float:
        return self._known.written if self._known else 0

    def new(self) -> Iterator[str]:
        """Give the whole lines that weren't given yet."""
        try:
            told = objects.stat(self._location)
            if told == self._known:
                return
            text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(objects.read(self._location))
        except FileNotFoundError:
            return
        self._known = told
        lines = text.decode(errors="replace").split("\n")[:-1]
        yield from lines[self._given :]
        self._given = len(lines)


def words(call: Call, minutes: int) -> list[str]:
    """Return a step's words: a script and what it's given, none of it a shell's to read."""
    call.check()
    archives = "environment.tar.gz#environment,project.tar.gz#project"
    conf = [*call.conf, *(f"{key}={text}" for key, text in call.of_workers.items())]
    return [
        *("bash", "-c", SCRIPT, "icegate", call.folder, str(minutes)),
        *(f"{name}={text}" for name, text in call.of_driver.items()),
        *("--", "--archives", archives),
        *(word for each in conf for word in ("--conf", each)),
        *("job.py", *call.args),
    ]
