"""The daily run with a task for each model and its tests, by Cosmos.

All tasks write to the branches of one release. A failed test is a failed task, and what reads its
model isn't built; readers get what passed, by the target's `gate_scope`. Cosmos takes the models
from `target/manifest.json`: after a change of the project, `dbt parse`.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone

import yaml
from airflow.sdk import DAG, Param
from cosmos import DbtTaskGroup, ExecutionConfig, ProfileConfig, ProjectConfig, RenderConfig
from cosmos.constants import InvocationMode, LoadMode, TestBehavior
from icegate_tasks import BIN, PROJECT, RELEASE, IcegateOperator, IcegateWait, settings

# Cosmos runs dbt in copies of the project: what is relative to it has to be told.
HOME = os.environ.get("ICEGATE_HOME") or str(PROJECT / ".icegate")
LANDING = os.environ.get("ICEGATE_LANDING") or str(PROJECT / "landing")

with DAG(
    "icegate_models",
    description="Builds, tests and publishes the lakehouse, with a task for each model.",
    schedule=None,  # one of the two DAGs has the schedule
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    max_active_tasks=2,  # each is a dbt with a Spark; with `method: connect` they share one: more
    params={"day": Param(None, type=["null", "string"], format="date", title="Day of the files")},
    default_args={"retries": 0, "retry_delay": timedelta(minutes=5)},
    doc_md=__doc__,
) as dag:
    wait = IcegateWait(task_id="wait", poke_interval=60, timeout=timedelta(hours=4))
    models = DbtTaskGroup(
        group_id="models",
        project_config=ProjectConfig(
            dbt_project_path=PROJECT, manifest_path=PROJECT / "target" / "manifest.json"
        ),
        profile_config=ProfileConfig(
            profile_name=yaml.safe_load((PROJECT / "dbt_project.yml").read_text())["profile"],
            target_name=os.environ.get("DBT_TARGET", "local"),
            profiles_yml_filepath=PROJECT / "profiles.yml",
        ),
        execution_config=ExecutionConfig(
            dbt_executable_path=BIN / "dbt", invocation_mode=InvocationMode.SUBPROCESS
        ),
        render_config=RenderConfig(
            load_method=LoadMode.DBT_MANIFEST, test_behavior=TestBehavior.AFTER_EACH
        ),
        operator_args={
            "install_deps": False,
            "append_env": True,
            "callback": "icegate_tasks.say_why",
            "env": settings(RELEASE) | {"ICEGATE_HOME": HOME, "ICEGATE_LANDING": LANDING},
        },
    )
    publish = IcegateOperator(
        task_id="publish",
        command=["icegate", "release", "publish", RELEASE],
        trigger_rule="all_done_min_one_success",
        retries=0,
    )
    report = IcegateOperator(
        task_id="report", command=["icegate", "report"], trigger_rule="all_done"
    )
    maintain = IcegateOperator(task_id="maintain", command=["icegate", "maintain"])

    wait >> models >> publish >> [report, maintain]
    wait >> publish
