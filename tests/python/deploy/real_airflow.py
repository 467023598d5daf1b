"""A real Airflow in an environment of its own, with the DAGs of this repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from targets.machine import Machine
from trust.receivers import free_port

from deploy.environments import installed
from deploy.scheduled import DEPLOY, Lakehouse, wait_until

REQUIREMENTS = {"airflow": "requirements.txt", "airflow-emr": "requirements-emr.txt"}


class Airflow:
    """Airflow beside the project of a lakehouse; ``kind`` says with which packages."""

    def __init__(self, folder: Path, lakehouse: Lakehouse | Machine, kind: str = "airflow") -> None:
        self.lakehouse = lakehouse
        bin_folder = installed(kind, DEPLOY / "airflow" / REQUIREMENTS[kind])
        self.home, self.port = folder / "airflow", free_port()
        here = f"http://127.0.0.1:{self.port}"
        lines = (DEPLOY / "airflow" / "airflow.env").read_text().splitlines()
        self.environ = lakehouse.environ | {
            **dict(line.split("=", 1) for line in lines if line and line[0] != "#"),
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DEPLOY / "airflow" / "dags"),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{here}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API__BASE_URL": here,
            "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "ICEGATE_SCHEDULE": "",
            "NO_PROXY": "127.0.0.1",
        }
        self.run("db", "migrate")

    def run(self, *command: str, code: int = 0, **environ: str) -> str:
        done = subprocess.run(
            ["airflow", *command],
            env=self.environ | environ,
            cwd=self.home.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said[-4000:]
        return said

    def test(self, dag: str, day: str, code: int = 0, **environ: str) -> str:
        """Run a DAG by `airflow dags test`."""
        return self.run("dags", "test", dag, "-c", json.dumps({"day": day}), code=code, **environ)

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """Have a scheduler, and an API for ``call``, on this machine only."""
        api = ["api-server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        commands = [api, ["dag-processor"], ["scheduler", "--skip-serve-logs"]]
        log = (self.home / "servers.log").open("w")
        servers = [
            subprocess.Popen(
                ["airflow", *command],
                env=self.environ,
                cwd=self.home,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            for command in commands
        ]
        try:
            wait_until(lambda: self.call("GET", "dags/icegate_daily", quiet=True), 120)
            yield
        finally:
            for server in servers:  # with all that it started; nothing of it is wanted any more
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            log.close()

    def call(self, method: str, path: str, body: Any = None, *, quiet: bool = False) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v2/{path}"
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        try:
            with urlopen(Request(url, data, kind, method=method)) as answer:
                return json.load(answer)
        except OSError:
            if quiet:
                return None
            raise

    def trigger(self, day: str) -> str:
        """Begin a run of the daily DAG, and return its id."""
        body = {"logical_date": None, "conf": {"day": day}}
        return self.call("POST", "dags/icegate_daily/dagRuns", body)["dag_run_id"]

    def states(self, run: str) -> dict[str, str]:
        found = self.call("GET", f"dags/icegate_daily/dagRuns/{run}/taskInstances")
        return {task["task_id"]: task["state"] for task in found["task_instances"]}

    def ended(self, run: str) -> dict[str, str]:
        """Wait for a run to end, and return the states of its tasks."""
        path = f"dags/icegate_daily/dagRuns/{run}"
        wait_until(lambda: self.call("GET", path)["state"] in ("success", "failed"), 240)
        return self.states(run)

    def log(self, run: str, task: str, attempt: int = 1) -> str:
        file = f"dag_id=icegate_daily/run_id={run}/task_id={task}/attempt={attempt}.log"
        path = self.home / "logs" / file
        return path.read_text() if path.exists() else ""
