"""A project in a folder with a space in its name, whose tables PyIceberg wrote."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shop import Ran, lake_of, make_project, make_tables, run_icegate

HOLD_LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('begin exclusive')
print('locked', flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with tables that tests only read."""
    folder = make_project(tmp_path_factory.mktemp("cli") / "a b")
    make_tables(lake_of(folder))
    return folder


@pytest.fixture
def own_shop(tmp_path: Path) -> Path:
    """A project with tables that a test may break."""
    folder = make_project(tmp_path / "a b")
    make_tables(lake_of(folder))
    return folder


@pytest.fixture
def icegate(shop: Path) -> Callable[..., Ran]:
    return lambda *arguments: run_icegate(shop, *arguments)


@pytest.fixture
def locked(own_shop: Path) -> Iterator[Path]:
    """A project whose catalog another process holds."""
    command = [sys.executable, "-c", HOLD_LOCK, str(lake_of(own_shop).catalog_db)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == "locked\n"
        yield own_shop
        other.communicate("")
