"""A target that sends its SQL over Thrift: a real HiveServer2 in the warm server of a home."""

from __future__ import annotations

import datetime
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dbt.adapters.icegate.connections import IcegateConnectionManager
from dbt.adapters.icegate.credentials import IcegateCredentials
from icegate.connect import local_endpoint, thrift_port
from icegate.errors import ConfigError, ServerError
from icegate.explain import explain
from icegate.thrift.door import Door, StatementError
from icegate.thrift.session import GoneError, Pool, ThriftSession
from targets.machine import ROWS, Machine, machine

pytestmark = pytest.mark.long

ENDLESS = (
    "select count(*) from range(100000000000) a cross join range(1000) b where a.id % 1000 < b.id"
)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine("thrift", tmp_path_factory.mktemp("thrift")) as made:
        yield made


@pytest.fixture
def door(at: Machine) -> Door:
    return Door("127.0.0.1", thrift_port(at.lake))


@pytest.fixture
def session(door: Door) -> Iterator[ThriftSession]:
    made = ThriftSession(door, {"spark.sql.ansi.enabled": "true"}, "lake")
    yield made
    made.close()


@pytest.fixture
def remote(at: Machine, tmp_path: Path) -> Machine:
    """A project on that server, which it knows by host and port alone."""
    target = {"type": "icegate", "method": "thrift", "schema": "other", "catalog": "lake"}
    port = thrift_port(at.lake)
    return Machine(tmp_path, {**target, "host": "127.0.0.1", "port": port, "user": "ann"})


def test_the_whole_of_a_small_project(at: Machine) -> None:
    first = at.dbt("build")
    assert "release 1: 6 tables published" in first
    assert at.rows("scored") == [{"id": 1, "score": 2.5}, {"id": 2, "score": 3.5}]
    assert "5 unchanged" in at.dbt("build")
    at.land(ROWS + "3,C-1003,\n")
    before = at.rows("orders"), at.rows("totals")
    said = at.dbt("build", code=1)
    assert "not_null_orders_amount" in said and (at.rows("orders"), at.rows("totals")) == before
    at.land(ROWS)
    at.dbt("build")
    assert "0 fail" in at.icegate("doctor")


def test_sql_goes_over_thrift_until_a_node_has_a_temporary_view(at: Machine) -> None:
    target: dict[str, Any] = {"method": "thrift", "schema": "main", "home": str(at.home)}
    credentials = IcegateCredentials.from_dict(IcegateCredentials.translate_aliases(target))
    cursor = IcegateConnectionManager._cursor(credentials)
    cursor.execute("/* dbt */ select 1 as a")
    assert cursor.session is None and cursor.fetchall() == [(1,)]
    cursor.execute("/* dbt */\ncreate or replace temporary view v as select 2 as a")
    assert cursor.session is not None
    other = cursor.cursor()
    other.execute("select * from v")
    assert [tuple(row) for row in other.fetchall()] == [(2,)]
    cursor.close()


def test_values_are_what_pyspark_has(session: ThriftSession) -> None:
    rows = session.sql(
        "select 1 as i, cast(1.50 as decimal(10, 2)) as d, date'2026-01-02' as day,"
        " timestamp'2026-01-02 03:04:05.678' as at, true as b, cast(null as date) as n,"
        " array(1, 2) as a, 'ü 100% \\'q\\'' as s, 0.5d as x, x'00ff' as raw"
    )
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    (row,) = rows.collect()
    assert row[:6] == (1, Decimal("1.50"), datetime.date(2026, 1, 2), when, True, None)
    assert row[6:] == ("[1,2]", "ü 100% 'q'", 0.5, b"\x00\xff")
    assert [column[0] for column in rows.description] == "i d day at b n a s x raw".split()
    assert rows.first() == row
    assert session.sql("select 1 where false").collect() == []
    assert len(session.sql("select id from range(2500)").collect()) == 2500


def test_settings(session: ThriftSession) -> None:
    assert session.sql("select current_catalog()").first() == ("lake",)
    assert session.sql("set spark.sql.ansi.enabled").first() == ("spark.sql.ansi.enabled", "true")
    odd = "a `b` = 'c'; d"
    session.conf.set("spark.sql.iceberg.snapshot-property.icegate.x", odd)
    name = "`spark.sql.iceberg.snapshot-property.icegate.x`"
    assert session.sql(f"set {name}").first() == (name.strip("`"), odd)
    session.conf.unset(name.strip("`"))
    assert session.sql(f"set {name}").first() != (name.strip("`"), odd)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from nowhere.t", ["isn't there", "why: [TABLE_OR_VIEW_NOT_FOUND]", "nowhere"]),
        ("select 1 / 0", ["[DIVIDE_BY_ZERO]"]),
        ("selec 1", ["[PARSE_SYNTAX_ERROR]"]),
        ("select raise_error('say so')", ["say so"]),
    ],
)
def test_errors_are_for_people(session: ThriftSession, sql: str, said: list[str]) -> None:
    with pytest.raises(StatementError) as error:
        session.sql(sql)
    told = explain(error.value)
    assert all(text in told for text in said) and "HiveSQLException" not in told
    assert "\tat " not in told and "\n    at " not in told
    assert session.sql("select 1").first() == (1,), "the session goes on"


