"""The ledger's tables, with real PyIceberg on a real catalog."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import make_home

from icegate.catalog import list_namespaces, list_relations, open_catalog, read_metadata
from icegate.cli.query import parse, run_on_duckdb
from icegate.errors import CatalogError
from icegate.files import StoredFiles
from icegate.gate import ledger
from icegate.gate.ledger_rows import Event, Proof, ReleaseTable
from icegate.gate.store import Moved, move
from icegate.settings import Lake

START = datetime(2026, 11, 1, 12, 30, 0, 123456, timezone.utc)
PYICEBERG, BEFORE_VIEWS = "made by PyIceberg", "of before views"


def lake_of(home: Path) -> Lake:
    return Lake(home=home, warehouse=home / "warehouse")


@pytest.fixture
def own_lake(tmp_path: Path) -> Lake:
    """A lake that no Spark has seen."""
    own = lake_of(make_home(tmp_path / "a home"))
    open_catalog(own).close()
    return own


def event(number: int, name: str = "built", **more: Any) -> Event:
    return Event(START + timedelta(seconds=number), f"b{number}", name, **more)


def table(release: int, name: str = "silver.a") -> ReleaseTable:
    return ReleaseTable(release, START, f"b{release}", name, 7 + release, None, 1, True, False)


def test_without_a_ledger_all_is_empty(tmp_path: Path, own_lake: Lake) -> None:
    for lake in (own_lake, lake_of(tmp_path / "nowhere")):
        assert ledger.read_events(lake) == []
        assert ledger.read_release_tables(lake, 1) == []
        assert ledger.last_release(lake) == 0
    assert not own_lake.warehouse.exists()


@pytest.mark.parametrize("kind", [PYICEBERG, BEFORE_VIEWS])
def test_rows_come_back_as_they_were(kind: str, own_lake: Lake) -> None:
    if kind == BEFORE_VIEWS:
        with closing(sqlite3.connect(own_lake.catalog_db)) as db:
            db.execute("alter table iceberg_tables drop column iceberg_type")
            db.commit()
    full = event(
        3,
        "published",
        release=12,
        invocation_id="0a1b",
        command="dbt build",
        target="local",
        who="ann",
        reason="ünïcode 'quotes'",
        detail='{"nodes": []}',
    )
    tables = [table(12, "silver.b"), table(12), table(11)]
    ledger.append(own_lake, [full, event(1)], tables)
    ledger.append(own_lake, [event(2, "rejected")])
    assert ledger.read_events(own_lake) == [event(1), event(2, "rejected"), full]
    assert ledger.read_events(own_lake, "b3") == [full]
    assert ledger.read_events(own_lake, "b4") == []
    assert ledger.read_release_tables(own_lake) == [table(11), table(12), table(12, "silver.b")]
    assert ledger.read_release_tables(own_lake, 11) == [table(11)]
    assert ledger.last_release(own_lake) == 12
    assert "icegate" in list_namespaces(own_lake)


def test_a_path_may_have_all_characters(tmp_path: Path, own_lake: Lake) -> None:
    odd = lake_of(own_lake.home.rename(tmp_path / "a home #1, 100% (ünï)?"))
    for number in (1, 2):
        ledger.append(odd, [event(number)])
    assert ledger.read_events(odd) == [event(1), event(2)]


def test_staged_rows_are_seen_when_their_pointers_move(own_lake: Lake) -> None:
    for release in (1, 2):  # the first makes the tables
        steps = ledger.stage(
            own_lake, [event(release, "published", release=release)], [table(release)]
        )
        assert [step.name for step in steps] == ["releases", "release_tables"]
        assert ledger.read_events(own_lake, f"b{release}") == []
        assert ledger.last_release(own_lake) == release - 1
        move(own_lake, steps)
        assert ledger.last_release(own_lake) == release
        assert ledger.read_release_tables(own_lake, release) == [table(release)]
    assert ledger.read_release_tables(own_lake, 0) == []


@pytest.mark.parametrize("earlier", [0, 1])
def test_rows_are_staged_again_when_another_process_came_first(
    earlier: int, own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(earlier):
        ledger.append(own_lake, [event(number)])
    refused = []

    def late(lake: Lake, steps: Any) -> None:
        if not refused:
            move(lake, ledger.stage(lake, [event(8)]))
        try:
            move(lake, steps)
        except Moved as error:
            refused.append(error.table)
            raise

    monkeypatch.setattr(ledger, "move", late)
    ledger.append(own_lake, [event(9)])
    assert refused == ["icegate.releases"]
    assert ledger.read_events(own_lake) == [*map(event, range(earlier)), event(8), event(9)]


def append_many(home: Path, start: Any, first: int) -> None:
    start.wait()
    for number in range(first, first + 10):
        ledger.append(lake_of(home), [event(number)], [table(number)])


@pytest.mark.slow
def test_processes_that_append_at_once_lose_nothing(own_lake: Lake) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    processes = [
        context.Process(target=append_many, args=(own_lake.home, start, first)) for first in (0, 10)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert ledger.read_events(own_lake) == [event(number) for number in range(20)]
    assert ledger.read_release_tables(own_lake) == [table(number) for number in range(20)]


@pytest.mark.slow
def test_a_hundred_appends_keep_it_small(own_lake: Lake) -> None:
    for number in range(1, 101):
        ledger.append(own_lake, [event(number)])
    (entry,) = list_relations(own_lake, "icegate")
    assert entry.metadata_file.stat().st_size < 10_000
    current = open_catalog(own_lake).load_table("icegate.releases").current_snapshot()
    assert current is not None
    assert len(current.manifests(StoredFiles())) < 30
    assert ledger.read_events(own_lake) == [event(number) for number in range(1, 101)]


def test_what_is_kept_anew_each_time_keeps_it_small(own_lake: Lake) -> None:
    for number in range(4):
        ledger.keep(own_lake, "proofs", [Proof(datetime.now(timezone.utc), "q", str(number))])
    assert [proof.tables for proof in ledger.read_kept(own_lake, "proofs")] == ["3"]
    with closing(open_catalog(own_lake)) as catalog:
        newest = catalog.load_table("icegate.proofs").current_snapshot()
        assert newest is not None
        assert len(newest.manifests(StoredFiles())) == 2  # of the file, and of the one before


def test_a_newer_ledger_is_left_alone(own_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(ledger, "MIGRATIONS", [lambda txn, name: None])
        ledger.append(own_lake, [event(1)])
    for use in (
        ledger.last_release,
        ledger.read_events,
        lambda lake: ledger.append(lake, [event(2)]),
    ):
        with pytest.raises(CatalogError, match="update icegate"):
            use(own_lake)


def test_an_older_ledger_is_migrated_with_the_next_row(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(own_lake, [event(1)])

    @dataclass(frozen=True)
    class NewEvent(Event):
        approved_by: str | None = None

    def add_a_column(txn: Any, name: str) -> None:
        from pyiceberg.types import StringType

        if name == "releases":
            txn.update_schema().add_column("approved_by", StringType()).commit()

    monkeypatch.setattr(ledger, "MIGRATIONS", [add_a_column])
    monkeypatch.setitem(ledger.ROWS, "releases", NewEvent)
    old, new = NewEvent(**vars(event(1))), NewEvent(**vars(event(2)), approved_by="ann")
    assert ledger.read_events(own_lake) == [old]
    for _ in range(2):
        ledger.append(own_lake, [new], [table(1)])
    assert ledger.read_events(own_lake) == [old, new, new]
    for entry in list_relations(own_lake, "icegate"):
        assert read_metadata(entry)["properties"][ledger.VERSION] == "2"


def test_a_disk_that_cannot_be_written(
    own_lake: Lake, make_read_only: Callable[[Path], None]
) -> None:
    ledger.append(own_lake, [event(1)], [table(1)])
    make_read_only(own_lake.home)
    assert ledger.read_events(own_lake) == [event(1)]
    with pytest.raises(CatalogError, match="cannot write the gate's ledger.*\n.*Read-only"):
        ledger.append(own_lake, [event(2)])


def test_files_that_are_gone(own_lake: Lake) -> None:
    ledger.append(own_lake, [event(1)])
    (rows,) = own_lake.warehouse.rglob("*.parquet")
    rows.unlink()
    with pytest.raises(CatalogError, match="cannot read the gate's ledger"):
        ledger.read_events(own_lake)
    shutil.rmtree(own_lake.warehouse)
    with pytest.raises(CatalogError, match="its metadata file isn't there"):
        ledger.append(own_lake, [event(2)])


def test_a_catalog_that_is_no_database(own_lake: Lake) -> None:
    own_lake.catalog_db.write_bytes(b"no database" * 1000)
    for use in (
        ledger.last_release,
        ledger.read_events,
        lambda lake: ledger.append(lake, [event(2)]),
    ):
        with pytest.raises(CatalogError, match="isn't a whole SQLite database"):
            use(own_lake)


def test_what_is_imported_when(own_lake: Lake) -> None:
    ledger.append(own_lake, [event(1, "published", release=41)])
    code = f"""
