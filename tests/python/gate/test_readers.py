"""docs/readers.md: what each reader of a gated table sees, tried here, version by version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from conftest import ROOT
from pyiceberg.catalog import Catalog, load_catalog
from targets.rest_server import rest_catalog

from gate.gated import NOT_NULL, GatedProject
from gate.other_duckdb import read_by_rest
from gate.trino import needs_trino, query, trino
from icegate.catalog import list_relations, open_catalog
from icegate.duck import extension_file, open_duckdb
from icegate.gate import refs

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "readers.md"
RELEASED, PUBLISHED, HELD = 10, 20, None  # amounts in release 1, on main, on the branch
# The page's words for what a reader got.
RELEASE, MAIN, BRANCH = "that release", "`main`", "what is held back"
AN_ERROR = "an error"
WORDS = {((RELEASED,),): RELEASE, ((PUBLISHED,),): MAIN, ((HELD,),): BRANCH}


class Readers:
    """Readers of `orders`, which has two releases, and rows that are held back."""

    def __init__(self, project: GatedProject, rest: str = "") -> None:
        self.project, self.rest, self.table = project, rest, f"{project.schema}.orders"
        (build,) = project.builds("orders")
        self.branch = refs.branch_of(build)
        self.release = refs.head(project.metadata("orders"), "release_1")
        entries = list_relations(project.lake, project.schema)
        (self.file,) = [entry.metadata_file for entry in entries]
        self.duck = open_duckdb(project.lake, entries)
        self.trino_address = ""
        if rest:
            self._open_rest()

    def spark(self, version: str = "") -> str:
        catalog = "rest" if self.rest else self.project.lake.catalog
        source = f"{catalog}.{self.table} {version}"
        return WORDS[tuple(self.project.rows(f"select amount from {source}"))]

    def pyiceberg(self, ref: str = "") -> str:
        scan = self._catalog().load_table(self.table).scan()
        found = (scan.use_ref(ref) if ref else scan).to_arrow()["amount"].to_pylist()
        return WORDS[tuple((amount,) for amount in found)]

    def duckdb(self, option: str = "") -> str:
        return self._duck(f"iceberg_scan('{self.file}'{option})")

    def duckdb_by_rest(self, version: str = "") -> str:
        with suppress(duckdb.InvalidInputException):
            return self._duck(f"rest.{self.table} {version}")
        return AN_ERROR

    def other_duckdb(self, version: str) -> str:
        return WORDS[tuple(read_by_rest(version, self.rest, self.table))]

    def trino(self, version: str = "") -> str:
        source = f"lake.{self.table} {version}"
        return WORDS[tuple(query(self.trino_address, f"select amount from {source}"))]

    def _duck(self, source: str) -> str:
        return WORDS[tuple(self.duck.execute(f"select amount from {source}").fetchall())]

    def _catalog(self) -> Catalog:
        if self.rest:
            return load_catalog("rest", type="rest", uri=self.rest)
        return open_catalog(self.project.lake)

    def _open_rest(self) -> None:
        conf, name = self.project.spark.conf, "spark.sql.catalog.rest"
        conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
        conf.set(f"{name}.type", "rest")
        conf.set(f"{name}.uri", self.rest)
        options = f"type iceberg, endpoint '{self.rest}', authorization_type 'none'"
        self.duck.execute(f"load '{extension_file('httpfs')}'")
        self.duck.execute(f"attach 'lake' as rest ({options})")


Reads = dict[str, tuple[Callable[[Readers], str], str]]

# These see the same by the lake's own catalog and by a REST catalog.
BY_CATALOG: Reads = {
    "Spark, the table": (lambda r: r.spark(), MAIN),
    "Spark, a tag": (lambda r: r.spark("version as of 'release_1'"), RELEASE),
    "Spark, a branch": (lambda r: r.spark(f"version as of '{r.branch}'"), BRANCH),
    "PyIceberg, the table": (lambda r: r.pyiceberg(), MAIN),
    "PyIceberg, a tag": (lambda r: r.pyiceberg("release_1"), RELEASE),
    "PyIceberg, a branch": (lambda r: r.pyiceberg(r.branch), BRANCH),
}
BY_FILE: Reads = {
    "DuckDB, the metadata file": (lambda r: r.duckdb(), MAIN),
    "DuckDB, a snapshot id": (
        lambda r: r.duckdb(f", snapshot_from_id => {r.release}"),
        RELEASE,
    ),
    "DuckDB, a tag": (lambda r: r.duckdb(", version => 'release_1'"), MAIN),
    "DuckDB, a time": (
        lambda r: r.duckdb(", snapshot_from_timestamp => now()::timestamp"),
        MAIN,
    ),
}
BY_REST: Reads = {
    "DuckDB by REST, the table": (lambda r: r.duckdb_by_rest(), MAIN),
    "DuckDB by REST, a snapshot id": (
        lambda r: r.duckdb_by_rest(f"at (version => {r.release})"),
        RELEASE,
    ),
    "DuckDB by REST, a tag": (
        lambda r: r.duckdb_by_rest("at (version => 'release_1')"),
        AN_ERROR,
    ),
}
BY_OLDER: Reads = {
    "DuckDB 1.5.3 by REST, the table": (lambda r: r.other_duckdb("1.5.3"), BRANCH),
    "DuckDB 1.4.4 by REST, the table": (lambda r: r.other_duckdb("1.4.4"), MAIN),
}
BY_TRINO: Reads = {
    "Trino by REST, the table": (lambda r: r.trino(), MAIN),
    "Trino by REST, a tag": (
        lambda r: r.trino("for version as of 'release_1'"),
        RELEASE,
    ),
    "Trino by REST, a branch": (
        lambda r: r.trino(f"for version as of '{r.branch}'"),
        BRANCH,
    ),
}


@pytest.fixture
def held_back(gated: GatedProject) -> GatedProject:
    """A project with the table that ``Readers`` reads."""
    gated.tests(orders=NOT_NULL)
    for amount in (RELEASED, PUBLISHED):
        gated.values("orders", amount)
        assert gated.dbt("build").ok
    gated.values("orders", HELD)
    assert not gated.dbt("build").ok
    return gated


@pytest.fixture
def rest(held_back: GatedProject) -> Iterator[str]:
    with rest_catalog(held_back.lake) as address:
        yield address


def seen(readers: Readers, *reads: Reads) -> dict[str, str]:
    return {name: read(readers) for part in reads for name, (read, _) in part.items()}


def expected(*reads: Reads) -> dict[str, str]:
    return {name: words for part in reads for name, (_, words) in part.items()}


def test_each_reader_sees_what_the_page_says(held_back: GatedProject) -> None:
    assert seen(Readers(held_back), BY_CATALOG, BY_FILE) == expected(BY_CATALOG, BY_FILE)


@pytest.mark.long
def test_each_sees_by_rest_what_the_page_says(held_back: GatedProject, rest: str) -> None:
    assert seen(Readers(held_back, rest), BY_CATALOG, BY_REST) == expected(BY_CATALOG, BY_REST)


@pytest.mark.long
def test_an_older_duckdb_sees_what_the_page_says(held_back: GatedProject, rest: str) -> None:
    assert seen(Readers(held_back, rest), BY_OLDER) == expected(BY_OLDER)


@needs_trino
@pytest.mark.long
def test_trino_sees_what_the_page_says(held_back: GatedProject, rest: str, tmp_path: Path) -> None:
    readers = Readers(held_back, rest)
    with trino(rest, tmp_path / "trino") as readers.trino_address:
        assert seen(readers, BY_TRINO) == expected(BY_TRINO)


def test_the_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    assert dict(rows[2:]) == expected(BY_CATALOG, BY_FILE, BY_REST, BY_OLDER, BY_TRINO)
