"""The daily run as jobs of EMR Serverless: build → maintain, deferred while a job runs.

It's there where Airflow's environment has `ICEGATE_APPLICATION`, the application's id, and Airflow
has Amazon's provider: `requirements-emr.txt`. Then it needs `ICEGATE_JOB_ROLE`, the ARN of the
jobs' role; `ICEGATE_APP_FOLDER`, which `icegate submit --only-upload` prints, such as
`s3://…/app/47ed34f541c8`; `ICEGATE_WAREHOUSE` and `ICEGATE_SCHEMA` as the target
`emr_serverless` asks for them; and `ICEGATE_JOB_PYTHON`, if that isn't `/usr/bin/python3.11`.
What a job prints is in its task's log once it ended; AWS's connection may read it there.
"""

from __future__ import annotations

import os
import time
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from icegate_tasks import LAST_LINES, SHARED, due

APPLICATION = os.environ.get("ICEGATE_APPLICATION")
WHERE = "--project-dir project --profiles-dir project --target emr_serverless"
PATH = "./environment:./project:./project/python_jobs"
RUN = "job_run_id"
LAST_LINE = "icegate: exit code"
LATE_S, LOOKS = 5, 5  # how long lines are waited for after a job's end


def needed(name: str) -> str:
    """Return a variable; without it the DAG can't be read, and Airflow shows why."""
    if not os.environ.get(name):
        raise RuntimeError(f"ICEGATE_APPLICATION is set, and {name} isn't: docs/deploy.md")
    return os.environ[name]


def submitted(command: str) -> dict[str, Any]:
    """Return what `icegate submit` gives a job for a command: `test_airflow_emr.py` compares."""
    folder, python = needed("ICEGATE_APP_FOLDER"), os.environ.get("ICEGATE_JOB_PYTHON")
    python = python or "/usr/bin/python3.11"
    archives = ",".join(f"{folder}/{name}.tar.gz#{name}" for name in ("environment", "project"))
    driver = {"PYSPARK_DRIVER_PYTHON": python, "PYSPARK_PYTHON": python, "PYTHONPATH": PATH}
    driver |= {"DBT_TARGET_PATH": "/tmp/target", "DBT_LOG_PATH": "/tmp/logs"}
    driver |= {"ICEGATE_HOME": "/tmp/icegate", "ICEGATE_WAREHOUSE": needed("ICEGATE_WAREHOUSE")}
    driver |= {"ICEGATE_SCHEMA": needed("ICEGATE_SCHEMA")}
    conf = {"spark.archives": archives, "spark.executorEnv.PYSPARK_PYTHON": python}
    conf |= {"spark.executorEnv.PYTHONPATH": PATH}
    conf |= {f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()}
    return {
        "sparkSubmit": {
            "entryPoint": f"{folder}/job.py",
            "entryPointArguments": [*command.split(), *WHERE.split()],
            "sparkSubmitParameters": " ".join(f"--conf {k}={v}" for k, v in conf.items()),
        }
    }


def printed(emr: Any, logs: Any, run: str) -> list[str]:
    """Return the lines that a job's driver printed, of CloudWatch; the first two are hooks."""
    told = emr.conn.get_application(applicationId=APPLICATION)["application"]
    cloud = told.get("monitoringConfiguration", {}).get("cloudWatchLoggingConfiguration", {})
    if not cloud.get("enabled"):
        return [f"the application {APPLICATION} keeps nothing in CloudWatch"]
    group, lines = cloud.get("logGroupName") or "/aws/emr-serverless", []
    for _ in range(LOOKS):
        for stream in streams(logs.conn, group, run):
            lines = [event["message"].rstrip("\n") for event in logs.get_log_events(group, stream)]
        if any(line.startswith(LAST_LINE) for line in lines):
            break
        time.sleep(LATE_S)
    return lines


def streams(client: Any, group: str, run: str) -> list[str]:
    """Return where a log group has what a job's driver printed: once, or not at all yet."""
    found: list[str] = []
    for begin in ("", "/"):
        below = f"{begin}applications/{APPLICATION}/jobs/{run}/"
        told = client.describe_log_streams(logGroupName=group, logStreamNamePrefix=below)
        found += [stream["logStreamName"] for stream in told["logStreams"]]
    return [name for name in found if name.endswith("DRIVER/stdout")]


if APPLICATION:
    from airflow.providers.amazon.aws.hooks.logs import AwsLogsHook
    from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
    from airflow.providers.standard.operators.empty import EmptyOperator

    class Job(EmrServerlessStartJobOperator):
        """A job, with what its driver printed in the task's log, however it ended."""

        def execute(self, context: Any, event: Any = None) -> Any:
            try:
                return super().execute(context, event)
            except TaskDeferred:  # what goes on after the job is another object
                context["ti"].xcom_push(RUN, self.job_id)
                raise

        def resume_execution(self, next_method: str, next_kwargs: Any, context: Any) -> Any:
            run = context["ti"].xcom_pull(task_ids=self.task_id, key=RUN)
            lines = self.printed(run) if run else []
            for line in lines:
                self.log.info("%s", line)
            try:
                return super().resume_execution(next_method, next_kwargs, context)
            except AirflowException as error:
                last = "\n".join(lines[-LAST_LINES:])
                raise AirflowFailException(f"the job {run} failed: {error}\n{last}") from error

        def printed(self, run: str) -> list[str]:
            try:
                return printed(self.hook, AwsLogsHook(aws_conn_id=self.aws_conn_id), run)
            except Exception as error:  # it mustn't hide how the job ended
                return [f"what the job printed can't be read: {error}"]

    with DAG(
        "icegate_emr_serverless",
        description="Builds, tests and publishes the lakehouse by jobs of EMR Serverless.",
        schedule=due(by_jobs=True),
        default_args={
            # The same rows fail the same tests; what is over in a moment, AWS's client tries again.
            "retries": 0,
            "application_id": APPLICATION,
            "execution_role_arn": needed("ICEGATE_JOB_ROLE"),
            "deferrable": True,  # a job takes an hour, and no worker waits for it
            "waiter_delay": int(os.environ.get("ICEGATE_LOOK_EVERY_S", "60")),
            "waiter_max_attempts": 24 * 60,
        },
        doc_md=__doc__,
        **SHARED,
    ) as dag:
        build = Job(task_id="build", name="build", job_driver=submitted("dbt build"))
        # What is published stays quick, whatever became of the build; the run's state is `built`'s.
        build >> Job(
            task_id="maintain",
            name="maintain",
            job_driver=submitted("icegate maintain"),
            trigger_rule="all_done",
        )
        build >> EmptyOperator(task_id="built")
