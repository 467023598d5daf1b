"""What a target of ``type: icegate`` may say, and what it means when it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.dataclass_schema import StrEnum, ValidationError
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.connect import Endpoint, local_endpoint, server_keys, thrift_port
from icegate.emr import clusters
from icegate.errors import ConfigError, did_you_mean
from icegate.gate.verdict import Scope
from icegate.settings import Lake, lake_from_target
from icegate.thrift.door import NONE, THRIFT_PORT, Door

EMBEDDED = "embedded"


class IcegateMethod(StrEnum):
    """dbt-spark's methods, which are equal to its own, and Spark Connect."""

    SESSION = SparkConnectionMethod.SESSION.value
    CONNECT = "connect"
    THRIFT = SparkConnectionMethod.THRIFT.value
    HTTP = SparkConnectionMethod.HTTP.value
    ODBC = SparkConnectionMethod.ODBC.value


OURS = (IcegateMethod.SESSION, IcegateMethod.CONNECT, IcegateMethod.THRIFT)


@dataclass
class IcegateCredentials(SparkCredentials):
    """dbt-spark's credentials, and the embedded lake's own keys; `schema` is all that is needed.

    ``ansi`` is off as in dbt-spark; ``catalog_timeout_s`` is in seconds.
    """

    method: IcegateMethod = IcegateMethod.SESSION  # type: ignore[assignment]
    token: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca_certs: str | None = None
    connect: str | None = None
    cluster: str | None = None
    catalog: str | None = None
    catalog_type: str | None = None
    catalog_uri: str | None = None
    catalog_password: str | None = field(default=None, repr=False)
    catalog_token: str | None = field(default=None, repr=False)
    catalog_credential: str | None = field(default=None, repr=False)
    catalog_options: dict[str, str] = field(default_factory=dict)
    catalog_ref: str | None = None
    home: str | None = None
    warehouse: str | None = None
    master: str | None = None
    memory: str | None = None
    cores: int | None = None
    ansi: bool = False
    catalog_timeout_s: int | None = None
    gate: bool = False
    gate_scope: Scope = Scope.DOWNSTREAM
    gate_require_tests: bool = False
    audits: bool = False
    audit_max_mb: int | None = None
    spark_conf: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def validate(cls, data: Any) -> None:
        """Check the method here, since dbt's own check comes first and says nothing of typos."""
        methods = [method.value for method in IcegateMethod]
        method = data.get("method", methods[0])
        if method not in methods:
            raise ValidationError(f"unknown method {method!r}: {_nearest(str(method), methods)}")
        super().validate(data)

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        known = [f.name for f in fields(cls)] + ["type", "threads"]
        for key in data:
            if key not in known:
                raise DbtRuntimeError(f"unknown key {key!r}: {_nearest(key, known)}")
        if data.get("method") == IcegateMethod.CONNECT:
            with as_dbt_error():
                data = {**data, **server_keys(data)}
        if data.get("cluster"):
            _check_cluster(data)
        if data.get("method") == IcegateMethod.THRIFT:
            data = {"port": clusters.THRIFT_PORT if data.get("cluster") else THRIFT_PORT, **data}
        return super().__pre_deserialize__(data)

    def __post_init__(self) -> None:
        if self.host is None and self.method in OURS:
            self.host = self.cluster or EMBEDDED
        if self.method == IcegateMethod.THRIFT and find_spec("pyhive") is None:
            raise DbtRuntimeError(
                "cannot use method thrift\n"
                "  why: PyHive isn't installed, which speaks its protocol\n"
                "  fix: pip install 'icegate[thrift]'"
            )
        if self.catalog is None and self.knows_lake:
            self.catalog = Lake.model_fields["catalog"].default
        super().__post_init__()
        self.server_side_parameters["spark.sql.ansi.enabled"] = str(self.ansi).lower()

    @property
    def type(self) -> str:
        return "icegate"

    @property
    def unique_field(self) -> str:
        return str(self.host)

    @property
    def is_remote(self) -> bool:
        """Tell whether the lake isn't the one of this project's home."""
        return self.method != IcegateMethod.SESSION and self.host != EMBEDDED

    @property
    def knows_lake(self) -> bool:
        """Tell whether the catalog is one that this machine reads, too."""
        return not self.is_remote or bool(self.catalog_uri or self.catalog_type)

    @property
    def has_session(self) -> bool:
        """Tell whether there's a Spark session to be had, and not only SQL to be sent."""
        if self.method == IcegateMethod.THRIFT:
            return not self.is_remote or bool(self.connect)
        return self.method in OURS

    @property
    def node(self) -> str:
        """Return where the server is; of a cluster its primary node, which EMR is asked for.

        Raises ``ServerError``.
        """
        return clusters.find_cluster(self.cluster).host if self.cluster else str(self.host)

    def _connection_keys(self) -> tuple[str, ...]:
        if self.is_remote and self.method == IcegateMethod.THRIFT:
            return "method", "host", "port", "use_ssl", "user", "auth", "connect", "schema", "ansi"
        if self.is_remote and self.method == IcegateMethod.CONNECT:
            return "method", "host", "port", "use_ssl", "schema", "catalog", "ansi"
        if self.is_remote:
            return super()._connection_keys()
        where = (
            *("catalog", "home", "catalog_type", "catalog_uri", "catalog_ref"),
            *("warehouse", "master"),
        )
        return "method", "schema", *filter(self.__dict__.get, where), "memory", "cores", "ansi"

    @as_dbt_error()
    def lake(self, project_root: Path) -> Lake:
        """Return the embedded lake that this target means, for a project in ``project_root``."""
        if self.is_remote and self.catalog_uri and not self.warehouse:
            raise ConfigError(
                "cannot use catalog_uri on a server that isn't this home's",
                why="the target doesn't say where that server and this machine have the files",
                fix="set `warehouse`, which both see under the same path",
            )
        target = {f.name: getattr(self, f.name) for f in fields(self)}
        target["spark_conf"] = {**self.server_side_parameters, **self.spark_conf}
        return lake_from_target(target, project_root)

    def server(self, lake: Lake) -> Endpoint | None:
        """Return the Spark Connect server of this target; None for one that has none."""
        if self.method not in (IcegateMethod.CONNECT, IcegateMethod.THRIFT):
            return None
        if not self.is_remote:
            if self.method == IcegateMethod.THRIFT:
                thrift_port(lake)  # its error is the one to see
            return local_endpoint(lake)
        where: dict[str, Any]
        if self.method == IcegateMethod.CONNECT:
            where = {"host": self.node, "port": self.port, "use_ssl": self.use_ssl}
        elif self.connect:
            where = server_keys({"host": self.connect.replace("://:", f"://{self.node}:")})
        else:
            return None
        own = {"token": self.token, **where}
        return Endpoint(**own, catalog=self.catalog)

    def door(self, lake: Lake) -> Door:
        """Return the Thrift server of this target."""
        if not self.is_remote:
            return Door("127.0.0.1", thrift_port(lake))
        return Door(
            self.node,
            self.port,
            self.user,
            self.password,
            self.auth or NONE,
            self.kerberos_service_name,
            self.use_ssl,
            self.ca_certs,
            self.connect_timeout,
        )


def _check_cluster(data: Mapping[str, Any]) -> None:
    with as_dbt_error():
        if data.get("method") not in (IcegateMethod.CONNECT, IcegateMethod.THRIFT):
            raise ConfigError(
                "cannot use `cluster` without a server on it",
                why="it's the primary node of an EMR cluster that the target would connect to",
                fix="add `method: thrift` or `method: connect`; `icegate submit --cluster` sends a "
                "build as a step, for a target with `master: submitted`",
            )
        if data.get("host"):
            raise ConfigError(
                "cannot use both `cluster` and `host`",
                why="the host is the cluster's primary node",
                fix="take one of them out of the target",
            )


def _nearest(word: str, known: list[str]) -> str:
    return did_you_mean(word, known, f"known: {', '.join(known)}")
