"""What `icegate server` has spark-submit run: a Spark that answers Connect until its Java ends.

With HiveServer2's own variable for a port it answers Thrift as well.

Not Spark's own `SparkConnectServer`: that one gives each session a class loader of its own, so that
all generated code is compiled again in each run of dbt. The settings are `server_launch`'s.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from typing import Any

LOOK_EVERY_S = 1.0
OPERATION = "SparkConnect_OperationTag_"


def cancel_left(jvm: Any, context: Any) -> None:
    """Cancel the jobs of Connect's statements that have ended.

    Spark cancels those that a cancelled statement has; adaptive execution may submit one more
    right after, in a thread of its own, which then holds the cores until it is done.
    """
    # The jobs before the statements: what begins in between is of no statement that has ended.
    jobs = [context.statusStore().job(job) for job in context.statusTracker().getActiveJobIds()]
    alone = [job for job in jobs if job.jobGroup().isEmpty()]  # a stream's has the stream's group
    tags = {tag for job in alone for tag in job.jobTags().mkString("\n").split("\n")}
    found = {tag for tag in tags if tag.startswith(OPERATION)}
    if not found:
        return
    service = getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    running = getattr(service, "MODULE$").executionManager().listExecuteHolders()
    held = {running.apply(n).jobTag() for n in range(running.size())}
    for tag in found - held:
        context.cancelJobsWithTag(tag)


if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules would stand for others of the same name
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    assert spark._jvm is not None
    if "HIVE_SERVER2_THRIFT_PORT" in os.environ:
        thrift = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
        thrift.startWithSparkSession(spark._jsparkSession, True)  # ends Spark where it fails
    while not select.select([sys.stdin], [], [], LOOK_EVERY_S)[0]:  # a pipe from Java
        with contextlib.suppress(Exception):  # a job that has just gone, a Java that is ending
            cancel_left(spark._jvm, spark.sparkContext._jsc.sc())
