"""What changed between two versions is what a naive program says, for all that comes to mind."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from history.dimensioned import Dimensioned
from history.versioned import KEYS, KINDS, LAYOUTS, Versioned, changes
from icegate.catalog import open_catalog
from icegate.history import changes as queries
from icegate.history.rows import DELETE, changes_of_row
from icegate.settings import Lake
from icegate.tables.metadata import moment

# `make fuzz-history` sets 1,000.
HISTORIES = int(os.environ.get("ICEGATE_FUZZ_HISTORIES", "50"))
TIMES, PAIRS = 8, 3
# Some rows each: to plan a query for less work, and to compile it, takes longer than to run it.
FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture
def quick(spark: Any) -> Iterator[Any]:
    """The Spark of all tests, quick with tables of some rows."""
    before = {name: spark.conf.get(name) for name in FEW_ROWS}
    for name, value in FEW_ROWS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.long
@settings(
    max_examples=HISTORIES,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # the seed alone makes it again; a smaller case would take hours
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=True))
def test_changes_are_those_of_a_naive_program(lake: Lake, quick: Any, random: Random) -> None:
    schema = f"h_{uuid.uuid4().hex[:8]}"
    quick.sql(f"create namespace {schema}")
    kind, layout = random.choice(list(KINDS)), random.choice(LAYOUTS)
    table = Versioned(quick, lake, f"{schema}.t", kind, layout, random)
    table.insert()
    dimension = Dimensioned(table, random)
    for _ in range(TIMES):
        table.change()
        if random.random() < 0.4:
            dimension.run()
    table.merge()  # a history has new columns with the rows that come after them
    dimension.run()
    note(f"{kind} {layout}\n" + ";\n".join(table.told))
    pairs = [*itertools.permutations(table.kept, 2)]
    for old, new in random.sample(pairs, min(PAIRS, len(pairs))):
        queries.MOST_FILES = random.choice([1000, 1000, 1, 0])
        queries.MOST_PARTS = random.choice([200, 200, 0])
        key = random.choice([["id"], ["id", new.columns[2]]])
        note(f"{old.snapshot_id} to {new.snapshot_id} by {key}, {queries.MOST_FILES} files")
        naive = changes(old, new, key)
        assert table.changes(old, new, key) == naive
        assert table.difference(old, new, key) == naive
    assert dimension.told() == dimension.naive()
    for id in random.sample([*range(KEYS), None], PAIRS):
        note(f"the row of {id}")
        row_is_what_it_was(table, id)
    for name in ("t", "past"):
        quick.sql(f"drop table {schema}.{name}")


def row_is_what_it_was(table: Versioned, id: int | None) -> None:
    """See that the changes of a row, one after the other, make it what each version had."""
    opened = open_catalog(table.lake).load_table(table.name)
    told = [*changes_of_row(opened, table.metadata, {"id": None if id is None else str(id)})]
    kept = {version.snapshot_id: version for version in table.kept}
    row: dict[str, Any] | None = None
    for entry in table.metadata["snapshot-log"]:
        snapshot, at = entry["snapshot-id"], moment(entry["timestamp-ms"])
        if told and (told[0].snapshot["snapshot-id"], told[0].at) == (snapshot, at):
            change = told.pop(0)
            assert all((row or {}).get(name) == old for name, (old, _) in change.columns.items())
            new = {name: new for name, (_, new) in change.columns.items()}
            row = None if change.change == DELETE else {**(row or {}), **new}
        if snapshot in kept:
            (was,) = [r for r in kept[snapshot].shown() if r[1] == id] or [None]
            shown = was and {name: was.get(of) for of, name in table.columns.items()}
            assert row == shown, snapshot
    assert not told
