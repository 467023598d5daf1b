"""The daily run of deploy/aws/daily.yml, on good days and bad ones.

A state machine that runs for real, but for its jobs: the server has no EMR, so what became of a job
it's told, in the form of Step Functions Local.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.cloud import ACCOUNT, REGION, STAND_INS, Cloud, running
from deploy.scheduled import wait_until
from icegate.emr.submit import Call, spark_submit

pytestmark = pytest.mark.long

NAME = "icegate-daily"
ENDED = {"Return": {"State": "SUCCESS"}}
FAILED = {"Throw": {"Error": "States.TaskFailed", "Cause": "customer 4711 has no name"}}
BUSY = {"Throw": {"Error": "EMRServerless.InternalServerException", "Cause": "try again"}}
# The server gives one answer to all tries of a state.
ANSWERS = {"ended": {"0": ENDED}, "failed": {"0": FAILED}, "busy": {"0": BUSY}}
DAYS = {
    "Good": {"Build": "ended", "Maintain": "ended"},
    "Bad": {"Build": "failed", "Maintain": "ended"},
    "Untidy": {"Build": "ended", "Maintain": "failed"},
    "Busy": {"Build": "busy", "Maintain": "busy"},
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")
    told = folder / "jobs.json"
    machines = {NAME: {"TestCases": DAYS}}
    told.write_text(json.dumps({"StateMachines": machines, "MockedResponses": ANSWERS}))
    # Without waiting between tries.
    with running(folder, SFN_MOCK_CONFIG=str(told), SFN_WAIT_SCALE="0") as found:
        for name in ("lake", "network", "serverless", "daily"):
            found.deploy(name)
        yield found


@pytest.fixture(scope="module")
def inbox(cloud: Cloud) -> str:
    """Return a queue that gets what people are told."""
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    topic = cloud.physical("icegate-daily")["Topic"]
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:inbox"
    cloud.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    return url


def run(cloud: Cloud, day: str) -> dict[str, Any]:
    """Run it on a day of some kind, to its end."""
    machine, steps = cloud.physical("icegate-daily")["Daily"], cloud.client("stepfunctions")
    started = steps.start_execution(stateMachineArn=f"{machine}#{day}", input="{}")
    arn = started["executionArn"]
    wait_until(lambda: steps.describe_execution(executionArn=arn)["status"] != "RUNNING")
    return steps.describe_execution(executionArn=arn)


def events(cloud: Cloud, execution: dict[str, Any]) -> list[dict[str, Any]]:
    steps, arn = cloud.client("stepfunctions"), execution["executionArn"]
    return steps.get_execution_history(executionArn=arn, maxResults=1000)["events"]


def entered(cloud: Cloud, execution: dict[str, Any]) -> list[str]:
    """Return the states that a run went through."""
    details = (event.get("stateEnteredEventDetails") for event in events(cloud, execution))
    return [found["name"] for found in details if found]


def messages(cloud: Cloud, inbox: str) -> list[dict[str, str]]:
    """Take what people were told since the last time."""
    sqs = cloud.client("sqs")
    found = sqs.receive_message(QueueUrl=inbox, MaxNumberOfMessages=10).get("Messages", [])
    for message in found:
        sqs.delete_message(QueueUrl=inbox, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"]) for message in found]


def test_a_good_day_builds_maintains_and_tells_nobody(cloud: Cloud, inbox: str) -> None:
    done = run(cloud, "Good")
    assert done["status"] == "SUCCEEDED"
    assert entered(cloud, done) == ["Build", "Maintain", "WhatFailed", "Done"]
    assert messages(cloud, inbox) == []


@pytest.mark.parametrize(("day", "tries"), [("Bad", 1), ("Busy", 5)])
def test_only_what_may_be_over_soon_is_tried_again(
    cloud: Cloud, inbox: str, day: str, tries: int
) -> None:
    begun = [event["type"] for event in events(cloud, run(cloud, day))]
    messages(cloud, inbox)
    assert begun[: begun.index("TaskStateExited")].count("TaskScheduled") == tries


@pytest.mark.parametrize(
    ("day", "what"), [("Bad", "build"), ("Untidy", "maintain"), ("Busy", "build")]
)
def test_a_bad_day_is_told_and_is_a_failed_run(
    cloud: Cloud, inbox: str, day: str, what: str
) -> None:
    done = run(cloud, day)
    assert (done["status"], done["error"]) == ("FAILED", "DailyRunFailed")
    states = entered(cloud, done)
    assert states[:3] == ["Build", "Maintain", "WhatFailed"], "what is published is maintained"
    assert states[-2:] == ["Tell", "Failed"]
    (told,) = messages(cloud, inbox)
    assert told["Subject"] == f"Icegate: {what} failed"
    assert done["executionArn"] in told["Message"]
    assert "4711" not in told["Message"], "values of rows stay where they are"


def test_the_job_is_what_the_templates_say(cloud: Cloud) -> None:
    machine = cloud.physical("icegate-daily")["Daily"]
    steps = cloud.client("stepfunctions")
    found = steps.describe_state_machine(stateMachineArn=machine)
    job = json.loads(found["definition"])["States"]["Build"]["Parameters"]
    assert job["ApplicationId"] == STAND_INS["Application"]
    assert job["ExecutionTimeoutMinutes.$"] == "States.StringToJson('240')"
    app = f"s3://icegate-work-{ACCOUNT}-{REGION}/app/current"
    submit = job["JobDriver"]["SparkSubmit"]
    # Both as `icegate submit` says them.
    lake = {"ICEGATE_WAREHOUSE": f"s3://icegate-lake-{ACCOUNT}-{REGION}/tables"}
    lake["ICEGATE_SCHEMA"] = "icegate_lake"
    where = "--project-dir project --profiles-dir project --target emr_serverless"
    words = ["dbt", "build", *where.split()]
    known = spark_submit(Call(app, words, lake, "/usr/bin/python3.11"))
    assert submit["EntryPoint"] == known["entryPoint"]
    assert submit["EntryPointArguments"] == known["entryPointArguments"]
    given = submit["SparkSubmitParameters"].split("--conf ")
    wanted = known["sparkSubmitParameters"].split("--conf ")
    assert {*map(str.strip, given)} == {*map(str.strip, wanted)}
    assert "${" not in found["definition"], "everything has been filled in"
    role = cloud.client("iam").get_role(RoleName=found["roleArn"].rpartition("/")[2])["Role"]
    trust = json.dumps(role["AssumeRolePolicyDocument"])
    assert f":stateMachine:{NAME}" in trust and ACCOUNT in trust


def test_it_runs_when_somebody_says_so(cloud: Cloud) -> None:
    scheduler = cloud.client("scheduler")
    found = scheduler.get_schedule(Name=cloud.physical("icegate-daily")["EachDay"])
    assert (found["State"], found["ScheduleExpression"]) == ("DISABLED", "cron(0 5 * * ? *)")
    assert found["Target"]["Arn"] == cloud.physical("icegate-daily")["Daily"]


def test_alarms_tell_of_a_run_that_could_not(cloud: Cloud) -> None:
    made = cloud.physical("icegate-daily")
    alarms = cloud.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert {alarm["MetricName"] for alarm in alarms} == {
        "ExecutionsFailed",
        "ExecutionsTimedOut",
        "ExecutionsSucceeded",
    }
    for alarm in alarms:
        assert alarm["AlarmActions"] == [made["Topic"]]
        assert {d["Value"] for d in alarm["Dimensions"]} == {made["Daily"]}
    silence = next(a for a in alarms if a["MetricName"] == "ExecutionsSucceeded")
    assert silence["TreatMissingData"] == "breaching"
    assert silence["ActionsEnabled"] is False, "nothing is expected of what isn't scheduled"


def test_once_it_is_scheduled_silence_is_told(tmp_path: Path) -> None:
    with running(tmp_path) as cloud:
        for name in ("lake", "network", "serverless"):
            cloud.deploy(name)
        cloud.deploy("daily", ScheduleState="ENABLED")
        alarms = cloud.client("cloudwatch").describe_alarms()["MetricAlarms"]
        assert all(alarm["ActionsEnabled"] for alarm in alarms)
        made = cloud.physical("icegate-daily")["EachDay"]
        assert cloud.client("scheduler").get_schedule(Name=made)["State"] == "ENABLED"
