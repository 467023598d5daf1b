"""Servers of tests: each a process with a folder of its own, from which it can be started again."""

from __future__ import annotations

import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeVar

from icegate.server_launch import free_port

LIMIT_S = 90


class Program(ABC):
    """A server that listens on a port of this machine."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder, self.port = folder, port or free_port(None)
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Start it, with what the folder has of an earlier time, and return once it answers."""

    def launch(
        self,
        command: Sequence[object],
        is_up: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process, and return once it's up."""
        log = self.folder / "log"
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*map(str, command)], cwd=self.folder, env=environ, stdout=file, stderr=file
            )
        deadline = time.monotonic() + LIMIT_S
        while not is_up():
            assert self.process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.2)

    def stop(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def answers(*ports: int) -> bool:
    """Tell whether somebody listens on ports of this machine."""
    with suppress(OSError):
        for port in ports:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests on a port of this machine, in threads; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Made = TypeVar("Made", bound=Program)


@contextmanager
def started(kind: type[Made]) -> Iterator[Made]:
    """Start a server with files of its own, and end it."""
    with TemporaryDirectory(prefix="icegate-server-") as folder:
        server = kind(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()