import sys
from datetime import datetime, timezone
from pathlib import Path
from icegate.gate import ledger
from icegate.settings import Lake
home = Path({str(own_lake.home)!r})
lake = Lake(home=home, warehouse=home / "warehouse")
assert ledger.last_release(lake) == 41
assert not {{"pyiceberg", "pyarrow", "sqlalchemy"}} & set(sys.modules)
ledger.warm_up()
known = set(sys.modules)
ledger.stage(lake, [ledger.Event(datetime.now(timezone.utc), "b2", "built")])
assert set(sys.modules) == known and "sqlalchemy" not in known
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_who_is_a_number_where_nobody_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert ledger.who() == "54321"


def test_duckdb_reads_it(own_lake: Lake) -> None:
    for number in (1, 2):
        ledger.append(own_lake, [event(number)], [table(number)])
    query = "select r.build, r.at, t.moved from icegate.releases r join icegate.release_tables t"
    found = run_on_duckdb(own_lake, parse(f"{query} on r.build = t.build order by 1"), 0)
    assert [tuple(row) for row in found.rows] == [
        ("b1", event(1).at, True),
        ("b2", event(2).at, True),
    ]


@pytest.mark.slow
def test_spark_reads_and_keeps_the_ledger(lake: Lake, spark: Any) -> None:
    for number in (1, 2, 3):
        ledger.append(lake, [event(number, "published", release=number)], [table(number)])
    query = "select release, build, at from icegate.releases order by release"
    found = [tuple(row) for row in spark.sql(query).collect()]
    assert [row[:2] for row in found] == [(1, "b1"), (2, "b2"), (3, "b3")]
    query = "select date_format(min(at), 'yyyy-MM-dd HH:mm:ss.SSSSSS') from icegate.releases"
    assert spark.sql(query).first()[0] == "2026-11-01 12:30:01.123456"
    assert spark.sql("select sum(snapshot_id) from icegate.release_tables").first()[0] == 27
    rewritten = "'icegate.releases', options => map('rewrite-all', 'true')"
    spark.sql(f"call lake.system.rewrite_data_files({rewritten})")
    ledger.append(lake, [event(4)])
    assert [e.build for e in ledger.read_events(lake)] == ["b1", "b2", "b3", "b4"]
    assert spark.sql("select count(*) from icegate.releases").first()[0] == 4
    assert ledger.last_release(lake) == 3
