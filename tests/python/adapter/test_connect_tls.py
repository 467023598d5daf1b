"""The method `connect` over TLS: the warm server behind a proxy that ends TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_connect import Project, remote, server, server_lake, server_state

__all__ = ["remote", "server", "server_lake"]  # pytest finds fixtures by their names
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, made = folder / "key.pem", folder / "cert.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name]
    subprocess.run([*new, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def tls_port(remote: Project, certificate: tuple[Path, Path]) -> Iterator[int]:
    """The port of a proxy that speaks TLS and HTTP/2, and hands the bytes to the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0))
    behind = ("127.0.0.1", server_state(remote.lake.home)["port"])

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                with contextlib.suppress(OSError):  # a client that doesn't trust us
                    outer = context.wrap_socket(accepted, server_side=True)
                    inner = socket.create_connection(behind)
                    for pair in ((outer, inner), (inner, outer)):
                        threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def test_models_build_over_tls_and_only_with_a_trusted_certificate(
    remote: Project,
    tls_port: int,
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = server_state(remote.lake.home)["token"]
    remote.retarget(host=f"sc://localhost:{tls_port}", token=token, use_ssl=True, catalog="lake")
    remote.write("models/m.sql", "{{ config(materialized='table') }} select 1 as n")
    remote.write("models/p.py", "def model(dbt, session):\n    return dbt.ref('m')\n")

    refused = remote.run("run")
    assert refused.returncode != 0 and "Traceback" not in refused.stdout, refused.stdout
    assert token not in refused.stdout

    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(certificate[0]))
    built = remote.run("run")
    assert built.returncode == 0, built.stdout
    assert remote.rows("select n from {s}.p") == [(1,)]
