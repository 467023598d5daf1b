"""A checkpoint that doesn't fit its stream any more is refused before anything is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from icegate.errors import ConfigError
from icegate.streams.checkpoint import Checkpoint, files
from icegate.streams.config import Stream
from icegate.streams.places import Last
from streams.tills import Tills

UUIDS = {"t.a": "1", "t.b": "2", "icegate.stream_errors": "3"}
ROUTE: dict[str, Any] = {"table": "t.a", "columns": {"id": {}}}


def stream(
    *routes: dict[str, Any], topics: tuple[str, ...] = ("one", "two"), **keys: Any
) -> Stream:
    source = {"kafka": "127.0.0.1:1", "topics": list(topics)}
    return Stream.model_validate(
        {"name": "t", "source": source, "routes": routes or [ROUTE], **keys}
    )


@pytest.fixture
def used(tmp_path: Path) -> Checkpoint:
    """A checkpoint that has finished batch 4 and has begun batch 5."""
    found = Checkpoint(tmp_path)
    for folder, last in (("offsets", 5), ("commits", 4)):
        (found.folder / folder).mkdir(parents=True)
        for number in range(last + 1):
            (found.folder / folder / str(number)).touch()
        (found.folder / folder / f".{last + 1}.crc").touch()
    (found.folder / "metadata").write_text(json.dumps({"id": "abc"}))
    found.remember(stream(), UUIDS)
    return found


def refused(checkpoint: Checkpoint, what: Stream, had: dict[str, Last], **uuids: str) -> str:
    with pytest.raises(ConfigError, match="the checkpoint of stream t doesn't fit") as caught:
        checkpoint.check(what, UUIDS | uuids, had)
    assert "--forget" in str(caught.value)
    return str(caught.value)


def test_what_it_knows(used: Checkpoint, tmp_path: Path) -> None:
    assert (used.id, used.in_hand) == ("abc", 5)
    (used.folder / "commits" / "5").touch()
    assert used.in_hand is None
    new = Checkpoint(tmp_path / "new")
    assert (new.id, new.in_hand) == ("", None)
    new.check(stream(), UUIDS, {})
    (used.folder / "metadata").write_text("no JSON")
    assert used.id == ""


def test_what_may_change(used: Checkpoint) -> None:
    had = {"t.a": Last("abc", 4)}
    used.check(stream(), UUIDS, had)
    used.check(stream(topics=("two", "three", "one")), UUIDS, had)
    more = {"table": "t.c", "columns": {"id": {}}, "when": {"$.x": 1}}
    used.check(stream(ROUTE, more), UUIDS | {"t.c": "9"}, had)
    used.check(stream(give_up_minutes=1, batch={"seconds": 5}), UUIDS, had)
    in_hand = {"t.a": Last("abc", 5)}
    used.check(stream({**ROUTE, "partition_by": "id"}), UUIDS, in_hand)


def test_a_checkpoint_that_is_gone(tmp_path: Path) -> None:
    said = refused(Checkpoint(tmp_path), stream(), {"t.a": Last("abc", 7)})
    assert "it's gone from" in said and "t.a has batch 7 of it" in said


def test_a_checkpoint_of_another_stream(used: Checkpoint) -> None:
    said = refused(used, stream(), {"t.a": Last("xyz", 2)})
    assert "t.a has batch 2 of another checkpoint, xyz" in said


def test_a_topic_that_is_gone(used: Checkpoint) -> None:
    said = refused(used, stream(topics=("one",)), {})
    assert "it has offsets of the topic two, which isn't among `topics` any more" in said


def test_another_source(used: Checkpoint) -> None:
    folder = {"name": "t", "source": {"folder": "landing"}, "routes": [ROUTE]}
    assert "it's of Kafka, and the source is landing" in refused(
        used, Stream.model_validate(folder), {}
    )


def test_a_table_made_anew(used: Checkpoint) -> None:
    said = refused(used, stream(), {}, **{"t.a": "another"})
    assert "t.a was dropped and made anew since: rows that it had don't come again" in said


def test_routes_that_change_while_a_batch_is_half_written(used: Checkpoint) -> None:
    changed = stream({**ROUTE, "columns": {"id": {}, "more": {}}})
    used.check(changed, UUIDS, {"t.a": Last("abc", 4)})  # of batch 5 nothing is written
    said = refused(used, changed, {"t.a": Last("abc", 4), "t.b": Last("abc", 5)})
    assert "while batch 5 is in t.b and maybe not in others" in said
    (used.folder / "commits" / "5").touch()
    used.check(changed, UUIDS, {"t.a": Last("abc", 5)})


def test_what_is_forgotten_is_taken_amiss_no_more(used: Checkpoint) -> None:
    used.forget({"t.a": Last("xyz", 2)})
    assert not used.folder.exists()
    used.check(stream(), UUIDS, {"t.a": Last("xyz", 2), "t.b": Last("abc", 5)})
    assert "t.b has batch 1 of it" in refused(used, stream(), {"t.b": Last("other", 1)})


@pytest.mark.slow
def test_real_ones_are_refused_and_nothing_is_written(tills: Tills) -> None:
    def refused(why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            tills.once()
        assert tills.read("clicks", "id") == [1] and "checkpoint" in tills.told()["error"]

    one = tills.route("clicks", "id int", when={"$.id": [1, 2]})
    tills.stream(one)
    tills.drop({"id": 1})
    tills.once()
    tills.drop({"id": 2})
    (tills.folder / "elsewhere").mkdir()
    tills.stream(one, source={"folder": "elsewhere"})
    refused("it's of landing, and the source is elsewhere")
    tills.stream(one)
    folder = tills.control.folder
    shutil.move(folder / "checkpoint", folder / "aside")
    refused(r"it's gone from .*, and t_\w+.clicks has batch 0 of it")
    shutil.move(folder / "aside", folder / "checkpoint")
    tills.cut_short(tills.table("clicks"), told=False)
    assert tills.read("clicks", "id") == [1, 2]
    tills.stream({**one, "when": {"$.id": [1]}})
    with pytest.raises(ConfigError, match="the routes were changed while batch 1 is in"):
        tills.once()
    tills.stream(one)
    tills.once()
    assert tills.read("clicks", "id") == [1, 2]
    tills.sql("drop table {s}.clicks purge")
    with pytest.raises(ConfigError, match="was dropped and made anew since"):
        tills.once()
    assert tills.read("clicks", "id") == []
    tills.once(forget=True)
    assert tills.read("clicks", "id") == [1, 2]


@pytest.mark.parametrize(
    ("version", "package"), [("4.0.1", "streaming"), ("4.1.4", "streaming.checkpointing")]
)
def test_each_spark_finds_what_writes_its_files(version: str, package: str) -> None:
    (name,) = files(version).values()
    assert name.rpartition(".")[0] == f"org.apache.spark.sql.execution.{package}"
