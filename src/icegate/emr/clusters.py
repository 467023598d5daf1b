"""Clusters of EMR on EC2, found by id or by tags, and what is known of them.

Names and shapes of requests are those of its API, of 2009-03-31.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

from icegate import aws
from icegate.errors import IcegateError, ServerError

SERVICE = "EMR"
THRIFT_PORT = 10001  # of EMR's Spark, as 10000 is Hive's
READY = ("RUNNING", "WAITING")
COMING = ("STARTING", "BOOTSTRAPPING")
CAUSES: aws.Causes = (
    (
        ("AccessDeniedException", "AccessDenied"),
        "this user may not do that: {said}",
        "grant elasticmapreduce:DescribeCluster, ListClusters for tags, and for a step "
        "ListInstances, AddJobFlowSteps, DescribeStep and CancelSteps",
    ),
    (
        ("InvalidRequestException", "ValidationException"),
        "it refuses that: {said}",
        "correct `cluster`, or AWS_REGION",
    ),
    (("ThrottlingException",), "too many requests are made: {said}", "wait, and run this again"),
)


class Cluster(NamedTuple):
    """What is known of a cluster; ``host`` is its primary node's name, empty before it has one."""

    id: str
    name: str
    state: str
    reason: str
    release: str
    host: str
    logs: str | None
    tags: dict[str, str]

    @property
    def named(self) -> str:
        return f"the cluster {self.id} ({self.name}, {self.release})"

    @property
    def is_ready(self) -> bool:
        return self.state in READY and bool(self.host)


@cache
def find_cluster(wanted: str) -> Cluster:
    """Return the one cluster that works, by its id or by `tag=value,…`, once in a process.

    Raises ``ServerError`` where it isn't ready, where there's none, and where there are several.
    """
    tags = _tags(wanted)
    if tags is None:
        cluster = look(wanted)
        if not cluster.is_ready:
            raise not_ready(cluster)
        return cluster
    works = [each for each in _clusters(READY + COMING) if tags.items() <= each.tags.items()]
    ready = [each for each in works if each.is_ready]
    if len(ready) == 1:
        return ready[0]
    if len(ready) > 1:
        raise ServerError(
            f"cannot choose a cluster by {wanted!r}",
            why=f"several have these tags: {', '.join(each.id for each in ready)}",
            fix="name one of them as `cluster`, or a tag that they don't share",
        )
    if works:
        raise not_ready(works[0])
    raise ServerError(
        f"cannot find a cluster by {wanted!r}",
        why=f"none that works in {aws.region()} has these tags",
        fix="start one with them, or correct `cluster`, or AWS_REGION",
    )


def look(id: str) -> Cluster:
    """Return what EMR knows of a cluster by now."""
    with explained(f"cannot find the cluster {id}"):
        told = _client().describe_cluster(ClusterId=id)["Cluster"]
    return _read(told)


def not_ready(cluster: Cluster) -> ServerError:
    """Return the error for a cluster that isn't there yet, or no longer."""
    reason = f": {cluster.reason}" if cluster.reason else ""
    ended = cluster.state not in READY + COMING
    return ServerError(
        f"cannot use {cluster.named}",
        why=f"it's {cluster.state}{reason}",
        fix="start another one, and name it as `cluster` of the target; what was published stays"
        if ended
        else "wait until it's WAITING, and run this again",
    )


def ended_meanwhile(wanted: str) -> ServerError | None:
    """Return the error for a cluster that has ended since it was found, None for one that works.

    Whoever asks has lost a connection: EMR, where it can't be asked, must not hide that.
    """
    try:
        cluster = look(find_cluster(wanted).id)
    except IcegateError:
        return None
    return None if cluster.is_ready else not_ready(cluster)


def explained(what: str) -> AbstractContextManager[None]:
    """Raise what EMR says as an error of ours."""
    return aws.explained(what, ServerError, SERVICE, CAUSES, {})


def _clusters(states: tuple[str, ...]) -> Iterator[Cluster]:
    with explained("cannot list the clusters of EMR"):
        pages = _client().get_paginator("list_clusters").paginate(ClusterStates=[*states])
        ids = [str(each["Id"]) for page in pages for each in page["Clusters"]]
    yield from map(look, ids)


def _read(told: dict[str, Any]) -> Cluster:
    status = told["Status"]
    return Cluster(
        told["Id"],
        told.get("Name") or "no name",
        status["State"],
        (status.get("StateChangeReason") or {}).get("Message") or "",
        told.get("ReleaseLabel") or "no release",
        told.get("MasterPublicDnsName") or "",
        told.get("LogUri"),
        {tag["Key"]: tag.get("Value") or "" for tag in told.get("Tags") or []},
    )


def _tags(wanted: str) -> dict[str, str] | None:
    """Return the tags that are meant, None where it's an id."""
    if "=" not in wanted:
        return None
    pairs = (pair.partition("=") for pair in wanted.split(","))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _client() -> Any:
    return aws.client("emr")
