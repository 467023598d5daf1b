"""A small hub on this machine, which answers as dbt's does."""

from __future__ import annotations

import io
import json
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

VERSIONS = {"dbt_utils": "1.4.1", "elementary": "0.25.1"}
OWNERS = {"dbt_utils": "dbt-labs", "elementary": "elementary-data"}


def tarball(name: str, version: str, files: dict[str, str]) -> bytes:
    """Make what a code host serves for a release: one folder, with the package in it."""
    files = {"dbt_project.yml": f"name: {name}\nversion: '{version}'\n", **files}
    folder = tarfile.TarInfo(f"{name}-{version}")
    folder.type = tarfile.DIRTYPE
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(folder)
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{folder.name}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


class Hub:
    """A hub of two packages: ``broken`` ones arrive cut off, ``fields`` differ in version.

    ``files`` are what is in a package, by its name; of others there's a project file only.
    """

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.fields = dict(VERSIONS)
        self.files: dict[str, dict[str, str]] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = hub.answer(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> bytes:
        name = path.rpartition("/")[2].partition(".")[0]
        if name == "index":
            return json.dumps([f"{OWNERS[name]}/{name}" for name in VERSIONS]).encode()
        if path.startswith("/download/"):
            packed = tarball(name, self.fields[name], self.files.get(name, {}))
            return packed[:20] if name in self.broken else packed
        version = {
            "name": name,
            "version": VERSIONS[name],
            "packages": [],
            "downloads": {"tarball": f"{self.url}download/{name}.tar.gz"},
        }
        return json.dumps({"name": name, "versions": {VERSIONS[name]: version}}).encode()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
