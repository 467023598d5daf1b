"""What a target of ``type: icegate`` may say, and what it means when it says nothing."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionMethod, SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from icegate.settings import Lake, lake_from_target


@dataclass
class IcegateCredentials(SparkCredentials):
    """dbt-spark's credentials, and the embedded lake's own keys; `schema` is all that is needed.

    ``ansi`` is off as in dbt-spark; ``catalog_timeout_s`` is in seconds.
    """

    method: SparkConnectionMethod = SparkConnectionMethod.SESSION
    host: str | None = "embedded"
    catalog: str = "lake"
    home: str | None = None
    warehouse: str | None = None
    memory: str | None = None
    cores: int | None = None
    ansi: bool = False
    catalog_timeout_s: int | None = None
    spark_conf: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        known = [f.name for f in fields(cls)] + ["type", "threads"]
        for key in data:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
                raise DbtRuntimeError(f"unknown key {key!r}: {hint}")
        return super().__pre_deserialize__(data)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.server_side_parameters["spark.sql.ansi.enabled"] = str(self.ansi).lower()

    @property
    def type(self) -> str:
        return "icegate"

    @property
    def unique_field(self) -> str:
        return str(self.host)

    def _connection_keys(self) -> tuple[str, ...]:
        if self.method == SparkConnectionMethod.SESSION:
            return "method", "schema", "catalog", "home", "warehouse", "memory", "cores", "ansi"
        return super()._connection_keys()

    def lake(self, project_root: Path) -> Lake:
        """Return the embedded lake that this target means, for a project in ``project_root``."""
        target = {f.name: getattr(self, f.name) for f in fields(self)}
        target["spark_conf"] = {**self.server_side_parameters, **self.spark_conf}
        return lake_from_target(target, project_root)
