"""A catalog in AWS's Glue: what no other kind has, with ministack for Glue and a real S3 server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from conftest import make_home
from released import ids, locations, make, stored

from icegate import aws
from icegate.catalog import check_catalog, list_namespaces, list_relations, open_catalog
from icegate.catalogs.glue import Glue, _columns
from icegate.errors import CatalogError, ConfigError
from icegate.gate import ledger
from icegate.gate.steps import FAIL_AT, KILL_AT
from icegate.gate.store import Moved, make_namespace
from icegate.settings import Lake, lake_from_target
from targets.glue_server import GlueServer, running
from targets.machine import ROWS, Machine, machine, on_spark
from targets.s3_server import using

pytestmark = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(scope="module")
def server() -> Iterator[GlueServer]:
    with running() as started:
        yield started


@pytest.fixture
def lake_in(server: GlueServer, tmp_path: Path) -> Callable[[str], Lake]:
    """What makes a lake of the account, whose tables are below a folder of the bucket."""
    keys = server.catalog("")

    def made(folder: str) -> Lake:
        places: dict[str, Any] = {"home": make_home(tmp_path / folder), "warehouse": tmp_path}
        return Lake(**places, **{**keys, "bucket": f"{keys['bucket'].rstrip('/')}/{folder}"})

    return made


@pytest.fixture
def lake(lake_in: Callable[[str], Lake]) -> Lake:
    return lake_in(f"lake_{uuid.uuid4().hex[:10]}")


# what the account has beside


def test_tables_of_another_kind_and_of_others_are_not_the_lakes(
    server: GlueServer, lake: Lake
) -> None:
    make(lake, "s.a")
    hive = {"Name": "hive", "StorageDescriptor": {"Columns": []}, "Parameters": {}}
    server.client.create_table(DatabaseName="s", TableInput=hive)
    server.client.create_database(DatabaseInput={"Name": "default"})
    theirs = {"table_type": "ICEBERG", "metadata_location": "s3://other/t/metadata/v1.json"}
    given = {"Name": "theirs", "Parameters": theirs}
    server.client.create_table(DatabaseName="default", TableInput=given)
    other = {"Name": "other", "LocationUri": f"{lake.root}_2/other"}
    server.client.create_database(DatabaseInput=other)
    assert [entry.full_name for entry in list_relations(lake)] == ["s.a"]
    assert list_namespaces(lake) == ["default", "s"]
    with pytest.raises(Moved, match=r"s\.hive"):
        Glue(lake).put("s", "hive", None, "s3://x", stored(lake, "s.a").metadata)


def test_two_lakes_in_one_account(lake_in: Callable[[str], Lake]) -> None:
    one, other = lake_in("one"), lake_in("other")
    make(one, "s.a")
    assert list_relations(other) == []
    with pytest.raises(CatalogError, match="another lake of this account has it") as error:
        make_namespace(other, "s")
    assert "`schema:`" in error.value.fix


def test_a_schema_has_properties(lake: Lake) -> None:
    kind = Glue(lake)
    kind.mark("pr_1", "a", "1")
    kind.mark("pr_1", "b", "2")
    kind.mark("pr_1", "a", "3")
    assert kind.marked("a") == {"pr_1": "1"} and kind.marked("b") == {"pr_1": "2"}
    kind.drop_schema("pr_1")
    kind.drop_schema("pr_1")
    assert kind.schemas() == set()


# what others see


TYPES = """
    create table s.types (
        a boolean not null comment 'yes or no', b int, c bigint, d float, e double,
        f decimal(9, 2), g date, h timestamp, i timestamp_ntz, j string, k binary,
        l array<int>, m map<string, bigint>, n struct<x: int, y: array<struct<z: timestamp>>>
    ) using iceberg comment 'of all types'
