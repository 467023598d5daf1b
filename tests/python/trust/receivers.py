"""Real servers on 127.0.0.1 that take what people are told: webhooks and mail."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller

HANG_S = 120


class Webhook:
    """A webhook: ``answer`` is a status, or "hang" or "drip" (a byte now and then, for ever)."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answer: int | str = 200
        self.posts: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.closing = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.at = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self) -> list[dict[str, Any]]:
        """Return what was posted since it was last asked."""
        taken, self.posts = self.posts, []
        return taken

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def _handler(hook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.answer == "hang":
                hook.closing.wait(HANG_S)
                return
            if hook.answer == "drip":
                self.wfile.write(b"HTTP/1.0 200 OK\r\nX-")
                while not hook.closing.wait(0.5):
                    self.wfile.write(b"x")
                return
            hook.paths.append(self.path)
            if hook.answer == 200:
                hook.posts.append(json.loads(body))
            self.send_response(int(hook.answer))
            self.end_headers()
            self.wfile.write(b"ok")  # what Slack answers

        def log_message(self, *_: Any) -> None: ...

    return Handler


@contextmanager
def webhook(tls: ssl.SSLContext | None = None) -> Iterator[Webhook]:
    hook = Webhook(tls)
    yield hook
    hook.close()


def own_certificate(folder: Path) -> ssl.SSLContext:
    """Make a certificate that nobody else trusts."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    where = ["-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*request, *where], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class _Mailbox:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@contextmanager
def mailbox() -> Iterator[tuple[str, Callable[[], list[EmailMessage]]]]:
    """A mail server: its URL for apprise, and what takes the mails that have come."""
    box, port = _Mailbox(), free_port()
    server = Controller(box, hostname="127.0.0.1", port=port)
    server.start()

    def take() -> list[EmailMessage]:
        taken, box.mails = box.mails, []
        return taken

    people = "from=icegate@shop.example&to=ann@shop.example"
    yield f"mailto://localhost:{port}?smtp=127.0.0.1&mode=insecure&{people}", take
    server.stop()
