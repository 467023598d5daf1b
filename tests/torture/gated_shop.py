"""The project that is tortured: four models and what ties them, batches, the faults planted."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml
from lakes import PASSWORD, is_shared, lake_of, make_catalog

from icegate.settings import Lake

Row = dict[str, Any]

SCHEMA = "shop"
LOW, HIGH = 0, 1000
FAULTS = ("null", "duplicate", "range", "orphan")
HEAP = "1g"
CONF = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}

NEWER = """{% if is_incremental() %}
where batch > (select coalesce(max(batch), 0) from {{ this }})
{% endif %}"""
MODELS = {
    "orders": """{{{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='id'
) }}}}
select id, max_by(amount, batch) as amount, max(batch) as batch
from json.`{path}`
{newer}
group by id
""",
    "lines": """{{{{ config(materialized='incremental', incremental_strategy='append') }}}}
select id, order_id, amount, batch
from json.`{path}`
{newer}
""",
    "totals": """{{{{ config(materialized='table') }}}}
select max(batch) as batch, count(*) as orders, sum(amount) as amount{more}
from {{{{ ref('orders') }}}} where batch > 0
""",
    "recent": """{{{{ config(materialized='view') }}}}
select id, amount, batch{more} from {{{{ ref('orders') }}}}
""",
}
IN_RANGE = """{% test in_range(model, column_name) %}
select * from {{ model }} where {{ column_name }} not between LOW and HIGH
{% endtest %}
""".replace("LOW", str(LOW)).replace("HIGH", str(HIGH))
# It ties the three tables: of one batch, or none of them.
TIED = """select 1 from {{ ref('totals') }} as totals
cross join (select max(batch) as batch from {{ ref('orders') }}) as orders
cross join (select max(batch) as batch from {{ ref('lines') }}) as lines
where totals.batch <> orders.batch or totals.batch <> lines.batch
"""
AMOUNT = {"name": "amount", "data_tests": ["in_range"]}
KEY = {"name": "id", "data_tests": ["unique"]}
OWNER = {
    "name": "order_id",
    "data_tests": [{"relationships": {"arguments": {"to": "ref('orders')", "field": "id"}}}],
}
DESCRIBED = {
    "models": [
        {"name": "orders", "columns": [KEY, AMOUNT]},
        {"name": "lines", "columns": [KEY, OWNER, {"name": "amount", "data_tests": ["not_null"]}]},
        {"name": "recent", "columns": [AMOUNT]},
    ]
}


@dataclass
class Batch:
    """What arrived at once: new orders and changed ones, and the lines of the new ones."""

    orders: list[Row] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)


class Shop:
    """One project with a catalog of its own, and all that ever arrived in it."""

    def __init__(self, folder: Path, ivy: Path, random: Random) -> None:
        self.folder, self.random = folder, random
        self.batches: list[Batch] = []
        self.forms = 0
        homes = [folder / ".icegate"]
        if is_shared():  # builds on the server are another machine's
            homes.append(folder / ".icegate-2")
        for home in homes:
            home.mkdir(parents=True)
            (home / "ivy").symlink_to(ivy)
        make_catalog(homes[0])
        self.lake, *other = (lake_of(home, memory=HEAP, cores=2) for home in homes)
        self.served: Lake = other[0] if other else self.lake
        self._configure()

    def _configure(self) -> None:
        target = {"type": "icegate", "schema": SCHEMA, "threads": 2, "gate": True, "audits": True}
        target |= {"memory": HEAP, "cores": 2, "spark_conf": CONF}
        target |= {"warehouse": str(self.lake.warehouse)}
        if self.lake.catalog_type == "nessie":
            keys = ("catalog_type", "catalog_uri", "catalog_ref")
            target |= {key: getattr(self.lake, key) for key in keys}
        elif self.lake.catalog_type == "rest":
            target |= {"catalog_type": "rest", "catalog_uri": self.lake.catalog_uri}
        elif self.lake.catalog_type == "glue":
            target |= {"catalog_type": "glue", "warehouse": self.lake.bucket}
        elif self.lake.catalog_uri:
            password = f"{{{{ env_var('{PASSWORD}') }}}}"
            target |= {"catalog_uri": self.lake.catalog_uri, "catalog_password": password}
        lakes = {"session": self.lake, "connect": self.served}
        outputs = {
            name: {**target, "method": name, "home": str(lake.home)} for name, lake in lakes.items()
        }
        flags = {"send_anonymous_usage_stats": False, "version_check": False}
        project = {"name": "shop", "version": "1.0", "profile": "shop", "flags": flags}
        self._write("profiles.yml", _yaml({"shop": {"target": "session", "outputs": outputs}}))
        self._write("dbt_project.yml", _yaml(project))
        self._write("models/_models.yml", _yaml(DESCRIBED))
        self._write("tests/generic/in_range.sql", IN_RANGE)
        self._write("tests/tied.sql", TIED)
        self.change_form()

    def change_form(self) -> None:
        """Give the table and the view another column, which a build has to stage."""
        more = f", {self.forms} as form_{self.forms}"
        for name, text in MODELS.items():
            path = self.folder / "landing" / f"{name}.json"
            self._write(f"models/{name}.sql", text.format(path=path, newer=NEWER, more=more))
        self.forms += 1

    def arrive(self, fault: str = "") -> None:
        """Let a batch arrive, with a fault planted in it or none."""
        number, random = len(self.batches) + 1, self.random
        known = [row["id"] for batch in self.batches for row in batch.orders]
        batch = Batch()
        for at in range(random.randint(2, 5)):
            order = f"{number}-{at}"
            batch.orders.append(self._order(order, number))
            for line in range(random.randint(1, 2)):
                row = {"id": f"{order}-{line}", "order_id": order}
                batch.lines.append({**row, "amount": self._amount(), "batch": number})
        for order in sorted(set(random.sample(known, min(2, len(known))))):
            batch.orders.append(self._order(order, number))
        self.batches.append(batch)
        self._land(_planted(batch, fault, random))

    def repair(self) -> None:
        """Let the batch that arrived last be what it should have been."""
        self._land(self.batches[-1])

    def expected(self) -> tuple[list[Row], list[Row]]:
        """Return the orders and lines that a reader sees once everything is published."""
        orders = {row["id"]: row for batch in self.batches for row in batch.orders}
        return list(orders.values()), [row for batch in self.batches for row in batch.lines]

    def _order(self, id: str, batch: int) -> Row:
        return {"id": id, "amount": self._amount(), "batch": batch}

    def _amount(self) -> int:
        return self.random.randint(LOW, HIGH)

    def _land(self, last: Batch) -> None:
        batches = [*self.batches[:-1], last]
        for name in ("orders", "lines"):
            rows = [row for batch in batches for row in getattr(batch, name)]
            self._write(f"landing/{name}.json", "".join(json.dumps(row) + "\n" for row in rows))

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text)
        os.replace(partial, path)


def _planted(batch: Batch, fault: str, random: Random) -> Batch:
    """Return the batch with one row that a test has to catch."""
    orders, lines = [*batch.orders], [*batch.lines]
    at = random.randrange(len(lines))
    if fault == "null":
        lines[at] = {**lines[at], "amount": None}
    elif fault == "duplicate":
        lines.append(lines[at])
    elif fault == "orphan":
        lines[at] = {**lines[at], "order_id": "nobody"}
    elif fault == "range":
        at = random.randrange(len(orders))
        orders[at] = {**orders[at], "amount": random.choice((LOW - 1, HIGH + 1))}
    return Batch(orders, lines)


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False)