"""


def test_columns_are_told_as_spark_tells_them(server: GlueServer, lake: Lake) -> None:
    """Spark makes a table and changes it; then Icegate writes what is next."""
    on_spark(
        lake,
        "create namespace s",
        TYPES,
        "alter table s.types drop column b",
        "alter table s.types add column o int",
    )
    table = server.client.get_table(DatabaseName="s", Name="types")["Table"]
    metadata = stored(lake, "s.types").metadata
    theirs = table["StorageDescriptor"]["Columns"]
    assert _columns(metadata) == theirs and len(theirs) == 15
    Glue(lake).put("s", "types", locations(lake)["s.types"], "s3://lake/next.json", metadata)
    new = server.client.get_table(DatabaseName="s", Name="types")["Table"]
    parameters = new["Parameters"]
    assert parameters["previous_metadata_location"] == table["Parameters"]["metadata_location"]
    assert parameters["metadata_location"] == "s3://lake/next.json"
    ours, before = ({k: t.get(k) for k in NAMED} for t in (new, table))
    assert ours == before and new["StorageDescriptor"] == {
        **new["StorageDescriptor"],
        "Columns": theirs,
        "Location": table["StorageDescriptor"]["Location"],
    }


NAMED = ("Name", "TableType", "Description")


def test_spark_and_light_writers_lose_no_commit(lake: Lake) -> None:
    make(lake, "s.a", properties={"commit.retry.num-retries": "20"})
    statements = [f"insert into s.a values ({number}, 'spark')" for number in range(10)]
    done: list[int] = []

    def write(worker: int) -> None:
        import pyarrow as pa

        for number in range(10):
            table = open_catalog(lake).load_table("s.a")
            id = 100 * worker + number
            rows = pa.table({"id": [id], "amount": ["light"]}, schema=table.schema().as_arrow())
            table.append(rows)
            done.append(id)

    workers = [threading.Thread(target=write, args=(worker,)) for worker in (1, 2)]
    workers.append(threading.Thread(target=on_spark, args=(lake, *statements)))
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    assert len(done) == 20 and ids(lake, "s.a") == sorted([*range(10), *done])


# bad input


@pytest.mark.parametrize(
    ("code", "why", "fix"),
    [
        ("ExpiredTokenException", "credentials have expired", "log in again"),
        ("UnrecognizedClientException", "Glue refuses this key", "AWS_ACCESS_KEY_ID"),
        (
            "AccessDeniedException",
            "may not do that there: no, not you",
            "UpdateTable and DeleteTable on the lake's databases",
        ),
        ("ThrottlingException", "limit is reached", "wait"),
        ("InternalServiceException", "Glue says InternalServiceException", "run it again"),
    ],
)
def test_what_aws_itself_says(lake: Lake, code: str, why: str, fix: str) -> None:
    with Stubber(aws.client("glue")) as answers:
        answers.add_client_error("get_databases", code, "no, not you")
        with pytest.raises(CatalogError, match=why) as error:
            check_catalog(lake)
    assert fix in error.value.fix


def test_without_an_answer(lake: Lake) -> None:
    with (
        using(AWS_ENDPOINT_URL_GLUE="http://127.0.0.1:1"),
        pytest.raises(CatalogError, match="no answer from it") as error,
    ):
        check_catalog(lake)
    assert "AWS_ENDPOINT_URL_GLUE" in error.value.fix


def test_a_region_is_needed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    with using(), pytest.raises(ConfigError, match="no region is set"):
        check_catalog(lake)
    with using(AWS_REGION="eu-west-1"):
        assert str(Glue(lake)) == "AWS Glue in eu-west-1"


def test_a_database_that_is_missing(lake: Lake) -> None:
    make(lake, "s.a")
    with pytest.raises(CatalogError, match=r"cannot use the catalog AWS Glue") as error:
        Glue(lake).put("gone", "a", None, "s3://x", stored(lake, "s.a").metadata)
    assert "make the database" in error.value.fix


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"warehouse": "/mnt/lake"}, "needs tables in S3"),
        ({"warehouse": "s3://lake/x", "catalog_uri": "https://glue"}, "catalog_type glue has none"),
    ],
)
def test_a_target_that_cannot_be(tmp_path: Path, keys: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        lake_from_target({"catalog_type": "glue", **keys}, tmp_path)


# whole builds


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine("glue, s3", tmp_path_factory.mktemp("target")) as made:
        made.dbt("build")
        yield made


def figures(at: Machine) -> tuple[int, int]:
    """Return the sums that readers find in two tables of which one is made from the other."""
    return tuple(sum(r["amount"] for r in at.rows(t)) for t in ("orders", "totals"))  # type: ignore[return-value]


def test_a_build_that_is_killed_while_it_publishes(project: Machine) -> None:
    assert figures(project) == (12, 12)
    project.land(f"{ROWS}3,C-1003,9\n")
    at = "ledger_staged,moving,moved_one"
    project.dbt("build", "--select", "landed", "orders", "totals", code=-9, **{KILL_AT: at})
    assert ledger.last_release(project.lake) == 1 and "release 1" in project.icegate("status")
    # Some tables have moved and others haven't: each reader has rows that passed their tests.
    assert {*figures(project)} <= {12, 21}
    project.dbt("build", "--select", "scored")
    assert figures(project) == (21, 21) and len(project.rows("scored")) == 3
    assert ledger.last_release(project.lake) == 3  # the one that was killed is the second


def test_a_build_that_gets_no_answer_while_it_publishes(project: Machine) -> None:
    project.land(f"{ROWS}3,C-1003,10\n")
    at = "ledger_staged,moving,moved_one"
    said = project.dbt("build", "--select", "landed", "orders", "totals", **{FAIL_AT: at})
    assert "3 tables published" in said and figures(project) == (22, 22)
