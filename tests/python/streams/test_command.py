"""`icegate stream` as people use it: processes of their own, on a folder of files."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from streams.commanded import STREAM, Commanded

pytestmark = pytest.mark.slow


def test_before_it_was_ever_started(project: Commanded) -> None:
    shown = project.icegate("stream", "status", "tills")
    assert (shown.code, shown.out.strip()) == (3, "tills was never started")
    every = project.icegate("stream", "status", "--json")
    assert every.code == 0 and every.json["streams"][0]["state"] == "never started"
    stopped = project.icegate("stream", "stop", "tills")
    assert (stopped.code, stopped.out.strip()) == (0, "tills isn't running")
    wrong = project.icegate("stream", "start", "till")
    assert wrong.code == 2 and "did you mean 'tills'" in wrong.err
    project.write("python_jobs/streams/tills.yml", {**STREAM, "routs": []})
    for command in (["start"], ["start", "--background"], ["restart"], ["replay-errors"]):
        broken = project.icegate("stream", *command, "tills")
        assert broken.code == 2 and "did you mean 'routes'" in broken.err, command
        assert len(broken.err.splitlines()) <= 4, broken.err
    assert not project.control.folder.exists()


def test_a_stream_that_fails_in_the_background_says_why(project: Commanded) -> None:
    project.write("python_jobs/streams/tills.yml", {**STREAM, "source": {"folder": "nowhere"}})
    started = project.icegate("stream", "start", "tills", "--background")
    assert started.code == 1
    assert "cannot find the folder of stream tills" in started.out + started.err
    shown = project.icegate("stream", "status", "tills")
    assert shown.code == 3 and "tills: failed" in shown.out and "nowhere isn't there" in shown.out


@pytest.mark.long
def test_start_status_stop_and_restart(project: Commanded) -> None:
    project.drop("a", 10)
    started = project.icegate("stream", "start", "tills", "--background")
    assert started.code == 0, started.err
    pid = project.control.told()["pid"]
    project.wait(lambda: project.control.told().get("batch") == 0)
    shown = project.icegate("stream", "status", "tills")
    assert shown.code == 0
    assert "tills: running · batch 0 · 5 rows into t.first · 5 rows into t.second" in shown.out
    told = project.icegate("stream", "status", "tills", "--json").json
    assert (told["rows"], told["tables"]) == (10, {"t.first": 5, "t.second": 5})
    second = project.icegate("stream", "start", "tills")
    assert second.code == 1 and "cannot run stream tills" in second.err
    again = project.icegate("stream", "start", "tills", "--background")
    assert again.code == 0 and "tills runs already" in again.out
    assert project.control.told()["pid"] == pid and project.control.told()["state"] == "running"
    project.write("python_jobs/streams/tills.yml", "routes: [")  # it can be stopped all the same
    assert project.icegate("stream", "status", "tills").code == 0
    assert project.icegate("stream", "restart", "tills").code == 2
    assert project.control.is_running
    project.write("python_jobs/streams/tills.yml", STREAM)
    restarted = project.icegate("stream", "restart", "tills")
    assert restarted.code == 0, restarted.err
    assert project.control.told()["pid"] != pid and not Path(f"/proc/{pid}").exists()
    many = 60_000
    project.drop("b", many, start=10)
    project.wait(lambda: project.batch_of("t.first").endswith(":1"))
    stopped = project.icegate("stream", "stop", "tills")  # in the middle of it
    assert stopped.code == 0 and "tills: stopped · batch 1" in stopped.out, stopped.out
    assert not project.control.is_running
    assert project.ids("t.first") == list(range(0, many + 10, 2))
    assert project.ids("t.second") == list(range(1, many + 10, 2))
    assert project.icegate("stream", "status", "tills").code == 3
    once = project.icegate("stream", "start", "tills", "--once")
    assert once.code == 0 and "tills: done" in once.out, once.err
    assert len(project.ids("t.first")) == many / 2 + 5
    assert "Traceback" not in project.control.log.read_text()


def test_a_process_that_was_killed_is_told_from_one_that_ended(project: Commanded) -> None:
    project.drop("a", 2)
    assert project.icegate("stream", "start", "tills", "--background").code == 0
    os.kill(project.control.told()["pid"], signal.SIGKILL)
    project.wait(lambda: not project.control.is_running)
    shown = project.icegate("stream", "status", "tills")
    assert shown.code == 3 and "tills: killed" in shown.out
