"""`icegate health`: the worst table first, and a broken one beside the others."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from released import two_releases
from shop import lake_of, make_project, make_tables, run_icegate

from health.tables import Made, append, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_project(tmp_path / "a b")


def test_worst_first_then_all_of_one(folder: Path) -> None:
    made = Made(lake_of(folder))
    made.table("empty")
    write(made.table("well"), 1)
    write(made.table("worn"), *[0.1] * 60, *[0.2] * 60)
    ran = run_icegate(folder, "health")
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["s.worn", "62"],
        ["s.empty", "100"],
        ["s.well", "100"],
    ]
    assert "120 of 120 files are smaller than 384 MiB" in lines[1]
    assert "nothing written yet" in lines[2] and ran.code == 0
    one = run_icegate(folder, "health", "s.worn").out.splitlines()
    assert one[0] == "s.worn: 62 of 100"
    assert one[1].startswith("-38 small files: 120 of 120")
    assert one[2].strip() == "dbt run-operation compact --args '{table: s.worn}'"
    assert "nothing to mend" in run_icegate(folder, "health", "s.well").out


def test_fail_under(folder: Path) -> None:
    write(Made(lake_of(folder)).table("worn"), *[0.1] * 120)
    assert run_icegate(folder, "health", "--fail-under", "61").code == 0
    assert run_icegate(folder, "health", "--fail-under", "62").code == 1


def test_json_has_everything(folder: Path) -> None:
    made = Made(lake_of(folder))
    table = made.table("worn", days=True)
    write(table, *[0.1] * 60, day="a")
    write(table, 500, day="b")
    found = run_icegate(folder, "health", "--json").json
    (worn,) = found["tables"]
    assert found["catalog"] == "lake" and worn["name"] == "s.worn" and worn["read"] == "manifests"
    reason = worn["reasons"][0]
    assert set(reason) == {"name", "points", "sentence", "command"}
    assert worn["files"]["small"] == 60 and worn["around"]["manifests"] == 2
    assert [part["name"] for part in worn["partitions"]] == ["day=a", "day=b"]
    assert worn["partitions"][0]["reasons"][0]["points"] > reason["points"] / 2


def test_partitions_of_tables_that_the_summary_would_do_for(folder: Path) -> None:
    append(Made(lake_of(folder)).table(days=True), "a", "b")
    assert "day=a" not in run_icegate(folder, "health").out
    told = run_icegate(folder, "health", "--partitions").out
    assert "partitions of s.t" in told and "day=a" in told and "day=b" in told


def test_broken_tables_stand_beside_the_others(folder: Path) -> None:
    made = Made(lake_of(folder))
    for name in ("gone", "cut", "well"):
        write(made.table(name), 1)
    made.entry("gone").metadata_file.unlink()
    cut = made.entry("cut").metadata_file
    cut.write_bytes(gzip.compress(cut.read_bytes())[:100])
    ran = run_icegate(folder, "health")
    lines = ran.out.splitlines()
    assert ran.code == 1 and len(lines) == 4
    assert lines[1].startswith("s.cut") and "error: its metadata file" in lines[1]
    assert lines[2].startswith("s.gone") and "isn't there" in lines[2]
    assert lines[3].split()[:2] == ["s.well", "100"]
    tables = run_icegate(folder, "health", "s.*", "--json").json["tables"]
    assert [table["score"] for table in tables] == [None, None, 100]


def test_views_and_unknown_names(folder: Path) -> None:
    assert "no tables yet" in run_icegate(folder, "health").out
    make_tables(lake_of(folder))
    told = run_icegate(folder, "health")
    assert told.code == 0 and "who_bought" not in told.out and "gold.dim_customers" in told.out
    view = run_icegate(folder, "health", "gold.who_bought")
    assert view.code == 2 and "it's a view" in view.err
    unknown = run_icegate(folder, "health", "gold.dim_customer")
    assert unknown.code == 2 and "did you mean gold.dim_customers?" in unknown.err


def test_the_gates_own_tables_are_judged_if_they_are_named(folder: Path) -> None:
    lake = lake_of(folder)
    two_releases(lake)
    assert "icegate." not in run_icegate(folder, "health").out
    assert "icegate.releases" in run_icegate(folder, "health", "icegate").out
