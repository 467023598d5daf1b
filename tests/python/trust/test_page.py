"""The page: what is on it, and that nothing of the project's text is taken for markup."""

from __future__ import annotations

import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from health.tables import write
from released import add, end, make, two_releases
from shop import lake_of, make_project, run_icegate

from icegate.catalog import open_catalog
from icegate.trust.facts import Facts
from icegate.trust.page import render
from trust import artifacts
from trust.test_facts import NOW, lake, look, two_tables

__all__ = ["lake"]

NASTY = "<script>alert(1)</script>"


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.loaded: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.ids += [str(given["id"])] if "id" in given else []
        self.loaded += [str(given[key]) for key in ("src", "srcset", "data") if key in given]
        self.loaded += [str(given["href"])] if tag == "link" else []

    def handle_data(self, data: str) -> None:
        self.text += data


def test_first_screen_has_no_names_of_tests(lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    page = render(look(lake, tmp_path))
    first = Tags(page.partition('aria-labelledby="parts"')[0])
    assert "Yes, but old" in first.text and "you still see the figures of" in first.text
    assert "not_null" not in first.text


def test_health_of_tables_the_worst_first(lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    make(lake, "s.a", "s.b")
    add(lake, "s.a", 1)
    assert "2 tables have nothing to mend." in Tags(render(look(lake, tmp_path))).text
    table = open_catalog(lake).load_table("s.b")
    write(table, *[0.1] * 150)
    facts = look(lake, tmp_path)
    assert facts.engineers is not None
    ((worn,), well) = facts.engineers.health, facts.engineers.healthy
    assert (worn.name, worn.score, well) == ("s.b", 61, 1)
    part = Tags(render(facts).partition("Table health")[2]).text
    assert "150 of 150 files are smaller than 384 MiB (75 % of 512 MiB)" in part
    assert "dbt run-operation compact --args '{table: s.b}'" in part
    assert "1 other table has nothing to mend." in part
    told = asdict(facts)["engineers"]["health"][0]
    assert told["reasons"][0]["points"] == 39 and told["partitions"] == ()


def test_nothing_is_loaded_from_elsewhere(lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    two_releases(lake)
    page = render(look(lake, tmp_path))
    assert Tags(page).loaded == []
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", page)
    assert "default-src 'none'" in page


def test_names_with_markup_are_text(lake, tmp_path: Path) -> None:
    columns = {f"amount{NASTY}": {"name": "amount", "description": NASTY}, "id": {"name": "id"}}
    nasty = artifacts.model("s.a", description=f"{NASTY} One row per {NASTY}.", columns=columns)
    nasty["config"]["meta"] = {"owner": {"name": NASTY, "email": f'x"{NASTY}@example.com'}}
    exposure = {
        **{"unique_id": "exposure.shop.e", "name": "e", "label": NASTY, "type": "dashboard"},
        **{"owner": {"name": NASTY}, "depends_on": {"nodes": ["model.shop.a"]}},
        **{"url": "https://example.com/?a=<b>", "description": NASTY},
    }
    check = artifacts.check("s.a", f"not_null_{NASTY}", description=NASTY)
    artifacts.manifest(tmp_path, nasty, check, exposures={"exposure.shop.e": exposure})
    make(lake, "s.a")
    add(lake, "s.a", 1)
    end(lake, "aaaaaaaa", a="fail")
    found = Tags(render(look(lake, tmp_path)))
    assert found.tags.count("script") == 1  # the page's own
    assert found.text.count(NASTY) > 3
    assert len(found.ids) == len({*found.ids})


def test_a_link_that_runs_something_is_not_a_link(lake, tmp_path: Path) -> None:
    exposure = {
        **{"unique_id": "exposure.shop.e", "name": "e", "label": "Sales", "type": "dashboard"},
        **{"owner": {"name": "Ann"}, "depends_on": {"nodes": []}, "url": "javascript:alert(1)"},
    }
    artifacts.manifest(tmp_path, artifacts.model("s.a"), exposures={"exposure.shop.e": exposure})
    assert 'href="javascript:' not in render(look(lake, tmp_path))


def test_before_anything_was_built() -> None:
    found = Tags(render(Facts(NOW, "shop", "dev", ("dbt has not run yet.",))))
    assert "Nothing has been built yet" in found.text and "dbt has not run yet." in found.text


def test_an_empty_table(lake, tmp_path: Path) -> None:
    two_tables(tmp_path)
    make(lake, "s.a", "s.b")
    artifacts.results(tmp_path, a="pass", b="pass")
    assert "It has no rows" in Tags(render(look(lake, tmp_path))).text


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder that the command line finds, and a release in its lake."""
    folder = make_project(tmp_path / "a b")
    two_releases(lake_of(folder))
    two_tables(folder)
    return folder


def test_the_command_writes_the_page_and_says_where(project: Path) -> None:
    done = run_icegate(project, "report")
    assert done.code == 0 and "1 can be used, 1 old" in done.out
    page = (project / "target" / "trust.html").read_text()
    assert page.startswith("<!doctype html>") and "Can I use it today?" in page
    assert run_icegate(project, "report", "--json").json["read"][0]["answer"] == "old"
    assert run_icegate(project, "report", "--out", "/proc/x/y.html").code == 2


def test_the_command_before_dbt_ran_and_with_broken_artifacts(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "a b")
    done = run_icegate(folder, "report")
    assert done.code == 0 and "dbt has not run yet" in done.out
    (folder / "target" / "manifest.json").write_text("{")
    done = run_icegate(folder, "report")
    assert done.code == 2 and "it isn't whole" in done.err and "Traceback" not in done.err
