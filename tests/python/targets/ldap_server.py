"""An LDAP server with one person in it, for servers that ask one whether a password is right."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maven import jars_of

from icegate.java import find_java
from icegate.server_launch import free_port
from targets.programs import answers

BASE, USER, PASSWORD = "ou=people,dc=example,dc=com", "ann", "a secret of Ann's"
PEOPLE = f"""
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: {BASE}
objectClass: organizationalUnit
ou: people

dn: uid={USER},{BASE}
objectClass: inetOrgPerson
uid: {USER}
cn: Ann
sn: A
userPassword: {PASSWORD}
"""


def jars() -> list[Path]:
    return jars_of("ldap", "com.unboundid", "unboundid-ldapsdk", "7.0.3")


@contextmanager
def running(folder: Path) -> Iterator[int]:
    """Run the server on this machine; yield its port."""
    folder.mkdir(parents=True)
    (folder / "people.ldif").write_text(PEOPLE.lstrip())
    (jar,) = jars()
    port = free_port(None)
    command = [find_java().home / "bin" / "java", "-cp", jar]
    command += ["com.unboundid.ldap.listener.InMemoryDirectoryServerTool"]
    command += ["--port", str(port), "--baseDN", "dc=example,dc=com"]
    command += ["--ldifFile", folder / "people.ldif"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "it doesn't listen"
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()
