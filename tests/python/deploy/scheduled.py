"""A small lakehouse that a schedule builds from each day's files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from conftest import ROOT, make_home

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
LOCATION = "{{ env_var('ICEGATE_LANDING', 'landing') }}/*/orders-*.jsonl"
SOURCES = {
    "sources": [
        {
            "name": "shop",
            "tables": [
                {
                    "name": "orders",
                    "config": {"meta": {"location": LOCATION, "format": "json"}},
                    "columns": [
                        {"name": "id", "data_type": "string"},
                        {"name": "customer", "data_type": "string"},
                        {"name": "amount", "data_type": "int"},
                    ],
                }
            ],
        }
    ],
    "models": [
        {
            "name": "orders",
            "columns": [
                {"name": "id", "data_tests": ["unique"]},
                {"name": "customer", "data_tests": ["not_null"]},
            ],
        }
    ],
}
MODELS = {
    "raw_orders.sql": """
{{ config(materialized='incremental') }}
select id, customer, amount, substring_index(_metadata.file_path, '/', -2) as loaded_from
from {{ source('shop', 'orders') }}
where {{ not_yet_loaded(source('shop', 'orders')) }}
""",
    "orders.sql": """
{{ config(materialized='table') }}
select id, max(customer) as customer, max_by(amount, loaded_from) as amount
from {{ ref('raw_orders') }} group by id
""",
    "totals.sql": """
{{ config(materialized='table') }}
select customer, sum(amount) as amount from {{ ref('orders') }} group by customer
""",
    "files.sql": """
{{ config(materialized='table') }}
select loaded_from, count(*) as orders from {{ ref('raw_orders') }} group by loaded_from
""",
}
# What somebody does on a bad day: the row without a customer isn't an order.
REPAIRED = MODELS["orders.sql"].replace("group", "where customer is not null group")
GOOD = [{"id": "1", "customer": "ann", "amount": 5}, {"id": "2", "customer": "bob", "amount": 7}]
BAD = [{"id": "3", "customer": None, "amount": 9}]


class Lakehouse:
    """A project in a folder, its lake in another, and what its programs are given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "a project", make_home(folder / "a home")
        own = {n: v for n, v in os.environ.items() if not n.startswith(("DBT_", "ICEGATE_"))}
        self.environ = own | {
            "ICEGATE_HOME": str(self.home),
            "ICEGATE_PROJECT": str(self.folder),
            "ICEGATE_BIN": str(BIN),
        }
        flags = {"send_anonymous_usage_stats": False, "version_check": False}
        project = {"name": "shop", "version": "1.0", "profile": "shop", "flags": flags}
        target = {"type": "icegate", "schema": "main", "gate": True, "memory": "1g", "threads": 2}
        self.write("dbt_project.yml", yaml.safe_dump(project))
        profile = {"target": "local", "outputs": {"local": target}}
        self.write("profiles.yml", yaml.safe_dump({"shop": profile}))
        self.write("models/shop.yml", yaml.safe_dump(SOURCES))
        for name, text in MODELS.items():
            self.write(f"models/{name}", text)
        self.dbt("parse")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def land(self, day: str, rows: list[dict[str, Any]]) -> None:
        """Deliver a day, whole and with its marker; instead of what was delivered before."""
        shutil.rmtree(self.folder / "landing" / day, ignore_errors=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.write(f"landing/{day}/orders-0.jsonl", text)
        told = {"rows": len(rows), "bytes": len(text)}
        self.write(f"landing/{day}/_SUCCESS", json.dumps({"files": {"orders-0.jsonl": told}}))

    def run(self, *command: object, **environ: str) -> subprocess.CompletedProcess[str]:
        done = [str(word) for word in command]
        env = self.environ | environ
        return subprocess.run(done, cwd=self.folder, env=env, capture_output=True, text=True)

    def dbt(self, *args: str) -> str:
        done = self.run(BIN / "dbt", "--quiet", *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.run(BIN / "icegate", *args, "--json").stdout)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return what readers see."""
        return self.json("sql", query)["rows"]

    def releases(self) -> list[dict[str, Any]]:
        return self.json("release", "list")["releases"]


def wait_until(holds: Callable[[], object], seconds: float = 90) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.2)
