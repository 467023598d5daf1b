"""What `icegate report` costs on 60 and on 2,000 tables: time, memory and the size of the page.

Each table has 20 snapshots and 20 tests. Of the 2,000 only 60 are written; the others are names for
them in the catalog, read one by one all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from _bench import HOME, lake_project, options, save

from icegate.catalog import open_catalog

SIZES, WRITTEN, SNAPSHOTS, TESTS = (60, 2_000), 60, 20, 20
BAR_CPU_S, BAR_MIB = 60, 1024  # of the larger one


def make_lake(folder: Path, tables: int) -> None:
    """Make the tables, and what dbt would say of them."""
    lake = lake_project(folder)
    catalog = open_catalog(lake)
    catalog.create_namespace("gold")
    rows = pa.table({"id": range(100), "amount": [1.5] * 100, "name": ["x"] * 100})
    for number in range(min(tables, WRITTEN)):
        table = catalog.create_table(f"gold.fct_{number:04d}", rows.schema)
        for _ in range(SNAPSHOTS):
            table.append(rows)
    with closing(sqlite3.connect(lake.catalog_db)) as db:
        columns = [row[1] for row in db.execute("pragma table_info(iceberg_tables)")]
        for number in range(WRITTEN, tables):
            chosen = ("?" if column == "table_name" else column for column in columns)
            db.execute(
                f"insert into iceberg_tables ({', '.join(columns)}) "
                f"select {', '.join(chosen)} from iceberg_tables where table_name = ?",
                (f"fct_{number:04d}", f"fct_{number % WRITTEN:04d}"),
            )
        db.commit()
    _write(folder, tables)


def _write(folder: Path, tables: int) -> None:
    nodes: dict[str, Any] = {}
    for number in range(tables):
        nodes |= _nodes(number)
    above = {"nodes": [id for id in nodes if id.startswith("model.")][:: TESTS // 2]}
    shown = {"name": "sales", "type": "dashboard", "owner": {"name": "Ann"}, "depends_on": above}
    manifest = {
        **{"nodes": nodes, "sources": {}, "macros": {}, "groups": {}},
        "exposures": {"exposure.p.sales": {"unique_id": "exposure.p.sales", **shown}},
        "metadata": _metadata("manifest/v12", project_name="p"),
    }
    results = [
        {"unique_id": id, "status": "pass", "failures": 0, "execution_time": 0.1}
        for id in nodes
        if id.startswith("test.")
    ]
    ran = {"generated_at": "2026-11-23T06:00:00Z", "invocation_id": "x"}
    run = {"metadata": _metadata("run-results/v6", **ran), "results": results}
    (folder / "target").mkdir()
    (folder / "target" / "manifest.json").write_text(json.dumps(manifest))
    told = {**run, "args": {"which": "test"}}
    (folder / "target" / "run_results.json").write_text(json.dumps(told))


def _metadata(shape: str, **more: Any) -> dict[str, Any]:
    return {"dbt_schema_version": f"https://schemas.getdbt.com/dbt/{shape}.json", **more}


def _nodes(number: int) -> dict[str, Any]:
    name, id = f"fct_{number:04d}", f"model.p.fct_{number:04d}"
    above = [f"model.p.fct_{number - 1:04d}"] if number % 10 else []
    shared = {"package_name": "p", "original_file_path": "models/x.sql", "meta": {}}
    model = {
        **{"unique_id": id, "name": name, "alias": name, "schema": "gold", **shared},
        **{"resource_type": "model", "fqn": ["p", "gold", name], "depends_on": {"nodes": above}},
        **{"description": "Something. One row per thing.", "config": {}, "tags": []},
        "columns": {c: {"name": c, "description": "A column."} for c in ("id", "amount", "name")},
    }
    test = {
        **{"resource_type": "test", "column_name": "id", "attached_node": id, **shared},
        **{"test_metadata": {"name": "not_null"}, "depends_on": {"nodes": [id]}, "config": {}},
    }
    ids = [f"test.p.not_null_{name}_{each}" for each in range(TESTS)]
    return {id: model, **{i: {**test, "unique_id": i, "name": i[7:]} for i in ids}}


def measure(folder: Path) -> dict[str, float]:
    """Run `icegate report` there as a user does; return seconds and MiB."""
    command = [sys.executable, "-m", "icegate.cli.main", "report"]
    began, environ = time.monotonic(), {**os.environ, "DBT_PROJECT_DIR": str(folder)}
    environ.pop("ICEGATE_HOME", None)
    child = os.posix_spawn(sys.executable, command, environ)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"icegate report ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "mib": round(used.ru_maxrss / 1024),
        "page_mb": round((folder / "target" / "trust.html").stat().st_size / 1e6, 1),
    }


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=1)
    place, found = HOME / "report", dict[str, Any]()
    for tables in SIZES[:1] if given.quick else SIZES:
        shutil.rmtree(place, ignore_errors=True)
        make_lake(place, tables)
        found[str(tables)] = ran = measure(place)
        print(f"{tables:,} tables, {tables * TESTS:,} tests: {ran}", flush=True)
    shutil.rmtree(place)
    met = ran["cpu_s"] <= BAR_CPU_S and ran["mib"] <= BAR_MIB
    bar = f"bar {BAR_CPU_S} s CPU and {BAR_MIB} MiB: {'met' if met else 'missed'}"
    last = f"report: {tables:,} tables in {ran['cpu_s']} s of CPU and {ran['mib']} MiB ({bar})"
    save("report", runs=found)
    print(last)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
