"""Make projects whose Iceberg tables PyIceberg wrote, and run the command line in them."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa

from icegate.profiles import load_target
from icegate.settings import Lake, lake_from_target

PROFILES = """
shop:
  target: local
  outputs:
    local: {type: icegate, schema: main, catalog_timeout_s: 1}
    server: {type: icegate, method: thrift, host: there, schema: main}
"""


# A process that has loaded what commands need, and forks for each: to load is most of their time.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        "icegate.cli.main",
        "icegate.cli.output",
        "icegate.gate.releases",
        "icegate.maintenance.run",
        "icegate.profiles",
        "icegate.trust.facts",
        "rich.table",
    ]
)


class Ran(NamedTuple):
    """What a command printed, and how it ended."""

    code: int | None
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


def run_icegate(folder: Path, *arguments: str) -> Ran:
    """Run the command line as a user does, in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DBT_")}
    with TemporaryDirectory() as beside:
        files = [Path(beside) / name for name in ("out", "err")]
        process = _forks.Process(target=_run, args=(folder, arguments, environment, files))
        process.start()
        process.join()
        return Ran(process.exitcode, *(file.read_text() for file in files))


def _run(
    folder: Path, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[Path]
) -> None:
    from icegate.cli.main import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files, 1):
        with file.open("w") as written:
            os.dup2(written.fileno(), number)
    sys.argv[1:] = arguments
    main()


def make_project(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\nprofile: shop\n")
    (folder / "profiles.yml").write_text(PROFILES)
    return folder


def lake_of(folder: Path) -> Lake:
    return lake_from_target(load_target(folder)[1], folder)


def make_tables(lake: Lake) -> None:
    """Make an empty table, one with three snapshots and a newer branch, and one in gold."""
    from icegate.catalog import open_catalog

    lake.home.mkdir(parents=True)
    catalog = open_catalog(lake)
    rows = pa.table({"order_id": ["A", "B"], "total": pa.array([5, 7], pa.int64())})
    for namespace in ("silver", "gold"):
        catalog.create_namespace(namespace)
    orders = catalog.create_table("silver.curated_orders", rows.schema)
    orders.append(rows)
    orders.append(pa.table({"order_id": ["C"], "total": pa.array([9], pa.int64())}))
    with orders.manage_snapshots() as manage:
        head = orders.current_snapshot()
        manage.create_tag(head.snapshot_id, "released").create_branch(head.snapshot_id, "audit")
    orders.append(rows, branch="audit")
    catalog.create_table("silver.empty", rows.schema)
    catalog.create_table("gold.dim_customers", rows.schema).append(rows)
    make_view(lake)


def make_view(lake: Lake) -> None:
    """Add `gold.who_bought`, as Spark writes a view; PyIceberg's catalog makes none."""
    fields = [{"id": 1, "name": "order_id", "type": "string", "required": False}]
    text = "select order_id from silver.curated_orders"
    sql = [{"type": "sql", "sql": text, "dialect": "spark"}]
    version = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1767225600000}
    file = lake.warehouse / "gold" / "who_bought" / "metadata" / "00000.gz.metadata.json"
    metadata = {
        "format-version": 1,
        "location": f"file:{file.parents[1]}",
        "current-version-id": 1,
        "versions": [{**version, "representations": sql}],
        "schemas": [{"schema-id": 0, "type": "struct", "fields": fields}],
    }
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(json.dumps(metadata).encode()))
    row = (lake.catalog, "gold", "who_bought", f"file:{file}", "VIEW")
    with closing(sqlite3.connect(lake.catalog_db)) as db:
        db.execute(
            "insert into iceberg_tables (catalog_name, table_namespace, table_name, "
            "metadata_location, iceberg_type) values (?, ?, ?, ?, ?)",
            row,
        )
        db.commit()
