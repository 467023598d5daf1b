"""A session whose catalog fails on demand, after it has committed or instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from icegate.settings import Lake
from icegate.spark_conf import catalog_conf, database_conf

SOURCE = Path(__file__).with_name("FailingCatalog.java")
NAME = "icegate.tests.FailingCatalog"

_classes: list[Any] = []  # that Spark's JVM has compiled


def failing_session(spark: Any, lake: Lake) -> Any:
    """Return a session on the tables of ``lake``, whose commits ``failing`` spoils.

    Spark brings a compiler along, for the code that it generates.
    """
    jvm, own = spark._jvm, f"spark.sql.catalog.{lake.catalog}."
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    if not _classes:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(before)
        compiler.cook(SOURCE.read_text())
        _classes.append(compiler.getClassLoader())
    session = spark.newSession()
    found = {**catalog_conf(lake), **database_conf(lake)}
    conf = {key.partition(own)[2]: value for key, value in found.items() if key.startswith(own)}
    for key, value in {**conf, "catalog-impl": NAME}.items():
        if key == "type":  # of a catalog of Iceberg's own
            continue
        session.conf.set(f"spark.sql.catalog.failing.{key}", value)
    session.conf.set("spark.sql.catalog.failing", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.defaultCatalog", "failing")
    thread.setContextClassLoader(_classes[0])  # where Iceberg looks for the class
    try:
        session.sql("show namespaces").collect()
    finally:
        thread.setContextClassLoader(before)
    return session


@contextmanager
def failing(spark: Any, table: str, way: str) -> Iterator[None]:
    """Let commits of a table be `lost after`, `lost before`, `forbidden` or `denied`."""
    system, name = spark._jvm.java.lang.System, f"icegate.fails.{table.rpartition('.')[2]}"
    system.setProperty(name, way)
    try:
        yield
    finally:
        system.clearProperty(name)
