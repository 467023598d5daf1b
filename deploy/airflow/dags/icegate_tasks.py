"""What the DAGs of a lakehouse are made of: tasks that run a program of the project.

Airflow and the project have an environment each, as their packages don't agree. Where the project
is, Airflow's own environment says: `ICEGATE_PROJECT`, and `ICEGATE_BIN`, the folder with its
programs, else `.venv/bin` in it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import deque
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

PROJECT = Path(os.environ.get("ICEGATE_PROJECT") or Path(__file__).parents[3]).absolute()
BIN = Path(os.environ.get("ICEGATE_BIN") or PROJECT / ".venv" / "bin")
# The day that a run is about: a parameter of it, else the one on which it was due.
DAY = "{{ params.day or dag_run.run_after.strftime('%Y-%m-%d') }}"
# One build for all tasks of a run, also when they are tried again.
RELEASE = "{{ dag.dag_id | lower }}_{{ dag_run.run_after.strftime('%Y%m%dt%H%M%S') }}"
# What both DAGs are set to.
SHARED: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "catchup": False,  # a late run loads what is there, of all days
    "max_active_runs": 1,
    "params": {
        "day": Param(None, type=["null", "string"], format="date", title="Day of the files")
    },
}
# Also after a failure; but where `wait` failed, which is above it too, nothing was built.
WHAT_PASSED = "all_done_min_one_success"
LATE, MISSING = 3, 4  # codes of `icegate wait`
WRONG_USAGE = 2
LAST_LINES, NAMED = 8, 5  # of what failed, in the reason of a task
WELL = ("success", "pass", "warn", "no-op")


def due(*, by_jobs: bool) -> str | None:
    """Return when a DAG runs by itself: where an application is named, that of jobs alone does."""
    is_mine = by_jobs == bool(os.environ.get("ICEGATE_APPLICATION"))
    return (os.environ.get("ICEGATE_SCHEDULE", "0 5 * * *") or None) if is_mine else None


def settings(release: str = "") -> dict[str, str]:
    """Return the variables that a program of the project gets beside those of Airflow."""
    given = {"NO_COLOR": "1", "DBT_USE_COLORS": "False"}
    if release:
        # dbt writes the second into its results: that's how a retry knows whose they are.
        given |= {"ICEGATE_RELEASE": release, "DBT_ENV_CUSTOM_ENV_ICEGATE_RELEASE": release}
    return given


def program(name: str, *words: str) -> list[str]:
    """Return a command of the project; raise ``AirflowFailException`` where there is none."""
    for needed, variable in ((PROJECT / "dbt_project.yml", "PROJECT"), (BIN / name, "BIN")):
        if not needed.is_file():
            raise AirflowFailException(
                f"cannot run {name}: there is no {needed} on this worker; "
                f"set ICEGATE_{variable} in Airflow's environment, or install it there"
            )
    return [str(BIN / name), *words]


def bad_results(project: Path, release: str | None = None) -> list[dict[str, Any]]:
    """Return what didn't end well of dbt's last run in a project, if that was of a release."""
    try:
        found = json.loads((project / "target" / "run_results.json").read_text())
    except FileNotFoundError:
        return []
    if release not in (None, found["metadata"]["env"].get("ICEGATE_RELEASE")):
        return []
    return [result for result in found["results"] if result["status"] not in WELL]


def raise_failures(bad: list[dict[str, Any]]) -> None:
    """Raise with the names of nodes that failed, and why; where only tests did, once for all.

    The same rows fail the same tests: there's no use in trying that again by itself.
    """
    failed = [result for result in bad if result["status"] != "skipped"]
    if not failed:
        return
    named = [
        f"{result['unique_id'].split('.')[2]}: {' '.join((result['message'] or '').split())}"
        for result in failed[:NAMED]
    ]
    more = [f"and {len(failed) - NAMED} more"] if len(failed) > NAMED else []
    only_tests = all(result["status"] == "fail" for result in failed)
    raise (AirflowFailException if only_tests else AirflowException)("; ".join([*named, *more]))


def say_why(project_dir: str, **_: Any) -> None:
    """Do the same for a task of Cosmos, which would say that dbt failed and no more."""
    raise_failures(bad_results(Path(project_dir)))


class IcegateOperator(BaseOperator):
    """Run a program of the project: its output is the task's log, and it ends with the task.

    :param command: its words; the first is a program in the project's environment.
    """

    template_fields = ("command",)

    def __init__(self, *, command: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> None:
        """Run it; raise with the last that it said."""
        self.run(self.command)

    def run(self, command: list[str], release: str = "") -> None:
        """Run a command in the project, with each line to the log as it comes."""
        words = program(*command)
        self.log.info("in %s: %s", PROJECT, " ".join(words))
        self.process = subprocess.Popen(
            words,
            cwd=PROJECT,
            env=os.environ | settings(release),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            # An Airflow that a shell runs in its background ignores Ctrl-C, and so would dbt.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        last: deque[str] = deque(maxlen=LAST_LINES)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.info("%s", line.rstrip())
            last.append(line)
        code = self.process.wait()
        if code:
            self.failed(code, "".join(last).strip())

    def failed(self, code: int, said: str) -> None:
        """Raise what the task fails with."""
        raise _exception(code)(f"exit code {code}: {said}")

    def on_kill(self) -> None:
        """Stop the command as Ctrl-C does: only then dbt cancels what it runs on a server."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)


