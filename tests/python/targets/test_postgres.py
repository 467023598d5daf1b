"""A catalog on PostgreSQL, which the machines of a team share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from certificates import make_certificates
from conftest import DbtProject, make_home
from released import event, ids, locations, two_releases

from icegate.catalog import check_catalog, list_relations
from icegate.errors import CatalogError, ConfigError
from icegate.gate import ledger
from icegate.gate.build import publishing
from icegate.profiles import load_target
from icegate.session import start_session
from icegate.settings import Lake, lake_from_target
from targets.machine import machine as small_project
from targets.postgres_server import PASSWORD, USER, PostgresServer, binaries, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(binaries() is None, reason="no PostgreSQL: `apt-get install postgresql`"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running() as started:
        yield started


@pytest.fixture
def catalog(server: PostgresServer) -> dict[str, Any]:
    """The keys of a catalog of the test's own."""
    return server.catalog(f"lake_{uuid.uuid4().hex[:10]}")


@pytest.fixture
def machine(tmp_path: Path, catalog: dict[str, Any]) -> Callable[[str], Lake]:
    """What makes another machine: a home of its own, the same catalog and warehouse."""

    def made(name: str) -> Lake:
        home = make_home(tmp_path / name)
        conf = {"spark.sql.session.timeZone": "UTC"}
        warehouse = tmp_path / "a warehouse"
        return Lake(home=home, warehouse=warehouse, ansi=True, spark_conf=conf, **catalog)

    return made


# bad input


@pytest.mark.parametrize(
    ("keys", "why", "fix"),
    [
        ({"catalog_password": "wrong"}, "refuses this user", "catalog_password"),
        ({"catalog_password": None}, "refuses this user", "catalog_password"),
        ({"catalog_uri": "/nowhere"}, "no such database", "createdb"),
        ({"catalog_uri": ":1/lake"}, "onnection refused", "psql"),
        ({"catalog_uri": "nobody@"}, "refuses this user", "catalog_uri"),
        ({"catalog_uri": "?sslmode=require"}, "does not support SSL", "psql"),
    ],
)
def test_a_server_that_cannot_be_used(
    server: PostgresServer, machine: Callable[[str], Lake], keys: dict[str, Any], why: str, fix: str
) -> None:
    lake = machine("one")
    uri, at = str(lake.catalog_uri), f"{USER}@127.0.0.1:{server.port}"
    wrong = {
        "/nowhere": f"postgresql://{at}/nowhere",
        ":1/lake": f"postgresql://{USER}@127.0.0.1:1/lake",
        "nobody@": uri.replace(f"{USER}@", "nobody@"),
        "?sslmode=require": f"{uri}?sslmode=require",
    }
    keys = {key: wrong.get(value, value) for key, value in keys.items()}
    lake = Lake(**{**lake.model_dump(), **keys})
    for use in (check_catalog, list_relations, lambda lake: held(lake)):
        with pytest.raises(CatalogError) as error:
            use(lake)
        assert why in error.value.why and fix in error.value.fix
        assert PASSWORD not in str(error.value) and "wrong" not in str(error.value)


