"""What the templates of deploy/aws/ promise, read from them; what they do is in test_aws.py."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from conftest import ROOT
from typer.main import get_command

from deploy import templates
from deploy.templates import NAMES, resources, statements, text, words
from icegate.cli.main import app
from icegate.dbt_process import options
from icegate.gate import ledger, staging

WRITERS_GLUE = [
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:GetTable",
    "glue:GetTables",
    "glue:CreateTable",
    "glue:UpdateTable",
    "glue:DeleteTable",
]
# Why a policy may say `*` as its resource.
ANY_RESOURCE = {
    "lake.Key.AccountDecides": "a key's policy speaks of its own key",
    "lake.Key.LogsOfThisLake": "the same",
    "lake.Key.MessagesOfThisAccount": "the same",
    "network.DoorToSts.": "who am I has no resource",
    "serverless.JobRole.FindLogs": "a list of names has none either",
}
CLEARED = {"results/", "logs/"}  # what may be thrown away, of the work bucket alone


def all_statements() -> list[tuple[str, dict[str, Any]]]:
    return [
        found
        for where, resource in resources()
        for found in statements(resource.get("Properties"), where)
    ]


@pytest.fixture(scope="module")
def lake() -> dict[str, Any]:
    return templates.read("lake")["Resources"]


def properties(found: dict[str, Any], name: str) -> dict[str, Any]:
    return found[name]["Properties"]


def test_no_rule_touches_a_live_file_of_a_table(lake: dict[str, Any]) -> None:
    touching = {"ExpirationInDays", "ExpirationDate", "Transition", "Transitions"}
    for rule in properties(lake, "LakeBucket")["LifecycleConfiguration"]["Rules"]:
        assert not touching & set(rule), f"{rule['Id']} deletes or moves files that are in use"
    for rule in properties(lake, "WorkBucket")["LifecycleConfiguration"]["Rules"]:
        if touching & set(rule):
            assert rule["Prefix"] in CLEARED


@pytest.mark.parametrize("name", ["LakeBucket", "WorkBucket"])
def test_a_bucket_keeps_versions_and_is_private(lake: dict[str, Any], name: str) -> None:
    bucket = properties(lake, name)
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    default = rule["ServerSideEncryptionByDefault"]
    assert default["SSEAlgorithm"] == "aws:kms"
    assert default["KMSMasterKeyID"] == {"Fn::GetAtt": ["Key", "Arn"]}
    policy = properties(lake, f"{name}Policy")["PolicyDocument"]
    denied = {s["Sid"]: s for s in policy["Statement"] if s["Effect"] == "Deny"}
    tls = denied["OnlyOverTls"]
    assert (tls["Principal"], tls["Action"]) == ("*", "s3:*")
    assert tls["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert len(tls["Resource"]) == 2, "the bucket, and what is in it"


def test_the_key_is_rotated(lake: dict[str, Any]) -> None:
    key = properties(lake, "Key")
    assert key["EnableKeyRotation"] is True
    assert key["PendingWindowInDays"] == 30


def test_what_holds_data_outlives_its_stack() -> None:
    kept = ("AWS::KMS::Key", "AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::Glue::Database")
    found = list(resources(*kept))
    assert len(found) == 14
    for where, resource in found:
        policies = (resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy"))
        assert policies == ("Retain", "Retain"), where


def test_databases_are_the_schemas_of_the_project() -> None:
    project = yaml.safe_load((ROOT / "dbt_project.yml").read_text())
    schemas = set(re.findall(r"'\+schema': '(\w+)'", str(project)))
    names = [
        resource["Properties"]["DatabaseInput"]["Name"]
        for _, resource in resources("AWS::Glue::Database")
    ]
    expected = [{"Ref": "Schema"}, *({"Fn::Sub": f"${{Schema}}_{name}"} for name in schemas)]
    expected += [ledger.NAMESPACE, staging.NAMESPACE]
    assert sorted(map(text, names)) == sorted(map(text, expected))


def test_no_policy_allows_more_than_it_names() -> None:
    for at, statement in all_statements():
        if statement["Effect"] == "Deny":
            continue
        for action in words(statement["Action"]):
            assert "*" not in action or at == "lake.Key.AccountDecides", f"{at}: {action}"
        if "Resource" in statement and "*" in words(statement["Resource"]):
            assert at in ANY_RESOURCE, f"{at} allows {statement['Action']} on *"
        assert "NotAction" not in statement and "NotResource" not in statement, at


def test_a_service_takes_a_role_for_this_account_only() -> None:
    for where, role in resources("AWS::IAM::Role"):
        for at, statement in statements(role["Properties"]["AssumeRolePolicyDocument"], where):
            service = statement["Principal"].get("Service")
            if service not in (None, "ec2.amazonaws.com"):  # EC2 says nothing of where it's from
                condition = statement["Condition"]
                account = condition["StringEquals"]["aws:SourceAccount"]
                assert account == {"Ref": "AWS::AccountId"}, at
                assert "aws:SourceArn" in text(condition), at


def test_a_role_is_passed_to_one_service() -> None:
    passing = [found for found in all_statements() if "iam:PassRole" in words(found[1]["Action"])]
    assert len(passing) == 2
    for at, statement in passing:
        assert "iam:PassedToService" in statement["Condition"]["StringEquals"], at
        assert "*" not in text(statement["Resource"]), at


def test_the_network_has_no_way_out() -> None:
    ways = {"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::EIP"}
    ways |= {"AWS::EC2::Route", "AWS::EC2::VPCGatewayAttachment", "AWS::EC2::VPCPeeringConnection"}
    ways |= {"AWS::EC2::EgressOnlyInternetGateway", "AWS::EC2::TransitGatewayAttachment"}
    assert not [where for where, _ in resources(*ways)]
    for where, subnet in resources("AWS::EC2::Subnet"):
        assert subnet["Properties"]["MapPublicIpOnLaunch"] is False, where
    for where, group in resources("AWS::EC2::SecurityGroup"):
        told = json.dumps(group["Properties"].get("SecurityGroupIngress", []))
        assert "0.0.0.0" not in told, where


def test_doors_lead_to_what_a_writer_uses_and_no_further() -> None:
    network = templates.read("network")["Resources"]

    def allowed(door: str) -> list[str]:
        policy = network[door]["Properties"]["PolicyDocument"]
        return policy["Statement"][0]["Action"]

    writer = templates.read("lake")["Resources"]["WriterPolicy"]["Properties"]["PolicyDocument"]
    used = {action for s in writer["Statement"] for action in words(s["Action"])}
    assert allowed("DoorToGlue") == WRITERS_GLUE
    assert {action for action in used if action.startswith("glue:")} == set(WRITERS_GLUE)
    assert {action for action in used if action.startswith("s3:")} < set(allowed("DoorToS3"))


def test_a_cluster_and_a_job_have_the_same_catalog() -> None:
    cluster = properties(templates.read("cluster")["Resources"], "Cluster")
    job = properties(templates.read("serverless")["Resources"], "Application")
    (spark,) = [found["Properties"] for found in job["RuntimeConfiguration"]]
    (other,) = [
        found["ConfigurationProperties"]
        for found in cluster["Configurations"]
        if found["Classification"] == "spark-defaults"
    ]
    # On a cluster EMR itself adds its jar, by `iceberg-defaults`.
    assert {key: value for key, value in spark.items() if key != "spark.jars"} == other


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_says_what_it_is_for_and_what_fits(name: str) -> None:
    for key, parameter in templates.read(name)["Parameters"].items():
        assert parameter.get("Description"), key
        if parameter["Type"] == "String":
            assert {"AllowedPattern", "AllowedValues"} & set(parameter), key
        if "AllowedPattern" in parameter:
            assert parameter.get("ConstraintDescription"), f"{key}: else people see a pattern"
            pattern, default = parameter["AllowedPattern"], parameter.get("Default")
            assert default is None or re.fullmatch(pattern, default), key


@pytest.mark.parametrize("name", NAMES)
def test_a_template_has_no_account(name: str) -> None:
    found = re.sub(r"\[0-9\]\{12\}", "", templates.path(name).read_text())
    assert not re.findall(r"(?<!\d)\d{12}(?!\d)", found)
    assert "AKIA" not in found


def states() -> dict[str, Any]:
    daily = templates.read("daily")["Resources"]["Daily"]["Properties"]
    return daily["Definition"]["States"]


def test_jobs_are_commands_with_arguments_that_they_know() -> None:
    words = {}
    for state in ("Build", "Maintain"):
        submit = states()[state]["Parameters"]["JobDriver"]["SparkSubmit"]
        assert submit["EntryPoint"] == "${App}/job.py"
        words[state] = submit["EntryPointArguments"]
    assert words["Build"][:2] == ["dbt", "build"] and words["Maintain"][0] == "icegate"
    known = options(words["Build"][2:])
    assert (known.project_dir, known.profiles_dir, known.target) == (
        "project",
        "project",
        "${Target}",
    )
    maintain = get_command(app).commands["maintain"]  # type: ignore[attr-defined]
    given = maintain.make_context("maintain", words["Maintain"][2:]).params
    assert (str(given["project_dir"]), given["wanted"]) == ("project", "${Target}")


def test_a_failed_job_is_not_tried_again() -> None:
    """`States.TaskFailed` is a job that failed, and what `States.ALL` and it stand for too."""
    for state in ("Build", "Maintain"):
        tried = {name for retry in states()[state]["Retry"] for name in retry["ErrorEquals"]}
        assert not tried & {"States.ALL", "States.TaskFailed", "States.Timeout"}
        assert all(name.lower().startswith("emrserverless.") for name in tried)


def test_nothing_runs_by_itself_before_somebody_says_so() -> None:
    parameters = templates.read("daily")["Parameters"]
    assert parameters["ScheduleState"]["Default"] == "DISABLED"
    profiles = yaml.safe_load((ROOT / "profiles" / "profiles.yml").read_text())
    target = profiles["icegate"]["outputs"][parameters["Target"]["Default"]]
    assert (target["master"], target["catalog_type"]) == ("submitted", "glue")