def test_a_statement_that_is_cancelled(session: ThriftSession) -> None:
    threading.Timer(2, session.cancel).start()
    began = time.monotonic()
    with pytest.raises(StatementError) as error:
        session.sql(ENDLESS)
    assert "the statement was cancelled" in explain(error.value)
    assert time.monotonic() - began < 30


def test_ctrl_c_ends_a_build(at: Machine) -> None:
    at.write("models/endless.sql", "{{ config(materialized='table') }}\n" + ENDLESS)
    process = at.begin(*_dbt("run", "--select", "endless"))
    assert process.stdout is not None
    for line in process.stdout:
        if "START sql table model main.endless" in line:
            break
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()  # else the statement keeps the server from all that come after
        (at.folder / "models" / "endless.sql").unlink()
    assert process.returncode != 0


def test_idle_sessions_are_used_again(door: Door) -> None:
    pool = Pool()
    first = pool.take(door, {}, "lake")
    second = pool.take(door, {}, "lake")
    first.sql("create temporary view mine as select 1 as a")
    pool.give_back(first)
    again = pool.take(door, {}, "lake")
    assert again is first and second is not first
    assert again.sql("select a from mine").first() == (1,)
    assert pool.take(door, {"spark.sql.ansi.enabled": "true"}, "lake") is not second
    again.is_gone = True
    pool.give_back(again)
    assert pool.take(door, {}, "lake") is not again
    pool.close()


def test_a_server_that_is_known_by_its_port_alone(remote: Machine, at: Machine) -> None:
    said = remote.dbt("build", "--exclude", "landed", "past", code=2)
    assert "method thrift builds no seeds and no Python models here: scored" in said
    assert "connect: sc://" in said and "START" not in said, "nothing was begun"
    endpoint = local_endpoint(at.lake)
    remote.environ["SPARK_TOKEN"] = str(endpoint.token)
    remote.retarget(connect=f"sc://127.0.0.1:{endpoint.port}", token="{{ env_var('SPARK_TOKEN') }}")
    said = remote.dbt("build", "--exclude", "past")
    assert "Completed successfully" in said
    shown = remote.dbt("show", "--inline", "select id, score from other.scored order by 1")
    assert "2.5" in shown and "3.5" in shown
    assert str(endpoint.token) not in remote.dbt("debug")


def test_a_server_of_a_home_without_thrift(tmp_path: Path, at: Machine) -> None:
    state = json.loads((at.home / "server.json").read_text())
    other = Machine(tmp_path, {"type": "icegate", "method": "thrift", "schema": "main"})
    assert "icegate server start --thrift" in other.dbt("debug", code=1)
    (other.home / "server.json").write_text(json.dumps({**state, "thrift_port": None}))
    assert "the server of this home answers Connect only" in other.dbt("debug", code=1)
    said = at.icegate("server", "start", "--thrift-port", "1", code=2)
    assert "answers Thrift on port" in said
    assert "(Thrift)" in at.icegate("server", "status")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"port": 1}, ["127.0.0.1:1", "check `host` and `port`"]),
        ({"use_ssl": True}, ["it has no TLS", "use_ssl"]),
        ({"auth": "NOSASL"}, ["doesn't answer as one with auth NOSASL", "check `auth`"]),
        ({"auth": "LDAP"}, ["a password belongs to LDAP and CUSTOM"]),
        ({"auth": "PLAIN"}, ["there are NONE, LDAP, CUSTOM, KERBEROS, NOSASL"]),
        ({"catalog": "elsewhere"}, ["elsewhere", "correct `catalog`"]),
    ],
)
def test_what_is_wrong_is_said(remote: Machine, keys: dict[str, Any], said: list[str]) -> None:
    remote.retarget(**keys, connect_timeout=5)
    told = remote.dbt("run", "--select", "totals", code=2)
    assert all(text in told for text in said), told
    assert "Traceback" not in told


def test_without_pyhive(at: Machine, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pyhive' else find(name, *a)\n"
    )
    process = at.begin(*_dbt("debug"), PYTHONPATH=str(tmp_path))
    said, _ = process.communicate()
    assert process.returncode != 0 and "pip install 'icegate[thrift]'" in said, said


def test_a_server_that_goes_away(at: Machine, door: Door) -> None:
    session = ThriftSession(door, {}, "lake")
    pid = json.loads((at.home / "server.json").read_text())["pid"]
    threading.Timer(1, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(GoneError) as error:
        session.sql(ENDLESS)
    assert session.is_gone and "the Spark Thrift server is gone" in explain(error.value)
    session.close()
    with pytest.raises(ServerError, match="check `host` and `port`"):
        ThriftSession(door, {}, "lake")
    assert "icegate server start --thrift" in at.dbt("run", code=2)


def test_a_door_that_cannot_be() -> None:
    for door in (Door("h", auth="LDAP"), Door("h", password="p"), Door("h", auth="KERBEROS")):
        with pytest.raises(ConfigError, match="hive.server2.authentication"):
            door.check()


def _dbt(*args: str) -> list[str]:
    from icegate.dbt_process import DBT

    return [*DBT, "--no-use-colors", *args]
