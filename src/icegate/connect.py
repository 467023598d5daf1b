"""Sessions on a Spark Connect server: this home's own warm one, or one that a target names."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from icegate.errors import ConfigError, ServerError
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icegate.server import Server

CONNECT_PORT = 15002
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# What a start joins with more of its own: Spark's options for Java, the jars, Connect itself.
JOINED = ("spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.plugins")
# Waits of 0.1, 0.4, 1.6 and 3 s: enough for a short break of the network; pyspark's are 10 minutes.
RETRIES = {"max_retries": 4, "initial_backoff": 100, "max_backoff": 3000}


@dataclass(frozen=True)
class Endpoint:
    """Where a Spark Connect server listens, and what it wants to see.

    ``local`` is the server that ``icegate server`` started in this home, with the lake's own conf.
    ``catalog`` is for another server, which may have a default of its own.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    use_ssl: bool = False
    local: bool = False
    catalog: str | None = None


def open_connect(lake: Lake, endpoint: Endpoint) -> SparkSession:
    """Return a new session on the server at ``endpoint``, with the target's own settings."""
    from pyspark.sql.connect.session import SparkSession

    from icegate.spark_conf import served_conf

    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    session = SparkSession(connection=_channel_builder(endpoint))
    session.client.set_retry_policies([_patience()])
    _check_version(session, endpoint)
    if endpoint.local:  # no network that could break: a statement needn't outlive its connection
        session.client.disable_reattachable_execute()
    SparkSession._set_default_and_active_session(session)
    _apply(session, served_conf(lake, endpoint.catalog, is_local=endpoint.local))
    # Without it the server keeps temporary views, and what runs, for an hour.
    atexit.register(release, session)
    return session  # type: ignore[return-value]


def _check_version(session: Any, endpoint: Endpoint) -> None:
    """Raise ``ServerError`` for one that is older than pyspark, and can't read its requests."""
    import pyspark

    ours, theirs = pyspark.__version__, session.version
    if endpoint.local or _minor(theirs) >= _minor(ours):
        return
    raise ServerError(
        f"cannot use the Spark Connect server at {endpoint.host}:{endpoint.port}",
        why=f"it's Spark {theirs}, older than pyspark {ours} of this environment",
        fix=f"take an environment for that Spark: `pip install 'pyspark[connect]=={theirs}'`",
    )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def release(session: Any) -> None:
    """Give the session back to its server; a server that is gone needs no answer."""
    session.client.set_retry_policies([])
    session.stop()


def _patience() -> Any:
    """Return a retry policy that waits a few seconds, once in the life of a session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState

    class State(RetryPolicyState):
        def next_attempt(self, *failed: BaseException | None) -> int | None:  # pyspark 4.0: nothing
            wait_ms = super().next_attempt(*failed)
            if wait_ms is None:  # the statements of other models needn't wait for the same server
                self._policy.max_retries = 0
            return wait_ms

    class Patience(DefaultPolicy):
        def to_state(self) -> RetryPolicyState:
            return State(self)

    return Patience(**RETRIES)  # type: ignore[arg-type]


def _channel_builder(endpoint: Endpoint) -> Any:
    """Return pyspark's way to a channel, right for a token on loopback without TLS.

    pyspark insists on TLS when there is a token and the host isn't written ``localhost``; a token
    still never leaves this machine without TLS.
    """
    import grpc
    from pyspark.sql.connect.client import ChannelBuilder

    class IcegateChannelBuilder(ChannelBuilder):
        host = endpoint.host

        def toChannel(self) -> grpc.Channel:
            target = f"{endpoint.host}:{endpoint.port}"
            plain = not endpoint.use_ssl
            if endpoint.host in LOOPBACK:
                self.setChannelOption("grpc.enable_http_proxy", 0)
            if plain and endpoint.token is None:
                return self._insecure_channel(target)
            if plain and endpoint.host in LOOPBACK:
                transport = grpc.local_channel_credentials()
            else:
                # GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names a company's own certificates.
                transport = grpc.ssl_channel_credentials()
            if endpoint.token is None:
                return self._secure_channel(target, transport)
            bearer = grpc.access_token_call_credentials(endpoint.token)
            both = grpc.composite_channel_credentials(transport, bearer)
            return self._secure_channel(target, both)

        @property
        def token(self) -> str | None:
            return endpoint.token

    return IcegateChannelBuilder(params={"user_agent": "icegate"})


def _apply(session: Any, conf: dict[str, str]) -> None:
    """Set what the server doesn't have yet; what only its start can set must be there."""
    has = session.conf.getAll
    for key, value in conf.items():
        if has.get(key) == value:
            continue
        try:
            session.conf.set(key, value)
        except Exception as error:
            if "CANNOT_MODIFY" not in str(error):
                raise
            held = session.conf.get(key, None)
            if held == value or (key in JOINED and value in (held or "")):
                continue
            raise ConfigError(
                f"cannot set {key} of `spark_conf`",
                why="only the start of a Spark server can set it",
                fix="set it where the server is started (`icegate server stop`, then `icegate "
                "server start`), or take it out of the target",
            ) from error


def server_keys(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return host and port of a target that may have them as `sc://host:15002/;token=…`.

    That is pyspark's form. The token must not stay in the host, which dbt prints.
    """
    host = str(target.get("host") or "")
    if not host:
        return {"port": target.get("port") or CONNECT_PORT}
    url = urlsplit(host if "://" in host else f"sc://{host}")
    try:
        port, name = url.port, url.hostname
    except ValueError:
        port, name = None, None
    inside = dict(pair.partition("=")[::2] for pair in url.path.strip("/;").split(";") if pair)
    if url.scheme != "sc" or not name or not inside.keys() <= {"token", "use_ssl", "user_id"}:
        raise ConfigError(
            f"cannot use host {host.partition(';')[0]!r}",
            why="the method `connect` reads `sc://host:port`, or a name and `port:`",
            fix="write it so; `token:` and `use_ssl:` are keys of their own",
        )
    found: dict[str, Any] = {
        "host": f"[{name}]" if ":" in name else name,
        "port": port or target.get("port") or CONNECT_PORT,
    }
    if "token" in inside:
        found["token"] = unquote(inside["token"])
    if "use_ssl" in inside:
        found["use_ssl"] = inside["use_ssl"].lower() == "true"
    return found


def local_endpoint(lake: Lake) -> Endpoint:
    """Return the endpoint of the running server of this home; raise ``ServerError`` without one."""
    server = _local_server(lake, "Connect", "icegate server start")
    return Endpoint("127.0.0.1", server.port, server.token, local=True)


def thrift_port(lake: Lake) -> int:
    """Return where the server of this home answers Thrift; raise ``ServerError`` if nowhere."""
    start = "icegate server start --thrift"
    server = _local_server(lake, "Thrift", start)
    if server.thrift_port is None:
        raise ServerError(
            "cannot reach the Spark Thrift server",
            why="the server of this home answers Connect only",
            fix=f"start it anew: `icegate server stop`, then `{start}`",
        )
    return server.thrift_port


def _local_server(lake: Lake, what: str, start: str) -> Server:
    from icegate.server import find_server

    server = find_server(lake)
    if server is None:
        raise ServerError(
            f"cannot reach the Spark {what} server",
            why=f"the target names no `host`, and no server runs in {lake.home}",
            fix=f"start one: `{start}`",
        )
    return server
