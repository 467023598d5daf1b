"""A REST catalog over a lake's own one: Iceberg's reference adapter, in a Java of its own.

The adapter's own program listens on every address of the machine, so it's put together from here,
by the Py4J that PySpark brings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from maven import SPARK_JARS, class_path_of
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from icegate.errors import JarsError
from icegate.java import find_java
from icegate.settings import Lake
from icegate.spark_conf import catalog_conf, found_jars


@contextmanager
def rest_catalog(lake: Lake) -> Iterator[str]:
    """Serve the catalog of ``lake`` to this machine only; yield its address."""
    java = str(find_java(shims=lake.home).home / "bin" / "java")
    (sqlite,) = [jar for jar in found_jars(lake) if "sqlite" in jar.name]
    class_path = [*_adapter_jars(), str(sqlite), str(SPARK_JARS / "*")]
    port, token, process = launch_gateway(
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        classpath=os.pathsep.join(class_path),
        java_path=java,
        die_on_exit=True,  # also when the tests are killed
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield _start(gateway.jvm, lake)
    finally:
        gateway.close()
        process.terminate()
        process.wait()


def _start(jvm: Any, lake: Lake) -> str:
    """Start what serves the catalog, with Spark's own options for it."""
    options = jvm.java.util.HashMap()
    for key, value in catalog_conf(lake).items():
        _, is_option, name = key.partition(f"spark.sql.catalog.{lake.catalog}.")
        if is_option:
            options.put(name, value)
    hadoop = jvm.org.apache.hadoop.conf.Configuration()
    catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(lake.catalog, options, hadoop)
    adapter = jvm.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
    servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
    jetty = jvm.org.eclipse.jetty
    context = jetty.ee10.servlet.ServletContextHandler()
    context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    server.start()
    return f"http://127.0.0.1:{server.getURI().getPort()}"


def _adapter_jars() -> list[str]:
    """Return the adapter's jars, which Spark's Ivy gets once; skip where nothing can be got."""
    try:
        return class_path_of("rest-catalog", Path(__file__).with_suffix(".xml"))
    except JarsError:
        pytest.skip("no REST catalog: its jars aren't here, and Maven Central can't be reached")
