"""The stacks of deploy/aws/ on a server that stands for AWS, and read back from it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deploy import templates
from deploy.cloud import (
    ACCOUNT,
    NOT_SERVED,
    NOT_TOLD,
    REGION,
    REQUIREMENTS,
    Cloud,
    Refused,
    running,
)
from deploy.environments import installed
from deploy.templates import NAMES

pytestmark = pytest.mark.long

LAKE, WORK = f"icegate-lake-{ACCOUNT}-{REGION}", f"icegate-work-{ACCOUNT}-{REGION}"
# To pass a role is to give rights, and the linter says so each time: each of these passes one role,
# to one service. A grant on the key is for EC2's disks only.
GIVING = {
    "cluster.ServiceRole.machines": [["iam:passrole", "kms:creategrant"]],
    "daily.DailyRole.daily": [["iam:passrole"]],
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with running(tmp_path_factory.mktemp("cloud")) as found:
        for name in NAMES:
            found.deploy(name)
        yield found


def lint(*files: Path) -> subprocess.CompletedProcess[str]:
    program = installed("aws", REQUIREMENTS) / "cfn-lint"
    return subprocess.run([program, *files], capture_output=True, text=True, check=False)


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    done = lint(*(templates.path(name) for name in NAMES))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    broken = tmp_path / "broken.yml"
    mistaken = templates.path("serverless").read_text().replace("MaxConcurrentRuns", "MaxRuns")
    broken.write_text(mistaken)
    assert "MaxRuns" in lint(broken).stdout


def test_what_is_not_proved_is_known(cloud: Cloud) -> None:
    """The list of what isn't served is what it says: no more, and no less."""
    used = {resource["Type"] for _, resource in templates.resources()}
    assert used >= NOT_SERVED
    for kind in sorted(NOT_SERVED):
        with pytest.raises(Refused, match=f"Unrecognized resource types.*{kind}"):
            cloud.create("one", {"Resources": {"One": {"Type": kind, "Properties": {}}}})


def test_what_is_not_told_is_known(cloud: Cloud) -> None:
    s3, ec2 = cloud.client("s3"), cloud.client("ec2")
    told = set()
    (rule,) = s3.get_bucket_encryption(Bucket=LAKE)["ServerSideEncryptionConfiguration"]["Rules"]
    if rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms":
        told.add("BucketEncryption")
    with suppress(s3.exceptions.ClientError):
        s3.get_bucket_lifecycle_configuration(Bucket=LAKE)
        told.add("LifecycleConfiguration")
    doors = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    told |= {"PolicyDocument" for door in doors if "PolicyDocument" in door}
    assert told == set(), f"{told} can be read back by now: take it from NOT_TOLD, and test it"
    used = [(r["Type"], set(r["Properties"])) for _, r in templates.resources(*NOT_TOLD)]
    assert {kind for kind, names in used if names & NOT_TOLD[kind]} == set(NOT_TOLD)


def test_every_other_resource_is_made(cloud: Cloud) -> None:
    for name in NAMES:
        template = templates.read(name)["Resources"]
        expected = {key for key, found in template.items() if found["Type"] not in NOT_SERVED}
        assert set(cloud.physical(f"icegate-{name}")) == expected


@pytest.mark.parametrize("bucket", [LAKE, WORK])
def test_buckets_keep_versions_and_are_private(cloud: Cloud, bucket: str) -> None:
    s3 = cloud.client("s3")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    blocked = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    tls = next(s for s in policy["Statement"] if s["Sid"] == "OnlyOverTls")
    assert tls["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]


def test_the_key_is_rotated_and_stays(cloud: Cloud) -> None:
    kms, key = cloud.client("kms"), cloud.physical("icegate-lake")["Key"]
    assert kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    policy = json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    logs = next(s for s in policy["Statement"] if s["Sid"] == "LogsOfThisLake")
    assert f":{ACCOUNT}:log-group:/icegate/" in json.dumps(logs["Condition"])
    (group,) = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/icegate")["logGroups"]
    assert (group["retentionInDays"], group["kmsKeyId"].endswith(key)) == (30, True)


def test_a_deleted_file_can_be_had_back(cloud: Cloud) -> None:
    s3 = cloud.client("s3")
    first = s3.put_object(Bucket=LAKE, Key="tables/x/data.parquet", Body=b"rows")["VersionId"]
    s3.delete_object(Bucket=LAKE, Key="tables/x/data.parquet")
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=LAKE, Key="tables/x/data.parquet")
    kept = s3.get_object(Bucket=LAKE, Key="tables/x/data.parquet", VersionId=first)
    assert kept["Body"].read() == b"rows"


def test_databases_and_the_workgroup(cloud: Cloud) -> None:
    databases = cloud.client("glue").get_databases()["DatabaseList"]
    places = {found["Name"]: found["LocationUri"] for found in databases}
    assert places["icegate_lake_gold"] == f"s3://{LAKE}/tables/icegate_lake_gold"
    assert len([name for name in places if name.startswith("icegate_lake")]) == 7
    found = cloud.client("athena").get_work_group(WorkGroup="icegate-readers")["WorkGroup"]
    settings = found["Configuration"]
    assert settings["EnforceWorkGroupConfiguration"]
    result = settings["ResultConfiguration"]
    assert result["OutputLocation"] == f"s3://{WORK}/results/"
    assert result["EncryptionConfiguration"]["EncryptionOption"] == "SSE_KMS"
    assert int(settings["BytesScannedCutoffPerQuery"]) == 1024**4


