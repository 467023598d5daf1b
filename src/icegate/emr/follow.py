"""Jobs that are followed from here, wherever they run: what they print, and how they end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from icegate.emr.job import EXIT_CODE

if TYPE_CHECKING:
    from icegate.emr.submit import Call

LAST_LINES = 60  # of what Spark says of a job that failed
ENDED = ("SUCCESS", "FAILED", "CANCELLED")


class Job(NamedTuple):
    """What is known of a job: its state, by EMR Serverless' names, and what EMR says of it.

    ``ended_at`` is in seconds since 1970, 0 where it isn't told.
    """

    state: str
    details: str
    ended_at: float = 0

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Log(Protocol):
    """What a job's driver prints."""

    @property
    def brought_at(self) -> float:
        """When it was written where it's read, in seconds since 1970; 0 if it comes by lines."""

    def new(self) -> Iterator[str]:
        """Give the lines that weren't given yet; none while the job hasn't begun to print."""


class Runs(Protocol):
    """What runs jobs: an application of EMR Serverless, or a cluster.

    Methods raise ``IcegateError`` for what EMR refuses.
    """

    late_s: float  # lines may come for so long after a job's end

    @property
    def named(self) -> str:
        """How people know it."""

    @property
    def architecture(self) -> str:
        """The kind of its machines, X86_64 or ARM64."""

    def start(self, name: str, call: Call, minutes: int) -> str:
        """Begin a job, and return its id."""

    def job(self, run: str) -> Job:
        """Return what a job is doing."""

    def cancel(self, run: str) -> None:
        """Stop a job."""

    def log(self, run: str, name: str) -> Log | None:
        """Return what a job prints to ``stdout`` or ``stderr``; None where that isn't kept."""


class Followed:
    """A job that is followed: each line that it prints is shown, each change of its state said."""

    def __init__(
        self, runs: Runs, run: str, show: Callable[[str], None], say: Callable[[str], None]
    ) -> None:
        self._runs, self._run, self._show, self._say = runs, run, show, say
        self._job = Job("", "")
        self._code: int | None = None
        self._log = runs.log(run, "stdout")
        if self._log is None:
            say(f"log: the {runs.named} keeps none, so none is shown")

    def look(self) -> Job:
        """Show what is new, and return what the job is doing."""
        job = self._runs.job(self._run)
        for line in self._log.new() if self._log else ():
            self._show(line)
            if found := re.fullmatch(rf"{EXIT_CODE} (\d+)", line):
                self._code = int(found[1])
        if job.state != self._job.state:
            self._say(f"job: {job.state.lower()}")
        self._job = job
        return job

    def show_errors(self) -> None:
        """Say the last lines of what the job's Spark told."""
        errors = self._runs.log(self._run, "stderr")
        for line in [*errors.new()][-LAST_LINES:] if errors else ():
            self._say(line)

    @property
    def is_whole(self) -> bool:
        """Tell whether its last line was shown, or can't be."""
        if self._code is not None or not self._log:
            return True
        return 0 < self._job.ended_at < self._log.brought_at

    @property
    def exit_code(self) -> int:
        """The exit code of what it ran, as its last line says; else 1 for one that failed."""
        return 0 if self._job.state == "SUCCESS" else self._code or 1
