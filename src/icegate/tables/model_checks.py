"""What a model's author wrote that would be refused late, or do nothing in silence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Any

from icegate.errors import ConfigError

SIMILAR = 0.85
# What packages that serve several warehouses say to BigQuery, Snowflake and Athena.
OF_OTHERS = ("cluster_by", "partitioned_by", "table_properties")
SCHEMA_CHANGES = ("ignore", "fail", "append_new_columns", "sync_all_columns")


def check_name(model: dict[str, Any], *, quoted: bool) -> None:
    """Raise for a table name that Spark reads as something else; `a.b` is b in schema a."""
    name = model["alias"]
    if not quoted and not re.fullmatch(r"\w+", name, re.ASCII):
        raise ConfigError(
            f"cannot name the table of {model['resource_type']} {model['name']} {name!r}",
            why="a name has letters, digits and _ only",
            fix="rename its file, or set `alias`",
        )


def check_configs(model: dict[str, Any], known: Collection[str]) -> None:
    """Raise for a config that is nearly one of the known, and an unknown on_schema_change."""
    for name in sorted(model["config"].keys() - {*known, *OF_OTHERS}):
        close = difflib.get_close_matches(name, known, n=1, cutoff=SIMILAR)
        if close:
            raise ConfigError(
                f"unknown config {name!r} of model {model['name']}",
                why="dbt would take it and do nothing",
                fix=f"did you mean {close[0]!r}? a config of your own goes into `meta`",
            )
    consent = model["config"].get("allow_destructive")
    if consent is not None and not isinstance(consent, bool):
        raise ConfigError(
            f"cannot use allow_destructive {consent!r} of model {model['name']}",
            why="it says whether a run may take columns from readers",
            fix="set it to true or false",
        )
    mode = model["config"].get("on_schema_change") or "ignore"
    if mode not in SCHEMA_CHANGES:
        raise ConfigError(
            f"unknown on_schema_change {mode!r} of model {model['name']}",
            why="dbt would take it for 'ignore'",
            fix=f"name one of {', '.join(SCHEMA_CHANGES)}",
        )


def no_grants(table: str) -> ConfigError:
    """Return the error for `grants` where there are none."""
    return ConfigError(
        f"cannot grant on {table}",
        why="this catalog has no GRANT; Spark has it only with Hive's metastore or a plugin such "
        "as Ranger's",
        fix="remove `grants`, and give rights where the files and the catalog are",
    )


def no_format(model: str, file_format: str, catalog: str) -> ConfigError:
    """Return the error for a file format in a catalog that makes Iceberg tables of everything."""
    return ConfigError(
        f"cannot build model {model} with file_format '{file_format}'",
        why=f"catalog {catalog} holds Iceberg tables only",
        fix="remove file_format (the data files of an Iceberg table are Parquet), or set "
        "spark.sql.defaultCatalog to a catalog that has such tables",
    )


def no_session(method: str, nodes: Collection[str]) -> ConfigError:
    """Return the error for nodes that take more than SQL."""
    what = f": {', '.join(nodes)}" if nodes else ""
    return ConfigError(
        f"method {method} builds no seeds and no Python models here{what}",
        why="it sends SQL only, and these need a Spark session",
        fix="use a target with method session or connect, with Thrift name the Spark Connect "
        "server of the same application (`connect: sc://…`), or leave them out by --exclude",
    )


def no_gate() -> ConfigError:
    """Return the error for the gate on a catalog on which it can't publish."""
    return ConfigError(
        "cannot open the gate for this target",
        why="it publishes on the embedded catalog only, and this target has another one",
        fix="take `gate: true` out of the target",
    )


def columns_differ(model: str, how: str) -> str:
    """Return the error of `on_schema_change: fail`."""
    return (
        f"the model {model} and its table have different columns\n"
        f"  why: {how}; on_schema_change is 'fail'\n"
        "  fix: set on_schema_change to append_new_columns or sync_all_columns, or "
        "rebuild the table with --full-refresh"
    )


def no_schema(schema: str, why: str) -> str:
    """Return the error for a schema that can't be created."""
    return (
        f"cannot create schema {schema}\n"
        f"  why: {why}\n"
        "  fix: set `schema` of the target or of the model to a name of letters, digits and _, "
        "where this user may create one"
    )
