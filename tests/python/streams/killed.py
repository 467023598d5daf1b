"""A stream as a process of its own that can be killed at a chosen moment, with its Java."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from conftest import make_home

from icegate.catalog import open_catalog
from icegate.settings import Lake
from icegate.streams.checkpoint import Checkpoint
from streams.events import CLICKS, ORDERS, Rules

NAME, TOPIC, ERRORS = "shop", "events", "icegate.stream_errors"
PATIENCE_S = 120
# Calls to a broker that is away end soon, so that the stream has to begin again.
HASTE = {
    "kafka.request.timeout.ms": "2000",
    "kafka.default.api.timeout.ms": "3000",
    "kafkaConsumer.pollTimeoutMs": "3000",
    "fetchOffset.retryIntervalMs": "100",
}


class Project:
    """A dbt project with one stream, ``shop``, and the tables that it fills."""

    def __init__(self, folder: Path, kafka: str, max_records: int) -> None:
        self.folder, self.kafka, self.max_records = folder, kafka, max_records
        home = make_home(folder / ".icegate")
        self.lake = Lake(home=home, warehouse=home / "warehouse")
        self.checkpoint = Checkpoint(home / "streams" / NAME)
        self.log = folder / "log.txt"
        conf = {"spark.sql.session.timeZone": "UTC"}
        target = {"type": "icegate", "schema": "main", "memory": "1g", "ansi": True}
        outputs = {"t": {**target, "spark_conf": conf}}
        self._write("profiles.yml", {"t": {"target": "t", "outputs": outputs}})
        self._write("dbt_project.yml", {"name": "t", "version": "1.0", "profile": "t"})

    def set_rules(self, rules: Rules) -> None:
        source = {"kafka": self.kafka, "topics": TOPIC, "options": HASTE}
        batch = {"seconds": 0.1, "max_records": self.max_records}
        content = {"source": source, "batch": batch, "routes": rules.routes()}
        self._write(f"python_jobs/streams/{NAME}.yml", content)

    def _write(self, name: str, content: Any) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))

    def start(self, *arguments: str) -> Process:
        return Process(self, ["stream", *arguments, NAME])

    def run(self, *arguments: str) -> str:
        """Run a command to its end; return what it said."""
        begins = len(self.said())
        process = self.start(*arguments)
        assert process.java.wait(3 * PATIENCE_S) == 0, self.said()[-3000:]
        return self.said()[begins:]

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def rows(self, table: str, *columns: str, where: str = "") -> list[tuple[Any, ...]]:
        """Return a table's rows, in order, as PyIceberg reads them."""
        stored = open_catalog(self.lake).load_table(table)
        scan = stored.scan(selected_fields=columns, **({"row_filter": where} if where else {}))
        found = scan.to_arrow().to_pylist()
        return sorted(tuple(row[name] for name in columns) for row in found)

    def metadata(self, table: str) -> dict[str, Any]:
        """Return a table's newest metadata, nothing while there is none; quick."""
        namespace, _, name = table.partition(".")
        sql = "select metadata_location from iceberg_tables where table_namespace=? and "
        with suppress(sqlite3.OperationalError, TypeError):
            catalog = sqlite3.connect(self.lake.catalog_db)
            try:
                where = catalog.execute(f"{sql}table_name=?", (namespace, name)).fetchone()[0]
            finally:
                catalog.close()
            return json.loads(Path(unquote(urlparse(where).path)).read_bytes())
        return {}

    def snapshot(self, table: str) -> dict[str, Any]:
        """Return the summary of a table's newest snapshot, nothing while there is none."""
        found = self.metadata(table)
        newest = found.get("current-snapshot-id")
        return next((s for s in found.get("snapshots", ()) if s["snapshot-id"] == newest), {})

    def half_done(self) -> list[str]:
        """Return the tables that have the batch in hand, which isn't finished."""
        batch = self.checkpoint.in_hand
        sign = f"{self.checkpoint.id}:{batch}"
        tables = (CLICKS, ORDERS, ERRORS) if batch is not None else ()
        return [t for t in tables if self._sign(t) == sign]

    def _sign(self, table: str) -> str:
        return self.snapshot(table).get("summary", {}).get("icegate.batch", "")


class Process:
    """`icegate stream …` with its Java: one process group, all of which ends at once."""

    def __init__(self, project: Project, arguments: list[str]) -> None:
        self.project, self.begins = project, len(project.said())
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("DBT_", "ICEGATE_"))}
        with project.log.open("a") as out:
            self.java = subprocess.Popen(
                [sys.executable, "-m", "icegate.cli.main", *arguments],
                cwd=project.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.project.said()[self.begins :]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.java.pid, signal.SIGKILL)
        self.java.wait()

    def await_batches(self, count: int) -> None:
        """Wait until so many batches more are written."""
        wanted = self.said().count(" batch=") + count
        self._await(lambda: self.said().count(" batch=") >= wanted)

    def await_commit(self, table: str) -> None:
        """Wait until a table has a snapshot more, and no longer."""
        before = self.project.snapshot(table).get("snapshot-id")
        self._await(lambda: self.project.snapshot(table).get("snapshot-id") != before, 0)

    def await_chance(self, dice: random.Random) -> None:
        """Wait for no moment in particular."""
        time.sleep(dice.uniform(0, 3))

    def _await(self, is_so: Any, pause: float = 0.1) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.java.poll() is None, self.said()[-3000:]
            assert time.monotonic() < deadline, f"nothing happens: {self.said()[-3000:]}"
            time.sleep(pause)
