"""The page in a real browser: for screen readers, keyboards, phones, dark rooms and paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from released import two_releases

from icegate.trust.page import render
from trust import artifacts
from trust.test_facts import lake, look

__all__ = ["lake"]

pytestmark = pytest.mark.long

LOOKS: list[dict[str, Any]] = [
    {"viewport": {"width": 1200, "height": 900}},
    {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    {"viewport": {"width": 360, "height": 740}, "is_mobile": True},
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])


@pytest.fixture
def page(lake: Any, tmp_path: Path) -> Path:
    """The page of two tables and a dashboard, of which one table is held back."""
    exposure = {
        **{"unique_id": "exposure.shop.e", "name": "e", "label": "Sales", "type": "dashboard"},
        **{"owner": {"name": "Ann", "email": "ann@example.com"}},
        "depends_on": {"nodes": ["model.shop.a", "model.shop.b"]},
    }
    long = artifacts.model("s.a", "id", "amount", description="All of it. " + "Very long. " * 40)
    artifacts.manifest(
        tmp_path,
        long,
        artifacts.model("s.b", "id", "amount", depends_on={"nodes": ["model.shop.a"]}),
        artifacts.check("s.a", "not_null_a"),
        artifacts.check("s.b", "not_null_b"),
        exposures={"exposure.shop.e": exposure},
    )
    two_releases(lake)
    file = tmp_path / "trust.html"
    file.write_text(render(look(lake, tmp_path)))
    return file


@pytest.mark.parametrize("how", LOOKS, ids=["light", "dark", "phone"])
def test_axe_finds_nothing_and_nothing_is_loaded(browser: Any, page: Path, how: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    tab = browser.new_context(**how).new_page()
    asked: list[str] = []
    errors: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    tab.goto(page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= how["viewport"]["width"]
    tab.click("#all")
    assert Axe().run(tab).response["violations"] == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= how["viewport"]["width"]
    assert (asked, errors) == ([page.as_uri()], [])


def test_all_of_it_can_be_reached_by_keyboard(browser: Any, page: Path) -> None:
    tab = browser.new_context().new_page()
    tab.goto(page.as_uri())
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Go to the answers"
    tab.focus("summary")
    tab.keyboard.press("Enter")
    assert tab.locator("details[open]").count() == 1


def test_a_link_opens_the_part_that_it_names(browser: Any, page: Path) -> None:
    tab = browser.new_context().new_page()
    tab.goto(page.as_uri())
    tab.click("article h3 a")
    assert tab.locator("details[open] summary h3").inner_text() == "A"


def test_an_old_page_says_that_it_is_old(browser: Any, page: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.clock.set_fixed_time("2030-01-01T00:00:00Z")
    tab.goto(page.as_uri())
    assert "it can’t tell about today" in tab.locator("#stale").inner_text()


def test_paper_gets_the_answers_and_what_is_open(browser: Any, page: Path) -> None:
    tab = browser.new_context().new_page()
    tab.goto(page.as_uri())
    tab.emulate_media(media="print")
    assert tab.locator("article").first.is_visible()
    assert not tab.locator("#all").is_visible()
    assert len(tab.pdf(format="A4")) > 5_000
