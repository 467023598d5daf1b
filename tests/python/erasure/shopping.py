"""A project behind the gate that loads landing files, of which a customer is to be forgotten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from gate.gated import GatedProject
from test_landing import mark

from erasure.forgetting import CUSTOMER, KEY, OTHERS, Forgetting

ORDER: dict[str, Any] = {"order_id": {"subject_key": "customer/order"}}
LOAD = """
    select {columns}, substring_index(_metadata.file_path, '/', -2) as loaded_from
    from {{{{ source('shop', '{name}') }}}}
    where {{{{ not_yet_loaded(source('shop', '{name}')) }}}}
"""
SOURCES = {"customers": ("customer_id", "name", "note"), "orders": ("order_id", "customer_id")}


def customers(*keys: str) -> list[dict[str, Any]]:
    return [{"customer_id": key, "name": f"{key} by name", "note": None} for key in keys]


class Shop(Forgetting):
    """Bronze from JSON and Parquet, silver and a history of it, with tests that quarantine."""

    def __init__(self, project: GatedProject) -> None:
        super().__init__(project.folder, project.lake, project.spark)
        self.project, self.schema = project, project.schema
        project.write_yaml("models/_sources.yml", {"sources": [self._source()]})
        for name, columns in SOURCES.items():
            sql = LOAD.format(name=name, columns=", ".join(columns))
            project.model(f"raw_{name}", sql, materialized="incremental")
        project.model("customers", "select * except (loaded_from) from {{ ref('raw_customers') }}")
        project.model("orders", "select * except (loaded_from) from {{ ref('raw_orders') }}")
        self.mark(raw_customers=CUSTOMER, customers=CUSTOMER,
                  raw_orders={**ORDER, **CUSTOMER}, orders={**ORDER, **CUSTOMER})  # fmt: skip
        self.land("2026-01-01", customers(KEY, *OTHERS), [("O-17-1", KEY), ("O-18-1", OTHERS[0])])

    def mark(self, **models: dict[str, Any]) -> None:
        """Describe the columns of models; with tests, where their meta has them."""
        described = [
            {"name": name, "columns": [_column(c, dict(meta)) for c, meta in columns.items()]}
            for name, columns in models.items()
        ]
        self.project.write_yaml("models/_models.yml", {"models": described})

    def land(self, day: str, rows: list[dict[str, Any]], orders: list[tuple[str, str]]) -> Path:
        """Write the files of a day, with its marker; return the folder."""
        folder = self.folder / "landing" / day
        folder.mkdir(parents=True)
        lines = folder / "customers-0.jsonl"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        columns = {"order_id": [o for o, _ in orders], "customer_id": [c for _, c in orders]}
        table = pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))
        parquet.write_table(table, folder / "orders-0.parquet")
        mark(lines, rows=len(rows))
        mark(folder / "orders-0.parquet", rows=len(orders))
        return folder

    def build(self, *arguments: str) -> Any:
        """Run `dbt build`, and read what it knows of the project."""
        run = self.project.dbt("build", *arguments)
        assert run.ok, run.text
        self.read_manifest()
        return run

    def read_manifest(self) -> None:
        """Read what dbt knows of the project."""
        self.manifest = json.loads((self.folder / "target" / "manifest.json").read_text())

    def _source(self) -> dict[str, Any]:
        tables = []
        for name, columns in SOURCES.items():
            kind = "parquet" if name == "orders" else "json"
            ending = "parquet" if kind == "parquet" else "jsonl"
            meta = {"location": f"landing/*/{name}-*.{ending}", "format": kind}
            described = [_column(c, {**CUSTOMER, **ORDER}.get(c, {})) for c in columns]
            tables.append({"name": name, "config": {"meta": meta}, "columns": described})
        return {"name": "shop", "tables": tables}


def _column(name: str, meta: dict[str, Any]) -> dict[str, Any]:
    tests = meta.pop("data_tests", None)
    found = {"name": name, "data_type": "string", "config": {"meta": {**meta}}}
    return {**found, "data_tests": tests} if tests else found
