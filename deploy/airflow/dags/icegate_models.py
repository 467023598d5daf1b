"""The daily run with a task for each model and its tests, by Cosmos.

All tasks write to the branches of one release. A failed test is a failed task, and what reads its
model isn't built; readers get what passed, by the target's `gate_scope`. Cosmos takes the models
from `target/manifest.json`: after a change of the project, `dbt parse`.
"""

from __future__ import annotations

import os

import yaml
from airflow.sdk import DAG
from cosmos import DbtTaskGroup, ExecutionConfig, ProfileConfig, ProjectConfig, RenderConfig
from cosmos.constants import InvocationMode, LoadMode, TestBehavior
from icegate_tasks import BIN, PROJECT, RELEASE, SHARED, IcegateWait, end, settings

# Cosmos runs dbt in copies of the project: what is relative to it has to be told.
HOME = os.environ.get("ICEGATE_HOME") or str(PROJECT / ".icegate")
LANDING = os.environ.get("ICEGATE_LANDING") or str(PROJECT / "landing")

with DAG(
    "icegate_models",
    description="Builds, tests and publishes the lakehouse, with a task for each model.",
    schedule=None,  # one of the two DAGs has the schedule
    max_active_tasks=2,  # each is a dbt with a Spark; with `method: connect` they share one: more
    default_args={"retries": 0},
    doc_md=__doc__,
    **SHARED,
) as dag:
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
    end(IcegateWait(task_id="wait"), models)
