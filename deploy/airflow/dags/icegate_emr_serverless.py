"""The daily run as jobs of EMR Serverless: build → maintain, deferred while a job runs.

It's there where Airflow's environment has `ICEGATE_APPLICATION`, the application's id, and Airflow
has Amazon's provider: `requirements-emr.txt`. Then it needs `ICEGATE_JOB_ROLE`, the ARN of the
jobs' role; `ICEGATE_APP_FOLDER`, which `icegate submit --only-upload` prints, such as
`s3://…/app/47ed34f541c8`; `ICEGATE_WAREHOUSE` and `ICEGATE_SCHEMA` as the target
`emr_serverless` asks for them; and `ICEGATE_JOB_PYTHON`, if that isn't `/usr/bin/python3.11`.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG
from icegate_tasks import SHARED

APPLICATION = os.environ.get("ICEGATE_APPLICATION")
WHERE = "--project-dir project --profiles-dir project --target emr_serverless"
PATH = "./environment:./project:./project/python_jobs"


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


if APPLICATION:
    from airflow.providers.amazon.aws.operators.emr import EmrServerlessStartJobOperator
    from airflow.providers.standard.operators.empty import EmptyOperator

    with DAG(
        "icegate_emr_serverless",
        description="Builds, tests and publishes the lakehouse by jobs of EMR Serverless.",
        schedule=os.environ.get("ICEGATE_SCHEDULE", "0 5 * * *") or None,
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
        build = EmrServerlessStartJobOperator(
            task_id="build", name="build", job_driver=submitted("dbt build")
        )
        # What is published stays quick, whatever became of the build; the run's state is `built`'s.
        build >> EmrServerlessStartJobOperator(
            task_id="maintain",
            name="maintain",
            job_driver=submitted("icegate maintain"),
            trigger_rule="all_done",
        )
        build >> EmptyOperator(task_id="built")
