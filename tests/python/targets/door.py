"""A door to a server of this machine: who may pass, and what the server's answers become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from targets.programs import listening

KEPT = ("Content-Type", "Content-Encoding", "Accept")

# What is asked: its method and path, who asks, and what is sent.
Guard = Callable[[str, str, bytes], tuple[int, bytes] | None]
Change = Callable[[str, bytes], bytes]


def bearer(token: str, says: bytes) -> Guard:
    """Let only who has a token pass."""

    def guard(asked: str, user: str, body: bytes) -> tuple[int, bytes] | None:
        return None if user == f"Bearer {token}" else (401, says)

    return guard


@contextmanager
def door(
    port: int, guard: Guard = lambda *_: None, change: Change = lambda _, said: said
) -> Iterator[str]:
    """Open a door to the server of a port; yield its address."""
    own = {"port": port, "guard": staticmethod(guard), "change": staticmethod(change)}
    with listening(type("Door", (_Door,), own)) as address:
        yield address


class _Door(BaseHTTPRequestHandler):
    port: int
    guard: Guard
    change: Change

    def _pass_on(self) -> None:
        body, asked = self._body(), f"{self.command} {self.path}"
        if refused := self.guard(asked, self.headers.get("Authorization") or "", body):
            return self._answer(*refused)
        url = f"http://127.0.0.1:{self.port}{self.path}"
        kept = {name: value for name, value in self.headers.items() if name in KEPT}
        try:
            with urlopen(Request(url, body or None, kept, method=self.command)) as answer:
                return self._answer(answer.status, self.change(asked, answer.read()))
        except HTTPError as error:
            return self._answer(error.code, error.read())

    def _body(self) -> bytes:
        """Return what was sent, which Java's client sends in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _pass_on

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
