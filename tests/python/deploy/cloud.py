"""A server on this machine that stands for AWS, with the stacks of deploy/aws/ on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
from botocore.config import Config
from trust.receivers import free_port

from deploy import templates
from deploy.environments import installed
from deploy.scheduled import wait_until

REQUIREMENTS = templates.FOLDER / "requirements.txt"
ACCOUNT, REGION = "123456789012", "eu-central-1"
# What this server doesn't have, and so nothing here proves: cfn-lint knows their properties, and
# that's all. `test_what_is_not_proved_is_known` fails once it has one of them.
NOT_SERVED = {
    "AWS::Budgets::Budget",
    "AWS::EMR::Cluster",
    "AWS::EMR::SecurityConfiguration",
    "AWS::EMR::Step",
    "AWS::EMRServerless::Application",
}
# Properties of what it does have that it doesn't keep, or doesn't tell. `test_aws_templates.py`
# reads them in the templates.
NOT_TOLD = {
    "AWS::S3::Bucket": {"BucketEncryption", "LifecycleConfiguration"},
    "AWS::EC2::VPCEndpoint": {"PolicyDocument"},
}
# What other resources ask of those.
STAND_INS = {
    "Application": "00f1",
    "Application.ApplicationId": "00f1",
    "Application.Arn": f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:/applications/00f1",
    "Cluster": "j-1",
    "Security": "security",
}
PARAMETERS = {
    "lake": {"ReaderPrincipal": f"arn:aws:iam::{ACCOUNT}:role/analysts"},
    "network": {"ForCluster": "true"},
    "cluster": {"ClientGroup": "sg-0123456789abcdef0"},
    "daily": {"Mail": "data@example.com", "MonthlyBudget": "100"},
}


class Refused(Exception):
    """A stack that wasn't made, with what CloudFormation says of it."""


class Cloud:
    """What is at one address: clients by the name of their service."""

    def __init__(self, url: str, key: tuple[str, str] = (ACCOUNT, "a secret")) -> None:
        self.url, self.session = url, boto3.Session(*key, region_name=REGION)

    def client(self, service: str) -> Any:
        # Its certificate is its own, and no proxy leads to this machine.
        config = Config(proxies={})
        return self.session.client(service, endpoint_url=self.url, verify=False, config=config)

    def user(self, name: str, policy: str) -> Cloud:
        """Make a user who has one policy and nothing else, and return the cloud as theirs."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        iam.attach_user_policy(UserName=name, PolicyArn=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return Cloud(self.url, (key["AccessKeyId"], key["SecretAccessKey"]))

    def is_up(self) -> bool:
        try:
            return bool(self.client("sts").get_caller_identity())
        except botocore.exceptions.BotoCoreError:
            return False

    def deploy(self, name: str, **parameters: str) -> dict[str, str]:
        """Deploy a template as far as it's served, and return the stack's outputs."""
        template = templates.without(templates.read(name), NOT_SERVED, STAND_INS)
        return self.create(f"icegate-{name}", template, **(PARAMETERS.get(name, {}) | parameters))

    def create(self, stack: str, template: dict[str, Any], **parameters: str) -> dict[str, str]:
        """Make a stack; raise ``Refused`` where CloudFormation doesn't."""
        formation = self.client("cloudformation")
        given = [{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()]
        try:
            formation.create_stack(
                StackName=stack,
                TemplateBody=json.dumps(template),
                Parameters=given,
                Capabilities=["CAPABILITY_IAM"],
            )
        except botocore.exceptions.ClientError as error:
            raise Refused(error.response["Error"]["Message"]) from error
        wait_until(lambda: not self.stack(stack)["StackStatus"].endswith("IN_PROGRESS"))
        made = self.stack(stack)
        if made["StackStatus"] != "CREATE_COMPLETE":
            events = formation.describe_stack_events(StackName=stack)["StackEvents"]
            raise Refused("; ".join(e.get("ResourceStatusReason", "") for e in events))
        return {o["OutputKey"]: o["OutputValue"] for o in made.get("Outputs", [])}

    def delete(self, stack: str) -> str:
        """Delete a stack, and return what became of it; raise ``Refused`` where it isn't begun."""
        formation = self.client("cloudformation")
        found = self.stack(stack)["StackId"]  # by its name, one that is gone isn't found
        try:
            formation.delete_stack(StackName=stack)
        except botocore.exceptions.ClientError as error:
            raise Refused(error.response["Error"]["Message"]) from error
        wait_until(lambda: "DELETE_" in self.stack(found)["StackStatus"])
        wait_until(lambda: not self.stack(found)["StackStatus"].endswith("IN_PROGRESS"))
        return self.stack(found)["StackStatus"]

    def stack(self, name: str) -> dict[str, Any]:
        return self.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]

    def physical(self, stack: str) -> dict[str, str]:
        """Return the ids of what a stack made, by the names in its template."""
        found = self.client("cloudformation").describe_stack_resources(StackName=stack)
        return {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in found["StackResources"]}


@contextmanager
def running(folder: Path, *, tls: bool = False, **environ: str) -> Iterator[Cloud]:
    """Have such a server, on this machine only and without anything that it keeps."""
    port = free_port()
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    given = {"BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)}
    given |= {"MINISTACK_REGION": REGION, "USE_SSL": str(int(tls)), "TMPDIR": str(folder)}
    with (folder / "cloud.log").open("w") as log:
        server = subprocess.Popen(
            [installed("aws", REQUIREMENTS) / "ministack"],
            env=own | given | environ,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            cloud = Cloud(f"{'https' if tls else 'http'}://127.0.0.1:{port}")
            wait_until(cloud.is_up)
            yield cloud
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
