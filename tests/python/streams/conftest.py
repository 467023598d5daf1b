"""A broker for each test that asks for one, skipped where its jars can't be got; a project."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from maven import jars_of

from icegate.errors import JarsError
from icegate.session import start_session
from icegate.settings import Lake
from streams.broker import KAFKA, Broker
from streams.commanded import Commanded
from streams.tills import Tills, new_session


@pytest.fixture(scope="session")
def broker_jars() -> None:
    try:
        jars_of(*KAFKA)
    except JarsError as error:
        pytest.skip(str(error))


@pytest.fixture
def broker(tmp_path: Path, broker_jars: None) -> Iterator[Broker]:
    with Broker(tmp_path / "a broker") as started:
        yield started


@pytest.fixture
def tills(tmp_path: Path, lake_copy: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Tills:
    """A project with a stream of files; a run has a session of its own, on the Spark of all."""
    monkeypatch.delenv("ICEGATE_RELEASE", raising=False)
    conf = {"spark.sql.session.timeZone": "UTC"}
    lake = Lake(home=lake_copy, warehouse=lake_copy / "warehouse", ansi=True, spark_conf=conf)
    made = Tills(tmp_path / "a project", lake, start_session(lake), gate=True)
    monkeypatch.setattr("icegate.streams.run.start_session", lambda _: new_session(made))
    monkeypatch.setattr("icegate.streams.run.stop_session", lambda: None)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Commanded]:
    made = Commanded(tmp_path / "a project")
    yield made
    if made.control.is_running:
        os.kill(made.control.told()["pid"], signal.SIGKILL)
