"""A project whose two tables have two releases and a build that is held back, without Spark."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from released import two_releases
from shop import lake_of, make_project

from icegate.cli.common import Opened
from icegate.trust.browse import Browse
from icegate.trust.project import VERSIONS

MARKUP = "<script>alert(1)</script> *bold* [here](http://example.com) :smile: $x$"
WRONG = "select value_field from (select id as value_field from s.a) where value_field > 2"


def column(name: str, pii: str | None = None) -> dict[str, Any]:
    return {"name": name, "config": {"meta": {"pii": pii} if pii else {}}}


def model(name: str, *parents: str, description: str = "", owner: str = "") -> dict[str, Any]:
    """Return a model of the manifest, in the schema `s`; its amounts are personal data."""
    return {
        "unique_id": f"model.shop.{name}",
        "resource_type": "model",
        "package_name": "shop",
        "name": name,
        "alias": name,
        "schema": "s",
        "description": description or f"Amounts of {name}. One row per amount.",
        "columns": {"id": column("id"), "amount": column("amount", "text")},
        "depends_on": {"nodes": [f"model.shop.{parent}" for parent in parents]},
        "fqn": ["shop", "gold", name],
        "config": {"materialized": "table", "meta": {"owner": {"name": owner}} if owner else {}},
        "original_file_path": f"models/{name}.sql",
    }


def check(name: str, kind: str, of: str, sql: str, **arguments: Any) -> dict[str, Any]:
    """Return a generic test of a model's id; `not_null_a` is the one that builds report."""
    return {
        "unique_id": f"test.model.shop.{of}" if name == f"not_null_{of}" else f"test.shop.{name}",
        "resource_type": "test",
        "package_name": "shop",
        "name": name,
        "test_metadata": {"name": kind, "kwargs": {"column_name": "id", **arguments}},
        "column_name": "id",
        "config": {"severity": "error"},
        "attached_node": f"model.shop.{of}",
        "depends_on": {"nodes": [f"model.shop.{of}"]},
        "compiled_code": sql,
    }


def exposure(label: str, *tables: str) -> dict[str, Any]:
    return {
        "unique_id": "exposure.shop.shown",
        "name": "shown",
        "label": label,
        "type": "dashboard",
        "owner": {"name": f"Ann {MARKUP}", "email": "ann@example.com"},
        "depends_on": {"nodes": [f"model.shop.{table}" for table in tables]},
    }


def manifest(*nodes: dict[str, Any], label: str = "Sums") -> dict[str, Any]:
    """Return a manifest of these nodes and a dashboard that reads `s.a`."""
    schema = f"https://schemas.getdbt.com/dbt/manifest/{VERSIONS['manifest']}.json"
    return {
        "metadata": {"dbt_schema_version": schema, "project_name": "shop"},
        "nodes": {node["unique_id"]: node for node in nodes},
        "sources": {},
        "macros": {},
        "exposures": {"exposure.shop.shown": exposure(label, "a")},
    }


def two_tables() -> list[dict[str, Any]]:
    """Return the models of the two tables; a check of `s.a` finds the ids 3 and 4."""
    values = {"values": [0, 1, 2]}
    return [
        model("a", owner=f"Ann {MARKUP}"),
        model("b", "a", description=f"{MARKUP}. One row per amount."),
        check("not_null_a", "accepted_values", "a", WRONG, **values),
        check("not_null_b", "not_null", "b", "select id from s.b where id is null"),
        check("unique_a", "unique", "a", "select id as unique_field, 2 as n_records from s.a"),
    ]


def write(folder: Path, content: dict[str, Any]) -> None:
    """Write a manifest where dbt does."""
    file = folder / "target" / "manifest.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def make_browsed(folder: Path) -> Path:
    """Make a project in which readers see the ids 0, 1 and 2, and 3 and 4 wait in `s.a`."""
    lake = lake_of(make_project(folder))
    two_releases(lake)
    write(folder, manifest(*two_tables()))
    return folder


def browse(folder: Path) -> Browse:
    return Browse(Opened(folder, folder, "local"), datetime.now(timezone.utc))


def contents(folder: Path) -> dict[str, str]:
    """Return a hash of each file below a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
