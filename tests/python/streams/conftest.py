"""A broker for each test that asks for one; skipped where its jars can't be got."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from icegate.errors import JarsError
from streams.broker import Broker, kafka_jars


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    try:
        kafka_jars()
    except JarsError as error:
        pytest.skip(str(error))
    with Broker(tmp_path / "a broker") as started:
        yield started