def held(lake: Lake) -> None:
    with publishing(lake):
        pass


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("mysql://db.example.com/lake", "mysql is no database of ours"),
        ("db.example.com", "nothing is no database of ours"),
        ("postgresql://db.example.com", "no host, or no database"),
        ("postgresql:///lake", "no host, or no database"),
        ("postgresql://db.example.com:port/lake", "Port could not be cast"),
        ("postgresql://me:hunter2@db.example.com/lake", "there is a password in it"),
        ("postgresql://db.example.com/lake?password=hunter2", "password: known are"),
        ("postgresql://db.example.com/lake?connect_timeout=3", "connect_timeout: known are"),
    ],
)
def test_a_uri_that_cannot_be_one(tmp_path: Path, uri: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        lake_from_target({"catalog_uri": uri}, tmp_path)
    assert "hunter2" not in str(error.value) and "docs/targets.md" in str(error.value)


def test_a_user_who_may_only_read(server: PostgresServer, machine: Callable[[str], Lake]) -> None:
    lake = machine("one")
    two_releases(lake)
    database = str(lake.catalog_uri).rpartition("/")[2]
    reader = f"reader_{database}"
    with server.connect(database) as db:
        db.execute(f"create role {reader} login password 'p'")  # type: ignore[call-overload]
        db.execute(f"grant select on all tables in schema public to {reader}")  # type: ignore[call-overload]
    mine = {"catalog_uri": server.uri(database, reader), "catalog_password": "p"}
    reading = Lake(**{**lake.model_dump(), **mine})
    assert ids(reading, "s.a") == [0, 1, 2] and ledger.last_release(reading) == 2
    before = locations(lake)
    for use in (check_catalog, lambda lake: ledger.append(lake, [event(1)])):
        with pytest.raises(CatalogError, match="may not do that there"):
            use(reading)
    assert locations(lake) == before


def test_a_server_that_only_reads(server: PostgresServer, machine: Callable[[str], Lake]) -> None:
    lake = machine("one")
    two_releases(lake)
    database = str(lake.catalog_uri).rpartition("/")[2]
    with server.connect() as db:  # as a replica is
        db.execute(f"alter database {database} set default_transaction_read_only = on")  # type: ignore[call-overload]
    with pytest.raises(CatalogError, match="a replica, or read-only"):
        ledger.append(lake, [event(1)])
    assert ledger.last_release(lake) == 2


def test_another_process_that_holds_the_catalog(machine: Callable[[str], Lake]) -> None:
    lake = machine("one").model_copy(update={"catalog_timeout_s": 1})
    two_releases(lake)
    keys = {"password": PASSWORD, "autocommit": False}
    with psycopg.connect(str(lake.catalog_uri), **keys) as db:  # type: ignore[arg-type]
        db.execute("lock table iceberg_tables in exclusive mode")
        with pytest.raises(CatalogError, match="has held its lock for too long"):
            ledger.append(lake, [event(1)])
        assert ledger.last_release(lake) == 2  # who reads needn't wait
        db.rollback()
    ledger.append(lake, [event(1)])


def test_without_its_driver(
    machine: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"icegate\[postgres\]"):
        list_relations(machine("one"))


def test_a_password_that_looks_like_a_number_stays_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dbt_project.yml").write_text("profile: p\n")
    keys = {"type": "icegate", "schema": "main", "catalog_password": "{{ env_var('SECRET') }}"}
    profiles = {"p": {"target": "t", "outputs": {"t": keys}}}
    (tmp_path / "profiles.yml").write_text(json.dumps(profiles))
    monkeypatch.delenv("DBT_PROFILES_DIR", raising=False)
    monkeypatch.delenv("DBT_TARGET", raising=False)
    for secret in ("0123", "1e5", "yes", "null"):
        monkeypatch.setenv("SECRET", secret)
        lake = lake_from_target(load_target(tmp_path)[1], tmp_path)
        assert lake.catalog_password and lake.catalog_password.get_secret_value() == secret


# Spark

MODEL = "{{ config(materialized='table') }} select id from range(3)"


@pytest.fixture
def project(tmp_path: Path, machine: Callable[[str], Lake], spark: Any) -> DbtProject:
    lake = machine("one")
    return DbtProject(tmp_path / "a project", lake, start_session(lake), gate=True)


def test_a_server_that_goes_away_and_comes_back(
    project: DbtProject, tmp_path: Path, machine: Callable[[str], Lake]
) -> None:
    with running() as server:
        lake = Lake(**{**project.lake.model_dump(), **server.catalog("lake")})
        own = DbtProject(tmp_path / "its project", lake, start_session(lake), gate=True)
        own.write("models/m.sql", MODEL)
        assert own.dbt("build").ok
        server.stop("immediate")
        run = own.dbt("build")
        assert not run.ok and "cannot use the catalog postgresql://127.0.0.1" in run.text
        with pytest.raises(Exception, match="iceberg|SQL") as error:
            own.rows("select * from {s}.m")
        assert PASSWORD not in str(error.value)
        server.start()
        own.write("models/m.sql", MODEL.replace("3", "5"))
        assert own.dbt("build").ok, "its connections don't come back"
        assert own.rows("select count(*) from {s}.m") == [(5,)]


def test_over_tls_with_a_trusted_certificate_alone(project: DbtProject, tmp_path: Path) -> None:
    with running() as server:
        keys = server.catalog("lake")
        authority = server.use_tls()
        trusting = f"{keys['catalog_uri']}?sslmode=verify-full&sslrootcert={authority}"
        lake = Lake(**{**project.lake.model_dump(), **keys, "catalog_uri": trusting})
        own = DbtProject(tmp_path / "its project", lake, start_session(lake), gate=True)
        own.write("models/m.sql", MODEL)
        assert own.dbt("build").ok
        assert ids(lake, f"{own.schema}.m") == [0, 1, 2]
        make_certificates(tmp_path / "others")
        other = trusting.replace(str(authority), str(tmp_path / "others" / "ca.pem"))
        with pytest.raises(CatalogError, match="certificate verify failed"):
            list_relations(lake.model_copy(update={"catalog_uri": other}))
        without = f"{keys['catalog_uri']}?sslmode=disable"
        with pytest.raises(CatalogError, match="no encryption"):
            list_relations(lake.model_copy(update={"catalog_uri": without}))


@pytest.mark.long
@pytest.mark.targets
def test_a_server_that_was_started_with_another_catalog(tmp_path: Path) -> None:
    with running() as server, small_project("connect", tmp_path) as at:
        at.environ["SECRET"] = PASSWORD
        profiles = yaml.safe_load((at.folder / "profiles.yml").read_text())
        keys = {"catalog_uri": server.make("lake"), "catalog_password": "{{ env_var('SECRET') }}"}
        profiles["shop"]["outputs"]["t"] |= keys
        at.write("profiles.yml", yaml.safe_dump(profiles))
        at.dbt("build", "--select", "landed", "orders")
        built = {entry.full_name for entry in list_relations(at.lake)}
        assert {"main.landed", "main.orders"} <= built and len(at.rows("orders")) == 2
        assert "catalog_uri" in at.icegate("server", "start")


SECRET = "hunter2-1f6d"
BUILD = """
import subprocess, sys
from dbt.cli.main import dbtRunner

ok = dbtRunner().invoke(["build", "--log-level-file", "debug"]).success
shown = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True).stdout
sys.exit(0 if ok and "SparkSubmit" in shown and sys.stdin.read() not in shown else 1)
"""


def test_the_password_is_in_no_file_and_no_argument(
    server: PostgresServer, machine: Callable[[str], Lake], tmp_path: Path, spark: Any
) -> None:
    lake = machine("one")
    database = str(lake.catalog_uri).rpartition("/")[2]
    with server.connect(database) as db:
        db.execute(f"create role {database} login superuser password '{SECRET}'")  # type: ignore[call-overload]
    mine = {"catalog_uri": server.uri(database, database), "catalog_password": "{{ env_var('P') }}"}
    project = DbtProject(tmp_path / "a project", lake, None, gate=True, memory="1g", **mine)
    project.write("models/m.sql", MODEL)
    own = {key: value for key, value in os.environ.items() if not key.startswith("DBT_")}
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        input=SECRET,
        cwd=project.folder,
        env={**own, "P": SECRET},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert (project.folder / "logs" / "dbt.log").stat().st_size > 1000
    holds = [
        path
        for folder in (project.folder, lake.home, lake.warehouse)
        for path in folder.rglob("*")
        if path.is_file() and "ivy" not in path.parts and SECRET.encode() in path.read_bytes()
    ]
    assert not holds
