"""A cluster of EMR on EC2 is found by id or tags; of one that isn't there it's said why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.stub import Stubber
from dbt_common.exceptions import CompilationError
from environments import environment

from dbt.adapters.icegate.connections import on_cluster
from icegate import aws
from icegate.emr import clusters
from icegate.emr.steps import RUNNER, Steps, words
from icegate.emr.submit import Call
from icegate.errors import ConfigError, ServerError
from targets.emr_cluster import ID, Emr, serving
from targets.programs import Program, answers, started
from targets.s3_server import using

CALL = Call("s3://b/app/1", ["dbt", "build"], {"ICEGATE_SCHEMA": "s"}, "/usr/bin/python3.11")
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


def test_an_error_of_dbt_stays_its_own_where_there_is_a_cluster(emr: Emr) -> None:
    emr.end(ID, "Terminated by user request")
    error = CompilationError("there is no table 'order'")
    error.stack.append(None)  # the macros that raised it, as dbt tells them
    with pytest.raises(CompilationError, match="no table"), on_cluster(ID):
        raise error


def test_a_step_is_asked_for_followed_and_cancelled_by_these_requests(emr: Emr) -> None:
    steps = Steps(clusters.find_cluster(ID))
    assert steps.architecture == "X86_64"
    (runner, args, asked) = (RUNNER, words(CALL, 60), {"ClusterId": ID, "StepId": "s-1"})
    step = {"Name": "dbt build", "ActionOnFailure": "CONTINUE"}
    jar = {"Jar": runner, "Args": args}
    ended = {"State": "FAILED", "FailureDetails": {"Reason": "Unknown Error"}}
    cancel = {"ClusterId": ID, "StepIds": ["s-1"], "StepCancellationOption": "TERMINATE_PROCESS"}
    with Stubber(aws.client("emr")) as stub:
        one = {"JobFlowId": ID, "Steps": [{**step, "HadoopJarStep": jar}]}
        stub.add_response("add_job_flow_steps", {"StepIds": ["s-1"]}, one)
        stub.add_response("describe_step", {"Step": {"Status": {"State": "CANCEL_PENDING"}}}, asked)
        stub.add_response("describe_step", {"Step": {"Status": ended}}, asked)
        stub.add_response("cancel_steps", {"CancelStepsInfoList": []}, cancel)
        assert steps.start("dbt build", CALL, 60) == "s-1"
        assert steps.job("s-1").state == "CANCELLING"
        assert steps.job("s-1")[:2] == ("FAILED", "Unknown Error")
        steps.cancel("s-1")


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        *(("m7g.xlarge", "ARM64"), ("c6gn.large", "ARM64"), ("a1.large", "ARM64")),
        *(("m7i.xlarge", "X86_64"), ("g5.xlarge", "X86_64"), ("m5.xlarge", "X86_64")),
    ],
)
def test_the_kind_of_its_machines(emr: Emr, machine: str, kind: str) -> None:
    steps = Steps(clusters.find_cluster(ID))
    with Stubber(aws.client("emr")) as stub:
        told = {"Instances": [{"InstanceType": machine}]}
        stub.add_response("list_instances", told, {"ClusterId": ID})
        assert steps.architecture == kind


def test_words_of_a_step_are_no_shells_to_read() -> None:
    given = words(CALL._replace(args=["dbt", "build", "--vars", "{a: '$(rm x)'}"]), 60)
    assert given[:2] == ["bash", "-c"] and given[3:6] == ["icegate", "s3://b/app/1", "60"]
    assert "$(rm x)" not in given[2] and given[-1] == "{a: '$(rm x)'}"
    assert "ICEGATE_SCHEMA=s" in given[: given.index("--")]
    with pytest.raises(ConfigError, match="cannot give 'a b' to a job"):
        words(CALL._replace(conf=["a b"]), 60)


class Moto(Program):
    """Moto's EMR, which knows clusters, tags and steps, and runs none."""

    def start(self) -> None:
        made = environment("moto", "moto[emr,server]==5.2.5\n")
        command = [made / "bin" / "moto_server", "-H", "127.0.0.1", "-p", self.port]
        self.launch(command, lambda: answers(self.port))


@pytest.mark.targets
@pytest.mark.long
def test_another_stand_in_knows_the_same_requests() -> None:
    with started(Moto) as moto, using(AWS_ENDPOINT_URL_EMR=f"http://127.0.0.1:{moto.port}", **KEYS):
        asked = {
            "Name": "shop",
            "ReleaseLabel": "emr-7.12.0",
            "Instances": {
                "MasterInstanceType": "m7g.xlarge",
                "InstanceCount": 1,
                "KeepJobFlowAliveWhenNoSteps": True,
            },
            "Tags": [{"Key": "project", "Value": "shop"}],
        }
        id = aws.client("emr").run_job_flow(**asked)["JobFlowId"]
        clusters.find_cluster.cache_clear()
        cluster = clusters.find_cluster("project=shop")
        assert (cluster.id, cluster.release) == (id, "emr-7.12.0") and cluster.host
        steps = Steps(cluster)
        run = steps.start("dbt build", CALL, 60)
        assert steps.job(run).state in ("STARTING", "RUNNING", "PENDING", "SUCCESS")
        aws.client("emr").terminate_job_flows(JobFlowIds=[id])
        assert f"cannot use the cluster {id}" in str(clusters.ended_meanwhile("project=shop"))
    clusters.find_cluster.cache_clear()
