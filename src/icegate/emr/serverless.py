"""Jobs of EMR Serverless: begun, followed with what they print, and cancelled.

Names and shapes of requests are those of its API, of 2021-07-13, and of CloudWatch Logs.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple

from icegate import aws
from icegate.emr.job import EXIT_CODE
from icegate.errors import IcegateError

SERVICE = "EMR Serverless"
LAST_LINES = 60  # of what Spark says of a job that failed
ENDED = ("SUCCESS", "FAILED", "CANCELLED")
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


class Job(NamedTuple):
    """What is known of a job: its state by EMR's name, and what EMR says of it."""

    state: str
    details: str

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Application:
    """An application of EMR Serverless that runs jobs."""

    def __init__(self, id: str) -> None:
        self.id = id

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

    def start(self, name: str, role: str, submit: dict[str, Any], minutes: int) -> str:
        """Begin a job, once however often the answer is lost, and return its id."""
        with self._explained("start a job of"):
            begun = self._client.start_job_run(
                applicationId=self.id,
                clientToken=str(uuid.uuid4()),
                executionRoleArn=role,
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


class Followed:
    """A job that is followed: each line that it prints is shown, each change of its state said."""

    def __init__(
        self, runs: Application, run: str, show: Callable[[str], None], say: Callable[[str], None]
    ) -> None:
        self._runs, self._run, self._show, self._say = runs, run, show, say
        self._state = ""
        self._code: int | None = None
        group = runs.log_group
        if group is None:
            say("log: the application keeps none in CloudWatch, so none is shown")
        self._logs = {n: Log(group, runs.id, run, n) for n in ("stdout", "stderr") if group}

    def look(self) -> Job:
        """Show what is new, and return what the job is doing."""
        job = self._runs.job(self._run)
        for line in self._logs["stdout"].new() if self._logs else ():
            self._show(line)
            if found := re.fullmatch(rf"{EXIT_CODE} (\d+)", line):
                self._code = int(found[1])
        if job.state != self._state:
            self._state = job.state
            self._say(f"job: {job.state.lower()}")
        return job

    def show_errors(self) -> None:
        """Say the last lines of what the job's Spark told."""
        for line in [*self._logs["stderr"].new()][-LAST_LINES:] if self._logs else ():
            self._say(line)

    @property
    def is_whole(self) -> bool:
        """Tell whether its last line was shown, or can't be."""
        return self._code is not None or not self._logs

    @property
    def exit_code(self) -> int:
        """The exit code of what it ran, as its last line says; else 1 for one that failed."""
        return 0 if self._state == "SUCCESS" else self._code or 1
