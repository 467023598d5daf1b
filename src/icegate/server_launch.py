"""Launch Spark as a Connect server, in a session of its own and with no secret in its arguments."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from icegate.errors import ServerError
from icegate.settings import Lake

APP = Path(__file__).with_name("server_app.py")
PLUGINS = "spark.plugins"
HOST = "127.0.0.1"


def server_conf(lake: Lake, port: int) -> dict[str, str]:
    """Return the conf of the lake's server: what an embedded Spark gets, and where to listen."""
    from icegate.cluster import checkpoint_conf, master
    from icegate.spark_conf import start_conf

    own = lake.spark_conf.get(PLUGINS)
    return {
        # One class loader for all sessions, as in an embedded Spark: see `server_app`.
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.artifact.isolation.alwaysApplyClassLoader": "false",
        **start_conf(lake),
        PLUGINS: ",".join(
            ["org.apache.spark.sql.connect.SparkConnectPlugin", *([own] if own else [])]
        ),
        "spark.app.name": "icegate server",
        "spark.master": master(lake),
        **(checkpoint_conf(lake.checkpoints / "server") if lake.master else {}),
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
    }


def launch(
    conf_file: Path, log_file: Path, java: Path, token: str, thrift_port: int | None = None
) -> subprocess.Popen[bytes]:
    """Start Spark with a properties file, which may be deleted once the server listens."""
    import pyspark

    from icegate.session import CONF_DIR

    home = Path(pyspark.__file__).parent
    dropped = (
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
        "PYSPARK_SUBMIT_ARGS",
        "HIVE_SERVER2_THRIFT_PORT",
    )
    environment = {
        "SPARK_CONF_DIR": str(CONF_DIR),
        **{key: value for key, value in os.environ.items() if key not in dropped},
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        **(
            {"HIVE_SERVER2_THRIFT_BIND_HOST": HOST, "HIVE_SERVER2_THRIFT_PORT": str(thrift_port)}
            if thrift_port
            else {}
        ),
    }
    command = [str(home / "bin" / "spark-submit"), "--properties-file", str(conf_file)]
    write_private(log_file, "")
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [*command, str(APP)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def free_port(wanted: int | None) -> int:
    """Return ``wanted``, or a port of the system's choice; raise ``ServerError`` if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted or 0))
        except OSError as error:
            raise ServerError(
                f"cannot start the Spark Connect server on port {wanted}",
                why=f"the port can't be taken: {error.strerror}",
                fix="name another one, or leave `--port` out to get a free one",
            ) from error
        return int(probe.getsockname()[1])


def properties(conf: dict[str, str]) -> str:
    r"""Return a Java properties file: a backslash starts an escape there, a line end is ``\n``."""
    lines = []
    for key, value in conf.items():
        quoted = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{key}={quoted}\n")
    return "".join(lines)


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody but its owner can read, at no moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