class IcegateBuild(IcegateOperator):
    """Run `dbt build` on the branches of a release; tried again, it goes on from what failed.

    :param release: the name of the build.
    :param options: options of `dbt build`.
    """

    template_fields = ("command", "release")

    def __init__(self, *, release: str, options: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(command=["dbt", "build", *(options or [])], **kwargs)
        self.release = release

    def execute(self, context: Any) -> None:
        """Build and test; raise with the nodes that failed, and at once where only tests did."""
        self.run(self._again() or self.command, self.release)

    def _again(self) -> list[str] | None:
        """Return the command that goes on; none when dbt has no results of this release."""
        bad = self._bad()
        if not bad:
            return None
        if not any(result["status"] == "fail" for result in bad):
            return ["dbt", "retry"]
        # `dbt retry` would ask the failed test alone, of the same rows: its models come along.
        state = PROJECT / "target" / "before_retry"
        state.mkdir(exist_ok=True)
        for name in ("run_results.json", "manifest.json"):
            shutil.copy(PROJECT / "target" / name, state)
        wanted = ["1+result:fail", "result:error", "result:skipped"]
        return ["dbt", "build", "--state", str(state), "--select", *wanted]

    def _bad(self) -> list[dict[str, Any]]:
        return bad_results(PROJECT, self.release)

    def failed(self, code: int, said: str) -> None:
        """Raise what the task fails with."""
        raise_failures(self._bad())
        super().failed(code, said)


class IcegateWait(BaseSensorOperator):
    """Wait for the files of a day, by their markers: `icegate wait`.

    :param sources: sources, or tables of them; without any it's all that are files.
    """

    template_fields = ("day", "sources")

    def __init__(self, *, sources: list[str] | None = None, day: str = DAY, **kwargs: Any) -> None:
        often = {"poke_interval": 60, "timeout": timedelta(hours=4)}
        super().__init__(mode="reschedule", **(often | kwargs))
        self.sources, self.day = sources or [], day

    def poke(self, context: Any) -> bool:
        """Look once; raise ``AirflowFailException`` for files that contradict their marker."""
        command = program("icegate", "wait", *self.sources, "--day", self.day)
        env = os.environ | settings()
        looked = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
        self.log.info("%s", looked.stdout + looked.stderr)
        if looked.returncode in (0, LATE):
            return True
        if looked.returncode == MISSING:
            return False
        raise AirflowFailException((looked.stderr or looked.stdout).strip())


def end(wait: Any, built: Any, publishes: str = WHAT_PASSED) -> None:
    """Add what comes after a build: publish it, by this trigger rule, make the report, maintain."""
    publish = IcegateOperator(
        task_id="publish",
        command=["icegate", "release", "publish", RELEASE],
        trigger_rule=publishes,
        retries=0,  # what a test holds back stays so
    )
    report = IcegateOperator(
        task_id="report", command=["icegate", "report"], trigger_rule="all_done"
    )
    maintain = IcegateOperator(task_id="maintain", command=["icegate", "maintain"])
    wait >> built >> publish >> [report, maintain]
    wait >> publish


def _exception(code: int) -> type[AirflowException]:
    return AirflowFailException if code == WRONG_USAGE else AirflowException
