"""A network between dbt and its server that loses answers: what was asked for is done."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class LossyProxy:
    """Forwards connections to a port; ``lose`` swallows the answers from then on, ``cut`` ends."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.losing = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self) -> None:
        self.losing = True

    def cut(self) -> None:
        """Break the connections, so that the client knows; new ones work again."""
        sockets, self._sockets = self._sockets, []
        for found in sockets:
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            found.close()
        self.losing = False

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self._sockets += [client, server]
            for pair in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not (is_answer and self.losing):
                    sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.close()
