"""The app's page as Streamlit makes it, without a browser."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from released import THIRD, pointers
from shop import lake_of, make_project, run_icegate
from streamlit.testing.v1 import AppTest

import icegate.trust
from icegate.catalog import open_catalog
from icegate.trust.app import arrow, plain
from trust.browsed import MARKUP, contents, make_browsed, manifest, model, two_tables, write

pytestmark = pytest.mark.slow

Visit = Callable[[Path], AppTest]


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Visit:
    """What opens the app on a project."""

    def open_app(folder: Path) -> AppTest:
        monkeypatch.setenv("DBT_PROJECT_DIR", str(folder))
        monkeypatch.setenv("DBT_PROFILES_DIR", str(folder))
        return AppTest.from_file(f"{icegate.trust.__path__[0]}/app.py", default_timeout=60).run()

    return open_app


@pytest.fixture
def browsed(tmp_path: Path) -> Path:
    return make_browsed(tmp_path / "a b")


def texts(page: AppTest) -> str:
    """Return all that the page says outside of grids."""
    assert not page.exception, page.exception
    found = [*page.text, *page.markdown, *page.error, *page.info, *page.warning]
    return "\n".join(str(element.value) for element in found)


def grids(page: AppTest) -> Iterator[list[dict]]:
    for frame in page.dataframe:
        yield frame.value.to_dict("records")


def test_the_page_answers_and_shows_what_is_held_back(visit: Visit, browsed: Path) -> None:
    page = visit(browsed)
    said = texts(page).replace("\\", "")
    assert "Can I use it today?" in [header.value for header in page.header]
    assert "Yes, but old" in said and "1 value of id is none of 0, 1 and 2" in said
    released, waiting, failing, main, other, differs, runs, moved = grids(page)
    assert [row["release"] for row in released][1:] == [2, 1]
    assert [row["build"] for row in waiting] == [THIRD]
    assert failing == [{"id": 3, "amount": "•••"}, {"id": 4, "amount": "•••"}]
    assert sorted(row["id"] for row in main) == [0, 1, 2]
    assert sorted(row["id"] for row in other) == [0, 1, 2, 3, 4]
    assert {row["where"] for row in differs} == {f"build {THIRD} only"}
    assert [row["verdict"] for row in runs] == ["failed", "passed", "passed"]
    assert [(row["table"], row["rows"]) for row in moved] == [("s.a", 2)]


def test_what_is_chosen_is_what_is_shown(visit: Visit, browsed: Path) -> None:
    page = visit(browsed)
    table, beside, _, before, after = page.selectbox
    assert table.options == ["s.a · held back", "s.b"]
    assert beside.options == [f"build {THIRD}", "release 2", "release 1"]
    table.set_value(table.proto.options and page.session_state.seen.tables()[1])
    page.run()
    assert "main and release 2 have the same rows" in texts(page)
    page.selectbox[3].set_value(1)
    page.selectbox[4].set_value(2)
    page.run()
    assert [(row["table"], row["rows"]) for row in [*grids(page)][-1]] == [("s.a", 1), ("s.b", 1)]


def test_it_changes_nothing(visit: Visit, browsed: Path) -> None:
    lake = lake_of(browsed)
    before, at = contents(browsed), pointers(lake)
    page = visit(browsed)
    for table in page.session_state.seen.tables():
        for place in page.session_state.seen.places(table):
            page.selectbox[0].set_value(table).run()
            page.selectbox[1].set_value(place).run()
    page.button[0].click().run()
    texts(page)
    assert contents(browsed) == before and pointers(lake) == at


def test_names_with_markup_are_shown_as_they_are(visit: Visit, browsed: Path) -> None:
    write(browsed, manifest(*two_tables(), label=MARKUP))
    said = texts(visit(browsed))
    assert MARKUP not in said and plain(MARKUP) in said
    assert r"\<script\>" in plain(MARKUP) and r"\*bold\*" in plain(MARKUP)


def test_nothing_is_there_yet(visit: Visit, tmp_path: Path) -> None:
    folder = make_project(tmp_path / "a b")
    page = visit(folder)
    assert "dbt has not run yet: there is nothing to tell" in texts(page).replace("\\", "")
    write(folder, manifest(*two_tables()))
    page.button[0].click().run()
    said = texts(page).replace("\\", "")
    assert "It hasn’t been built yet" in said and "Nothing was released yet." in said
    assert not (folder / ".icegate").exists()


def test_artifacts_of_another_version(visit: Visit, browsed: Path) -> None:
    content = manifest(*two_tables())
    content["metadata"]["dbt_schema_version"] = "https://schemas.getdbt.com/dbt/manifest/v99.json"
    write(browsed, content)
    (error,) = visit(browsed).error
    assert "manifest/v12 is what this version reads" in error.value.replace("\\", "")


def test_a_locked_catalog(visit: Visit, browsed: Path) -> None:
    with closing(sqlite3.connect(lake_of(browsed).catalog_db, isolation_level=None)) as other:
        other.execute("begin exclusive")
        page = visit(browsed)
        (error,) = page.error
        assert "another process has held its lock for over 1 s" in error.value.replace("\\", "")
        other.execute("rollback")
    page.button[0].click().run()
    assert "Yes, but old" in texts(page)


def test_it_says_when_something_has_changed_since(visit: Visit, browsed: Path) -> None:
    page = visit(browsed)
    assert not page.warning
    open_catalog(lake_of(browsed)).drop_table("s.b")
    page.run()
    assert "have changed since this was read" in page.warning[0].value
    page.selectbox[0].set_value(page.session_state.seen.tables()[1]).run()
    assert "was dropped meanwhile" in texts(page)
    page.button[0].click().run()
    assert not page.warning and "It hasn’t been built yet" in texts(page)


def test_many_tables_have_one_picker(visit: Visit, browsed: Path) -> None:
    write(browsed, manifest(*two_tables(), *(model(f"m{number}") for number in range(400))))
    page = visit(browsed)
    assert len(page.selectbox[0].options) == 402
    assert "and 373 more, below under Rows" in texts(page)


def test_values_of_any_type_have_a_grid() -> None:
    odd = arrow(
        {"masked": [1, "•••"], "nested": [{"a": 1}, None], "big": [2**70, 1], "null": [None, None]}
    )
    assert [str(kind) for kind in odd.schema.types] == ["string"] * 4
    assert odd.column("masked").to_pylist() == ["1", "•••"]


def test_the_command_says_what_is_wrong_before_it_starts(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "a b")
    ran = run_icegate(folder, "app", "--target", "server", "--json")
    assert ran.code == 2
    assert "cannot use target 'server' here" in json.loads(ran.out)["error"]["what"]
