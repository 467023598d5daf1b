"""A catalog whose answer is lost: what it did is looked up, before anything is deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import make_home

from gate.test_ledger import event, lake_of
from icegate.catalog import list_relations, open_catalog
from icegate.errors import CatalogError
from icegate.gate import ledger
from icegate.gate.steps import FAIL_AT
from icegate.settings import Lake


@pytest.fixture
def own_lake(tmp_path: Path) -> Lake:
    own = lake_of(make_home(tmp_path / "a home"))
    open_catalog(own).close()
    return own


def test_a_commit_whose_answer_is_lost_is_done_once(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        monkeypatch.setenv(FAIL_AT, "moved")
        ledger.append(own_lake, [event(number)])
        assert ledger.read_events(own_lake) == [event(n) for n in range(number + 1)]


def test_a_commit_that_failed_leaves_all_as_it_was(
    own_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(own_lake, [event(0)])
    (before,) = [e for e in list_relations(own_lake, "icegate") if e.name == "releases"]
    monkeypatch.setenv(FAIL_AT, "moving")
    with pytest.raises(CatalogError):
        ledger.append(own_lake, [event(1)])
    assert ledger.read_events(own_lake) == [event(0)]
    files = before.metadata_file.parent.glob("*.metadata.json")
    assert max(files, key=lambda file: file.name) == before.metadata_file
