"""The Spark that spark-submit started, with its own jars and versions: EMR's, or a cluster's."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from icegate.errors import IcegateError
from icegate.explain import explain
from icegate.java import SUBMITTED
from icegate.settings import Lake
from icegate.spark_conf import start_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "cannot use the Spark of spark-submit"
SPARKS, FIRST_ICEBERG = ("4.0", "4.1"), (1, 10)


def open_submitted(lake: Lake) -> SparkSession:
    """Return a session of it; raise ``IcegateError`` where it isn't there, or can't do the work."""
    missing = [name for name in SUBMITTED if name not in os.environ]
    if missing:
        raise IcegateError(
            WHAT,
            why="this process wasn't started by spark-submit",
            fix="`spark-submit python_jobs/run_dbt.py -- build`; or leave `master: submitted` out "
            "of the target",
        )
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in start_conf(lake).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        fix = "correct the options of spark-submit; what Spark itself said is above"
        raise IcegateError(WHAT, why=explain(error).splitlines()[0], fix=fix) from error
    _check(session)
    return session


def iceberg_of(session: SparkSession) -> tuple[int, ...]:
    """Return the version of the Iceberg that a Spark has; empty where it has none."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    try:
        said = str(jvm.org.apache.iceberg.IcebergBuild.version())
    except TypeError:  # a package is all that Py4J finds by that name
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", said)[:3])


def _check(session: SparkSession) -> None:
    """Raise ``IcegateError`` unless versions are ones that models were built with."""
    if not session.version.startswith(SPARKS):
        raise IcegateError(
            WHAT,
            why=f"it's Spark {session.version}, and this runs on {' and '.join(SPARKS)}",
            fix="take a release that has one of these: emr-spark-8.0.0 has Spark 4.0",
        )
    found, extensions = iceberg_of(session), session.conf.get("spark.sql.extensions", "")
    if found < FIRST_ICEBERG:
        version = ".".join(map(str, found))
        raise IcegateError(
            WHAT,
            why=f"its Iceberg is {version}" if found else "it has no Iceberg",
            fix="give spark-submit one of 1.10 or newer, in `--jars` or `spark.jars`",
        )
    if "IcebergSparkSessionExtensions" not in str(extensions):
        raise IcegateError(
            WHAT,
            why="it runs already, without Iceberg's extensions: no merge and no branch",
            fix="set `spark.sql.extensions` for spark-submit: org.apache.iceberg.spark.extensions."
            "IcebergSparkSessionExtensions",
        )
