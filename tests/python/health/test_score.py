"""The score falls with what readers lose, and says by how much and why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from health.tables import MB, NOW, Made, append, names, write
from icegate.catalog import read_metadata
from icegate.files import StoredFiles
from icegate.health.table import health, look
from icegate.settings import Lake

TARGET = {"write.target-file-size-bytes": str(128 * MB)}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    home = tmp_path / "a lake"
    return Made(Lake(home=home, warehouse=home / "warehouse"))


def test_small_files_are_counted_in_words(made: Made) -> None:
    table = made.table(**TARGET)
    write(table, *[0.5] * 412, *[120] * 18)
    found = made.health()
    (reason,) = found.reasons
    assert reason.name == "small files" and 0 < reason.points < 40
    assert reason.sentence == (
        "412 of 430 files are smaller than 96 MiB (75 % of 128 MiB); a reader opens 430 files "
        "where 20 would do"
    )
    assert reason.command == "dbt run-operation compact --args '{table: s.t}'"
    assert found.score == 100 - reason.points and found.read == "manifests"


def test_a_table_that_was_never_written_is_well(made: Made) -> None:
    made.table()
    found = made.health()
    assert (found.score, found.note, found.reasons) == (100, "nothing written yet", ())


@pytest.mark.parametrize("sizes", [[0.001], [0.001] * 12, [100, 100, 0.1], [5000] * 3])
def test_few_files_are_well_by_the_summary_alone(made: Made, sizes: list[float]) -> None:
    write(made.table(), *sizes)
    found = made.health()
    assert (found.score, found.read) == (100, "summary")
    assert (found.files.files, found.files.rows) == (len(sizes), 1000 * len(sizes))
    assert made.health(by_partition=True).score == 100  # manifests say no other


def test_a_big_table_that_is_well_kept_is_read_by_its_list_of_manifests(made: Made) -> None:
    write(made.table(), *[500] * 2000)
    found = made.health()
    assert (found.score, found.read, found.around.manifests) == (100, "manifest list", 1)
    assert made.health(by_partition=True).score == 100


def test_a_few_small_files_of_a_big_table_cost_nothing(made: Made) -> None:
    write(made.table(), *[500] * 2000, *[0.1] * 150)
    assert made.health().score == 100


def test_the_worse_it_is_the_lower_the_score(made: Made) -> None:
    scores = []
    for place, many in enumerate([12, 30, 60, 100, 300]):
        write(made.table(f"t{place}"), *[0.1] * many)
        scores.append(made.health(f"t{place}").score)
    assert scores[0] == 100 and scores == sorted(scores, reverse=True) and scores[-1] == 61
    for place, size in enumerate([0.1, 1, 8, 50, 400]):
        write(made.table(f"s{place}"), *[size] * 300)
    found = [made.health(f"s{place}").score for place in range(5)]
    assert found == sorted(found) and len({*found}) > 3 and found[-1] == 100


def test_one_sick_partition_shows_and_is_named(made: Made) -> None:
    table = made.table(days=True)
    for day in range(20):
        write(table, *[500] * 100, day=f"2026-01-{day:02}")
    assert made.health().score == 100
    write(table, *[0.1] * 300, day="2026-02-01")
    found = made.health()
    assert names(found) == {"small files": 19}
    assert found.reasons[0].sentence.startswith("In day=2026-02-01, 300 of 300 files are smaller")
    worst = found.partitions[0]
    assert (worst.name, worst.score) == ("day=2026-02-01", 61)
    assert {part.score for part in found.partitions[1:]} == {100}


def test_one_small_file_a_partition_is_nothing_to_compact(made: Made) -> None:
    append(made.table(days=True), *[f"d{day}" for day in range(40)])
    found = made.health()
    assert (found.score, found.read, found.files.small) == (100, "manifests", 40)


def test_many_partitions_of_a_few_small_files_each_add_up(made: Made) -> None:
    table = made.table(days=True)
    for _ in range(6):
        append(table, *[f"d{day}" for day in range(40)])
    found = made.health()
    assert names(found) == {"small files": 33}
    assert "a reader opens 240 files where 40 would do" in found.reasons[0].sentence
    assert [part.score for part in found.partitions] == [100] * 40


def test_real_appends_cost_files_and_manifests(made: Made) -> None:
    table = made.table()
    for _ in range(60):
        append(table, "a")
    found = made.health()
    assert set(names(found)) == {"small files", "manifests"}
    # All of them are small, as their total tells; the files themselves say no other.
    assert found.read == "manifest list"
    assert made.health(by_partition=True).reasons == found.reasons
    said = found.reasons[1]
    assert said.sentence.startswith("A plan reads 60 manifests of about ")
    assert said.sentence.endswith(" for 60 files, where 1 would do")
    assert said.command == "dbt run-operation rewrite_manifests --args '{table: s.t}'"


def test_manifests_may_be_as_many_as_their_size_asks_for(made: Made) -> None:
    table = made.table(**{"commit.manifest.target-size-bytes": "4000"})
    for _ in range(60):
        append(table, "a")
    assert "manifests" not in names(made.health())


def test_a_partition_that_is_far_larger_than_the_others(made: Made) -> None:
    table = made.table(days=True)
    for day in range(9):
        write(table, 250, 250, day=f"2026-01-{day:02}")
    write(table, *[500] * 12, day="none")
    assert made.health().score == 100  # larger, but not so large that it hurts
    write(table, *[500] * 188, day="none")
    found = made.health()
    assert names(found) == {"skew": 5}
    assert found.reasons[0].sentence.startswith(
        "Partition day=none has 97.66 GiB, 200 times the median"
    )
    assert found.reasons[0].command == ""


def test_files_of_an_older_partitioning(made: Made) -> None:
    table = made.table()
    write(table, *[500] * 6)
    with table.update_spec() as change:
        change.add_identity("day")
    for day in range(15):
        write(table, 500, day=f"d{day}")
    found = made.health()
    assert names(found) == {"old partitions": 1}
    assert found.reasons[0].sentence.startswith("6 of 21 files lie in partitions of before")


def test_snapshots_past_the_retention_of_the_table(made: Made) -> None:
    table = made.table(**{"history.expire.min-snapshots-to-keep": "10"})
    for _ in range(70):
        write(table, 500)
    assert "snapshots" not in names(made.health(days_on=4))
    table.manage_snapshots().create_tag(table.history()[3].snapshot_id, "kept").commit()
    found = made.health(days_on=6)
    assert names(found)["snapshots"] == 5 and found.around.expired == 70 - 10 - 1
    said = next(reason for reason in found.reasons if reason.name == "snapshots")
    assert said.sentence == (
        "59 of 70 snapshots are past the table's own retention (5 days); the oldest is 6 days old"
    )
    assert said.command == "dbt run-operation expire_snapshots --args '{table: s.t}'"


def test_snapshots_of_branches_are_kept_by_the_branch(made: Made) -> None:
    table = made.table()
    for _ in range(6):
        write(table, 500)
    first = table.history()[2].snapshot_id
    table.manage_snapshots().create_branch(first, "audit", min_snapshots_to_keep=2).commit()
    table.manage_snapshots().create_tag(first, "short", max_ref_age_ms=1000).commit()
    assert made.health(days_on=9).around.expired == 3  # main has its last, the branch two
    table.manage_snapshots().remove_branch("audit").commit()
    assert made.health(days_on=9).around.expired == 5  # the tag has ended by then
    assert made.health(days_on=0).around.expired == 0


def test_a_metadata_file_that_is_large_for_each_reader(made: Made) -> None:
    note = "x" * 7 * MB
    table = made.table(note=note)
    write(table, 1)
    found = made.health()
    assert names(found) == {"metadata.json": 7}
    assert found.reasons[0].sentence == (
        "Its metadata.json has 7.002 MiB for 1 snapshot, and is read before all else"
    )


@pytest.mark.parametrize("value", ["512MB", "0", "-1", ""])
def test_a_property_that_cannot_be_right_is_named(made: Made, value: str) -> None:
    made.table(**{"write.target-file-size-bytes": value})
    found = look(made.entry(), NOW)
    assert found.score is None
    assert "write.target-file-size-bytes" in found.error and repr(value) in found.error


def test_manifests_that_are_gone_or_cut_off_are_named(made: Made) -> None:
    write(made.table(), *[9] * 50)
    (manifest,) = made.lake.warehouse.rglob("*-m0.avro")
    whole = manifest.read_bytes()
    for cut in [0, 100, len(whole) // 2, len(whole) - 1]:
        manifest.write_bytes(whole[:cut])
        found = look(made.entry(), NOW)
        assert found.score is None and "a manifest of its snapshot" in found.error
    manifest.unlink()
    assert manifest.name in look(made.entry(), NOW).error


def test_how_far_is_read_changes_no_score(made: Made) -> None:
    chance = random.Random(7)
    read = set()
    for place in range(40):
        table = made.table(f"t{place}", days=place % 4 == 0, **(TARGET if place % 3 else {}))
        sizes = [chance.choice([0.1, 3, 90, 130, 600]) for _ in range(chance.choice([9, 20, 90]))]
        write(table, *(sizes if place % 5 else sizes[:1] * len(sizes)), day="a")
        first, whole = made.health(f"t{place}"), made.health(f"t{place}", by_partition=True)
        assert first.reasons == whole.reasons
        read.add(first.read)
    assert read == {"summary", "manifest list", "manifests"}


def test_totals_that_a_writer_left_out_are_counted(made: Made) -> None:
    table = made.table()
    write(table, 1, 2)
    metadata = read_metadata(made.entry())
    metadata["snapshots"][0]["summary"] = {"operation": "append"}
    found = health(metadata, StoredFiles(), table="s.t", now=NOW)
    assert (found.read, found.files.files, found.files.bytes) == ("manifests", 2, 3 * MB)
