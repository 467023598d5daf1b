"""A stream's checkpoint: whether it fits what the stream is by now."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from icegate.errors import ConfigError
from icegate.streams.config import Stream
from icegate.streams.places import Last

_ANEW = (
    "take that back, or begin anew with `--forget`: what the source still has is read again from "
    "`starting`, so that tables without a key get its rows a second time; or give the stream "
    "another name"
)


def files(version: str) -> dict[str, str]:
    """Return the setting of how a Spark of some version writes a checkpoint's files.

    What it chooses itself on this machine's disk starts a process for each: 40 ms.
    """
    package = "streaming" if version.startswith("4.0.") else "streaming.checkpointing"
    name = f"org.apache.spark.sql.execution.{package}.FileSystemBasedCheckpointFileManager"
    return {"spark.sql.streaming.checkpointFileManagerClass": name}


class Checkpoint:
    """A folder of Spark's, and beside it what the stream was when it was used last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoint"
        self._was, self._forgotten = folder / "was.json", folder / "forgotten.json"

    @property
    def id(self) -> str:
        """The id that Spark gave it, or nothing before the first start."""
        return str((_read(self.folder / "metadata") or {}).get("id", ""))

    @property
    def in_hand(self) -> int | None:
        """The number of the batch that was begun and maybe not finished, None where all are."""
        begun, done = (_newest(self.folder / name) for name in ("offsets", "commits"))
        return begun if begun is not None and begun != done else None

    def check(self, stream: Stream, uuids: Mapping[str, str], had: Mapping[str, Last]) -> None:
        """Raise ``ConfigError`` where going on from here would lose rows or write them twice.

        ``uuids`` are those of the stream's tables, ``had`` the last batches that these have.
        """
        problem = self._problem(stream, uuids, had)
        if problem:
            what = f"the checkpoint of stream {stream.name} doesn't fit it any more"
            raise ConfigError(what, why=problem, fix=_ANEW)

    def forget(self, had: Mapping[str, Last]) -> None:
        """Begin anew: drop the checkpoint, and take no batch of an earlier one amiss."""
        ids = {last.checkpoint for last in had.values()} | {self.id, *self._earlier()}
        self._forgotten.write_text(json.dumps(sorted(ids - {""})))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _earlier(self) -> list[str]:
        return list(_read(self._forgotten) or [])

    def _problem(self, stream: Stream, uuids: Mapping[str, str], had: Mapping[str, Last]) -> str:
        had = {t: last for t, last in had.items() if last.checkpoint not in self._earlier()}
        if not self.id:
            lost = [f"{table} has batch {last.batch} of it" for table, last in had.items()]
            return f"it's gone from {self.folder}, and {lost[0]}" if lost else ""
        for table, last in had.items():
            if last.checkpoint != self.id:
                return f"{table} has batch {last.batch} of another checkpoint, {last.checkpoint}"
        was = _read(self._was)
        return _difference(was, _facts(stream, uuids), self._half_done(had)) if was else ""

    def _half_done(self, had: Mapping[str, Last]) -> str:
        number = self.in_hand
        found = [table for table, last in had.items() if last.batch == number]
        return f"batch {number} is in {found[0]} and maybe not in others" if found else ""

    def remember(self, stream: Stream, uuids: Mapping[str, str]) -> None:
        """Write down what the stream is."""
        self._was.write_text(json.dumps(_facts(stream, uuids), indent=1))


def _read(path: Path) -> Any:
    """Return what a file of JSON has, None where there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _facts(stream: Stream, uuids: Mapping[str, str]) -> dict[str, Any]:
    source = stream.source
    routes = [route.model_dump(mode="json", exclude={"partition_by"}) for route in stream.routes]
    kept = {"topics": sorted(source.topics), "folder": source.folder}
    return {**kept, "routes": routes, "tables": dict(uuids)}


def _difference(was: dict[str, Any], now: dict[str, Any], half_done: str) -> str:
    if was["folder"] != now["folder"]:
        return f"it's of {was['folder'] or 'Kafka'}, and the source is {now['folder'] or 'Kafka'}"
    gone = sorted({*was["topics"]} - {*now["topics"]})
    if gone:
        return f"it has offsets of the topic {gone[0]}, which isn't among `topics` any more"
    for table, uuid in was["tables"].items():
        if now["tables"].get(table, uuid) != uuid:
            return f"{table} was dropped and made anew since: rows that it had don't come again"
    if half_done and was["routes"] != now["routes"]:
        return f"the routes were changed while {half_done}: the rest would go by other rules"
    return ""


def _newest(folder: Path) -> int | None:
    numbers = [int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=None)
