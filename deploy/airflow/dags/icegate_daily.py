"""The daily run: wait for files → build on a release → publish or reject → report, maintain.

`ICEGATE_BAD_DAY` in Airflow's environment says what becomes of a build with a failed test:
`publish` (else) what passed, by the target's `gate_scope`; `keep` it, for a person to publish or
reject; `reject` it.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param
from icegate_tasks import RELEASE, IcegateBuild, IcegateOperator, IcegateWait

BAD_DAY = os.environ.get("ICEGATE_BAD_DAY", "publish")

with DAG(
    "icegate_daily",
    description="Builds, tests and publishes the lakehouse.",
    schedule=os.environ.get("ICEGATE_SCHEDULE", "0 5 * * *") or None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,  # a late run loads what is there, of all days
    max_active_runs=1,
    params={"day": Param(None, type=["null", "string"], format="date", title="Day of the files")},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    doc_md=__doc__,
) as dag:
    wait = IcegateWait(task_id="wait", poke_interval=60, timeout=timedelta(hours=4))
    build = IcegateBuild(task_id="build", release=RELEASE)
    publish = IcegateOperator(
        task_id="publish",
        command=["icegate", "release", "publish", RELEASE],
        # With `wait` above it there is always one that succeeded, unless there was no build.
        trigger_rule="all_done_min_one_success" if BAD_DAY == "publish" else "all_success",
        retries=0,  # what a test holds back stays so
    )
    report = IcegateOperator(
        task_id="report", command=["icegate", "report"], trigger_rule="all_done"
    )
    maintain = IcegateOperator(task_id="maintain", command=["icegate", "maintain"])

    wait >> build >> publish >> [report, maintain]
    wait >> publish
    if BAD_DAY == "reject":
        reject = IcegateOperator(
            task_id="reject",
            command=["icegate", "release", "reject", RELEASE, "--reason", "a bad day"],
            trigger_rule="one_failed",
        )
        build >> reject
