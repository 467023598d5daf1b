"""Tables in a bucket of a real S3 server, SeaweedFS."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import yaml
from botocore.stub import Stubber
from conftest import make_home
from released import event, ids, locations, make, stored, two_releases

from icegate import aws
from icegate.catalog import check_catalog, list_relations, read_metadata
from icegate.duck import open_duckdb, shut_in
from icegate.environments import create, drop, find
from icegate.errors import CatalogError, ConfigError, StorageError
from icegate.gate import ledger
from icegate.gate.candidates import read_lake
from icegate.gate.steps import FAIL_AT
from icegate.gate.store import Moved, move
from icegate.settings import Lake, lake_from_target
from targets.machine import DBT
from targets.machine import machine as small_project
from targets.s3_server import READER, SECRET, S3Server, running, using

pytestmark = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as started:
        yield started


@pytest.fixture
def lake(server: S3Server, tmp_path: Path) -> Lake:
    """A lake whose catalog is a file, and whose tables are below a folder of the bucket."""
    home = make_home(tmp_path / "a home")
    return Lake(home=home, warehouse=home / "warehouse", bucket=f"s3://lake/{tmp_path.name}/a b")


# pointers, metadata and rows


def test_tables_ledger_and_metadata_are_objects(server: S3Server, lake: Lake) -> None:
    two_releases(lake)
    assert ids(lake, "s.a") == [0, 1, 2] and ledger.last_release(lake) == 2
    for name, location in locations(lake).items():
        assert location.startswith(f"{lake.bucket}/"), name
        assert location.removeprefix("s3://lake/") in server.listed()
    assert not lake.warehouse.exists()


def test_a_move_that_is_refused_leaves_no_object(server: S3Server, lake: Lake) -> None:
    make(lake, "s.a")
    table = stored(lake, "s.a")
    move(lake, [table.write(table.metadata)])
    before = server.listed()
    with pytest.raises(Moved):
        move(lake, [table.write(table.metadata)])
    assert server.listed() == before


@pytest.mark.parametrize("step", ["moving", "moved"])
def test_when_the_answer_to_a_commit_is_lost(
    server: S3Server, lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    make(lake, "s.a")
    table = stored(lake, "s.a")
    written = table.write(table.metadata)
    monkeypatch.setenv(FAIL_AT, step)
    if step == "moved":
        move(lake, [written])
    else:
        with pytest.raises(CatalogError, match="no answer"):
            move(lake, [written])
    key = str(written.new_location).removeprefix("s3://lake/")
    assert (key in server.listed()) == (step == "moved")


def test_duckdb_reads_tables_of_the_lake_and_nothing_else(server: S3Server, lake: Lake) -> None:
    two_releases(lake)
    server.client.put_object(Bucket="lake", Key="private/x.csv", Body=b"a\n1\n")
    entries = [entry for entry in list_relations(lake) if entry.namespace == "s"]
    with open_duckdb(lake, entries) as database:
        other = "select * from read_csv('s3://lake/private/x.csv')"
        assert database.execute(other).fetchall() == [(1,)]
        shut_in(database, lake, entries)
        assert database.execute("select count(*) from s.a").fetchall() == [(3,)]
        with pytest.raises(duckdb.PermissionException):
            database.execute(other)


def test_an_environment_goes_with_its_objects_alone(server: S3Server, lake: Lake) -> None:
    make(lake, "s.a")
    create(lake, "pr_1", {"nodes": {}})
    make(lake, "pr_1_s.a", properties={"write.wap.enabled": "false"})
    below = f"{str(lake.bucket).removeprefix('s3://lake/')}/"
    assert len(server.listed(f"{below}pr_1_s/")) == 1
    assert drop(lake, find(lake, "pr_1")) == []
    assert not server.listed(f"{below}pr_1_s/") and server.listed(f"{below}s/")
    assert "s.a" in locations(lake)


# bad input


@pytest.mark.parametrize(
    ("variables", "why", "fix"),
    [
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "refuses this key", "AWS_ACCESS_KEY_ID"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "refuses this key", "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, "no answer", "AWS_ENDPOINT_URL_S3"),
    ],
)
def test_a_server_that_cannot_be_used(
    lake: Lake, variables: dict[str, str], why: str, fix: str
) -> None:
    two_releases(lake)
    entry = list_relations(lake)[0]
    with using(**variables):
        for use in (check_catalog, lambda _: read_metadata(entry), ledger.read_events):
            with pytest.raises(CatalogError, match="cannot use s3://lake") as error:
                use(lake)
            assert why in error.value.why and fix in error.value.fix
            assert SECRET not in str(error.value) and "wrong" not in str(error.value)
    assert ledger.last_release(lake) == 2


def test_without_credentials(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    none = str(tmp_path / "none")
    with (
        using(AWS_SHARED_CREDENTIALS_FILE=none, AWS_CONFIG_FILE=none),
        pytest.raises(CatalogError, match="there are no credentials"),
    ):
        check_catalog(lake)


def test_a_bucket_that_is_not_there(lake: Lake) -> None:
    elsewhere = lake.model_copy(update={"bucket": "s3://no-such-bucket/x"})
    with pytest.raises(CatalogError, match="no such bucket"):
        check_catalog(elsewhere)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("ExpiredToken", "credentials have expired"),
        ("PermanentRedirect", "in another region"),
        ("AuthorizationHeaderMalformed", "in another region"),
    ],
)
def test_what_only_aws_itself_says(lake: Lake, code: str, why: str) -> None:
    with Stubber(aws.client("s3")) as answers:
        answers.add_client_error("list_objects_v2", service_error_code=code)
        with pytest.raises(CatalogError, match=why):
            check_catalog(lake)


def test_a_user_who_may_only_read(server: S3Server, lake: Lake) -> None:
    two_releases(lake)
    before = server.listed()
    with using(AWS_ACCESS_KEY_ID=READER):
        assert ids(lake, "s.a") == [0, 1, 2]
        with pytest.raises(CatalogError, match="may not do that there") as error:
            ledger.append(lake, [event(1)])
        assert "s3:GetObject" in error.value.fix
    assert server.listed() == before


def test_tables_of_a_bucket_that_gives_no_answer_are_not_gone(lake: Lake) -> None:
    two_releases(lake)
    create(lake, "pr_1", {"nodes": {}})
    make(lake, "pr_1_s.a")
    with using(AWS_ENDPOINT_URL_S3="http://127.0.0.1:1"):
        with pytest.raises(StorageError):
            read_lake(lake)
        with pytest.raises(StorageError):
            drop(lake, find(lake, "pr_1"))
    assert "pr_1_s.a" in locations(lake)
    with pytest.raises(ConfigError, match="came through the gate"):
        drop(lake, find(lake, "pr_1"))


@pytest.mark.parametrize("said", ["s3://", "s3://Upper/x", "s3:///x"])
def test_a_warehouse_that_cannot_be_one(tmp_path: Path, said: str) -> None:
    with pytest.raises(ConfigError, match="bucket"):
        lake_from_target({"warehouse": said}, tmp_path)


def test_without_boto3(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    aws.session.cache_clear()
    aws.client.cache_clear()
    with pytest.raises(ConfigError, match=r"icegate\[s3\]"):
        check_catalog(lake)


# whole builds


# As if all objects were old: S3 says when it wrote them, and nobody can change that.
OLD = """
import sys
from icegate import objects
listed, stat = objects.listed, objects.stat
aged = lambda told: told._replace(written=told.written - 9 * 86400)
objects.listed = lambda at: {path: aged(told) for path, told in listed(at).items()}
objects.stat = lambda at: aged(stat(at))
from icegate.cli.main import main
sys.argv = ["icegate", *sys.argv[1:]]
main()
"""


def test_objects_that_nothing_refers_to_are_found_and_deleted(tmp_path: Path) -> None:
    with small_project("postgres, s3", tmp_path) as at:
        project = yaml.safe_load((at.folder / "dbt_project.yml").read_text())
        project["models"]["+maintenance_orphan_wait_hours"] = 0
        at.write("dbt_project.yml", yaml.safe_dump(project))
        at.dbt("build")
        server = at.objects
        assert server is not None
        stray = "a warehouse/main/orders/data/a stray+one.parquet"
        server.client.put_object(Bucket="lake", Key=stray, Body=b"nobody's")
        before = {*server.listed("a warehouse/main/")} - {stray}
        table = json.loads(at.icegate("health", "main.orders", "--unreferenced", "--json"))
        assert table["tables"][0]["unreferenced"]["young"] == 1
        for times in (1, 2):
            said = at.run(sys.executable, "-c", OLD, "maintain", "--orphans", "main.orders")
            assert (stray in server.listed()) == (times == 1), said
        assert {*server.listed("a warehouse/main/")} == before
        assert len(at.rows("orders")) == 2


def test_a_server_that_goes_away_and_comes_back_and_a_key_that_is_nowhere(tmp_path: Path) -> None:
    with small_project("postgres, s3", tmp_path) as at:
        at.dbt("build")
        server = at.objects
        assert server is not None
        rows = at.rows("orders")
        server.stop()
        at.land("id,customer,amount\n9,C-1009,1\n")
        said = at.dbt("build", code=1)
        assert "cannot use s3://lake" in said and "no answer" in said
        server.start()
        at.land("id,customer,amount\n1,C-1001,5\n2,C-1002,7\n9,C-1009,1\n")
        process = at.begin(*DBT, "--no-use-colors", "build")
        assert process.stdout is not None
        for line in process.stdout:
            if "OK created sql incremental model main.orders" in line:
                break
        server.stop()
        said, _ = process.communicate(timeout=300)
        assert process.returncode != 0
        server.start()
        assert at.rows("orders") == rows, "half of a build is seen"
        at.dbt("build")
        assert len(at.rows("orders")) == 3
        holds = [
            path
            for folder in (at.folder, at.home)
            for path in folder.rglob("*")
            if path.is_file() and "ivy" not in path.parts and SECRET.encode() in path.read_bytes()
        ]
        assert not holds
        assert SECRET in os.environ["AWS_SECRET_ACCESS_KEY"]


def test_a_server_elsewhere_that_has_no_client_for_s3(server: S3Server, tmp_path: Path) -> None:
    with small_project("postgres, thrift elsewhere", tmp_path) as at:
        at.environ |= server.environ
        at.retarget(warehouse=f"s3://lake/{tmp_path.name}")
        said = at.dbt("build", "--select", "landed", code=2)
        assert "this Spark has no client for S3" in said and "iceberg-aws-bundle" in said
