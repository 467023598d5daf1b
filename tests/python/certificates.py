"""What an authority gives to a server on this machine and to its clients, as PEM files."""

from __future__ import annotations

import subprocess
from pathlib import Path

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_certificates(folder: Path) -> None:
    """Make `ca.pem`, and `server.pem` and `client.pem` with a key and its certificate each.

    Another folder gets another authority, which the first one's servers and clients don't trust.
    """
    folder.mkdir(parents=True)
    _make(folder, "ca", [])
    authority = ["-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key")]
    for name in ("server", "client"):
        _make(folder, name, [*authority, "-addext", "basicConstraints=critical,CA:FALSE"])
        with (folder / f"{name}.pem").open("a") as file:
            file.write((folder / f"{name}.key").read_text())


def _make(folder: Path, name: str, options: list[str]) -> None:
    new = ["openssl", "req", "-x509", *KEY, "-days", "2", "-subj", f"/CN=icegate {name}"]
    new += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    subprocess.run([*new, *options, *files], check=True, capture_output=True)
