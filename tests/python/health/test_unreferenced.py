"""Files that nothing refers to are counted, and no file that anything needs is among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from shop import lake_of, make_project, run_icegate

from health.tables import NOW, Made, append
from icegate.catalog import list_relations, local_path
from icegate.errors import TableError
from icegate.health.unreferenced import Unreferenced, references, unreferenced


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(lake_of(make_project(tmp_path / "a b")))


def look(made: Made, name: str = "t") -> Unreferenced:
    references.cache_clear()
    return unreferenced(made.entry(name), list_relations(made.lake), NOW, 3)


def age(folder: Path, days: float = 4) -> None:
    """Make all files in a folder so many days old."""
    at = NOW.timestamp() - days * 24 * 3600
    for path in folder.rglob("*"):
        os.utime(path, (at, at))


def busy(made: Made, **properties: str) -> tuple[Table, Path]:
    """Return a table with deletes, a branch, a tag, statistics; and where it lies."""
    table = made.table(days=True, **properties)
    for day in "abc":
        append(table, day, "d")
    table.delete("day = 'a'")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit").commit()
    folder = local_path(table.location())
    statistics = folder / "metadata" / "1.stats"
    statistics.write_bytes(b"x")
    blob = BlobMetadata(
        type="apache-datasketches-theta-v1", snapshot_id=1, sequence_number=1, fields=[1]
    )
    file = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=f"file://{statistics}",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[blob],
    )
    with table.update_statistics() as change:
        change.set_statistics(file)
    return table, folder


def test_all_that_a_table_needs_is_known(made: Made) -> None:
    _, folder = busy(made)
    age(folder)
    assert look(made) == Unreferenced(0, 0, 0, ())


def test_each_kind_of_leftover_is_found_and_stays(made: Made) -> None:
    _, folder = busy(made)
    left = [folder / "data" / "day=a" / "crashed.parquet", folder / "metadata" / "old-m0.avro"]
    for path in left:
        path.write_bytes(b"12345")
    age(folder)
    (folder / "data" / "writing.parquet").write_bytes(b"1")
    (folder / "data" / ".hidden.crc").write_bytes(b"1")
    age(folder / "nothing")
    found = look(made)
    assert (found.files, found.bytes, found.young) == (2, 10, 1)
    assert found.paths == tuple(sorted(map(str, left)))
    assert all(path.exists() for path in left)


def test_metadata_files_that_the_log_forgot_are_leftovers(made: Made) -> None:
    _, folder = busy(made, **{"write.metadata.previous-versions-max": "2"})
    age(folder)
    found = look(made)
    assert found.files > 2
    assert all(path.endswith(".metadata.json") for path in found.paths)


def test_files_of_another_table_are_needed(made: Made) -> None:
    table, folder = busy(made)
    # As a held build's clone: another table, whose metadata names files of this one.
    copy = made.catalog.register_table("s.copy", table.metadata_location)
    append(copy, "z")
    age(folder)
    assert look(made).files == 0
    assert look(made, "copy").files == 0
    made.catalog.drop_table("s.copy")
    assert look(made).files == 4  # its data file, manifest, list and metadata


def test_a_warehouse_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = Made(lake_of(make_project(tmp_path / "link" / "a b")))
    # Data is named by the one path, and the table lies by the other.
    real = (made.lake.warehouse).parent.resolve() / "warehouse" / "s" / "t" / "data"
    _, folder = busy(made, **{"write.data.path": f"file://{real}"})
    age(folder)
    assert "link" in folder.parts and [*folder.rglob("*.parquet")]
    assert look(made).files == 0


def test_another_table_that_cannot_be_read_is_no_reason_to_guess(made: Made) -> None:
    _, folder = busy(made)
    (folder / "data" / "crashed.parquet").write_bytes(b"12345")
    age(folder)
    append(made.table("other"), "a")
    for path in (made.lake.warehouse / "s" / "other").rglob("*-m0.avro"):
        path.unlink()
    with pytest.raises(TableError, match=r"tell what s\.other refers to"):
        look(made)


def test_the_command_says_how_much(made: Made) -> None:
    _, folder = busy(made)
    (folder / "data" / "crashed.parquet").write_bytes(b"x" * 12_300)
    age(folder)
    (folder / "data" / "writing.parquet").write_bytes(b"1")
    project = made.lake.home.parent
    told = run_icegate(project, "health", "--unreferenced").out
    said = "s.t: nothing refers to 1 file, 12.3 kB; 1 more, too young to tell"
    assert said in told
    found = run_icegate(project, "health", "--unreferenced", "--json").json["tables"][0]
    assert found["unreferenced"]["paths"] == [str(folder / "data" / "crashed.parquet")]
    assert run_icegate(project, "health", "--json").json["tables"][0]["unreferenced"] is None
