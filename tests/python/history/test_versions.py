"""Which version of a table is meant, and what is said of one that isn't there."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import pytest

from history.scene import Scene
from icegate.catalog import open_catalog
from icegate.errors import ConfigError, TableError
from icegate.history.steps import Bookmark, steps

# What a version is has nothing to do with how files are written.
pytestmark = pytest.mark.parametrize("scene", ["v2 merge-on-read"], indirect=True)

EXPIRE = (
    "call lake.system.expire_snapshots(table => '{t}', retain_last => 1,"
    " older_than => timestamp '2100-01-01')"
)


@pytest.fixture
def asked(scene: Scene) -> Scene:
    """Return a scene with an empty table."""
    scene.make("id int")
    return scene


def insert(scene: Scene, id: int) -> tuple[int, datetime]:
    """Add a row; return its snapshot and a time after it, before anything else."""
    snapshot = scene.sql(f"insert into {{t}} values ({id})")
    time.sleep(0.01)
    now = datetime.now(timezone.utc)
    time.sleep(0.01)
    return snapshot, now


def refused(scene: Scene, **asked: Any) -> str:
    """Return what is said of a version that isn't there."""
    with pytest.raises((ConfigError, TableError)) as error:
        scene.as_of(**asked)
    return str(error.value)


def test_a_version_is_meant_by_its_number_its_tag_or_a_time(asked: Scene) -> None:
    (first, then), _ = insert(asked, 1), insert(asked, 2)
    asked.sql(f"alter table {{t}} create tag opening as of version {first}")
    assert asked.as_of(snapshot=first) == asked.as_of(tag="opening") == [(1,)]
    assert asked.as_of(timestamp=then) == asked.as_of(timestamp=then.isoformat()) == [(1,)]
    assert asked.as_of(timestamp="2100-01-01") == [(1,), (2,)]
    for since in (first, "opening", then, str(then)):
        assert asked.changes(since) == [("insert", 2)]


def test_a_time_after_a_rollback_means_what_readers_had(asked: Scene) -> None:
    (first, _), (_, then) = insert(asked, 1), insert(asked, 2)
    asked.sql(f"call lake.system.rollback_to_snapshot('{{t}}', {first})")
    _, later = insert(asked, 3)
    assert asked.as_of(timestamp=then) == [(1,), (2,)]
    assert asked.as_of(timestamp=later) == [(1,), (3,)]


def test_columns_are_those_of_the_version(asked: Scene) -> None:
    first, then = insert(asked, 1)
    asked.sql("alter table {t} rename column id to number", "insert into {t} values (2)")
    for how in ({"snapshot": first}, {"timestamp": then}):
        found = asked.spark.sql(f"select * from {asked.source.as_of(how)}")
        assert found.columns == ["id"], how


def test_a_time_before_the_table_is_told_from_one_that_has_expired(asked: Scene) -> None:
    (_, then), _ = insert(asked, 1), insert(asked, 2)
    assert "the table wasn't there yet: its first rows came at " in refused(
        asked, timestamp="2001-01-01"
    )
    asked.sql(EXPIRE)
    for at in (then, "2001-01-01"):
        said = refused(asked, timestamp=at)
        assert "what readers had then has expired: its oldest snapshot is of " in said
        assert "what is to stay needs a tag" in said


@pytest.mark.own_files
def test_what_pyiceberg_took_out_of_the_log_is_a_gap(asked: Scene) -> None:
    """The version before would else seem to have held until the next."""
    (first, _), (second, then), (third, last) = (insert(asked, id) for id in (1, 2, 3))
    opened = open_catalog(asked.lake).load_table(asked.table)
    opened.maintenance.expire_snapshots().by_id(second).commit()
    assert [e["snapshot-id"] for e in asked.metadata["snapshot-log"]] == [first, third]
    assert "what readers had then has expired" in refused(asked, timestamp=then)
    assert asked.as_of(timestamp=last) == [(1,), (2,), (3,)]
    told_until = Bookmark(first, asked.metadata["snapshots"][0]["timestamp-ms"] * 1000)
    with pytest.raises(TableError, match="has a gap"):
        steps(asked.table, asked.metadata, "", told_until)


def test_a_table_without_rows_has_no_past(asked: Scene) -> None:
    assert "it never had rows" in refused(asked, timestamp="2100-01-01")


def test_what_is_not_there_is_said(asked: Scene) -> None:
    first, _ = insert(asked, 1)
    insert(asked, 2)
    asked.sql(f"alter table {{t}} create tag month_end as of version {first}")
    assert "did you mean 'month_end'" in refused(asked, tag="month_ends")
    assert "no tag or branch of this name" in refused(asked, tag="other_tables_own")
    asked.sql("alter table {t} drop tag month_end", EXPIRE)
    assert "it has expired, or is another table's" in refused(asked, snapshot=first)
    assert "it's no time" in refused(asked, timestamp="last monday")
    assert "no number of a snapshot" in refused(asked, snapshot="abc")
    said = refused(asked, snapshot=1, tag="x")
    assert "as of snapshot and tag" in said
    assert "as_of takes one thing" in said
    assert "as of nothing" in refused(asked)


def test_a_view_and_no_table_have_no_versions(asked: Scene) -> None:
    asked.sql("create view {t}_v as select 1 as id")
    asked.table += "_v"
    assert "a view has no versions" in refused(asked, snapshot=1)
    asked.table += "_w"
    assert "the catalog has no such table" in refused(asked, snapshot=1)
