"""Start the embedded Spark session that SQL models, Python models and jobs share."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from icegate.errors import IcegateError, JarsError
from icegate.java import find_java
from icegate.settings import JARS, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF_DIR = Path(__file__).parent / "conf"

_sessions: dict[str, SparkSession] = {}
_starting = threading.Lock()  # dbt opens a connection in each of its threads at once


def start_session(lake: Lake) -> SparkSession:
    """Return this process's Spark session for ``lake``, started on the first call.

    A second lake in one process gets a session of its own on the same Spark, with its own
    catalog and temporary views; memory and cores are those of the first.
    """
    key = lake.model_dump_json()
    with _starting:
        session = _sessions.get(key)
        if session is None or session.sparkContext._jsc is None:
            session = _sessions[key] = _open(lake)
    return session


def _open(lake: Lake) -> SparkSession:
    from icegate.catalog import check_catalog

    lake.home.mkdir(parents=True, exist_ok=True)
    check_catalog(lake)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if running is not None and running.sparkContext._jsc is not None:
        session = running.newSession()
        for name, value in {**catalog_conf(lake), **session_conf(lake)}.items():
            session.conf.set(name, value)
    else:
        session = _launch(lake)
    # Iceberg makes the catalog's tables at its first use, and fails when another process does too.
    with (lake.home / "catalog.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        session.sql(f"show namespaces in {lake.catalog}").collect()
    return session


def stop_session() -> None:
    """Stop the Spark of this process, if there is one."""
    if _sessions:
        next(iter(_sessions.values())).stop()
        _sessions.clear()


def _launch(lake: Lake) -> SparkSession:
    from pyspark.sql import SparkSession

    java = find_java(shims=lake.home)
    os.environ["JAVA_HOME"] = str(java.home)
    # Workers would take `python3` from the PATH, which may lack what a model imports.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_DIR))
    builder = SparkSession.builder.appName("icegate").master(f"local[{lake.cores or '*'}]")
    for key, value in {**launch_conf(lake), **catalog_conf(lake), **session_conf(lake)}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if not found_jars(lake):
            raise _no_jars() from error
        raise
    if not found_jars(lake):
        raise _no_jars()
    _quiet_errors()
    return session


def _quiet_errors() -> None:
    """Stop PySpark from printing an error as JSON, stack and all, before anyone has handled it."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _no_jars() -> JarsError:
    return JarsError(
        "cannot get the jars of Iceberg and SQLite",
        why="they aren't in the project's home folder, and Maven Central didn't give them",
        fix="connect to the internet once and run this again, or copy `.icegate/ivy` from "
        "another checkout",
    )


def found_jars(lake: Lake) -> list[Path]:
    """Return the resolved jars of ``lake``, or nothing when one of them is missing."""
    wanted = [
        lake.ivy / "jars" / f"{coordinate.replace(':', '_', 1).replace(':', '-')}.jar"
        for coordinate in JARS
    ]
    return wanted if all(jar.is_file() for jar in wanted) else []


def launch_conf(lake: Lake) -> dict[str, str]:
    """Return what only a new Spark can take: memory, jars, where scratch files go."""
    jars = found_jars(lake)
    where = (
        {"spark.jars": ",".join(str(jar) for jar in jars)}
        if jars
        else {"spark.jars.packages": ",".join(JARS)}
    )
    return {
        "spark.driver.memory": lake.memory,
        "spark.jars.ivy": str(lake.ivy),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": (lake.home / "spark-warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        **where,
    }


def catalog_conf(lake: Lake) -> dict[str, str]:
    """Return the conf of the catalog: JDBC on SQLite, which PyIceberg opens too.

    Write-ahead log, waiting and retries are what lets parallel writers lose no row.
    """
    catalog = f"spark.sql.catalog.{lake.catalog}"
    wait_ms = lake.catalog_timeout_s * 1000
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": (
            f"jdbc:sqlite:{lake.catalog_db}?busy_timeout={wait_ms}&journal_mode=WAL"
        ),
        f"{catalog}.jdbc.schema-version": "V1",  # V0 has no views
        f"{catalog}.warehouse": f"file://{lake.warehouse}",
        f"{catalog}.cache-enabled": "false",  # a cached table hides what another process wrote
        f"{catalog}.table-default.commit.retry.num-retries": "30",
        "spark.sql.defaultCatalog": lake.catalog,
    }


def session_conf(lake: Lake) -> dict[str, str]:
    """Return what a session may change: dialect and the size of a shuffle on one machine."""
    cores = lake.cores or os.cpu_count() or 1
    return {
        "spark.sql.ansi.enabled": str(lake.ansi).lower(),
        "spark.sql.shuffle.partitions": str(4 * cores),
        **lake.spark_conf,
    }


def main() -> None:
    """Resolve the jars of the project in the working folder, so that later starts need no net."""
    from icegate.settings import lake_from_target, load_target

    try:
        lake = lake_from_target(load_target(Path.cwd())[1], Path.cwd())
        if not found_jars(lake):
            print("getting the jars of Iceberg and SQLite …", flush=True)
            start_session(lake)
            stop_session()
    except IcegateError as error:
        sys.exit(f"error: {error}")
    print(f"jars are in {lake.ivy / 'jars'}")


if __name__ == "__main__":
    main()
