"""REST catalogs on this machine: Iceberg's reference adapter, in a Java of its own.

The adapter's own program listens on every address of the machine, so it's put together from here,
by the Py4J that PySpark brings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from maven import SPARK_JARS, class_path_of
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from icegate.errors import JarsError
from icegate.java import find_java
from icegate.settings import Lake
from icegate.spark_conf import catalog_conf


class RestServer:
    """A Java that serves as many catalogs as tests want, each on a port of its own."""

    def __init__(self, jvm: Any, folder: Path) -> None:
        self._jvm, self.folder = jvm, folder

    def catalog(self, name: str, warehouse: Path | None = None, bucket: str | None = None) -> Any:
        """Make a catalog without tables, and return what a lake or a target has to know of it.

        Its tables are where it wants them, unless a folder or a bucket is named.
        """
        home = self.folder / name
        home.mkdir()
        lake = Lake(home=home, warehouse=warehouse or home / "warehouse", bucket=bucket)
        return {"catalog_type": "rest", "catalog_uri": self.serve(lake)}

    def serve(self, lake: Lake) -> str:
        """Serve the catalog of a lake that is in a file, and return the address."""
        jvm = self._jvm
        options = jvm.java.util.HashMap()
        for key, value in catalog_conf(lake).items():
            _, is_option, name = key.partition(f"spark.sql.catalog.{lake.catalog}.")
            if is_option:
                options.put(name, value)
        hadoop = jvm.org.apache.hadoop.conf.Configuration()
        util = jvm.org.apache.iceberg.CatalogUtil
        catalog = util.buildIcebergCatalog(lake.catalog, options, hadoop)
        adapter = jvm.org.apache.iceberg.rest.RESTCatalogAdapter(catalog)
        servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(adapter)
        jetty = jvm.org.eclipse.jetty
        context = jetty.ee10.servlet.ServletContextHandler()
        context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
        # Spark asks for json.`/a/path` as a table first, which Jetty refuses by itself.
        (connector,) = server.getConnectors()
        http = connector.getConnectionFactory("http/1.1").getHttpConfiguration()
        http.setUriCompliance(jetty.http.UriCompliance.LEGACY)
        context.getServletHandler().setDecodeAmbiguousURIs(True)
        server.setHandler(context)
        server.start()
        return f"http://127.0.0.1:{server.getURI().getPort()}"


@contextmanager
def running() -> Iterator[RestServer]:
    """Start a Java, with this process's AWS, and end it."""
    java = str(find_java().home / "bin" / "java")
    port, token, process = launch_gateway(
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([*_adapter_jars(), str(SPARK_JARS / "*")]),
        java_path=java,
        die_on_exit=True,  # also when the tests are killed
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        with TemporaryDirectory(prefix="icegate-server-") as folder:
            yield RestServer(gateway.jvm, Path(folder))
    finally:
        gateway.close()
        process.terminate()
        process.wait()


@contextmanager
def rest_catalog(lake: Lake) -> Iterator[str]:
    """Serve the catalog of ``lake`` to this machine only; yield its address."""
    with running() as server:
        yield server.serve(lake)


def _adapter_jars() -> list[str]:
    """Return the adapter's jars, which Spark's Ivy gets once; skip where nothing can be got."""
    try:
        return class_path_of("rest-catalog", Path(__file__).with_suffix(".xml"))
    except JarsError:
        pytest.skip("no REST catalog: its jars aren't here, and Maven Central can't be reached")
