"""Jobs of EMR Serverless: begun, looked at, and cancelled.

Names and shapes of requests are those of its API, of 2021-07-13, and of CloudWatch Logs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from icegate import aws
from icegate.emr.follow import Job
from icegate.emr.submit import Call, spark_submit
from icegate.errors import IcegateError

SERVICE = "EMR Serverless"
CAUSES: aws.Causes = (
    (
        ("ResourceNotFoundException",),
        "there is no such application or job in this region: {said}",
        "correct --application, or AWS_REGION",
    ),
    (
        ("AccessDeniedException", "AccessDenied"),
        "this user may not do that: {said}",
        "grant emr-serverless:GetApplication, StartJobRun, GetJobRun and CancelJobRun, iam:PassRole"
        " for --role, logs:DescribeLogStreams and GetLogEvents on the application's log group",
    ),
    (("ValidationException",), "it refuses that: {said}", "correct it; --help tells the options"),
    (
        ("ConflictException",),
        "the application can't take a job now: {said}",
        "start it, or make it anew: `aws emr-serverless get-application` tells its state",
    ),
    (
        ("ServiceQuotaExceededException", "ThrottlingException"),
        "a limit is reached: {said}",
        "wait, or ask AWS for more",
    ),
)


class Application:
    """An application of EMR Serverless that runs jobs, which have a role by its ARN."""

    late_s = 20.0

    def __init__(self, id: str, role: str) -> None:
        self.id, self._role = id, role

    @property
    def named(self) -> str:
        return f"application {self.id}"

    @cached_property
    def told(self) -> dict[str, Any]:
        """What EMR tells of the application; raises ``IcegateError`` where it isn't there."""
        with self._explained("find"):
            answer = self._client.get_application(applicationId=self.id)
        return dict(answer["application"])

    @property
    def architecture(self) -> str:
        return str(self.told.get("architecture") or "X86_64")

    @property
    def log_group(self) -> str | None:
        """Where its jobs' lines go in CloudWatch; None where they don't."""
        told = self.told.get("monitoringConfiguration", {}).get("cloudWatchLoggingConfiguration")
        if not told or not told.get("enabled"):
            return None
        return str(told.get("logGroupName") or "/aws/emr-serverless")

    def log(self, run: str, name: str) -> Log | None:
        return Log(self.log_group, self.id, run, name) if self.log_group else None

    def start(self, name: str, call: Call, minutes: int) -> str:
        """Begin a job, once however often the answer is lost, and return its id."""
        submit = spark_submit(call)
        with self._explained("start a job of"):
            begun = self._client.start_job_run(
                applicationId=self.id,
                clientToken=str(uuid.uuid4()),
                executionRoleArn=self._role,
                jobDriver={"sparkSubmit": submit},
                executionTimeoutMinutes=minutes,
                name=name,
            )
        return str(begun["jobRunId"])

    def job(self, run: str) -> Job:
        with self._explained("follow a job of"):
            told = self._client.get_job_run(applicationId=self.id, jobRunId=run)["jobRun"]
        return Job(told["state"], told.get("stateDetails") or "")

    def cancel(self, run: str) -> None:
        with self._explained("cancel a job of"):
            self._client.cancel_job_run(applicationId=self.id, jobRunId=run)

    @property
    def _client(self) -> Any:
        return aws.client("emr-serverless")

    def _explained(self, doing: str) -> AbstractContextManager[None]:
        what = f"cannot {doing} the application {self.id}"
        return aws.explained(what, IcegateError, SERVICE, CAUSES, {})


class Log:
    """What a job's driver prints to ``stdout`` or ``stderr``, as CloudWatch has it."""

    brought_at = 0.0

    def __init__(self, group: str, application: str, run: str, name: str) -> None:
        self._group, self._name = group, name
        self._below = f"applications/{application}/jobs/{run}/"
        self._stream: str | None = None
        self._next: dict[str, str] = {}

    def new(self) -> Iterator[str]:
        """Give the lines that weren't given yet; none while the job hasn't begun to print."""
        with aws.explained(
            f"cannot read the log group {self._group}", IcegateError, "CloudWatch Logs", CAUSES, {}
        ):
            self._stream = self._stream or self._find()
            if self._stream is None:
                return
            while True:
                page = aws.client("logs").get_log_events(
                    logGroupName=self._group,
                    logStreamName=self._stream,
                    startFromHead=True,
                    **self._next,
                )
                yield from (str(event["message"]).rstrip("\n") for event in page["events"])
                was, self._next = self._next, {"nextToken": page["nextForwardToken"]}
                if was == self._next or not page["events"]:
                    return

    def _find(self) -> str | None:
        client = aws.client("logs")
        for prefix in (self._below, f"/{self._below}"):
            try:
                told = client.describe_log_streams(
                    logGroupName=self._group, logStreamNamePrefix=prefix
                )
            except client.exceptions.ResourceNotFoundException:  # the group, before the first job
                return None
            for stream in told["logStreams"]:
                name = str(stream["logStreamName"])
                if "DRIVER" in name and name.endswith(f"/{self._name}"):
                    return name
        return None
