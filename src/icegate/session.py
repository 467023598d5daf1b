"""Start the Spark session that SQL models, Python models and jobs share; only here one is made.

Without an endpoint it is Spark in this process, else a session on a Spark Connect server.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate.catalog import catalog_of, check_catalog
from icegate.class_archive import CONF_DIR, make_archive
from icegate.cluster import await_worker, master, no_cluster, own_checkpoints
from icegate.errors import IcegateError, JarsError
from icegate.explain import explain
from icegate.hash_key import remember
from icegate.java import find_java, leave_submitted
from icegate.locks import alone
from icegate.settings import Lake
from icegate.spark_conf import catalog_conf, database_conf, found_jars, session_conf, start_conf
from icegate.submitted import open_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icegate.connect import Endpoint


_sessions: dict[str, SparkSession] = {}
_early: dict[str, SparkSession] = {}  # started, but nothing was checked yet
_starting = threading.Lock()  # dbt opens a connection in each of its threads at once


def start_session(lake: Lake, endpoint: Endpoint | None = None) -> SparkSession:
    """Return this process's Spark session for ``lake``, started on the first call.

    A second lake in one process gets a session of its own, with its own catalog and temporary
    views, on the same Spark: memory and cores are those of the first.
    """
    with _starting:
        session = running_session(lake, endpoint)
        if session is None:
            session = _sessions[_key(lake, endpoint)] = _open(lake, endpoint)
    return session


def running_session(lake: Lake, endpoint: Endpoint | None = None) -> SparkSession | None:
    """Return what ``start_session`` would, if it runs already."""
    session = _sessions.get(_key(lake, endpoint))
    return session if session is not None and _is_open(session) else None


def start_early(lake: Lake) -> None:
    """Begin to start the embedded Spark in a thread of its own, while dbt reads its project.

    Only what no catalog is needed for; what fails here fails again, and is told, at first use.
    """
    if lake.home.is_dir() and (found_jars(lake) or lake.is_submitted) and not _sessions:
        threading.Thread(target=_start_early, args=(lake,), daemon=True).start()


def _start_early(lake: Lake) -> None:
    with _starting, contextlib.suppress(Exception):
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
        from pyspark.sql import SparkSession

        if SparkSession._instantiatedSession is None and not _sessions:
            _early[_key(lake, None)] = _launch(lake)


def cancel(session: SparkSession) -> None:
    """Stop what the session runs, without waiting for its end."""
    if is_remote(session):
        session.interruptAll()
    else:
        session.sparkContext.cancelAllJobs()


def is_remote(session: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _key(lake: Lake, endpoint: Endpoint | None) -> str:
    return f"{lake.model_dump_json()} {endpoint!r} {hash(endpoint)}"


def _is_open(session: Any) -> bool:
    return not session.is_stopped if is_remote(session) else session.sparkContext._jsc is not None


def _open(lake: Lake, endpoint: Endpoint | None) -> SparkSession:
    if endpoint is None or endpoint.local or lake.is_shared:
        lake.home.mkdir(parents=True, exist_ok=True)
        check_catalog(lake)
    if endpoint is None:
        session = _open_embedded(lake)
        await_worker(lake, session)
        first_use(lake, session)
    else:
        from icegate.connect import open_connect

        # pyspark's functions look here for the kind of session that they are used with.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        session = open_connect(lake, endpoint)
        if lake.is_shared and not endpoint.local:
            first_use(lake, session)  # what that server lacks is told before anything is written
    _quiet_errors()
    remember(session, lake, is_local=endpoint is None or endpoint.local)
    return session


def _open_embedded(lake: Lake) -> SparkSession:
    # Set by a session of Spark Connect in this process, it would make pyspark's functions remote.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    from pyspark.sql import SparkSession

    early = _early.pop(_key(lake, None), None)
    running = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    conf = database_conf(lake)
    if early is not None and _is_open(early):
        session = early
    elif running is None or not _is_open(running):
        session = _launch(lake)
    else:
        session = running.newSession()
        conf |= {**catalog_conf(lake), **session_conf(lake)}
    for name, value in conf.items():
        session.conf.set(name, value)
    return session


def first_use(lake: Lake, session: SparkSession) -> None:
    """Use the catalog of ``lake`` for the first time, while no other process does.

    Iceberg makes the catalog's tables at its first use, and fails when another one does too.
    """
    with alone(catalog_of(lake).lock("catalog"), "open the catalog"):
        session.sql(f"show namespaces in {lake.catalog}").collect()


def stop_session() -> None:
    """Stop the Spark of this process, if there is one, and give back what servers hold for it."""
    for session in _sessions.values():
        if _is_open(session):
            session.stop()
    _sessions.clear()


def _launch(lake: Lake) -> SparkSession:
    from pyspark.sql import SparkSession

    if lake.is_submitted:
        return open_submitted(lake)
    leave_submitted()
    java = find_java(shims=lake.home)
    os.environ["JAVA_HOME"] = str(java.home)
    # Workers would take `python3` from the PATH, which may lack what a model imports.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONF_DIR", str(CONF_DIR))
    # Of the small Java that only puts the command line together.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")
    builder = SparkSession.builder.appName("icegate").master(master(lake))
    for key, value in start_conf(lake).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if not found_jars(lake):
            raise _no_jars() from error
        if lake.master:
            raise no_cluster(lake, "Spark found no master there, and gave up") from error
        fix = "correct the target's `memory` or `spark_conf`; what Java itself said is above"
        why = explain(error).splitlines()[0]
        raise IcegateError("Spark can't start", why=why, fix=fix) from error
    if not found_jars(lake):
        raise _no_jars()
    if lake.master:
        own_checkpoints(lake, session)
    return session


def _quiet_errors() -> None:
    """Stop PySpark from printing an error as JSON, stack and all, before anyone has handled it."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # Spark 3.5 prints none
        return
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _no_jars() -> JarsError:
    return JarsError(
        "cannot get the jars of Iceberg and SQLite",
        why="they aren't in the project's home folder, and Maven Central didn't give them",
        fix="connect to the internet once and run this again, or copy `.icegate/ivy` from "
        "another checkout",
    )


def resolve_jars(lake: Lake) -> None:
    """See that the jars are in the lake's home, by a start of Spark when they aren't."""
    if not found_jars(lake):
        print("getting the jars of Iceberg and SQLite …", file=sys.stderr, flush=True)
        start_session(lake)
        stop_session()


def main() -> None:
    """Make ready for the project in the working folder what later starts need: jars, archive."""
    from icegate.profiles import load_target
    from icegate.settings import lake_from_target

    try:
        lake = lake_from_target(load_target(Path.cwd())[1], Path.cwd())
        resolve_jars(lake)
        make_archive(lake)
    except IcegateError as error:
        sys.exit(f"error: {error}")
    print(f"jars are in {lake.ivy / 'jars'}")


if __name__ == "__main__":
    main()
