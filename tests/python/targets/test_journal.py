"""Moves of many tables where each moves by itself: killed at each step, and met by others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import make_home
from released import add, ids, make, stored, two_releases

from icegate.catalog import check_catalog
from icegate.catalogs.entries import Step
from icegate.catalogs.glue import Glue
from icegate.catalogs.pointers import Pointers
from icegate.catalogs.sqlite import Sqlite
from icegate.errors import CatalogError
from icegate.gate import store
from icegate.gate.steps import FAIL_AT
from icegate.gate.store import Moved, dropped
from icegate.locks import Lock
from icegate.settings import Lake
from targets import glue_server
from targets.moving import left, next_of, stop_at

pytestmark = pytest.mark.slow


class Singly(Pointers):
    """The catalog in a file, as if it could move but one table at a time."""

    comes_late = False

    def __init__(self, lake: Lake) -> None:
        self.lake, self._rows = lake, Sqlite(lake)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def lock(self, name: str) -> Lock:
        return self._rows.lock(name)

    def pointer(self, schema: str, name: str) -> str | None:
        found = {each.full_name: each for each in self._rows.relations(schema)}
        each = found.get(f"{schema}.{name}")
        return each.metadata_location if each else None

    def put(self, schema: str, name: str, old: str | None, new: str, metadata: Any) -> None:
        if self.pointer(schema, name) != new:
            self._rows.move([Step(schema, name, old, new, metadata)])

    def remove(self, schema: str, name: str, old: str) -> None:
        if self.pointer(schema, name) is not None:
            self._rows.move([Step(schema, name, old, None)])


@pytest.fixture(scope="module")
def glue() -> Iterator[glue_server.GlueServer]:
    with glue_server.running() as started:
        yield started


TARGETS = [pytest.mark.long, pytest.mark.targets]


@pytest.fixture(params=["file", pytest.param("glue", marks=TARGETS)])
def bare(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Pointers:
    """A catalog without tables."""
    places: dict[str, Any] = {"home": make_home(tmp_path / "home"), "warehouse": tmp_path / "w h"}
    if request.param == "glue":
        glue = request.getfixturevalue("glue")
        lake = Lake(**places, **glue.catalog(f"lake_{uuid.uuid4().hex[:10]}"))
        found: Pointers = Glue(lake)
    else:
        lake = Lake(**places)
        found = Singly(lake)
        monkeypatch.setattr(store, "catalog_of", lambda _: Singly(lake))
    return found


@pytest.fixture
def kind(bare: Pointers) -> Pointers:
    """A catalog with the tables `s.a`, `s.b` and `s.c`."""
    make(bare.lake, "s.a", "s.b", "s.c")
    return bare


def at(kind: Pointers) -> dict[str, str | None]:
    return {name: kind.pointer("s", name) for name in ("a", "b", "c", "d")}


STOPS = ["moving", "moved_one", "moved_one,moved_one", "moved_one,moved_one,moved_one"]


@pytest.mark.parametrize("step", STOPS)
def test_what_was_stopped_is_ended_by_the_next(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    steps = next_of(kind.lake, "a", "b", "c")
    stop_at(monkeypatch, kind, step, steps)
    moved = [each for each in steps if kind.pointer("s", each.name) == each.new_location]
    assert len(moved) == STOPS.index(step) and len(left(kind.lake)) == 1
    kind.settle()
    assert at(kind) == {**{each.name: each.new_location for each in steps}, "d": None}
    assert left(kind.lake) == [] and kind.took(steps)


def test_another_move_ends_it_first(kind: Pointers, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = next_of(kind.lake, "a", "b")
    stop_at(monkeypatch, kind, "moved_one", steps)
    late = next_of(kind.lake, "b", "c")  # read while half of it was done
    with pytest.raises(Moved, match=r"s\.b"):
        kind.move(late)
    assert at(kind)["a"] == steps[0].new_location and at(kind)["b"] == steps[1].new_location
    kind.move(next_of(kind.lake, "b", "c"))


@pytest.mark.parametrize("step", STOPS[:3])
def test_all_is_taken_back_where_a_table_was_changed_since(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before, steps = at(kind), next_of(kind.lake, "a", "b", "c")
    stop_at(monkeypatch, kind, step, steps)
    add(kind.lake, "s.c", 7)
    changed = at(kind)["c"]
    kind.settle()
    assert at(kind) == {**before, "c": changed} and left(kind.lake) == []
    assert not kind.took(steps) and ids(kind.lake, "s.c") == [7]


def test_rows_that_came_on_top_stay(kind: Pointers, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = next_of(kind.lake, "a", "b")
    stop_at(monkeypatch, kind, "moved_one", steps)
    add(kind.lake, "s.a", 7)  # on the table that has moved: the move can go on
    kind.settle()
    assert ids(kind.lake, "s.a") == [7] and at(kind)["b"] == steps[1].new_location
    steps = next_of(kind.lake, "a", "b")
    stop_at(monkeypatch, kind, "moved_one", steps)
    add(kind.lake, "s.a", 8)
    add(kind.lake, "s.b", 9)  # on the other one, too: it can't
    kind.settle()
    assert ids(kind.lake, "s.a") == [7, 8] and ids(kind.lake, "s.b") == [9]
    assert stored(kind.lake, "s.a").metadata["properties"]["said"] == "yes"


def test_who_is_in_the_way_is_told_before_anything_moves(kind: Pointers) -> None:
    steps = next_of(kind.lake, "a", "b")
    add(kind.lake, "s.b", 7)
    before = at(kind)
    with pytest.raises(Moved, match=r"s\.b"):
        kind.move(steps)
    assert at(kind) == before and left(kind.lake) == []


def test_someone_comes_in_the_middle(kind: Pointers, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, take, before = next_of(kind.lake, "a", "b"), type(kind).take, at(kind)

    def slow(self: Pointers, step: Step) -> None:
        if step.name == "b":
            monkeypatch.setattr(type(kind), "take", take)
            add(kind.lake, "s.b", 7)
        take(self, step)

    monkeypatch.setattr(type(kind), "take", slow)
    with pytest.raises(Moved, match=r"s\.b"):
        kind.move(steps)
    assert at(kind)["a"] == before["a"] and ids(kind.lake, "s.b") == [7] and left(kind.lake) == []


@pytest.mark.parametrize("met", [False, True])
def test_what_says_that_all_have_moved_moves_last(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch, met: bool
) -> None:
    make(kind.lake, "ledger.one", "ledger.two")
    ledger = [stored(kind.lake, f"ledger.{name}") for name in ("one", "two")]
    last = [table.write(table.metadata) for table in ledger]
    steps, take, taken = next_of(kind.lake, "a", "b", "c"), type(kind).take, list[str]()

    def noted(self: Pointers, step: Step) -> None:
        if met and step.name == "c":
            raise Moved("s.c")
        take(self, step)
        taken.append(step.full_name)

    monkeypatch.setattr(type(kind), "take", noted)
    if met:
        with pytest.raises(Moved, match=r"s\.c"):
            kind.move([*steps, *last])
        assert "ledger.one" not in taken
        now = kind.pointer("ledger", "one")
        assert now == ledger[0].entry.metadata_location and left(kind.lake) == []
    else:
        kind.move([*steps, *last])
        assert {*taken[:3]} == {"s.a", "s.b", "s.c"} and taken[3:] == ["ledger.one", "ledger.two"]


@pytest.mark.parametrize("step", ["moving", "moved_one", "moved_one,moved_one"])
@pytest.mark.parametrize("met", [False, True])
def test_names_that_change_and_tables_that_go(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch, step: str, met: bool
) -> None:
    before = at(kind)
    (renamed, changed), gone = next_of(kind.lake, "a", "b"), stored(kind.lake, "s.c").entry
    steps = [dropped(gone), renamed.renamed("s", "d"), changed]
    stop_at(monkeypatch, kind, step, steps)
    assert at(kind)["c"] is not None  # it goes last
    if met:
        add(kind.lake, "s.b", 7)
    where = at(kind)["b"]
    kind.settle()
    built_upon = met and step == "moved_one,moved_one"
    if met and not built_upon:
        assert at(kind) == {**before, "b": where}
    else:
        b = where if built_upon else changed.new_location
        assert at(kind) == {"a": None, "b": b, "c": None, "d": renamed.new_location}


def test_a_name_that_is_half_changed(kind: Pointers, monkeypatch: pytest.MonkeyPatch) -> None:
    (renamed, changed), remove = next_of(kind.lake, "a", "b"), type(kind).remove

    def lost(self: Pointers, schema: str, name: str, old: str) -> None:
        monkeypatch.setattr(type(kind), "remove", remove)
        raise CatalogError("no answer")

    monkeypatch.setattr(type(kind), "remove", lost)
    with pytest.raises(CatalogError):
        kind.move([renamed.renamed("s", "d"), changed])
    assert at(kind)["a"] and at(kind)["d"]
    kind.settle()
    assert (at(kind)["a"], at(kind)["d"]) == (None, renamed.new_location)
    assert at(kind)["b"] == changed.new_location


def test_a_table_that_goes_is_kept_where_someone_wrote_to_it(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [*next_of(kind.lake, "a"), dropped(stored(kind.lake, "s.b").entry)]
    stop_at(monkeypatch, kind, "moving", steps)
    add(kind.lake, "s.b", 7)
    kind.settle()
    assert at(kind)["a"] == steps[0].new_location and ids(kind.lake, "s.b") == [7]


def test_an_answer_that_is_lost_in_a_release(
    bare: Pointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FAIL_AT, "ledger_staged,moving,moved_one,moved_one")
    two_releases(bare.lake)
    assert ids(bare.lake, "s.a") == [0, 1, 2] and left(bare.lake) == []


def test_it_is_ended_before_anything_is_built(
    kind: Pointers, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(kind, Glue):
        pytest.skip("a file's own check knows no moves")
    steps = next_of(kind.lake, "a", "b")
    stop_at(monkeypatch, kind, "moved_one", steps)
    check_catalog(kind.lake)
    assert at(kind)["b"] == steps[1].new_location
