"""What `icegate diff` reads of two versions: files and places that one of them has alone."""

from __future__ import annotations

import pytest

from history.scene import Scene
from icegate.errors import TableError
from icegate.gate.compare import Point
from icegate.history.difference import ALL, FILES, METADATA, Difference
from icegate.history.versions import find_any

pytestmark = pytest.mark.slow
ONE_FILE = "insert into {t} select /*+ coalesce(1) */ id, id * 10 as v from range({of})"
ANEW = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"


def compared(scene: Scene, old: int, new: int) -> Difference:
    """Return how two snapshots of a scene's table differ."""
    metadata = scene.metadata
    found = (find_any(scene.lake, scene.table, metadata, at) for at in (old, new))
    points = (Point(metadata, at.snapshot_id, at.schema_id) for at in found)
    return Difference(scene.lake, scene.table, *points, ["id"])


def test_rows_that_are_deleted_are_of_no_version(scene: Scene) -> None:
    scene.make("id bigint, v bigint")
    scene.sql(ONE_FILE.replace("{of}", "0, 6"))
    one = scene.sql("delete from {t} where id = 1")
    two = scene.sql("delete from {t} where id = 2")
    again = scene.sql(f"call lake.system.rewrite_data_files('{scene.table}', {ANEW})")
    found = compared(scene, one, two)
    assert (found.counts, found.by) == ({"added": 0, "removed": 1, "changed": 0}, FILES)
    assert found.rows("removed") == [([2, 20], [None, None])]
    for pair, removed in (((one, again), 1), ((two, again), 0)):
        found = compared(scene, *pair)
        assert found.counts == {"added": 0, "removed": removed, "changed": 0}
        assert compared(scene, *pair[::-1]).counts["added"] == removed


def test_only_files_that_differ_are_read(scene: Scene) -> None:
    scene.make("id bigint, v bigint")
    for of in ("0, 6", "10, 16", "20, 26", "30, 36"):
        first = scene.sql(ONE_FILE.replace("{of}", of))
    last = scene.sql("update {t} set v = 7 where id = 12")
    found = compared(scene, first, last)
    assert found.rows("changed") == [([12, 120], [12, 7])]
    assert (found.changed, found.files) == ({"v": 1}, 2)
    # The same files under another snapshot: nothing is read, nor is a key asked for.
    back = scene.sql(f"call lake.system.set_current_snapshot('{scene.table}', {first})")
    found = compared(scene, first, back)
    found.key = []
    assert (found.by, sum(found.counts.values()), found.files) == (METADATA, 0, 0)


def test_a_column_that_comes_back_is_compared_in_all_rows(scene: Scene) -> None:
    scene.make("id bigint, v bigint")
    first = scene.sql(ONE_FILE.replace("{of}", "0, 3"))
    scene.sql("alter table {t} drop column v")
    last = scene.sql("insert into {t} values (9)")
    assert compared(scene, first, last).by == FILES
    found = compared(scene, last, first)
    assert (found.by, found.counts) == (ALL, {"added": 0, "removed": 1, "changed": 3})


@pytest.mark.parametrize("scene", ["v2 merge-on-read"], indirect=True)
def test_a_file_that_is_gone_is_said(scene: Scene) -> None:
    from icegate.catalog import local_path

    scene.make("id bigint, v bigint")
    first = scene.sql(ONE_FILE.replace("{of}", "0, 3"))
    last = scene.sql(ONE_FILE.replace("{of}", "5, 9"))
    files = scene.spark.sql(f"select file_path from {scene.table}.files").collect()
    for (path,) in files:
        local_path(path).unlink()
    with pytest.raises(TableError, match="its files can't be read here"):
        assert compared(scene, first, last).counts
