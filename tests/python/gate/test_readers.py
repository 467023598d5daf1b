"""docs/readers.md: what each reader of a gated table sees, tried here, version by version."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT

from gate.gated import NOT_NULL, GatedProject
from icegate.catalog import list_relations, open_catalog
from icegate.cli.query import _open_duckdb
from icegate.gate import refs

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "readers.md"
RELEASED, PUBLISHED, HELD = 10, 20, None  # amounts in release 1, on main, on the branch


class Readers:
    """One table with a release, a newer one on main and rows that are held back."""

    def __init__(self, project: GatedProject) -> None:
        self.project, self.name = project, f"{project.schema}.orders"
        (build,) = project.builds("orders")
        self.branch = refs.branch_of(build)
        self.metadata = project.metadata("orders")
        entries = list_relations(project.lake, project.schema)
        self.file = next(e.metadata_file for e in entries if e.name == "orders")
        self.duck = _open_duckdb(project.lake, entries)

    def spark(self, version: str = "") -> int | None:
        return self.project.rows(f"select amount from {self.name} {version}")[0][0]

    def pyiceberg(self, ref: str = "") -> int | None:
        table = open_catalog(self.project.lake).load_table(self.name)
        scan = table.scan().use_ref(ref) if ref else table.scan()
        return scan.to_arrow()["amount"][0].as_py()

    def duckdb(self, option: str = "") -> int | None:
        found = self.duck.execute(f"select amount from iceberg_scan('{self.file}'{option})")
        row = found.fetchone()
        return row[0] if row else -1

    def snapshot(self, ref: str) -> int | None:
        return refs.head(self.metadata, ref)


READS: dict[str, tuple[Callable[[Readers], int | None], int | None]] = {
    "Spark, the table": (lambda r: r.spark(), PUBLISHED),
    "Spark, a tag": (lambda r: r.spark("version as of 'release_1'"), RELEASED),
    "Spark, a branch": (lambda r: r.spark(f"version as of '{r.branch}'"), HELD),
    "PyIceberg, the table": (lambda r: r.pyiceberg(), PUBLISHED),
    "PyIceberg, a tag": (lambda r: r.pyiceberg("release_1"), RELEASED),
    "PyIceberg, a branch": (lambda r: r.pyiceberg(r.branch), HELD),
    "DuckDB, the metadata file": (lambda r: r.duckdb(), PUBLISHED),
    "DuckDB, a snapshot id": (
        lambda r: r.duckdb(f", snapshot_from_id => {r.snapshot('release_1')}"),
        RELEASED,
    ),
}


def test_each_reader_sees_what_the_page_says(gated: GatedProject) -> None:
    gated.values("orders", RELEASED)
    gated.tests(orders=NOT_NULL)
    assert gated.dbt("build").ok
    gated.values("orders", PUBLISHED)
    assert gated.dbt("build").ok
    gated.values("orders", HELD)
    assert not gated.dbt("build").ok
    readers = Readers(gated)
    found = {name: read(readers) for name, (read, _) in READS.items()}
    assert found == {name: expected for name, (_, expected) in READS.items()}


def test_the_page_has_a_row_for_each() -> None:
    page = Path(PAGE).read_text()
    missing = [name for name in READS if not re.search(rf"^\| {re.escape(name)} \|", page, re.M)]
    assert not missing
