"""The daily run: wait for files → build on a release → publish or reject → report, maintain.

`ICEGATE_BAD_DAY` in Airflow's environment says what becomes of a build with a failed test:
`publish` (else) what passed, by the target's `gate_scope`; `keep` it, for a person to publish or
reject; `reject` it.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG
from icegate_tasks import (
    RELEASE,
    SHARED,
    WHAT_PASSED,
    IcegateBuild,
    IcegateOperator,
    IcegateWait,
    due,
    end,
)

BAD_DAY = os.environ.get("ICEGATE_BAD_DAY", "publish")

with DAG(
    "icegate_daily",
    description="Builds, tests and publishes the lakehouse.",
    schedule=due(by_jobs=False),
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    doc_md=__doc__,
    **SHARED,
) as dag:
    build = IcegateBuild(task_id="build", release=RELEASE)
    end(IcegateWait(task_id="wait"), build, WHAT_PASSED if BAD_DAY == "publish" else "all_success")
    if BAD_DAY == "reject":
        build >> IcegateOperator(
            task_id="reject",
            command=["icegate", "release", "reject", RELEASE, "--reason", "a bad day"],
            trigger_rule="one_failed",
        )
