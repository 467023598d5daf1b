"""What a Spark of a lake is set to, at its start and in a session."""

from __future__ import annotations

import os
from pathlib import Path

from icegate import aws
from icegate.catalog import catalog_of
from icegate.class_archive import java_options
from icegate.cluster import of_master
from icegate.settings import Lake, jars_of

CLASS_PATH = "spark.driver.extraClassPath"
LOCAL_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"

# What a Spark takes at its start, and never later.
_SQL_CONF = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # How each statement is told to the user interface, which isn't there.
    "spark.sql.ui.explainMode": "simple",
    # Statements of one run, so that the next run of a warm server needn't compile them again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}


def found_jars(lake: Lake) -> list[Path]:
    """Return the resolved jars of ``lake``, or nothing when one of them is missing."""
    wanted = [
        lake.ivy.resolve() / "jars" / f"{coordinate.replace(':', '_', 1).replace(':', '-')}.jar"
        for coordinate in jars_of(lake)
    ]
    return wanted if all(jar.is_file() for jar in wanted) else []


def start_conf(lake: Lake) -> dict[str, str]:
    """Return all that a new Spark is started with; jars and memory are spark-submit's own."""
    conf = {**_SQL_CONF, **catalog_conf(lake), **session_conf(lake)}
    if lake.is_submitted:
        return conf
    return {**_launch_conf(lake), **conf, **_class_path(lake)}


def _class_path(lake: Lake) -> dict[str, str]:
    """Return where Java finds the jars, or which ones Spark has to get first.

    ``spark.jars`` would copy them at each start; a server doesn't find SQLite's driver in it, and
    no class archive could hold them.
    """
    jars = found_jars(lake)
    if not jars:
        return {"spark.jars.packages": ",".join(jars_of(lake))}
    if any(os.pathsep in str(jar) for jar in jars):
        return {"spark.jars": ",".join(map(str, jars))}
    own = lake.spark_conf.get(CLASS_PATH)
    found = {
        CLASS_PATH: os.pathsep.join([*map(str, jars), *([own] if own else [])]),
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
    }
    # Workers get them from the driver.
    return found | ({"spark.jars": ",".join(map(str, jars))} if lake.master else {})


def _launch_conf(lake: Lake) -> dict[str, str]:
    """Return what only a new Spark can take: memory, Java's options, where scratch files go."""
    return {
        "spark.driver.defaultJavaOptions": java_options(lake),
        "spark.driver.memory": lake.memory,
        "spark.jars.ivy": str(lake.ivy),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **of_master(lake),
        "spark.sql.warehouse.dir": (lake.home / "spark-warehouse").as_uri(),
    }


def catalog_conf(lake: Lake) -> dict[str, str]:
    """Return the conf of the catalog, whose tables are read without Spark, too."""
    catalog = f"spark.sql.catalog.{lake.catalog}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{catalog}.{key}": value for key, value in catalog_of(lake).conf().items()},
        # A REST catalog's server has names for what it has, and no folder.
        **({} if lake.catalog_type == "rest" else {f"{catalog}.warehouse": lake.root}),
        **{f"{catalog}.{key}": value for key, value in _objects_conf(lake).items()},
        f"{catalog}.cache-enabled": "false",  # a cached table hides what another process wrote
        f"{catalog}.table-default.commit.retry.num-retries": "30",
        "spark.sql.defaultCatalog": lake.catalog,
    }


def _objects_conf(lake: Lake) -> dict[str, str]:
    """Return how the catalog reaches a bucket; the key Java finds as AWS's other tools do."""
    if not lake.bucket:
        return {}
    conf = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": aws.region()}
    if url := aws.endpoint("s3"):
        conf |= {"s3.endpoint": url, "s3.path-style-access": "true"}
    return conf


def database_conf(lake: Lake) -> dict[str, str]:
    """Return where a session finds the catalog's rows, with the password.

    That only a running session is told: what a start is given is there for all to see.
    """
    own, catalog = catalog_of(lake), f"spark.sql.catalog.{lake.catalog}"
    place = own.conf() if lake.has_own_catalog else {}
    return {f"{catalog}.{key}": value for key, value in {**place, **own.secrets()}.items()}


def session_conf(lake: Lake) -> dict[str, str]:
    """Return what a session may change: dialect and the size of a shuffle on one machine."""
    conf = {"spark.sql.ansi.enabled": str(lake.ansi).lower()}
    if lake.master is None:
        cores = lake.cores or os.cpu_count() or 1
        conf["spark.sql.shuffle.partitions"] = str(4 * cores)
    return {**conf, **lake.spark_conf}


def served_conf(lake: Lake, catalog: str | None, *, is_local: bool) -> dict[str, str]:
    """Return what a session on a server is set to: the one of this home, or another.

    Another one may have a default ``catalog`` of its own, and its cores aren't this machine's. A
    lake on PostgreSQL is told to it, whatever it was started with.
    """
    conf = session_conf(lake)
    if is_local:
        return conf | database_conf(lake)
    if lake.is_shared:
        conf |= catalog_conf(lake) | database_conf(lake)
    if "spark.sql.shuffle.partitions" not in lake.spark_conf:
        conf.pop("spark.sql.shuffle.partitions", None)
    return conf | ({"spark.sql.defaultCatalog": catalog} if catalog else {})
