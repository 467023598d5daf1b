"""dbt's artifacts for tables that PyIceberg wrote: what the report reads of them, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = "https://schemas.getdbt.com/dbt/{}.json"


def write(folder: Path, kind: str, content: dict[str, Any], version: str) -> None:
    """Write `target/<kind>.json` as a version of dbt would."""
    told = SCHEMA.format(f"{kind.replace('_', '-')}/{version}")
    metadata = {"dbt_schema_version": told, **content.pop("metadata", {})}
    (folder / "target").mkdir(parents=True, exist_ok=True)
    (folder / "target" / f"{kind}.json").write_text(json.dumps({"metadata": metadata, **content}))


def model(table: str, *columns: str, **more: Any) -> dict[str, Any]:
    """Return a model's node; its id is `model.shop.<name>`."""
    schema, _, name = table.partition(".")
    given = {
        "description": f"All of them. One row per {name}.",
        "depends_on": {"nodes": []},
        "config": {"materialized": "table", "meta": {}},
        **more,
    }
    return {
        **{"unique_id": f"model.shop.{name}", "resource_type": "model", "package_name": "shop"},
        **{"name": name, "alias": name, "schema": schema, "fqn": ["shop", "gold", name]},
        **{"original_file_path": f"models/{name}.sql", "tags": [], "meta": {}},
        "columns": {column: {"name": column, "description": ""} for column in columns},
        **given,
    }


def check(table: str, name: str, kind: str = "not_null", **more: Any) -> dict[str, Any]:
    """Return the node of a table's one test, of the column `amount`, as ``released`` calls it."""
    owner = f"model.shop.{table.partition('.')[2]}"
    return {
        **{"unique_id": f"test.{owner}", "resource_type": "test", "package_name": "shop"},
        **{"name": name, "column_name": "amount", "attached_node": owner, "meta": {}},
        "test_metadata": {"name": kind, "kwargs": {"column_name": "amount"}},
        "depends_on": {"nodes": [owner]},
        "config": {"severity": "ERROR", "meta": {}},
        "description": "",
        "compiled_code": f"select amount from {table} where amount is null",
        **more,
    }


def manifest(folder: Path, *nodes: dict[str, Any], **more: Any) -> None:
    """Write a manifest of these nodes."""
    content = {
        "metadata": {"project_name": "shop"},
        "nodes": {node["unique_id"]: node for node in nodes},
        **{"sources": {}, "exposures": {}, "macros": {}, "groups": {}},
        **more,
    }
    write(folder, "manifest", content, "v12")


def results(
    folder: Path, at: str = "2026-11-23T06:00:00Z", run: str = "a `dbt test`", **statuses: str
) -> None:
    """Write what the last run said of the tests of tables: of rows that readers have."""
    found = [
        {
            **{"unique_id": f"test.model.shop.{name}", "status": status, "execution_time": 0.1},
            **{"failures": 3 if status == "fail" else 0, "adapter_response": {}},
        }
        for name, status in statuses.items()
    ]
    told = {"generated_at": at, "invocation_id": run}
    write(
        folder, "run_results", {"metadata": told, "args": {"which": "test"}, "results": found}, "v6"
    )
