"""A project whose stream `tills` runs by the command line, in processes of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml
from cli.shop import Ran, run_icegate
from conftest import make_home

from icegate.catalog import open_catalog
from icegate.settings import Lake
from icegate.streams.checkpoint import Checkpoint
from icegate.streams.control import Control

WAIT_S = 120
ROUTES = [
    {"table": "t.first", "columns": {"id": "bigint"}, "when": {"$.to": "first"}},
    {"table": "t.second", "columns": {"id": "bigint", "more": "string"}},
]
STREAM = {"source": {"folder": "landing"}, "batch": {"seconds": 0.3}, "routes": ROUTES}


class Commanded:
    """A project with the stream `tills`, whose folder is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = make_home(folder / ".icegate")
        self.lake = Lake(home=home, warehouse=home / "warehouse")
        self.control = Control(self.lake, "tills")
        self.checkpoint = Checkpoint(self.control.folder)
        target = {"type": "icegate", "schema": "t", "memory": "1g"}
        self.write("profiles.yml", {"t": {"target": "t", "outputs": {"t": target}}})
        self.write("dbt_project.yml", {"name": "t", "version": "1.0", "profile": "t"})
        self.write("python_jobs/streams/tills.yml", STREAM)
        (folder / "landing").mkdir()

    def write(self, name: str, content: Any) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))

    def icegate(self, *arguments: str) -> Ran:
        return run_icegate(self.folder, *arguments)

    def drop(self, name: str, count: int, start: int = 0) -> None:
        beside = self.folder / f"{name}.partial"
        with beside.open("w") as file:
            for n in range(start, start + count):
                file.write(f'{{"id": {n}, "to": "{("first", "second")[n % 2]}"}}\n')
        beside.rename(self.folder / "landing" / f"{name}.jsonl")

    def batch_of(self, table: str) -> str:
        """Return the newest batch that a table has, nothing while there is none."""
        try:
            found = open_catalog(self.lake).load_table(table).current_snapshot()
        except Exception:  # it's being made
            return ""
        return (found and found.summary and found.summary["icegate.batch"]) or ""

    def ids(self, table: str) -> list[int]:
        rows = open_catalog(self.lake).load_table(table).scan(selected_fields=("id",)).to_arrow()
        return sorted(rows["id"].to_pylist())

    def wait(self, is_so: Any) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, self.control.log.read_text()[-3000:]
            time.sleep(0.02)
