"""A project with a stream of files, run in this process on the Spark of all tests."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gate.gated import GatedProject
from typer.testing import CliRunner, Result

from icegate.catalog import open_catalog
from icegate.cli.main import app
from icegate.errors import IcegateError
from icegate.spark_conf import catalog_conf, session_conf
from icegate.streams import places
from icegate.streams.config import load_stream
from icegate.streams.control import Control
from icegate.streams.run import Run

NAME = "tills"
ERRORS = places.ERRORS
WAIT_S = 90
DAY_S = 86400
BEGAN = 1772366400  # 2026-03-01T12:00Z

Line = dict[str, Any] | str


class Crash(Exception):
    """The process ends here: what comes after isn't done."""


def crash(*_: Any) -> None:
    raise Crash


class Tills(GatedProject):
    """A project whose stream `tills` reads lines of JSON from the folder `landing`."""

    files = 0

    def stream(self, *routes: dict[str, Any], **keys: Any) -> None:
        """Write the stream's file; a batch is a file."""
        (self.folder / "landing").mkdir(parents=True, exist_ok=True)
        batch = {"seconds": 0.2, "max_files": 1}
        content = {"source": {"folder": "landing"}, "batch": batch, "routes": list(routes)}
        self.write_yaml(f"python_jobs/streams/{NAME}.yml", content | keys)

    def table(self, name: str) -> str:
        return f"{self.schema}.{name}"

    def route(self, name: str, *columns: str, **keys: Any) -> dict[str, Any]:
        """Return a route into a table; a column is its name and its type, of text no type."""
        typed = dict((column + " string").split()[:2] for column in columns)
        return {"table": self.table(name), "columns": typed, **keys}

    def drop(self, *lines: Line, hour: int | None = None) -> Path:
        """Put a file into the folder whole; ``hour`` is its time, by default after the last."""
        type(self).files += 1
        path = self.folder / "landing" / f"{self.files:05}.jsonl"
        beside = path.with_name(f".{path.name}")
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        beside.write_text("".join(f"{text}\n" for text in texts))
        at = BEGAN + 3600 * (self.files if hour is None else hour)
        os.utime(beside, (at, at))
        beside.rename(path)
        return path

    def new_run(self) -> Run:
        return Run(self.lake, load_stream(self.folder, NAME), self.folder, "t")

    def once(self, **options: bool) -> Run:
        """Read what is there, as `icegate stream start --once` does."""
        run = self.new_run()
        run.start(once=True, **options)
        return run

    def failing(self, where: Any, name: str, replaced: Any, replays: bool = False) -> IcegateError:
        """Run with something replaced; return the error that this ends with."""
        run = self.new_run()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(where, name, replaced)
            with pytest.raises(IcegateError) as caught:
                run.replay() if replays else run.start(once=True)
        return caught.value

    def cut_short(self, table: str, told: bool) -> None:
        """Let a run end when a table has its rows: before its property tells so, or after."""
        really = places.remember

        def remember(session: Any, name: str, *rest: Any) -> None:
            if name != table or told:
                really(session, name, *rest)
            if name == table:
                raise Crash

        error = self.failing(places, "remember", remember)
        assert isinstance(error.__cause__, Crash), error

    @contextmanager
    def running(self) -> Any:
        """Run the stream in a thread, until it's stopped at the end or has failed."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.new_run().start(once=False)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            self.wait(lambda: failed or self.told().get("state") == "running")
            yield failed
        finally:
            self.control.folder.mkdir(parents=True, exist_ok=True)
            self.control.ask("stop")
            thread.join(WAIT_S)
        assert not thread.is_alive(), "it doesn't stop"

    def wait(self, is_so: Callable[[], Any], wait_s: float = WAIT_S) -> Any:
        """Return what ``is_so`` does once that is true."""
        deadline = time.monotonic() + wait_s
        while not (found := is_so()):
            assert time.monotonic() < deadline, f"nothing happens: {self.told()}"
            time.sleep(0.1)
        return found

    @property
    def control(self) -> Control:
        return Control(self.lake, NAME)

    def told(self) -> dict[str, Any]:
        return self.control.told()

    def icegate(self, *arguments: str) -> Result:
        """Run a command in this process."""
        where = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder)]
        return CliRunner().invoke(app, [*arguments, *where])

    def sql(self, text: str) -> Any:
        """Run a statement as another writer, in a session that no branch is set for."""
        return new_session(self).sql(text.format(s=self.schema)).collect()

    def read(self, name: str, *columns: str) -> list[Any]:
        """Return columns of main as another reader sees them, in order; of one its values."""
        found = open_catalog(self.lake).load_table(name if "." in name else self.table(name))
        rows = found.scan(selected_fields=columns).to_arrow().to_pylist()
        several = [tuple(row[column] for column in columns) for row in rows]
        return sorted([row[0] for row in several] if len(columns) == 1 else several, key=repr)

    def errors(self) -> list[str]:
        """Return what is wrong with the records that wait."""
        found = open_catalog(self.lake).load_table(ERRORS)
        scan = found.scan("replayed_at is null and kind = 'error'", selected_fields=("error",))
        return sorted(scan.to_arrow()["error"].to_pylist())


def new_session(project: Tills) -> Any:
    session = project.spark.newSession()
    for name, value in {**catalog_conf(project.lake), **session_conf(project.lake)}.items():
        session.conf.set(name, value)
    return session
