"""The method `connect`: models of all kinds on the warm server, and what happens when it isn't.

Each run of dbt is a process of its own, since pyspark knows one kind of session in a process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import DbtProject, make_home

from icegate import processes
from icegate.dbt_process import DBT
from icegate.session import start_session
from icegate.settings import Lake

pytestmark = pytest.mark.long

ICEGATE = (sys.executable, "-m", "icegate.cli.main")
SEED = "id,name,at\n1,it's,2025-01-01 10:00:00\n2,,2025-01-02 00:00:00\n"
# A task looks whether it is cancelled once in 1,000 rows of `a`, each with all of `b`.
ENDLESS = """
    select a.id % 10 as k, count(*) as n
    from range(100000000000) as a cross join range(1000) as b
    where a.id % 1000 * b.id % 7 = 3 group by 1
"""


class Project(DbtProject):
    """A project whose target is the server of its home, or what ``retarget`` makes of it."""

    def retarget(self, **keys: Any) -> None:
        target = {"type": "icegate", "method": "connect", "schema": self.schema, "threads": 8}
        target.update(home=str(self.lake.home), ansi=True, spark_conf=self.lake.spark_conf)
        target.update(memory=self.lake.memory, **keys)
        self.write_yaml("profiles.yml", {"t": {"target": "t", "outputs": {"t": target}}})

    def command(self, *args: str, program: Sequence[str] = DBT) -> list[str]:
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        logs = ["--log-path", str(self.folder / "logs"), "--no-use-colors"]
        return [*program, *args, *where, *logs]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*args), capture_output=True, text=True, timeout=180, check=False
        )
        done.stdout += done.stderr
        return done

    @contextmanager
    def begin(self, *args: str, program: Sequence[str] = DBT) -> Iterator[subprocess.Popen[str]]:
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(self.command(*args, program=program), **pipes) as running:
            try:
                yield running
            finally:
                running.kill()

    def icegate(self, *args: str) -> subprocess.CompletedProcess[str]:
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        return subprocess.run(
            [*ICEGATE, *args, *where], capture_output=True, text=True, timeout=240, check=False
        )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_busy(pid: int) -> None:
    """Wait until a process has computed for a second and a half, on a machine that others use."""
    busy, deadline = 0, time.monotonic() + 90
    while busy < 3:
        assert time.monotonic() < deadline, "it never became busy"
        before = cpu_seconds(pid)
        time.sleep(0.5)
        busy = busy + 1 if cpu_seconds(pid) - before > 0.1 else 0


def becomes_idle(pid: int) -> bool:
    """Tell whether a process stops computing; a compiler of Java may go on for a moment."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        before = cpu_seconds(pid)
        time.sleep(2)
        if cpu_seconds(pid) - before < 0.5:
            return True
    return False


def server_state(home: Path) -> dict[str, Any]:
    return json.loads((home / "server.json").read_text())


@pytest.fixture(scope="module")
def server_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    home = make_home(tmp_path_factory.mktemp("connect") / "a home")
    conf = {"spark.sql.session.timeZone": "UTC"}
    return Lake(home=home, warehouse=home / "warehouse", ansi=True, memory="1g", spark_conf=conf)


@pytest.fixture
def remote(tmp_path: Path, server_lake: Lake, spark: Any) -> Project:
    """A project on the running server, whose tables this process reads by its own Spark."""
    made = Project(tmp_path / "a project", server_lake, start_session(server_lake))
    made.retarget()
    return made


