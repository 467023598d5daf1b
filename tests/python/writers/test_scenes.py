"""Writers that meet on real tables: nothing is lost or there twice, and nobody waits for ever."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import ROOT

from icegate import retries
from icegate.settings import Lake
from writers.failing import failing_session
from writers.scenes import SCENES, Scene


def test_the_page_tells_what_becomes_of_each() -> None:
    told = (ROOT / "docs/writers.md").read_text()
    rows = [row.strip("| ").split(" | ") for row in told.splitlines() if row.count("|") == 7]
    found = [(row[0], row[1].strip(), row[-1]) for row in rows[2:]]
    assert found == [(scene.writers, scene.how, scene.outcome) for scene in SCENES]


@pytest.fixture(scope="module")
def session(spark: Any, lake: Lake) -> Any:
    return failing_session(spark, lake)


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.writers}: {scene.how}")
def test_what_becomes_of_writers(
    scene: Scene, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "attempts" in scene.outcome:  # it waits in vain, up to a minute
        monkeypatch.setattr(retries, "LONGEST_S", 0)
    table, outcome = scene.play(session)
    assert outcome == scene.outcome
    assert scene.meets in (None, bool(table.conflicts()))
