"""A real PostgreSQL on this machine, for the tests of catalogs that a team shares."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from certificates import make_certificates

from icegate.server_launch import free_port

USER, PASSWORD = "icegate", "s3cr et/@:%ü"
SPARE = "postgres"  # the server doesn't run as root, who becomes this user
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "max_connections": "400",
}


def binaries() -> Path | None:
    """Return the folder with `initdb` and `postgres`, or None where there is none."""
    debians = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: int(f.parent.name))
    found = shutil.which("initdb")
    folders = [*reversed(debians), *([Path(found).resolve().parent] if found else [])]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@dataclass
class PostgresServer:
    """A running server; ``database`` is one of its databases, which a test has for its own."""

    folder: Path
    port: int
    binaries: Path

    def uri(self, database: str = "postgres", user: str = USER) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.uri(database), password=PASSWORD, autocommit=True)

    def make(self, database: str) -> str:
        """Make a database, and return its URI."""
        with self.connect() as db:
            db.execute(f"create database {database}")
        return self.uri(database)

    def catalog(self, database: str) -> dict[str, str]:
        """Make a database, and return what a lake or a target has to know of it."""
        return {"catalog_uri": self.make(database), "catalog_password": PASSWORD}

    def start(self) -> None:
        self._control("start", "-w", "-l", str(self.folder / "log"))

    def use_tls(self) -> Path:
        """Start again with a certificate, without which nobody connects; return its authority."""
        made = self.folder / "certificates"
        make_certificates(made)
        for name in ("server.pem", "server.key"):
            shutil.copy(made / name, self.folder / "data" / name)
        told = {"ssl": "on", "ssl_cert_file": "server.pem", "ssl_key_file": "server.key"}
        self._set(told)
        access = self.folder / "data" / "pg_hba.conf"
        access.write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
        for path in (self.folder / "data").iterdir():
            if os.geteuid() == 0 and path.name.startswith("server."):
                shutil.chown(path, SPARE)
                path.chmod(0o600)
        self.stop()
        self.start()
        return made / "ca.pem"

    def _set(self, settings: dict[str, str]) -> None:
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-w", "-m", mode)

    def _control(self, *command: str) -> None:
        _run(self.binaries / "pg_ctl", "-D", self.folder / "data", *command)


@contextmanager
def running() -> Iterator[PostgresServer]:
    """Make a server in a folder of its own, since pytest's are closed to other users; end it."""
    with TemporaryDirectory(prefix="icegate-postgres-") as folder, _running(Path(folder)) as server:
        yield server


@contextmanager
def _running(folder: Path) -> Iterator[PostgresServer]:
    found = binaries()
    assert found is not None
    if os.geteuid() == 0:
        shutil.chown(folder, SPARE)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    options = ["-U", USER, "--pwfile", secret, "--auth=scram-sha-256", "-E", "UTF8", "-N"]
    _run(found / "initdb", "-D", folder / "data", *options, "--locale=C")
    server = PostgresServer(folder, free_port(None), found)
    server._set({**SETTINGS, "port": str(server.port)})
    server.start()
    try:
        yield server
    finally:
        server.stop("immediate")


def _run(*command: str | Path) -> None:
    user = SPARE if os.geteuid() == 0 else None
    done = subprocess.run(
        list(map(str, command)),
        user=user,
        group=user,
        extra_groups=[] if user else None,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
