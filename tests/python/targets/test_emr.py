"""A cluster of EMR on EC2 is found by id or tags; of one that isn't there it's said why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.stub import Stubber

from icegate import aws
from icegate.emr import clusters
from icegate.errors import ServerError
from targets.emr_cluster import ID, Emr, serving
from targets.s3_server import using

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-central-1"}


@pytest.fixture
def emr() -> Iterator[Emr]:
    found = Emr()
    with serving(found) as url, using(AWS_ENDPOINT_URL_EMR=url, **KEYS):
        clusters.find_cluster.cache_clear()
        yield found
    clusters.find_cluster.cache_clear()


@pytest.mark.parametrize("wanted", [ID, "project=shop", "stage=test, project=shop"])
def test_a_cluster_is_found_once_in_a_process(emr: Emr, wanted: str) -> None:
    emr.add("j-OTHER", "WAITING", {"project": "other"})
    emr.add("j-OLD", "TERMINATED", {"project": "shop"})
    cluster = clusters.find_cluster(wanted)
    assert (cluster.id, cluster.host, cluster.release) == (ID, "127.0.0.1", "emr-spark-8.0.0")
    asked = len(emr.asked)
    assert clusters.find_cluster(wanted) is cluster and len(emr.asked) == asked
    assert cluster.named == f"the cluster {ID} (shop-cluster, emr-spark-8.0.0)"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("j-NONE", ["cannot find the cluster j-NONE", "'j-NONE' is not valid", "AWS_REGION"]),
        (
            "j-OLD",
            ["cannot use the cluster j-OLD", "it's TERMINATED: by ann", "start another"],
        ),
        ("j-NEW", ["cannot use the cluster j-NEW", "it's BOOTSTRAPPING", "until it's WAITING"]),
        ("kind=new", ["cannot use the cluster j-NEW", "it's BOOTSTRAPPING"]),
        ("kind=old", ["cannot find a cluster by 'kind=old'", "in eu-central-1", "start one"]),
        ("project=shop", ["several have these tags", f"{ID}, j-SAME"]),
    ],
)
def test_a_cluster_that_cannot_be_used(emr: Emr, wanted: str, said: list[str]) -> None:
    emr.add("j-SAME", "RUNNING", {"project": "shop"})
    emr.add("j-NEW", "BOOTSTRAPPING", {"kind": "new"}, host="")
    emr.add("j-OLD", "WAITING", {"kind": "old"})
    emr.end("j-OLD", "by ann")
    with pytest.raises(ServerError) as told:
        clusters.find_cluster(wanted)
    assert [each for each in said if each not in str(told.value)] == []


def test_who_may_not_ask_is_told_which_right_it_takes() -> None:
    with using(**KEYS), Stubber(aws.client("emr")) as stub:
        stub.add_client_error("describe_cluster", "AccessDeniedException", "no", 400)
        with pytest.raises(ServerError, match="grant elasticmapreduce:DescribeCluster"):
            clusters.look(ID)


def test_what_stands_for_emr_answers_as_its_model_says(emr: Emr) -> None:
    emr.end(ID, "by ann")
    asked = {
        "describe_cluster": ("DescribeCluster", {"ClusterId": ID}),
        "list_clusters": ("ListClusters", {"ClusterStates": ["TERMINATED"]}),
    }
    stub = Stubber(aws.client("emr"))
    for method, (action, params) in asked.items():
        stub.add_response(method, emr.answer(action, params), params)


def test_a_cluster_that_ended_since_is_named(emr: Emr) -> None:
    clusters.find_cluster(ID)
    assert clusters.ended_meanwhile(ID) is None
    emr.end(ID, "Terminated by user request")
    assert "it's TERMINATED: Terminated by user" in str(clusters.ended_meanwhile(ID))
    emr.clusters.clear()
    assert clusters.ended_meanwhile(ID) is None  # who can't be asked hides no other error
