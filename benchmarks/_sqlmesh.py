"""The same small models as a project of SQLMesh, on the same Spark and catalog."""

from __future__ import annotations

import json
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


def sqlmesh(
    benchmark: str, files: dict[str, str], more: dict[str, str] | None = None, **connection: bool
) -> Side:
    """Write the project; models that a tag sets apart are left out.

    ``more`` is what a model says besides, ``connection`` what Spark's says.
    """
    folder = HOME / benchmark / "sqlmesh"
    shutil.rmtree(folder / "models", ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    spark = {**CONFIG["gateways"]["spark"], "connection": {"type": "spark", **connection}}
    config = {**CONFIG, "gateways": {"spark": spark}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for path, sql in files.items():
        if re.fullmatch(r"models/\w+\.sql", path) and "tags=" not in sql:
            name = Path(path).stem
            (folder / path).write_text(_model(name, sql, (more or {}).get(name, "")))
    env, _ = spark_defaults(folder)
    print(f"sqlmesh:   {config['gateways']}, and the same spark-defaults.conf")
    return Side("sqlmesh", peer_python("sqlmesh"), folder, env)


def first_plan(side: Side) -> Cost:
    """Build everything from nothing, in SQLMesh's production environment."""
    side.forget()
    (side.folder / "state.db").unlink(missing_ok=True)
    command = str(side.python.parent / "sqlmesh")
    given = ("plan", "--auto-apply", "--no-prompts", "--skip-tests")
    return timed([command, *given], side.folder, side.env)


def wap_branches(side: Side) -> dict[int, str]:
    """Return the branches that SQLMesh wrote for its audits, by snapshot.

    They are gone when it's done, but Iceberg keeps the metadata files of before.
    """
    found: dict[int, str] = {}
    folder = side.home / "warehouse" / "sqlmesh__bench"
    for path in sorted(folder.glob("*/metadata/*.metadata.json")):
        refs = json.loads(path.read_text())["refs"]
        for name, ref in refs.items():
            if name.startswith("wap_"):
                found.setdefault(ref["snapshot-id"], name)
    return found


def _model(name: str, sql: str, more: str) -> str:
    kind = KINDS[next(word for word in ("append", "merge", "view", "table") if f"'{word}'" in sql)]
    sql = re.sub(r"\{\{ config.*?\}\}\n", "", sql)
    sql = re.sub(r"\{% if .*?endif %\}", "", sql, flags=re.DOTALL)
    sql = re.sub(r"\{\{ ref\('(\w+)'\) \}\}", r"bench.\1", sql)
    sql = re.sub(r"\{\{ source\('(\w+)', '(\w+)'\) \}\}", r"\1.\2", sql)
    said = ", ".join(filter(None, (f"name bench.{name}, kind {kind}", more)))
    return f"MODEL ({said});\n\n{sql}"
