"""DuckDB in a version that isn't ours, as a reader of a REST catalog; it comes from PyPI."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from conftest import ROOT

PROGRAM = """
import json, sys
from pathlib import Path
folder, rest, table = sys.argv[1:]
sys.path.insert(0, folder)
import duckdb
database = duckdb.connect(config={"autoinstall_known_extensions": "false"})
# Of a program without a file, DuckDB thinks that someone watches it: a slow query draws on stdout.
database.execute("set enable_progress_bar = false")
for extension in ("avro", "httpfs", "iceberg"):
    (file,) = Path(folder).rglob(extension + ".duckdb_extension")
    database.execute(f"load '{file}'")
options = f"type iceberg, endpoint '{rest}', authorization_type 'none'"
database.execute(f"attach 'lake' as rest ({options})")
found = database.execute(f"select amount from rest.{table}").fetchall()
print(json.dumps([duckdb.__version__, found]))
"""


def read_by_rest(version: str, rest: str, table: str) -> list[tuple[Any, ...]]:
    """Return the amounts in a table, as that version reads them; skip where it can't be had."""
    folder = ROOT / ".icegate" / f"duckdb-{version}"
    wanted = ["duckdb", *(f"duckdb-extension-{name}" for name in ("avro", "httpfs", "iceberg"))]
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
    install += ["--python", sys.executable, "--target", str(folder)]
    install += [f"{name}=={version}" for name in wanted]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"no DuckDB {version}: PyPI can't be reached, or has none for this Python")
    program = [sys.executable, "-c", PROGRAM, str(folder), rest, table]
    said = subprocess.run(program, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found_version, rows = json.loads(said.stdout)
    assert found_version == version
    return [tuple(row) for row in rows]
