"""What a target of ``type: icegate`` may say, and what it means when it says nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.dataclass_schema import StrEnum, ValidationError
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.connect import Endpoint, local_endpoint, server_keys
from icegate.errors import did_you_mean
from icegate.gate.verdict import Scope
from icegate.settings import Lake, lake_from_target

EMBEDDED = "embedded"


class IcegateMethod(StrEnum):
    """dbt-spark's methods, which are equal to its own, and Spark Connect."""

    SESSION = SparkConnectionMethod.SESSION.value
    CONNECT = "connect"
    THRIFT = SparkConnectionMethod.THRIFT.value
    HTTP = SparkConnectionMethod.HTTP.value
    ODBC = SparkConnectionMethod.ODBC.value


@dataclass
class IcegateCredentials(SparkCredentials):
    """dbt-spark's credentials, and the embedded lake's own keys; `schema` is all that is needed.

    ``ansi`` is off as in dbt-spark; ``catalog_timeout_s`` is in seconds.
    """

    method: IcegateMethod = IcegateMethod.SESSION  # type: ignore[assignment]
    token: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    catalog: str | None = None
    catalog_uri: str | None = None
    catalog_password: str | None = field(default=None, repr=False)
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
        return super().__pre_deserialize__(data)

    def __post_init__(self) -> None:
        if self.host is None and self.method in (IcegateMethod.SESSION, IcegateMethod.CONNECT):
            self.host = EMBEDDED
        if self.catalog is None and not self.is_remote:
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

    def _connection_keys(self) -> tuple[str, ...]:
        if self.is_remote and self.method == IcegateMethod.CONNECT:
            return "method", "host", "port", "use_ssl", "schema", "catalog", "ansi"
        if self.is_remote:
            return super()._connection_keys()
        where = ("catalog", "home", "catalog_uri", "warehouse", "master")
        return "method", "schema", *filter(self.__dict__.get, where), "memory", "cores", "ansi"

    @as_dbt_error()
    def lake(self, project_root: Path) -> Lake:
        """Return the embedded lake that this target means, for a project in ``project_root``."""
        target = {f.name: getattr(self, f.name) for f in fields(self)}
        target["spark_conf"] = {**self.server_side_parameters, **self.spark_conf}
        return lake_from_target(target, project_root)

    def server(self, lake: Lake) -> Endpoint | None:
        """Return the Spark Connect server of this target; None for Spark in this process."""
        if self.method != IcegateMethod.CONNECT:
            return None
        if not self.is_remote:
            return local_endpoint(lake)
        return Endpoint(
            str(self.host), self.port, self.token, use_ssl=self.use_ssl, catalog=self.catalog
        )


def _nearest(word: str, known: list[str]) -> str:
    return did_you_mean(word, known, f"known: {', '.join(known)}")
