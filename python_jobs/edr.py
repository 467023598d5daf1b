"""elementary beside the project: which of its models a build needs, and `edr` without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from icegate.catalog import list_relations, open_catalog
from icegate.errors import ConfigError
from icegate.packages import locked_versions
from icegate.settings import CATALOG_SECRETS, Lake, lake_from_target

# Not the program `edr`, which may not be on the path.
EDR = "from elementary.cli.cli import cli; cli(prog_name='edr')"
SCHEMA = "elementary"
PACKAGE = Path("dbt_packages") / "elementary"
# With these a person has chosen what is built.
CHOOSING = {"-s", "--select", "--models", "-m", "--exclude", "--selector", "-f", "--full-refresh"}
# What `edr` needs of a target: nothing that is a secret, since it goes to a file.
KEYS = (
    *("type", "method", "threads", "memory", "cores", "ansi", "spark_conf"),
    *("catalog", "catalog_type", "catalog_uri", "catalog_ref", "catalog_options"),
)
SECRET = "DBT_ENV_SECRET_EDR_"  # a password goes by a variable, since profiles are a file
# It asks PyPI for a newer version of itself, and tells its makers of each run, unless told not to.
CHANNELS = ("SLACK_WEBHOOK", "TEAMS_WEBHOOK")  # where alerts go, if they are set
QUIET = {
    "anonymous_usage_tracking": False,
    "disable_elementary_version_check": True,
    "disable_elementary_logo_print": True,
    "run_dbt_deps_if_needed": False,
}


def leave_out(
    dbt_args: Sequence[str], project_dir: Path, target: Mapping[str, Any], lake: Lake
) -> list[str]:
    """Return the options that leave out elementary's own models, where this version made them all.

    These are empty tables, and views: hooks fill them, in every run.
    """
    chosen = CHOOSING & {arg.partition("=")[0] for arg in dbt_args}
    wanted = {path.stem for path in (project_dir / PACKAGE / "models").rglob("*.sql")}
    schema = _schema(target)
    found = {entry.name for entry in list_relations(lake, schema)}
    if chosen or "metadata" not in wanted or not wanted <= found:
        return []
    rows = open_catalog(lake).load_table(f"{schema}.metadata").scan().to_arrow().to_pylist()
    is_of = {row["dbt_pkg_version"] for row in rows}
    return ["--exclude", "package:elementary"] if is_of == {_version(project_dir)} else []


def run_edr(project_dir: Path, target: Mapping[str, Any], *args: str) -> int:
    """Run `edr` on the tables of elementary in a target, and return its exit code.

    It reads its settings from the home folder as soon as it starts, so it gets one of its own.
    Raises ``ConfigError`` for a target that isn't on this machine.
    """
    lake = lake_from_target(dict(target), project_dir)
    if target.get("host") is not None:
        raise ConfigError(
            "cannot run edr on this target",
            why="its tables aren't on this machine",
            fix="run edr there, with a profile `elementary` of its own",
        )
    home = lake.home / "edr"
    profile = {key: target[key] for key in KEYS if key in target}
    secrets = {f"{SECRET}{key.upper()}": key for key in CATALOG_SECRETS if target.get(key)}
    profile |= {key: f"{{{{ env_var('{name}') }}}}" for name, key in secrets.items()}
    profile |= {"schema": _schema(target), "home": str(lake.home)}
    profile["warehouse"] = lake.bucket or str(lake.warehouse)
    _write(home / ".edr" / "config.yml", QUIET)
    profiles = {"elementary": {"target": "lake", "outputs": {"lake": profile}}}
    _write(home / "profiles.yml", profiles)
    environ = {
        **os.environ,
        **{name: str(target[key]) for name, key in secrets.items()},
        **{f"EDR_MONITOR_{name}": os.environ[name] for name in CHANNELS if name in os.environ},
        "HOME": str(home),
        "DBT_PACKAGES_FOLDER": str(project_dir / "dbt_packages"),
        "EDR_INTERNAL_TARGET_PATH": str(home / "target"),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }
    where = ["--profiles-dir", str(home), "--config-dir", str(home / ".edr")]
    where += ["--target-path", str(home / "logs")]
    command = [sys.executable, "-c", EDR, *args, *where]
    return subprocess.run(command, env=environ, check=False).returncode


def _schema(target: Mapping[str, Any]) -> str:
    """Return where elementary's tables are: as macros/overrides/generate_schema_name.sql says."""
    schema = target.get("schema")
    return SCHEMA if schema == "main" else f"{schema}_{SCHEMA}"


def _version(project_dir: Path) -> str | None:
    return locked_versions(project_dir).get("elementary")


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