def test_the_network_leads_nowhere_else(cloud: Cloud) -> None:
    ec2, made = cloud.client("ec2"), cloud.physical("icegate-network")
    mine = [{"Name": "vpc-id", "Values": [made["Network"]]}]
    attached = [{"Name": "attachment.vpc-id", "Values": [made["Network"]]}]
    assert ec2.describe_internet_gateways(Filters=attached)["InternetGateways"] == []
    assert ec2.describe_nat_gateways(Filter=mine)["NatGateways"] == []
    for table in ec2.describe_route_tables(Filters=mine)["RouteTables"]:
        assert "0.0.0.0/0" not in json.dumps(table["Routes"])
    subnets = ec2.describe_subnets(Filters=mine)["Subnets"]
    assert sorted(s["CidrBlock"] for s in subnets) == ["10.42.0.0/24", "10.42.1.0/24"]
    doors = ec2.describe_vpc_endpoints(Filters=mine)["VpcEndpoints"]
    services = {door["ServiceName"].rpartition(".")[2]: door for door in doors}
    assert set(services) == {"s3", "glue", "logs", "sts", "kms", "elasticmapreduce"}
    assert services["s3"]["VpcEndpointType"] == "Gateway"


def deployed_policies(cloud: Cloud) -> dict[str, dict[str, Any]]:
    """Return all policies of principals as IAM has them, by where they are from."""
    iam, found = cloud.client("iam"), {}
    for name in NAMES:
        for logical, resource in templates.read(name)["Resources"].items():
            made = cloud.physical(f"icegate-{name}").get(logical)
            if resource["Type"] == "AWS::IAM::ManagedPolicy":
                version = iam.get_policy(PolicyArn=made)["Policy"]["DefaultVersionId"]
                policy = iam.get_policy_version(PolicyArn=made, VersionId=version)
                found[f"{name}.{logical}"] = policy["PolicyVersion"]["Document"]
            elif resource["Type"] == "AWS::IAM::Role":
                for inline in iam.list_role_policies(RoleName=made)["PolicyNames"]:
                    policy = iam.get_role_policy(RoleName=made, PolicyName=inline)
                    found[f"{name}.{logical}.{inline}"] = policy["PolicyDocument"]
    return found


def parliament(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what parliament finds in a policy."""
    program = installed("aws", REQUIREMENTS) / "parliament"
    command = [program, "--json", "--include-community-auditors", "--string", json.dumps(policy)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [json.loads(line) for line in said.splitlines()]


def test_the_linter_of_iam_finds_nothing(cloud: Cloud) -> None:
    policies = deployed_policies(cloud)
    assert len(policies) == 7
    found = {name: parliament(policy) for name, policy in policies.items()}
    managing = {
        name: [sorted(issue["location"]["actions"]) for issue in issues]
        for name, issues in found.items()
        if {issue["issue"] for issue in issues} == {"PERMISSIONS_MANAGEMENT_ACTIONS"}
    }
    assert {name for name, issues in found.items() if issues} == set(managing), found
    assert managing == GIVING
    mistaken = json.dumps(policies["lake.WriterPolicy"]).replace("UpdateTable", "ChangeTable")
    assert [found["issue"] for found in parliament(json.loads(mistaken))] == ["UNKNOWN_ACTION"]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "says"),
    [
        ("lake", "Project", "Bad_Name", "3 to 20 small letters"),
        ("lake", "ReaderPrincipal", "analysts", "the whole ARN"),
        ("serverless", "Release", "emr-6.15.0", "older ones have an Iceberg without format 3"),
        ("daily", "Mail", "nobody", "one address"),
        ("network", "Cidr", "10.42.0.0/24", "between /16 and /22"),
    ],
)
def test_a_wrong_parameter_is_told_what_fits(
    cloud: Cloud, name: str, parameter: str, value: str, says: str
) -> None:
    template = templates.read(name)
    kinds = {"Resources": {"One": {"Type": "AWS::SNS::Topic"}}, "Outputs": {}, "Conditions": {}}
    given = {"Mail": "data@example.com", "MonthlyBudget": "1"} if name == "daily" else {}
    with pytest.raises(Refused, match=re.escape(says)):
        cloud.create("wrong", {**template, **kinds}, **(given | {parameter: value}))


def test_without_a_reader_or_a_cluster_nothing_is_made_for_them(tmp_path: Path) -> None:
    with running(tmp_path) as cloud:
        assert "ReaderRole" not in cloud.deploy("lake", ReaderPrincipal="")
        cloud.deploy("network", ForCluster="false")
        made = cloud.physical("icegate-network")
        assert {"DoorToS3", "DoorToGlue"} < set(made)
        assert not {"DoorToKms", "DoorToEmr"} & set(made)


def test_what_holds_data_stays_when_its_stack_goes(tmp_path: Path) -> None:
    with running(tmp_path) as cloud:
        cloud.deploy("lake")
        assert cloud.delete("icegate-lake") == "DELETE_COMPLETE"
        s3 = cloud.client("s3")
        assert {b["Name"] for b in s3.list_buckets()["Buckets"]} == {LAKE, WORK}
        assert "OnlyOverTls" in s3.get_bucket_policy(Bucket=LAKE)["Policy"]
        assert len(cloud.client("glue").get_databases()["DatabaseList"]) >= 7
        with pytest.raises(Refused):  # buckets of these names are there
            cloud.create("again", templates.read("lake"))


def test_a_stack_that_is_used_cannot_go(tmp_path: Path) -> None:
    with running(tmp_path) as cloud:
        cloud.deploy("lake")
        cloud.deploy("network")
        with pytest.raises(Refused, match="is imported by stack icegate-network"):
            cloud.delete("icegate-lake")
        assert cloud.stack("icegate-lake")["StackStatus"] == "CREATE_COMPLETE"
        for stack in ("icegate-network", "icegate-lake"):
            assert cloud.delete(stack) == "DELETE_COMPLETE"
