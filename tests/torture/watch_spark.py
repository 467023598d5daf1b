"""Look at tables, a view and releases through a long-lived Spark without a setting of the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checks import foreign_ids, max_batch, row_faults, tie_faults
from gated_shop import CONF, SCHEMA, Row
from lakes import is_moving, lake_of
from watch import Findings

from icegate.session import start_session

COLUMNS = {
    "lines": "id, order_id, amount, batch",
    "orders": "id, amount, batch",
    "totals": "batch, orders, amount",
    "recent": "id, amount, batch",
}
TIED = ("lines", "orders", "totals")
# A release took a column away between the analysis of a query and its execution.
CHANGED = "INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS"


class SparkWatcher:
    """Reads table after table, each as it then is, and each new release as of its snapshots."""

    pause_s = 0.3

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spark = start_session(lake_of(home, memory="768m", cores=1, spark_conf=CONF))
        self.findings = Findings()
        self.batches: dict[str, int] = {}
        self.foreign: set[str] = set()

    def look(self) -> None:
        self.findings.polls += 1
        undos, was_moving = self._undos(), is_moving(self.home)
        tables = {name: rows for name in COLUMNS if (rows := self._rows(name)) is not None}
        batches = {name: max_batch(rows) for name, rows in tables.items()}
        foreign = foreign_ids({name: tables.get(name, []) for name in ("orders", "lines")})
        self.findings.add("Spark", row_faults(tables))
        is_quiet = not (was_moving or is_moving(self.home))
        if is_quiet and self._undos() == undos == self.findings.undos:
            for name, batch in self.batches.items():
                if batch > (now := batches.get(name, 0)):
                    self.findings.add("Spark", [f"{name} went back from batch {batch} to {now}"])
            lost = sorted(self.foreign - foreign)
            self.findings.add("Spark", [f"rows of another writer are lost: {lost}"] if lost else [])
        self.findings.undos = undos
        self.findings.changes += batches != self.batches
        self.batches, self.foreign = batches, foreign
        self._look_at_release()

    def _look_at_release(self) -> None:
        last = self._query("select max(release) as release from icegate.release_tables") or [{}]
        release = last[0].get("release")
        if release is None or release == self.findings.releases:
            return
        self.findings.releases = release
        rows = self._query(
            "select table_name, snapshot_id, moved from icegate.release_tables"
            f" where release = {release}"
        )
        tables: dict[str, list[Row]] = {name: [] for name in TIED}
        for row in rows or []:
            name = row["table_name"].partition(".")[2]
            at = f"'release_{release}'" if row["moved"] else row["snapshot_id"]
            if name in TIED and row["snapshot_id"] is not None:
                tables[name] = self._rows(name, f" version as of {at}") or []
        self.findings.add(f"Spark as of release {release}", tie_faults(tables))

    def _undos(self) -> int:
        sql = "select count(*) as undos from icegate.releases where event = 'rolled_back'"
        return (self._query(sql) or [{"undos": 0}])[0]["undos"]

    def _rows(self, name: str, version: str = "") -> list[Row] | None:
        return self._query(f"select {COLUMNS[name]} from {SCHEMA}.{name}{version}")

    def _query(self, sql: str) -> list[Any] | None:
        """Return rows, None of a table that isn't there (yet)."""
        while True:
            try:
                return [row.asDict() for row in self.spark.sql(sql).collect()]
            except Exception as error:
                if CHANGED in str(error):  # Spark has read nothing, and says to ask again
                    self.findings.asked_again += 1
                    continue
                if "TABLE_OR_VIEW_NOT_FOUND" not in str(error):
                    self.findings.add("Spark", [f"{sql}: {str(error)[:500]}"])
                return None