@pytest.fixture(scope="module", autouse=True)
def server(server_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    starter = Project(tmp_path_factory.mktemp("starter") / "p", server_lake, None)
    starter.retarget()
    started = starter.icegate("server", "start")
    assert started.returncode == 0, started.stderr
    yield
    starter.icegate("server", "stop")


def write_models(project: Project) -> None:
    project.write(
        "seeds/sd.csv", "id,name,at\n1,it's,2025-01-01 10:00:00\n2,,2025-01-02 00:00:00\n"
    )
    project.write(
        "models/a.sql", "{{ config(materialized='table') }} select * from {{ ref('sd') }}"
    )
    project.write("models/v.sql", "select * from {{ ref('py') }}")
    project.write(
        "models/inc.sql",
        """
        {{ config(materialized='incremental', incremental_strategy='append') }}
        select * from {{ ref('a') }} {% if is_incremental() %} where false {% endif %}
        """,
    )
    project.write(
        "models/py.py",
        """
        from pyspark.sql import functions as F
        from pyspark.sql.types import LongType

        def double(value):
            return value * 2

        def model(dbt, session):
            dbt.config(
                materialized="incremental", incremental_strategy="merge", unique_key="id"
            )

            def mean(rows):
                return rows.assign(mean=rows["twice"].ewm(span=2).mean())

            found = dbt.ref("a").withColumn("twice", F.udf(double, LongType())("id"))
            schema = "id long, name string, at timestamp, twice long, mean double"
            return found.groupBy("id").applyInPandas(mean, schema)
        """,
    )
    project.write(
        "models/pd.py",
        """
        import pandas

        def model(dbt, session):
            return pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
        """,
    )
    snapshot = {"name": "sn", "relation": "ref('a')"}
    config = {"strategy": "check", "unique_key": "id", "check_cols": "all"}
    project.write_yaml("snapshots/sn.yml", {"snapshots": [{**snapshot, "config": config}]})


def test_all_kinds_of_models_build_twice(remote: Project) -> None:
    write_models(remote)
    first = remote.run("build")
    assert first.returncode == 0 and "ERROR=0" in first.stdout, first.stdout
    snapshots = "select count(*) from {s}.inc.snapshots"
    before = remote.rows(snapshots)
    remote.write("seeds/sd.csv", SEED.replace("it's", "so").replace("\n2,", "\n3,"))
    again = remote.run("build")
    assert again.returncode == 0, again.stdout
    assert "nothing new" in again.stdout and remote.rows(snapshots) == before
    assert remote.rows("select id, name, twice from {s}.v order by id") == [
        (1, "so", 2),
        (2, None, 4),
        (3, None, 6),
    ]
    assert remote.rows("select b from {s}.pd order by a") == [("x",), (None,)]
    assert remote.rows("select count(*) from {s}.sn where dbt_valid_to is not null") == [(1,)]


def test_settings_of_the_target_are_those_of_the_session(remote: Project) -> None:
    remote.retarget(spark_conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
    remote.write("tests/assert_zone.sql", "select 1 where current_timezone() <> 'Asia/Tokyo'")
    remote.write("tests/assert_ansi.sql", "select 1 where cast('x' as int) > 0")
    run = remote.run("test")
    assert "PASS=1" in run.stdout and "CAST_INVALID_INPUT" in run.stdout, run.stdout
    assert "JVM stacktrace" not in run.stdout and '"ts":' not in run.stdout


def test_a_setting_that_only_a_start_can_set(remote: Project) -> None:
    remote.retarget(spark_conf={"spark.sql.streaming.ui.enabled": "false"})
    run = remote.run("debug")
    assert run.returncode == 1
    assert "cannot set spark.sql.streaming.ui.enabled" in run.stdout and "server stop" in run.stdout


def test_the_token_is_nowhere(remote: Project) -> None:
    state = server_state(remote.lake.home)
    remote.write("models/m.sql", "select 1 as a")
    remote.retarget(host="sc://127.0.0.1", port=state["port"], token=state["token"])
    ran = [remote.run("debug"), remote.run("run", "--log-level", "debug")]
    remote.retarget(host=f"sc://127.0.0.1:{state['port']}/;token={state['token']}")
    ran.append(remote.run("--debug", "debug"))
    assert [run.returncode for run in ran] == [0, 0, 0], ran[0].stdout
    shown = [run.stdout for run in ran]
    files = [*(remote.folder / "target").rglob("*"), *(remote.folder / "logs").rglob("*")]
    shown += [file.read_text(errors="replace") for file in files if file.is_file()]
    processes = Path("/proc").glob("[0-9]*/cmdline")
    shown += [remote.icegate("server", "status", "--json").stdout]
    shown += [path.read_text(errors="replace") for path in processes if path.exists()]
    assert not [text for text in shown if state["token"] in text]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"host": "localhost", "port": 1}, ["can't be reached", "Connection refused"]),
        ({"host": "localhost", "token": "wrong"}, ["refuses this user", "correct `token:`"]),
        ({"host": "http://localhost"}, ["cannot use host 'http://localhost'"]),
        ({"home": "elsewhere"}, ["no server runs in", "`icegate server start`"]),
    ],
)
def test_no_server_wrong_token(remote: Project, keys: dict[str, Any], said: list[str]) -> None:
    if "token" in keys:
        keys = {**keys, "port": server_state(remote.lake.home)["port"]}
    remote.write("models/m.sql", "select 1 as a")
    remote.retarget(**keys)
    began = time.monotonic()
    run = remote.run("run")
    assert run.returncode != 0 and all(text in run.stdout for text in said), run.stdout
    wrong = ("Rendezvous", "Traceback", "cannot create schema")
    assert not [text for text in wrong if text in run.stdout], run.stdout
    assert time.monotonic() - began < 40


