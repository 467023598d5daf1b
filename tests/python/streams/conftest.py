"""A broker for each test that asks for one; skipped where its jars can't be got."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icegate.errors import JarsError
from streams.broker import Broker
from streams.jars import kafka_jars


@pytest.fixture(scope="session")
def broker_jars() -> None:
    try:
        kafka_jars()
    except JarsError as error:
        pytest.skip(str(error))


@pytest.fixture
def broker(tmp_path: Path, broker_jars: None) -> Iterator[Broker]:
    with Broker(tmp_path / "a broker") as started:
        yield started
