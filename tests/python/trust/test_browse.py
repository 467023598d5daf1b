"""What the app shows, as plain rows: of tables by PyIceberg, read without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from released import FIRST, SECOND, THIRD
from shop import lake_of, make_view

from icegate.catalog import open_catalog
from icegate.errors import ConfigError
from icegate.gate.build import hold_alive
from icegate.gate.refs import MAIN
from icegate.trust import rows
from icegate.trust.browse import Browse
from icegate.trust.project import Model
from trust.browsed import browse, check, make_browsed, manifest, model, two_tables, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_browsed(tmp_path_factory.mktemp("browsed") / "a b")


@pytest.fixture(scope="module")
def seen(folder: Path) -> Browse:
    return browse(folder)


def of(seen: Browse, table: str) -> Model:
    return next(m for m in seen.project.models.values() if m.table == table)


def test_releases_beside_what_waits(seen: Browse) -> None:
    told = [(r["release"], r["build"], r["moved"], r["held back"]) for r in seen.releases()]
    assert told == [(None, THIRD, 0, 1), (2, SECOND, 2, 0), (1, FIRST, 2, 0)]
    assert [(b["build"], b["state"], b["tables"]) for b in seen.waiting()] == [
        (THIRD, "held back", "s.a")
    ]


def test_held_back_tables_come_first_and_say_where_they_can_be_read(seen: Browse) -> None:
    assert [m.table for m in seen.tables()] == ["s.a", "s.b"]
    assert seen.places(of(seen, "s.a")) == [THIRD, 2, 1]
    assert seen.places(of(seen, "s.b")) == [2, 1]


def test_rows_on_main_in_a_release_and_in_a_build(seen: Browse) -> None:
    table = of(seen, "s.a")
    found = {place: seen.rows(table, place) for place in (MAIN, 1, THIRD)}
    read = {place: sorted(row[0] for row in rows.shown.rows) for place, rows in found.items()}
    assert read == {MAIN: [0, 1, 2], 1: [0, 1], THIRD: [0, 1, 2, 3, 4]}
    assert [found[place].total for place in (MAIN, 1, THIRD)] == [3, 2, 5]


def test_personal_data_is_masked_wherever_rows_are_shown(seen: Browse) -> None:
    table = of(seen, "s.a")
    (fault,) = seen.faults(table)
    samples = [seen.rows(table, THIRD).shown, seen.differing(table, THIRD).shown, fault.sample]
    for sample in samples:
        at = sample.columns.index("amount")
        assert {row[at] for row in sample.rows} <= {"•••", None} and sample.rows


def test_columns_that_nobody_described_are_masked_beside_personal_data(folder: Path) -> None:
    bare = model("a")
    bare["columns"].pop("id")
    write(folder, manifest(bare))
    try:
        seen = browse(folder)
        assert set(seen.rows(of(seen, "s.a"), MAIN).shown.rows) == {("•••", "•••")}
    finally:
        write(folder, manifest(*two_tables()))


def test_rows_that_differ_are_told_by_the_key_that_a_test_names(seen: Browse) -> None:
    found = seen.differing(of(seen, "s.a"), THIRD)
    assert found.total == 2 and found.key == ["id"]
    assert [row[:2] for row in found.shown.rows] == [
        (f"build {THIRD} only", 3),
        (f"build {THIRD} only", 4),
    ]
    assert seen.differing(of(seen, "s.b"), 2).total == 0


def test_a_changed_row_stands_beside_what_it_was(tmp_path: Path) -> None:
    folder = make_browsed(tmp_path / "a b")
    table = open_catalog(lake_of(folder)).load_table("s.b")
    was = table.scan().to_arrow()
    table.overwrite(was.set_column(1, "amount", pa.array(["9"] * len(was))))
    unique_b = check("unique_b", "unique", "b", "")
    write(folder, manifest(*two_tables(), unique_b))
    seen = browse(folder)
    found = seen.differing(of(seen, "s.b"), 2)
    marks = [(row[0], row[1]) for row in found.shown.rows]
    assert marks == [(f"{side}, changed", id) for id in (0, 1, 2) for side in ("main", "release 2")]


def test_failing_rows_are_whole_rows_of_the_build_that_waits(seen: Browse) -> None:
    (fault,) = seen.faults(of(seen, "s.a"))
    assert fault.place == THIRD and fault.table == "s.a"
    assert fault.says == "1 value of id is none of 0, 1 and 2."
    assert [row[0] for row in fault.sample.rows] == [3, 4] and fault.sample.columns[1] == "amount"


def test_history_of_a_test_over_builds(seen: Browse) -> None:
    test = seen.tests()[0]
    assert test.name == "not_null_a"
    told = [(run["build"], run["verdict"]) for run in seen.history(test)]
    assert told == [(THIRD, "failed"), (SECOND, "passed"), (FIRST, "passed")]


def test_the_difference_of_two_releases(seen: Browse) -> None:
    assert seen.points() == [MAIN, THIRD, 2, 1]
    assert [(d["table"], d["rows"]) for d in seen.diff(1, 2)] == [("s.a", 1), ("s.b", 1)]
    assert [(d["table"], d["rows"]) for d in seen.diff(MAIN, THIRD)] == [("s.a", 2)]
    assert seen.diff(MAIN, 2) == []


def test_a_table_that_was_dropped_meanwhile_is_told(tmp_path: Path) -> None:
    folder = make_browsed(tmp_path / "a b")
    seen = browse(folder)
    open_catalog(lake_of(folder)).drop_table("s.b")
    found = seen.rows(of(seen, "s.b"), MAIN)
    assert found.shown.why_none == "it was never published, or was dropped meanwhile"
    assert seen.differing(of(seen, "s.b"), 1).shown.why_none == found.shown.why_none


def test_a_view_has_no_rows_to_show_without_spark(tmp_path: Path) -> None:
    folder = make_browsed(tmp_path / "a b")
    make_view(lake_of(folder))
    view = {**model("who_bought"), "schema": "gold"}
    write(folder, manifest(*two_tables(), view))
    seen = browse(folder)
    assert seen.places(of(seen, "gold.who_bought")) == []
    found = seen.rows(of(seen, "gold.who_bought"), MAIN)
    assert found.shown.why_none == "it is a view, whose SQL only Spark can run"


def test_a_build_that_runs_is_not_offered(folder: Path) -> None:
    with hold_alive(lake_of(folder), THIRD):
        seen = browse(folder)
        assert [build["state"] for build in seen.waiting()] == ["running"]
        assert seen.places(of(seen, "s.a")) == [2, 1] and THIRD not in seen.points()
        assert "a process of it is running" in seen.rows(of(seen, "s.a"), THIRD).shown.why_none


def test_a_release_that_is_gone_is_told(seen: Browse) -> None:
    assert "release 9" in seen.rows(of(seen, "s.a"), 9).shown.why_none
    with pytest.raises(ConfigError, match="cannot find release or build '9'"):
        seen.diff(9, MAIN)


def test_a_large_table_is_cut_and_not_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FIRST", 2)
    monkeypatch.setattr(rows, "COMPARED", 4)
    seen = browse(folder)
    found = seen.rows(of(seen, "s.a"), THIRD)
    assert len(found.shown.rows) == 2 and found.total == 5
    why = "it has 5 rows, and up to 4 are compared one by one"
    assert seen.differing(of(seen, "s.a"), THIRD).shown.why_none == why
