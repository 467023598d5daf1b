"""The Spark that spark-submit started, with its own jars and versions: EMR's, or a cluster's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from icegate.errors import IcegateError
from icegate.explain import explain
from icegate.java import SUBMITTED
from icegate.settings import Lake
from icegate.spark_conf import start_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "cannot use the Spark of spark-submit"
SPARKS, FIRST_ICEBERG, FIRST_PYTHON = ("3.5", "4.0", "4.1"), (1, 10), (3, 10)


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
    exec = session.sparkContext.pythonExec
    check_python(sys.version_info[:2], python_of(exec), exec)
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


def python_of(executable: str) -> tuple[int, ...] | None:
    """Return the version of a Python, or None where this machine can't tell."""
    asked = [executable, "-c", "import sys; print(*sys.version_info[:2])"]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
        return tuple(map(int, said.split()))
    return None


def check_python(own: tuple[int, ...], workers: tuple[int, ...] | None, executable: str) -> None:
    """Raise ``IcegateError`` unless functions of a model can run on both, as far as that's known.

    Spark itself says so when the first of them runs, in the middle of a build.
    """
    if own >= FIRST_PYTHON and workers in (None, own):
        return
    first, here, there = (".".join(map(str, of or ())) for of in (FIRST_PYTHON, own, workers))
    is_same = workers in (None, own)
    differs = "" if is_same else f", and workers would on {there}, as `{executable}` is"
    raise IcegateError(
        WHAT,
        why=f"dbt runs on Python {here}{differs}",
        fix=f"give both the same one, {first} or newer: `--conf spark.pyspark.python=…`, or the "
        "variable PYSPARK_PYTHON",
    )


def _check(session: SparkSession) -> None:
    """Raise ``IcegateError`` unless versions are ones that models were built with."""
    if not session.version.startswith(SPARKS):
        raise IcegateError(
            WHAT,
            why=f"it's Spark {session.version}, and this runs on {', '.join(SPARKS)}",
            fix="take a release that has one of these: EMR 7 has 3.5, emr-spark-8.0.0 has 4.0",
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
