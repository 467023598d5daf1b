"""A warm Spark Connect server for one lake: start it apart from this process, find it, stop it.

Its state lies in ``<home>/server.json``, readable by its owner only: the token is in it. It
listens on this machine only.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import socket
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from icegate import processes
from icegate.errors import ConfigError, ServerError
from icegate.java import find_java
from icegate.locks import FileLock, alone
from icegate.server_launch import (
    APP,
    HOST,
    free_port,
    launch,
    properties,
    server_conf,
    write_private,
)
from icegate.settings import Lake

log = logging.getLogger(__name__)

WARM_ROUNDS = 3
START_TIMEOUT_S, STOP_TIMEOUT_S, POLL_S = 180, 15, 0.1
# What a running server can't change; a target that differs in it is told so.
LAUNCH_KEYS = (
    *("catalog", "catalog_type", "catalog_uri", "catalog_ref", "catalog_options"),
    *("warehouse", "bucket", "master", "memory", "cores"),
)


@dataclass(frozen=True)
class Server:
    """A server that was started in this home."""

    pid: int
    began: str  # tells its process from a later one with the same id
    port: int
    token: str = field(repr=False)
    started_at: float  # seconds since 1970
    spark: str
    lake: dict[str, Any]
    thrift_port: int | None = None

    def is_listening(self) -> bool:
        """Tell whether its ports take connections."""
        ports = (self.port, *([self.thrift_port] if self.thrift_port else []))
        try:
            for port in ports:
                socket.create_connection((HOST, port), timeout=2).close()
        except OSError:
            return False
        return True


def find_server(lake: Lake) -> Server | None:
    """Return the server of this home whose process is alive, or None; it may still be starting."""
    try:
        server = Server(**json.loads(_state_file(lake).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return server if processes.start_of(server.pid, APP.name) == server.began else None


def start_server(
    lake: Lake, port: int | None = None, *, thrift: bool = False, thrift_port: int | None = None
) -> tuple[Server, bool]:
    """Return the server of ``lake`` that answers, and whether this call started it.

    With ``thrift`` it answers Thrift, too, at a port of the system's choice unless one is given.
    Of two calls at once one starts it, and the other one waits for that.
    """
    if lake.is_submitted:
        raise ConfigError(
            "cannot start a server for this target",
            why="its `master: submitted` is a Spark that spark-submit starts, in a job",
            fix="name another target, by --target",
        )
    with alone(FileLock(lake.home / "server.lock"), "start the Spark Connect server"):
        server = find_server(lake)
        if server is not None and _answers(lake, server):
            if port not in (None, server.port):
                raise ConfigError(
                    f"cannot start the Spark Connect server on port {port}",
                    why=f"the server of this home runs already, on port {server.port}",
                    fix="stop that one first: `icegate server stop`",
                )
            if (thrift and not server.thrift_port) or thrift_port not in (None, server.thrift_port):
                at = f"on port {server.thrift_port}" if server.thrift_port else "at no port"
                raise ConfigError(
                    f"cannot start a Thrift server{f' on port {thrift_port}' * bool(thrift_port)}",
                    why=f"the server of this home runs already, and answers Thrift {at}",
                    fix="stop that one first: `icegate server stop`",
                )
            return server, False
        if server is not None:
            processes.end(server.pid, APP.name, server.began, STOP_TIMEOUT_S)
        return _start(lake, free_port(port), free_port(thrift_port) if thrift else None), True


def stop_server(lake: Lake) -> Server | None:
    """End the server of this home and return it, or None when there was none."""
    if not lake.home.is_dir():
        return None
    with alone(FileLock(lake.home / "server.lock"), "stop the Spark Connect server"):
        server = find_server(lake)
        if server is not None:
            processes.end(server.pid, APP.name, server.began, STOP_TIMEOUT_S)
        _state_file(lake).unlink(missing_ok=True)
        _drop_checkpoints(lake)
    return server


def _drop_checkpoints(lake: Lake) -> None:
    """Delete the rows that a server which has ended held for merges."""
    shutil.rmtree(lake.checkpoints / "server", ignore_errors=True)


def log_file(lake: Lake) -> Path:
    """Return where the server of this home writes what it has to say."""
    return lake.home / "server.log"


def differences(lake: Lake, server: Server) -> list[str]:
    """Return what the target says otherwise than the running server was started with."""
    wanted = _launched_with(lake)
    return [
        f"{key}: {server.lake.get(key)} is running, the target says {wanted[key]}"
        for key in LAUNCH_KEYS
        if server.lake.get(key) != wanted[key]
    ]


def _start(lake: Lake, port: int, thrift_port: int | None) -> Server:
    from icegate.catalog import check_catalog
    from icegate.session import resolve_jars

    check_catalog(lake)
    _drop_checkpoints(lake)
    java = find_java(shims=lake.home)
    resolve_jars(lake)
    token = secrets.token_urlsafe(32)
    conf_file = lake.home / "server.conf"
    write_private(conf_file, properties(server_conf(lake, port)))
    try:
        process = launch(conf_file, log_file(lake), java.home, token, thrift_port)
        server = _noted(lake, process.pid, port, token, thrift_port)
        try:
            _wait(lake, server, process)
        except BaseException:
            processes.end(server.pid, APP.name, server.began, STOP_TIMEOUT_S)
            _state_file(lake).unlink(missing_ok=True)
            raise
    finally:
        conf_file.unlink(missing_ok=True)  # `spark_conf` may hold a key to a store
    return server


def _noted(lake: Lake, pid: int, port: int, token: str, thrift_port: int | None) -> Server:
    """Write the state file at once, so that a server whose start is cut short can be found."""
    import pyspark

    # Until the launcher has become Java its arguments have the same class in them.
    began = processes.start_of(pid, "") or ""
    now, what = time.time(), _launched_with(lake)
    server = Server(pid, began, port, token, now, pyspark.__version__, what, thrift_port)
    partial = lake.home / "server.json.partial"
    write_private(partial, json.dumps(asdict(server)))
    partial.replace(_state_file(lake))
    return server


def _wait(lake: Lake, server: Server, process: subprocess.Popen[bytes]) -> None:
    """Return when the server has answered a query, and is warm."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.is_listening():
        if process.poll() is not None:
            raise _not_started(lake, f"Spark ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise _not_started(lake, f"Spark didn't listen within {START_TIMEOUT_S} s")
        time.sleep(POLL_S)
    try:
        _ask(lake, server, is_new=True)
    except ServerError:
        raise
    except Exception as error:
        raise _not_started(lake, f"it doesn't answer a query: {error}") from error
    try:
        _warm_up(lake, server)
    except Exception as error:  # a cold server is slower, and nothing else
        log.warning("server=cold why=%s", error)


def _ask(lake: Lake, server: Server, is_new: bool = False) -> None:
    """Run a first query, which opens the catalog."""
    from icegate.cluster import await_worker
    from icegate.connect import open_connect, release
    from icegate.session import first_use

    session = open_connect(lake, _endpoint(server))
    if is_new:  # later its workers may have much to do
        await_worker(lake, session)
    first_use(lake, session)
    release(session)


def _warm_up(lake: Lake, server: Server) -> None:
    """Have the server load and compile what a first run would wait for."""
    from icegate.connect import open_connect, release
    from icegate.practice import practice_lake, practise
    from icegate.spark_conf import catalog_conf

    with practice_lake(lake) as practice:
        session = open_connect(lake, _endpoint(server))
        for key, value in catalog_conf(practice).items():
            session.conf.set(key, value)
        practise(session, WARM_ROUNDS)
        release(session)


def _answers(lake: Lake, server: Server) -> bool:
    if not server.is_listening():
        return False
    try:
        _ask(lake, server)
    except Exception:
        return False
    return True


def _endpoint(server: Server) -> Any:
    from icegate.connect import Endpoint

    return Endpoint(HOST, server.port, server.token, local=True)


def _not_started(lake: Lake, why: str) -> ServerError:
    lines = log_file(lake).read_text(errors="replace").strip().splitlines()
    said = next((line for line in lines if "Exception" in line or "ERROR" in line), None)
    return ServerError(
        "cannot start the Spark Connect server",
        why=f"{why}: {said.strip()}" if said else why,
        fix=f"read {log_file(lake)}; `icegate doctor` checks Java, jars, catalog and disk",
    )


def _launched_with(lake: Lake) -> dict[str, Any]:
    return {key: lake.model_dump(mode="json")[key] for key in LAUNCH_KEYS}


def _state_file(lake: Lake) -> Path:
    return lake.home / "server.json"
