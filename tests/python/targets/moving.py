"""Moves that end in the middle, in whichever catalog takes its steps one by one."""

from __future__ import annotations

from typing import Any

import pytest
from released import stored

from icegate.catalogs.entries import Step
from icegate.errors import CatalogError
from icegate.gate import refs
from icegate.gate.steps import FAIL_AT
from icegate.settings import Lake
from icegate.storage import listed


def next_of(lake: Lake, *names: str) -> list[Step]:
    """Write what is next of some tables."""
    tables = [stored(lake, f"s.{name}") for name in names]
    return [table.write(refs.with_properties(table.metadata, {"said": "yes"})) for table in tables]


def stop_at(monkeypatch: pytest.MonkeyPatch, kind: Any, step: str, steps: list[Step]) -> None:
    """Begin a move that ends in the middle, as where its process is killed."""
    monkeypatch.setenv(FAIL_AT, step)
    with pytest.raises(CatalogError, match="no answer"):
        kind.move(steps)
    monkeypatch.delenv(FAIL_AT)


def left(lake: Lake) -> list[str]:
    """Return the notes of moves that didn't end."""
    return [*listed(f"{lake.root}/.moves")]
