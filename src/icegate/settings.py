"""What the lakehouse is made of and where it lives: one frozen object, made from a dbt target."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import yaml
from jinja2 import Environment, TemplateError, UndefinedError
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from icegate.catalogs.place import check_place
from icegate.errors import ConfigError
from icegate.storage import is_remote

SPARK_SCALA = "4.1_2.13"
ICEBERG_VERSION = "1.12.0"
SQLITE_JDBC_VERSION = "3.50.3.0"
POSTGRES_JDBC_VERSION = "42.7.14"
LOCAL_FILES_VERSION = "0.1.0"
JARS = (
    f"org.apache.iceberg:iceberg-spark-runtime-{SPARK_SCALA}:{ICEBERG_VERSION}",
    f"org.xerial:sqlite-jdbc:{SQLITE_JDBC_VERSION}",
    f"org.postgresql:postgresql:{POSTGRES_JDBC_VERSION}",
    # Hadoop's own local files start a `chmod` process for each file that is written.
    f"com.globalmentor:hadoop-bare-naked-local-fs:{LOCAL_FILES_VERSION}",
)
BUCKET_JAR = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}"  # with AWS's own client
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
    catalog_type: Literal["postgres", "nessie", "glue"] | None = None
    catalog_uri: str | None = None
    catalog_password: SecretStr | None = None
    catalog_token: SecretStr | None = None
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
        check_place(self.catalog_type, self.catalog_uri, self.bucket)
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
    "catalog_ref",
    "master",
    "memory",
    "cores",
    "ansi",
    "catalog_timeout_s",
    "audit_max_mb",
)


CATALOG_SECRETS = ("catalog_password", "catalog_token")
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
    conf = {str(key): str(value) for key, value in (target.get("spark_conf") or {}).items()}
    try:
        return Lake(
            home=home,
            warehouse=(project_dir / warehouse).absolute(),
            bucket=bucket,
            spark_conf=conf,
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
    return (*JARS, BUCKET_JAR) if lake.bucket else JARS


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


def load_target(
    project_dir: Path, profiles_dir: Path | None = None, target: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Read the name and the keys of a target as dbt would, without importing dbt (over a second).

    Raises ``ConfigError``.
    """
    wanted, keys = find_target(project_dir, profiles_dir, target)
    return wanted, {key: render(value, typed=key not in SECRETS) for key, value in keys.items()}


def find_target(
    project_dir: Path, profiles_dir: Path | None, target: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the name and the keys of a target as they are written.

    Raises ``ConfigError`` when a file, the profile or the target isn't there.
    """
    project = _read_yaml(project_dir / "dbt_project.yml", "a dbt project")
    name = str(project.get("profile", ""))
    path = find_profiles(project_dir, profiles_dir)
    profiles = _read_yaml(path, "profiles")
    if name not in profiles:
        known = ", ".join(key for key in profiles if key != "config")
        raise ConfigError(
            f"cannot find profile {name!r}",
            why=f"{path} has: {known}",
            fix="correct `profile:` in dbt_project.yml",
        )
    outputs = profiles[name].get("outputs") or {}
    wanted = (
        target or os.environ.get("DBT_TARGET") or render(profiles[name].get("target", "default"))
    )
    if wanted not in outputs:
        raise ConfigError(
            f"cannot find target {wanted!r}",
            why=f"profile {name!r} has: {', '.join(outputs)}",
            fix="name one of these with --target",
        )
    return wanted, outputs[wanted]


def find_profiles(project_dir: Path, profiles_dir: Path | None) -> Path:
    """Return where the profiles are that dbt would take; raises ``ConfigError`` without any."""
    chosen = profiles_dir or os.environ.get("DBT_PROFILES_DIR")
    folders = [Path(chosen)] if chosen else [project_dir, Path.home() / ".dbt"]
    path = next((f / "profiles.yml" for f in folders if (f / "profiles.yml").is_file()), None)
    if path is None:
        raise ConfigError(
            "cannot find profiles.yml",
            why=f"looked in {', '.join(str(f) for f in folders)}",
            fix="run this in the project folder, or name the folder with --profiles-dir",
        )
    return path


def read_rendered(path: Path, what: str, key: str | None = None, typed: bool = True) -> Any:
    """Read a YAML file, or only what is below one key of it, with ``env_var`` as in profiles.

    Where it isn't ``typed`` a variable's value stays the text that it is, as a password has to.
    """
    found = _read_yaml(path, what)
    return render(found if key is None else found.get(key), typed)


def read_keys(path: Path, what: str) -> list[str]:
    """Return the keys of a YAML file."""
    return [*_read_yaml(path, what)]


def _read_yaml(path: Path, what: str) -> dict[str, Any]:
    try:
        return yaml.safe_load(path.read_text()) or {}
    except FileNotFoundError as error:
        raise ConfigError(
            f"cannot find {what}: {path}",
            why="the file isn't there",
            fix="run this in the project folder, or name it with --project-dir",
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read {path}", why=str(error), fix="repair the YAML") from error


def _env_var(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise UndefinedError(f"environment variable {name} isn't set")
    return value


def render(value: Any, typed: bool = True, env_var: Callable[..., str] = _env_var) -> Any:
    """Render ``env_var`` in every string, and give numbers and booleans their type, as dbt does."""
    if isinstance(value, dict):
        return {key: render(inner, typed, env_var) for key, inner in value.items()}
    if isinstance(value, list):
        return [render(inner, typed, env_var) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    jinja = Environment()
    jinja.filters.update(as_number=float, as_bool=lambda text: text.lower() == "true")
    what = f"cannot render {value!r}"
    try:
        rendered = jinja.from_string(value).render(env_var=env_var)
        return yaml.safe_load(rendered) if typed else rendered
    except TemplateError as error:
        raise ConfigError(what, why=str(error), fix="set the variable") from error
    except yaml.YAMLError:  # which shows the value: it may be a password
        why = "what comes out can't be read as YAML"
        raise ConfigError(what, why=why, fix="correct the variable") from None
