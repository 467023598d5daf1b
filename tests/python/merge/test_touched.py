"""The files that a batch may touch: manifests and Spark's metadata table say the same."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.gate.store import read_tables
from icegate.merge import facts
from icegate.merge.bounds import Bound, Column
from icegate.merge.facts import Touched, touched, touched_sql

pytestmark = pytest.mark.slow

ID, NAME = Column("id", "`id`", "bigint"), Column("name", "`name`", "string")
DAY, AT = Column("day", "`day`", "date"), Column("at", "`at`", "timestamp")
AMOUNT, GONE = Column("amount", "`amount`", "decimal(9,2)"), Column("Gone", "`Gone`", "bigint")
FILL = """
insert into {s}.t select id, concat('a rather long text, ', id) as name, date_add(date '2026-01-01',
    int(id div 10)), timestamp_seconds(id * 1000), cast(id as decimal(9, 2))
from range({first}, {first} + 10, 1, 1)
"""
BOUNDS: list[tuple[Bound, int]] = [
    (Bound(ID, "0", "39"), 4),
    (Bound(ID, "12", "18"), 1),
    (Bound(ID, "19", "20"), 2),
    (Bound(ID, "40", "50"), 0),
    (Bound(NAME, "a rather long text, 3", "a rather long text, 3"), 4),  # bounds are cut off
    (Bound(NAME, "b", "c"), 0),
    (Bound(DAY, "2026-01-02", "2026-01-03"), 2),
    (Bound(AT, "31000000000", "32000000000"), 1),
    (Bound(AMOUNT, "9.50", "10.00"), 1),
]


def test_manifests_and_spark_find_the_same_files(project: DbtProject) -> None:
    project.rows("create namespace {s}")
    project.rows(
        "create table {s}.t (id bigint, name string, day date, at timestamp, amount decimal(9, 2))"
    )
    for first in (0, 10, 20, 30):
        project.rows(FILL.format(s=project.schema, first=first))
    (table,) = read_tables(project.lake, [f"{project.schema}.t"])
    for bound, files in BOUNDS:
        found = touched(table, "", [bound])
        assert (found.files, found.rows, found.all_files) == (files, 10 * files, 4), bound
        assert by_spark(project, bound) == found, bound
    listed = Bound(ID, "5", "35", values=("5", "35"))
    assert touched(table, "", [listed]).files == 2
    assert (
        touched(table, "", [Bound(ID, "5", "6"), Bound(DAY, "2026-01-03", "2026-01-04")]).files == 0
    )
    assert touched(table, "", [Bound(GONE, "5", "6")]).files == 4


def test_of_very_many_files_only_the_totals_are_read(
    project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "MOST_FILES", 0)
    project.rows("create namespace {s}")
    project.rows("create table {s}.t using iceberg as select id from range(0, 8, 1, 1)")
    (table,) = read_tables(project.lake, [f"{project.schema}.t"])
    found = touched(table, "", [Bound(ID, "90", "91")])
    assert (found.files, found.rows, found.all_files) == (1, 8, 1) and found.bytes > 0


def by_spark(project: DbtProject, bound: Bound) -> Any:
    """Return what Spark's own metadata table says."""
    ((files, rows, size, everything),) = project.rows(touched_sql(f"{project.schema}.t", [bound]))
    return Touched(files, rows, size, everything)
