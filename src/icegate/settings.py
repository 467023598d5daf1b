"""What the lakehouse is made of and where it lives: one frozen object, made from a dbt target."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from icegate.catalogs.place import check_place
from icegate.errors import ConfigError
from icegate.storage import is_remote

# Iceberg's build for each minor version of Spark, with the Scala of Spark's packages: the newest.
ICEBERGS = {"4.1": ("4.1_2.13", "1.12.0"), "4.0": ("4.0_2.13", "1.11.0")}
SQLITE_JDBC_VERSION = "3.50.3.0"
POSTGRES_JDBC_VERSION = "42.7.14"
LOCAL_FILES_VERSION = "0.1.0"
OTHER_JARS = (
    f"org.xerial:sqlite-jdbc:{SQLITE_JDBC_VERSION}",
    f"org.postgresql:postgresql:{POSTGRES_JDBC_VERSION}",
    # Hadoop's own local files start a `chmod` process for each file that is written.
    f"com.globalmentor:hadoop-bare-naked-local-fs:{LOCAL_FILES_VERSION}",
)
JAVA_VERSIONS = (17, 21)


class Lake(BaseModel):
    """One embedded lakehouse: its catalog, its files and the Spark that serves it.

    Paths are absolute. ``catalog_timeout_s`` is in seconds, ``cores`` 0 means all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path
    catalog: str = Field(default="lake", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    warehouse: Path
    # `s3://bucket/folder`: the tables are there, and not in `warehouse`.
    bucket: str | None = Field(default=None, pattern=r"^s3://[a-z0-9][a-z0-9.-]+[a-z0-9](/.+)?$")
    # The catalog of a team; without any of these it's a file in `home`.
    catalog_type: Literal["postgres", "nessie", "glue", "rest"] | None = None
    catalog_uri: str | None = None
    catalog_password: SecretStr | None = None
    catalog_token: SecretStr | None = None
    catalog_credential: SecretStr | None = None
    catalog_options: dict[str, str] = {}
    catalog_ref: str = Field(default="main", pattern=r"^[A-Za-z][A-Za-z0-9._/-]*$")
    # A cluster for the work; without it Spark works in the driver, on `cores` of this machine.
    # `submitted` is the Spark that spark-submit started, wherever that works.
    master: str | None = Field(default=None, pattern=r"^(spark://.+|yarn|k8s://.+|submitted)$")
    memory: str = Field(default="2g", pattern=r"^[1-9][0-9]*[mMgG]$")
    cores: int = Field(default=0, ge=0)
    ansi: bool = False
    catalog_timeout_s: int = Field(default=60, ge=1)
    # What DuckDB may read for one test: on a cluster Spark has more machines than this one.
    audit_max_mb: int = Field(default=4096, ge=0)
    spark_conf: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_catalog(self) -> Lake:
        check_place(self.catalog_type, self.catalog_uri, self.bucket, self.catalog_options)
        return self

    @property
    def root(self) -> str:
        """Where the tables' folders are, as Iceberg writes it."""
        return self.bucket or f"file://{self.warehouse}"

    @property
    def is_shared(self) -> bool:
        """Tell whether its catalog is one that other machines reach, too."""
        return self.catalog_uri is not None or self.catalog_type is not None

    @property
    def is_submitted(self) -> bool:
        """Tell whether spark-submit started its Spark, with jars and memory of its own."""
        return self.master == "submitted"

    @property
    def catalog_db(self) -> Path:
        """The SQLite file that Iceberg's JDBC catalog and PyIceberg's SqlCatalog share."""
        return self.home / "catalog.db"

    @property
    def has_own_catalog(self) -> bool:
        """Tell whether its tables are in its own catalog file: `spark_conf` may name another."""
        own = f"spark.sql.catalog.{self.catalog}"
        return not any(
            name == "spark.sql.defaultCatalog"
            or (name.startswith(own) and not name.startswith(f"{own}.table-"))
            for name in self.spark_conf
        )

    @property
    def keeps_checkpoints(self) -> bool:
        """Tell whether rows that a merge reads twice are in a folder: spark-submit may say none."""
        return self.master is not None and (
            not self.is_submitted or "spark.checkpoint.dir" in self.spark_conf
        )

    @property
    def checkpoints(self) -> Path:
        """Where a cluster keeps rows that a merge reads twice, since a worker may be lost."""
        home = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
        return self.warehouse / ".checkpoints" / home

    @property
    def ivy(self) -> Path:
        """Where Spark's Ivy keeps the jars that it resolved."""
        return self.home / "ivy"


TARGET_KEYS = (
    "catalog",
    "catalog_type",
    "catalog_uri",
    "catalog_password",
    "catalog_token",
    "catalog_credential",
    "catalog_ref",
    "master",
    "memory",
    "cores",
    "ansi",
    "catalog_timeout_s",
    "audit_max_mb",
)


CATALOG_SECRETS = ("catalog_password", "catalog_token", "catalog_credential")
SECRETS = ("token", "password", *CATALOG_SECRETS)


def lake_from_target(target: dict[str, Any], project_dir: Path) -> Lake:
    """Make a ``Lake`` from one output of a profile; relative paths count from ``project_dir``."""
    home = Path(target.get("home") or os.environ.get("ICEGATE_HOME") or ".icegate").expanduser()
    home = (project_dir / home).absolute()
    said = str(target.get("warehouse") or "")
    bucket = said.rstrip("/") if is_remote(said) else None
    warehouse = Path(home / "warehouse" if bucket or not said else said).expanduser()
    # What a variable leaves empty isn't said.
    given = {key: target[key] for key in TARGET_KEYS if target.get(key) not in (None, "")}
    conf, options = (
        {
            str(key): str(value)
            for key, value in (target.get(of) or {}).items()
            if value not in (None, "")
        }
        for of in ("spark_conf", "catalog_options")
    )
    try:
        return Lake(
            home=home,
            warehouse=(project_dir / warehouse).absolute(),
            bucket=bucket,
            spark_conf=conf,
            catalog_options=options,
            **given,
        )
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        raise ConfigError(
            f"cannot use the target: {key}: {'…' if key in SECRETS else repr(first['input'])}",
            why=first["msg"],
            fix="correct it in profiles.yml; docs/profiles.md lists every key",
        ) from error


def jars_of(lake: Lake) -> tuple[str, ...]:
    """Return the jars that a lake's Spark needs, by their coordinates."""
    build, iceberg = ICEBERGS.get(_version_of("pyspark")[:3], ICEBERGS["4.1"])
    jars = f"org.apache.iceberg:iceberg-spark-runtime-{build}:{iceberg}", *OTHER_JARS
    # With AWS's own client.
    return (*jars, f"org.apache.iceberg:iceberg-aws-bundle:{iceberg}") if lake.bucket else jars


def engine_of(lake: Lake, packages: Iterable[str]) -> str:
    """Return what decides how a lake's queries are run: versions, jars, settings."""
    # dbt has it among these already, as the target says it.
    conf = {"spark.sql.ansi.enabled": str(lake.ansi).lower(), **lake.spark_conf}
    versions = {name: _version_of(name) for name in packages}
    return json.dumps([conf, versions, jars_of(lake)], sort_keys=True)


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # a job's pyspark is files of its Spark, without metadata
        return str(import_module(package).__version__)
