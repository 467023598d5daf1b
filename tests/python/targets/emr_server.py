"""What stands for EMR Serverless on this machine: a job is a real `spark-submit`.

As EMR does it, and Spark alone doesn't here: files of S3 are brought, archives are unpacked into
the working folder, `driverEnv` is the driver's, and what it prints goes to CloudWatch's log group.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO, Any

from icegate.aws import client
from targets.programs import listening

APPLICATION, GROUP = "00f1", "/icegate/jobs"
DRIVER_ENV = "spark.emr-serverless.driverEnv."


class Jobs:
    """An application's jobs, by their ids."""

    def __init__(self, folder: Path, submit: list[str], environ: dict[str, str]) -> None:
        self.folder, self.submit, self.environ = folder, submit, environ
        self.told: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, asked: dict[str, Any]) -> str:
        run = f"job{len(self.told):04}"
        self.asked.append(asked)
        self.told[run] = {"state": "SUBMITTED", "stateDetails": "", "jobRunId": run}
        threading.Thread(target=self._run, args=(run, asked["jobDriver"]["sparkSubmit"])).start()
        return run

    def cancel(self, run: str) -> None:
        self.told[run]["state"] = "CANCELLING"
        if run in self.running:
            os.killpg(self.running[run].pid, signal.SIGKILL)

    def _run(self, run: str, driver: dict[str, Any]) -> None:
        at = self.folder / run
        at.mkdir(parents=True)
        words, environ = shlex.split(driver["sparkSubmitParameters"]), dict(self.environ)
        kept = []
        for _, pair in zip(words[::2], words[1::2], strict=True):
            key, _, value = pair.partition("=")
            if key == "spark.archives":
                self._unpack(value, at)
            elif key.startswith(DRIVER_ENV):
                # A job has a disk of its own.
                own = f"{at}{value}" if value.startswith("/tmp/") else value
                environ[key.removeprefix(DRIVER_ENV)] = own
            else:
                kept += ["--conf", pair]
        entry = _bring(driver["entryPoint"], at)
        command = [*self.submit, *kept, str(entry), *driver["entryPointArguments"]]
        job = self.running[run] = subprocess.Popen(
            command,
            cwd=at,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.told[run]["state"] = "RUNNING"
        kinds = {"stdout": job.stdout, "stderr": job.stderr}
        logs = [threading.Thread(target=_log, args=(run, n, pipe)) for n, pipe in kinds.items()]
        for log in logs:
            log.start()
        code = job.wait()
        for log in logs:
            log.join()
        was = self.told[run]["state"]
        ended = "CANCELLED" if was == "CANCELLING" else "FAILED" if code else "SUCCESS"
        self.told[run] |= {"state": ended, "stateDetails": "it failed" if code else ""}

    def _unpack(self, archives: str, at: Path) -> None:
        for each in archives.split(","):
            location, _, name = each.partition("#")
            with tarfile.open(_bring(location, at)) as archive:
                archive.extractall(at / name, filter="data")


def _bring(location: str, at: Path) -> Path:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    path = at / Path(key).name
    client("s3").download_file(bucket, key, str(path))
    return path


def _log(run: str, name: str, pipe: IO[bytes] | None) -> None:
    assert pipe is not None
    where = {
        "logGroupName": GROUP,
        "logStreamName": f"applications/{APPLICATION}/jobs/{run}/SPARK_DRIVER/{name}",
    }
    client("logs").create_log_stream(**where)
    for line in pipe:
        event = {"timestamp": int(time.time() * 1000), "message": line.decode().rstrip("\n") or " "}
        client("logs").put_log_events(**where, logEvents=[event])


def _handler(jobs: Jobs) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*_found(jobs, self.path.strip("/").split("/")))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if f"/{APPLICATION}/" not in self.path:
                self._answer(404, _gone("application"))
            else:
                self._answer(200, {"applicationId": APPLICATION, "jobRunId": jobs.start(asked)})

        def do_DELETE(self) -> None:
            jobs.cancel(self.path.rstrip("/").rpartition("/")[2])
            self._answer(200, {"applicationId": APPLICATION})

        def _answer(self, code: int, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(code)
            if code != 200:
                self.send_header("x-amzn-ErrorType", said["__type"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


def _found(jobs: Jobs, path: list[str]) -> tuple[int, dict[str, Any]]:
    if path[1] != APPLICATION:
        return 404, _gone("application")
    if len(path) > 2:
        return 200, {"jobRun": jobs.told[path[3]]}
    logs = {"cloudWatchLoggingConfiguration": {"enabled": True, "logGroupName": GROUP}}
    about = {"applicationId": APPLICATION, "state": "STARTED", "architecture": "X86_64"}
    return 200, {"application": about | {"monitoringConfiguration": logs}}


def _gone(what: str) -> dict[str, Any]:
    return {"__type": "ResourceNotFoundException", "message": f"no such {what}"}


@contextmanager
def running(jobs: Jobs) -> Iterator[str]:
    """Serve an application's jobs, and give the address."""
    client("logs").create_log_group(logGroupName=GROUP)
    with listening(_handler(jobs)) as address:
        try:
            yield address
        finally:
            for run in [run for run, job in jobs.running.items() if job.poll() is None]:
                jobs.cancel(run)
