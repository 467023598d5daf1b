"""Where a Spark Thrift server listens, and how to get in."""

from __future__ import annotations

import getpass
import re
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any

from icegate.errors import ConfigError, ServerError
from icegate.explain import NO_S3

THRIFT_PORT = 10000
NONE, LDAP, CUSTOM, KERBEROS, NOSASL = AUTHS = "NONE", "LDAP", "CUSTOM", "KERBEROS", "NOSASL"


@dataclass(frozen=True)
class Door:
    """Where a Spark Thrift server listens, and what it wants to see; ``timeout_s`` to connect."""

    host: str
    port: int = THRIFT_PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    auth: str = NONE
    kerberos_service_name: str | None = None
    use_ssl: bool = False
    ca_certs: str | None = None  # a PEM file; without it whom this machine trusts
    timeout_s: int = 10

    def check(self) -> None:
        """Raise ``ConfigError`` for what can't be."""
        why = ""
        if self.auth not in AUTHS:
            why = f"there are {', '.join(AUTHS)}"
        elif (self.password is not None) != (self.auth in (LDAP, CUSTOM)):
            why = f"a password belongs to {LDAP} and {CUSTOM}, and only there"
        elif (self.kerberos_service_name is not None) != (self.auth == KERBEROS):
            why = f"kerberos_service_name belongs to {KERBEROS}, and only there"
        if why:
            raise ConfigError(
                f"cannot use auth {self.auth!r} for a Thrift server",
                why=why,
                fix="write what hive.server2.authentication of the server is",
            )


class StatementError(Exception):
    """What a server says of a statement that failed; ``java_stack`` is Java's, as text."""

    def __init__(self, told: str) -> None:
        message = re.sub(r"^(?:\S*HiveSQLException: )?(?:Error running query: )?", "", told.strip())
        super().__init__(re.sub(r"^(\[[A-Z_.]+\]) [\w.]+Exception: (?=\1)", "", message))
        self.java_stack = told


def transport_of(door: Door) -> tuple[Any, Any]:
    """Return a socket, and what speaks on it, neither of them open yet."""
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport

    class Socket(TSocket):
        """Thrift's, which logs what goes wrong and hides it, opened by Python's own."""

        def open(self) -> None:
            handle = socket.create_connection((door.host, door.port), timeout=door.timeout_s)
            if door.use_ssl:
                # PyHive and dbt-spark take any certificate; here it has to be the host's.
                context = ssl.create_default_context(cafile=door.ca_certs)
                handle = context.wrap_socket(handle, server_hostname=door.host)
            self.handle = handle

    opened = Socket(door.host, door.port)
    if door.auth == NOSASL:
        return opened, TBufferedTransport(opened)
    from pyhive.hive import get_installed_sasl
    from thrift_sasl import TSaslClientTransport

    mechanism = "GSSAPI" if door.auth == KERBEROS else "PLAIN"

    def sasl() -> Any:
        return get_installed_sasl(
            host=door.host,
            sasl_auth=mechanism,
            service=door.kerberos_service_name,
            username=door.user or getpass.getuser(),
            password=door.password or "-",  # an empty one is refused, where none is asked for, too
        )

    return opened, TSaslClientTransport(sasl, mechanism, opened)


def answer_of(error: Exception) -> str:
    """Return what a server says of an error, nothing where it isn't its answer."""
    status = getattr(error.args[0] if error.args else None, "status", None)
    return (status.errorMessage or "") if status else ""


def no_session(door: Door, error: Exception) -> ServerError:
    """Return the error for a server that begins no session."""
    answer = answer_of(error)
    said = answer or str(error)
    why = str(StatementError(said)).strip().splitlines()[0].strip() if said.strip() else "no answer"
    fix = (
        "check `host` and `port` of the target, whether the server runs, and whether it lets this "
        "machine in"
    )
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"its certificate isn't to be trusted: {error.verify_message}"
        fix = "name the PEM file of who signed it: `ca_certs`; `host` has to be as it says"
    elif isinstance(error, FileNotFoundError):
        why, fix = f"no such file: {door.ca_certs}", "correct `ca_certs` of the target"
    elif isinstance(error, ssl.SSLError):
        why, fix = "it has no TLS", "take `use_ssl: true` out of the target"
    elif "Bad status" in said:
        why, fix = "it refuses this user", "correct `user`, `password` and `auth` of the target"
    elif re.search(NO_S3.pattern, said):
        why, fix = NO_S3.what, NO_S3.fix
    elif answer:
        fix = "correct `catalog` and `spark_conf` of the target"
    elif "read 0 bytes" in said or isinstance(error, TimeoutError):
        why = f"it doesn't answer as one with auth {door.auth}{' and TLS' * door.use_ssl} does"
        fix = "check `auth` and `use_ssl` of the target, and that `port` is Thrift's"
    return ServerError(
        f"cannot use the Spark Thrift server at {door.host}:{door.port}", why=why, fix=fix
    )
