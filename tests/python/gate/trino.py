"""A Trino that reads a REST catalog and answers on this machine only.

Its archive has 800 MB and it needs a newer Java than Spark, so it is tried where someone has both:
``ICEGATE_TRINO`` names the unpacked `trino-server`, ``ICEGATE_TRINO_JAVA`` a home of Java 24 or 25.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from icegate.server_launch import free_port

TIMEOUT_S = 180
NAMED = ("ICEGATE_TRINO", "ICEGATE_TRINO_JAVA")
needs_trino = pytest.mark.skipif(
    not all(os.environ.get(name) for name in NAMED),
    reason=f"no Trino: {' and '.join(NAMED)} have to name one, and its Java",
)
CONFIG = {
    "coordinator": "true",
    "node-scheduler.include-coordinator": "true",
    "query.max-memory-per-node": "400MB",
    "memory.heap-headroom-per-node": "300MB",
    "catalog.management": "dynamic",
}
CATALOG = """create catalog lake using iceberg with (
    "iceberg.catalog.type" = 'rest', "iceberg.rest-catalog.uri" = '{rest}',
    "fs.native-local.enabled" = 'true', "local.location" = '/'
)"""


@contextmanager
def trino(rest: str, folder: Path) -> Iterator[str]:
    """Start a Trino with the catalog `lake`; yield its address. ``folder`` gets its files."""
    server, java = (Path(os.environ[name]) for name in NAMED)
    address = f"http://127.0.0.1:{free_port(None)}"
    (folder / "plugin").mkdir(parents=True)
    (folder / "plugin" / "iceberg").symlink_to(server / "plugin" / "iceberg")
    options = {"http-server.http.port": address.rpartition(":")[2], "discovery.uri": address}
    lines = [f"{key}={value}\n" for key, value in {**CONFIG, **options}.items()]
    (folder / "config.properties").write_text("".join(lines))
    node = {"environment": "tests", "id": "one", "data-dir": folder, "bind-ip": "127.0.0.1"}
    command = [java / "bin" / "java", "-Xmx1500m", "-cp", server / "lib" / "*"]
    command += [f"-Dnode.{key}={value}" for key, value in node.items()]
    command += ["-Dnode.internal-address=127.0.0.1", f"-Dplugin.dir={folder / 'plugin'}"]
    command += [f"-Dconfig={folder / 'config.properties'}", "io.trino.server.TrinoServer"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        _wait(address, process)
        query(address, CATALOG.format(rest=rest))
        yield address
    finally:
        process.kill()
        process.wait()


def query(address: str, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    rows: list[tuple[Any, ...]] = []
    answer = _ask(f"{address}/v1/statement", sql.encode())
    while "nextUri" in answer:
        answer = _ask(answer["nextUri"])
        rows += map(tuple, answer.get("data", []))
    assert "error" not in answer, answer["error"]["message"]
    return rows


def _ask(url: str, text: bytes | None = None) -> Any:
    with urlopen(Request(url, text, {"X-Trino-User": "tests"}), timeout=60) as answer:
        return json.load(answer)


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if not _ask(f"{address}/v1/info")["starting"]:
                return
        except OSError:
            pass  # it doesn't listen yet
        time.sleep(1)
    pytest.fail(f"Trino doesn't answer; its exit code is {process.poll()}")
