"""Processes: `dbt build` to be killed in all ways, the warm server, and what a person runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gated_shop import Shop

from icegate.server import find_server

LIMIT_S = 240  # for what takes seconds
HANGS = 124  # the exit code of `timeout`, too
# A build must not get the harness's own, and `ICEGATE_RELEASE` of a user even less.
ENV = {key: value for key, value in os.environ.items() if not key.startswith(("ICEGATE_", "DBT_"))}
BROKEN: dict[str, str] = {}  # what breaks the gate in builds, and in nothing else
BEGUN = b"Concurrency: "  # what dbt says once it has read its project
PARSED = "partial_parse.msgpack"
COMMAND = [sys.executable, "-m", "icegate.cli.main"]


def sabotaged(how: str) -> dict[str, str]:
    """Return the environment of a build whose gate is broken; `sabotage/` has the ways."""
    path = [str(Path(__file__).parent / "sabotage"), *filter(None, [ENV.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), "ICEGATE_SABOTAGE": how}


@dataclass
class Build:
    """A `dbt build` in a process group of its own; an embedded Spark is in it too."""

    process: subprocess.Popen[bytes]
    log: Path
    began: float = 0.0  # when it had read its project

    def sleep_until(self, seconds: float) -> None:
        """Wait until it has worked for some seconds, or has ended."""
        limit = time.monotonic() + LIMIT_S
        while self.seconds <= seconds and self.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)

    def wait(self) -> int:
        """Return its exit code; one that hangs is killed."""
        try:
            return self.process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill_all()
            self.process.wait()
            return HANGS

    @property
    def seconds(self) -> float:
        """How long it has worked, 0 while it reads its project."""
        if not self.began and BEGUN in self.log.read_bytes():
            self.began = time.monotonic()
        return time.monotonic() - self.began if self.began else 0.0

    def kill_all(self) -> None:
        """Kill dbt and its JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill_dbt(self) -> None:
        """Kill dbt; its JVM ends as it finds out, the server's goes on with the statement."""
        self.process.kill()

    def kill_jvm(self) -> bool:
        """Kill the JVM in it, and tell whether there was one already."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            pid, parent, name = line.split(None, 2)
            if int(parent) == self.process.pid and "java" in name:
                os.kill(int(pid), signal.SIGKILL)
                return True
        return False


class Builder:
    """Starts builds of one shop, and keeps its server up."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.builds: list[Build] = []
        self.commands = 0

    def start(self, method: str, **env: str) -> Build:
        """Start a build. Each has a target folder of its own, since dbt's isn't for two."""
        if method == "connect":
            self.keep_server()
        folder = self.shop.folder / "builds"
        own = folder / str(len(self.builds) + 1)
        own.mkdir(parents=True)
        parsed = folder / str(len(self.builds)) / PARSED
        if parsed.exists():  # a whole one: dbt isn't run twice at once for the first time
            shutil.copy(parsed, own)
        where = ["--project-dir", self.shop.folder, "--profiles-dir", self.shop.folder]
        where += ["--target", method, "--target-path", own, "--log-path", own]
        command = [sys.executable, "-m", "dbt.cli.main", "build", *where]
        with (own / "output").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**ENV, **BROKEN, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.builds.append(Build(process, own / "output"))
        return self.builds[-1]

    def run(self, *args: str) -> int:
        """Run a command of icegate to its end, and return its exit code."""
        self.commands += 1
        log = self.shop.folder / "builds" / f"command-{self.commands}"
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as output:
            output.write((" ".join(args) + "\n").encode())
            output.flush()
            where = ["--project-dir", str(self.shop.folder), "--target", "connect"]
            done = subprocess.run([*COMMAND, *args, *where], env=ENV, stdout=output, stderr=output)
        return done.returncode

    def keep_server(self) -> None:
        """Start the server unless it runs: after a kill, as whoever keeps services up would."""
        if find_server(self.shop.served) is None and self.run("server", "start"):
            sys.exit(f"error: no server in {self.shop.served.home}: its server.log says why")

    def close(self) -> None:
        """Leave nothing running."""
        for build in self.builds:
            build.kill_all()
        self.run("server", "stop")

    def kill_server(self) -> None:
        """Kill the JVM of the server, and wait until the next build can see that it's gone."""
        with suppress(ProcessLookupError):
            os.kill(self.server()["pid"], signal.SIGKILL)
        while find_server(self.shop.served) is not None:
            time.sleep(0.01)

    def server(self) -> dict[str, Any]:
        return json.loads(self._state.read_text())

    def set_port(self, port: int) -> None:
        """Send the next build to another port: to something between it and the server."""
        self._state.write_text(json.dumps({**self.server(), "port": port}))

    @property
    def _state(self) -> Path:
        return self.shop.served.home / "server.json"
