"""The same small models as a project of SQLMesh, on the same Spark and catalog."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import yaml
from _bench import HOME, Cost, Side, peer_python, spark_defaults, timed

KINDS = {
    "view": "VIEW",
    "table": "FULL",
    "append": "INCREMENTAL_UNMANAGED",
    "merge": "INCREMENTAL_BY_UNIQUE_KEY (unique_key order_id)",
}
CONFIG = {
    "gateways": {
        "spark": {
            "connection": {"type": "spark"},
            "state_connection": {"type": "duckdb", "database": "state.db"},
        }
    },
    "default_gateway": "spark",
    "model_defaults": {"dialect": "spark", "start": "2026-01-01", "table_format": "iceberg"},
    "disable_anonymized_analytics": True,
}


def sqlmesh(benchmark: str, files: dict[str, str]) -> Side:
    """Write the project; models that a tag sets apart are left out."""
    folder = HOME / benchmark / "sqlmesh"
    shutil.rmtree(folder / "models", ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    for path, sql in files.items():
        if path.startswith("models/") and "tags=" not in sql:
            (folder / path).write_text(_model(Path(path).stem, sql))
    env, _ = spark_defaults(folder)
    print(f"sqlmesh:   {CONFIG['gateways']}, and the same spark-defaults.conf")
    return Side("sqlmesh", peer_python("sqlmesh"), folder, env)


def first_plan(side: Side) -> Cost:
    """Build everything from nothing, in SQLMesh's production environment."""
    side.forget()
    (side.folder / "state.db").unlink(missing_ok=True)
    command = str(side.python.parent / "sqlmesh")
    given = ("plan", "--auto-apply", "--no-prompts", "--skip-tests")
    return timed([command, *given], side.folder, side.env)


def _model(name: str, sql: str) -> str:
    kind = KINDS[next(word for word in ("append", "merge", "view", "table") if f"'{word}'" in sql)]
    sql = re.sub(r"\{\{ config.*?\}\}\n", "", sql)
    sql = re.sub(r"\{% if .*?endif %\}", "", sql, flags=re.DOTALL)
    sql = re.sub(r"\{\{ ref\('(\w+)'\) \}\}", r"bench.\1", sql)
    return f"MODEL (name bench.{name}, kind {kind});\n\n{sql}"
