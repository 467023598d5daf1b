"""A Thrift server that asks an LDAP server for passwords, and speaks TLS only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificates

from icegate.connect import local_endpoint, thrift_port
from icegate.errors import JarsError
from targets import ldap_server
from targets.machine import Machine

pytestmark = pytest.mark.long

SECRET = "DBT_ENV_SECRET_THRIFT_PASSWORD"
KEYSTORE = "of the keystore"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("secured")
    for name in ("certificates", "others"):
        make_certificates(made / name)
    pem, store = made / "certificates" / "server.pem", made / "server.p12"
    command = ["openssl", "pkcs12", "-export", "-in", pem, "-out", store]
    subprocess.run([*command, "-passout", f"pass:{KEYSTORE}"], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Machine]:
    try:
        ldap_server.jars()
    except JarsError as error:
        pytest.skip(str(error))
    with ldap_server.running(folder / "ldap") as port:
        conf = {
            "authentication": "LDAP",
            "authentication.ldap.url": f"ldap://127.0.0.1:{port}",
            "authentication.ldap.baseDN": ldap_server.BASE,
            "use.SSL": "true",
            "keystore.path": folder / "server.p12",
            "keystore.password": KEYSTORE,
        }
        site = "".join(
            f"<property><name>hive.server2.{name}</name><value>{value}</value></property>"
            for name, value in conf.items()
        )
        (folder / "conf").mkdir()
        (folder / "conf" / "hive-site.xml").write_text(f"<configuration>{site}</configuration>")
        target = {"type": "icegate", "method": "connect", "schema": "main"}
        made = Machine(folder / "server", target, SPARK_CONF_DIR=str(folder / "conf"))
        made.icegate("server", "start", "--thrift")
        yield made
        made.icegate("server", "stop")


@pytest.fixture
def client(server: Machine, folder: Path, tmp_path: Path) -> Machine:
    target: dict[str, Any] = {"type": "icegate", "method": "thrift", "schema": "main"}
    target |= {"host": "127.0.0.1", "port": thrift_port(server.lake), "catalog": "lake"}
    target |= {"user": ldap_server.USER, "password": f"{{{{ env_var('{SECRET}') }}}}"}
    target |= {"auth": "LDAP", "use_ssl": True}
    target |= {"ca_certs": str(folder / "certificates" / "ca.pem")}
    endpoint = local_endpoint(server.lake)
    target |= {"connect": f"sc://127.0.0.1:{endpoint.port}/;use_ssl=false"}
    target |= {"token": "{{ env_var('DBT_ENV_SECRET_TOKEN') }}"}
    secrets = {SECRET: ldap_server.PASSWORD, "DBT_ENV_SECRET_TOKEN": str(endpoint.token)}
    return Machine(tmp_path, target, **secrets)


def test_a_project_by_user_and_password_over_tls(client: Machine) -> None:
    said = client.dbt("--debug", "build", "--exclude", "past")
    assert "Completed successfully" in said
    written = [
        path.read_text(errors="replace") for path in client.folder.rglob("*") if path.is_file()
    ]
    assert not [text for text in (said, *written) if ldap_server.PASSWORD in text]


@pytest.mark.parametrize(
    ("keys", "password", "said"),
    [
        ({}, "wrong", ["it refuses this user", "correct `user`, `password` and `auth`"]),
        ({"user": "bob"}, None, ["it refuses this user"]),
        ({"ca_certs": "others"}, None, ["its certificate isn't to be trusted", "`ca_certs`"]),
        ({"ca_certs": None}, None, ["its certificate isn't to be trusted"]),
        ({"ca_certs": "nowhere"}, None, ["no such file", "`ca_certs`"]),
        ({"use_ssl": False}, None, ["doesn't answer as one with auth LDAP", "use_ssl"]),
    ],
)
def test_what_is_wrong_is_said(
    client: Machine, folder: Path, keys: dict[str, Any], password: str | None, said: list[str]
) -> None:
    if keys.get("ca_certs"):
        keys = {"ca_certs": str(folder / keys["ca_certs"] / "ca.pem")}
    client.retarget(**keys, connect_timeout=5)
    if password:
        client.environ[SECRET] = password
    told = client.dbt("run", "--select", "orders", code=2)
    assert all(text in told for text in said) and "Traceback" not in told, told
    assert ldap_server.PASSWORD not in told


def test_the_home_of_the_server_has_no_secret_but_the_token(server: Machine) -> None:
    for path in (server.home / "server.log", server.home / "server.json"):
        text = path.read_text(errors="replace")
        assert ldap_server.PASSWORD not in text and KEYSTORE not in text
