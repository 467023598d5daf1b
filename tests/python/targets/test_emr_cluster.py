"""Builds on a cluster of EMR: its versions of Spark and Iceberg, Thrift and Connect on one node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from icegate.catalog import open_catalog
from targets.emr_cluster import ID
from targets.machine import DBT, ROWS, Machine, machine

pytestmark = [pytest.mark.long, pytest.mark.targets]

BEGUN = "START sql incremental model main.orders"


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine("emr", tmp_path_factory.mktemp("target")) as made:
        yield made


def test_a_cluster_that_ends_in_the_middle_of_a_build(at: Machine) -> None:
    assert "release 1: 6 tables published" in at.dbt("build")
    at.land(ROWS.replace("7", "8"))
    before = at.rows("orders"), at.rows("totals")
    process = at.begin(*at.dbt_command, "--no-use-colors", "build")
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if BEGUN in line:
            at.node.stop()
            at.emr.end(ID, "Terminated by user request")
    again = at.begin(*at.dbt_command, "--no-use-colors", "build")
    and_then, _ = again.communicate()
    at.emr.add(ID, "WAITING", {"project": "shop"})
    at.node.start()
    assert process.wait() == 1 and f"cannot use the cluster {ID}" in said, said
    assert "it's TERMINATED: Terminated by user request" in said
    assert "Traceback" not in said and (at.rows("orders"), at.rows("totals")) == before
    assert "cannot find a cluster by 'project=shop'" in and_then and "start one" in and_then
    at.dbt("build")
    assert [row["amount"] for row in at.rows("totals")] == [5, 8]


def test_spark_connect_alone(at: Machine) -> None:
    keys = {"method": "connect", "connect": None, "port": at.node.connect_port}
    was = {"method": "thrift", "connect": f"sc://:{at.node.connect_port}"}
    at.retarget(**keys)
    assert "6 tables published" in at.dbt("build", ICEGATE_FULL="1")
    at.retarget(**was, port=at.node.port)


def test_what_this_iceberg_reads_only_of_a_clone(at: Machine) -> None:
    at.write(
        "models/then.sql",
        "{{ config(materialized='table') }}\nselect id from {{ ref('orders') }} "
        "version as of {{ var('then') }}",
    )
    at.land(ROWS.replace("7", "9"))
    (first, *_) = open_catalog(at.lake).load_table("main.orders").history()
    said = at.dbt("build", "--vars", f"then: {first.snapshot_id}", code=1)
    assert "this Iceberg reads no earlier version of a table" in said and "`as_of()`" in said
    (at.folder / "models" / "then.sql").unlink()
    at.dbt("build")
    versions = sorted((row["id"], row["amount"]) for row in at.rows("past"))
    assert versions == [(1, 5), (2, 7), (2, 8), (2, 9)]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"host": "127.0.0.1"}, ["cannot use both `cluster` and `host`"]),
        ({"method": "session"}, ["cannot use `cluster` without a server on it"]),
        (
            {"port": 1},
            ["the Spark Thrift server at 127.0.0.1:1", "lets this machine"],
        ),
        ({"connect": None}, ["scored", "Connect"]),
    ],
)
def test_what_is_wrong_is_said(at: Machine, keys: dict[str, Any], said: list[str]) -> None:
    profile = (at.folder / "profiles.yml").read_text()
    at.retarget(**keys)
    at.land(ROWS.replace("7", "6"))
    process = at.begin(*at.dbt_command, "build")
    told, _ = process.communicate(timeout=300)
    (at.folder / "profiles.yml").write_text(profile)
    assert process.returncode and [each for each in said if each not in told] == [], told


def test_another_pyspark_than_the_clusters(at: Machine) -> None:
    said = at.run(*DBT, "--no-use-colors", "build", code=1)
    assert "it's Spark 4.0.2, older than pyspark 4.1" in said
    assert "pip install 'pyspark[connect]==4.0.2'" in said