@pytest.mark.parametrize("language", ["sql", "py"])
def test_ctrl_c_cancels_the_job_on_the_server(remote: Project, language: str) -> None:
    remote.write("models/first.sql", "select 1 as a")  # makes the schema
    assert remote.run("run").returncode == 0
    write_endless(remote, language)
    pid = server_state(remote.lake.home)["pid"]
    with remote.begin("run") as running:
        wait_until_busy(pid)
        interrupt(running)
    assert becomes_idle(pid)
    assert remote.rows("show tables in {s} like 'm'") == []


def test_what_stops_icegate_build_cancels_the_job_on_the_server(remote: Project) -> None:
    write_endless(remote, "sql")
    pid = server_state(remote.lake.home)["pid"]
    in_background = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")  # as a shell's `&` runs it
    with remote.begin("build", program=(*in_background, *ICEGATE)) as running:
        wait_until_busy(pid)
        interrupt(running, signal.SIGTERM)
        assert running.returncode == 128 + signal.SIGTERM
    assert becomes_idle(pid)


def test_ctrl_c_cancels_the_embedded_job(remote: Project) -> None:
    write_endless(remote, "sql")
    remote.configure(**{"on-run-start": ["select 1"]})  # Spark is there before the model begins
    remote.retarget(method="session")
    with remote.begin("run") as running:
        assert running.stdout is not None
        while "START sql table model" not in (line := running.stdout.readline()):
            assert line, "it ended"
        wait_until_busy(java_of(running.pid))
        interrupt(running)


def java_of(pid: int) -> int:
    children = "".join(p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children"))
    return next(c for c in map(int, children.split()) if processes.start_of(c, "java"))


def test_a_server_that_dies_in_the_middle_of_a_model(remote: Project) -> None:
    remote.write("models/m.sql", "{{ config(materialized='table') }} select 1 as k, 2 as n")
    assert remote.run("run").returncode == 0
    write_endless(remote, "sql")
    remote.write("models/other.sql", "select 1 as a")
    pid = server_state(remote.lake.home)["pid"]
    with remote.begin("run", "--threads", "1") as running:
        wait_until_busy(pid)
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        said, _ = running.communicate(timeout=60)
    assert running.returncode == 1 and time.monotonic() - began < 30
    assert "model m (models/m.sql)" in said and "the Spark Connect server is gone" in said
    assert "Rendezvous" not in said and "Traceback" not in said and "ERROR=2" in said
    assert remote.rows("select * from {s}.m") == [(1, 2)]
    assert remote.icegate("server", "status").returncode == 3
    assert remote.icegate("server", "start").returncode == 0
    remote.write("models/m.sql", "{{ config(materialized='table') }} select 3 as k, 2 as n")
    assert remote.run("run").returncode == 0
    assert remote.rows("select * from {s}.m") == [(3, 2)]


def write_endless(project: Project, language: str) -> None:
    if language == "sql":
        project.write("models/m.sql", "{{ config(materialized='table') }}" + ENDLESS)
        return
    project.write(
        "models/m.py",
        f'''
        def model(dbt, session):
            return session.createDataFrame(session.sql("""{ENDLESS}""").collect())
        ''',
    )


def interrupt(running: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> None:
    """Send Ctrl-C or another signal, and see dbt end in seconds and say so."""
    running.send_signal(number)
    began = time.monotonic()
    said, _ = running.communicate(timeout=60)
    assert running.returncode != 0 and "CANCEL" in said, said
    assert time.monotonic() - began < 15
