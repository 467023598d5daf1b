"""What became of one row, from files alone: no Spark reads it."""

from __future__ import annotations

from typing import Any

import pytest

from history.scene import Scene
from icegate.catalog import open_catalog
from icegate.errors import ConfigError, TableError
from icegate.history.rows import changes_of_row

EXPIRE = (
    "call lake.system.expire_snapshots(table => '{t}', retain_last => 1,"
    " older_than => timestamp '2100-01-01')"
)


def told(scene: Scene, **key: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return each change of a row, and old and new values by column."""
    table = open_catalog(scene.lake).load_table(scene.table)
    found = changes_of_row(table, scene.metadata, key)
    return [(change.change, change.columns) for change in found]


def test_a_row_that_comes_changes_goes_and_comes_back(scene: Scene) -> None:
    scene.make("id int, name string, price double")
    options = "options => map('rewrite-all', 'true')"
    scene.sql(
        "insert into {t} values (1, 'Heater', 250), (2, 'Chair', 75)",
        "update {t} set price = 80 where id = 2",
        "update {t} set price = 500 where id = 1",
        f"call lake.system.rewrite_data_files('{scene.table}', {options})",
        "delete from {t} where id = 1",
        "insert into {t} values (1, 'Heater', null)",
    )
    assert told(scene, id="1") == [
        ("insert", {"id": (None, 1), "name": (None, "Heater"), "price": (None, 250.0)}),
        ("update", {"price": (250.0, 500.0)}),
        ("delete", {"id": (1, None), "name": ("Heater", None), "price": (500.0, None)}),
        ("insert", {"id": (None, 1), "name": (None, "Heater"), "price": (None, None)}),
    ]
    assert told(scene, id="7") == []


def test_a_rollback_is_a_change_and_what_expired_is_not_made_up(scene: Scene) -> None:
    scene.make("id int, v int")
    first = scene.sql("insert into {t} values (1, 1)")
    scene.sql("update {t} set v = 2", f"call lake.system.rollback_to_snapshot('{{t}}', {first})")
    assert [columns["v"] for _, columns in told(scene, id="1")] == [(None, 1), (1, 2), (2, 1)]
    scene.sql("update {t} set v = 3", "update {t} set v = 4", EXPIRE)
    assert told(scene, id="1") == [("first known", {"id": (None, 1), "v": (None, 4)})]


def test_columns_of_the_key_and_others_may_be_renamed_added_and_widened(scene: Scene) -> None:
    scene.make("a int, b string, v int", by="b")
    scene.sql(
        "insert into {t} values (1, null, 1), (1, 'x', 2)",
        "alter table {t} rename column a to key",
        "alter table {t} alter column v type bigint",
        "alter table {t} add column late string",
        "update {t} set v = 5, late = 'now' where b is null",
    )
    assert told(scene, key="1", b=None) == [
        ("insert", {"key": (None, 1), "b": (None, None), "v": (None, 1), "late": (None, None)}),
        ("update", {"v": (1, 5), "late": (None, "now")}),
    ]
    assert len(told(scene, key="1", b="x")) == 1
    # A column that older versions lack names none of their rows.
    assert [change for change, _ in told(scene, late="now")] == ["insert"]


@pytest.mark.parametrize("scene", ["v2 merge-on-read"], indirect=True)
def test_a_key_that_cannot_be_is_refused(scene: Scene) -> None:
    scene.make("id int, day date")
    scene.sql("insert into {t} values (1, date '2026-01-01'), (1, date '2026-01-02')")
    assert len(told(scene, id="1", day="2026-01-02")) == 1
    for key, why in (
        ({"idd": "1"}, "it has no column 'idd'"),
        ({"id": "one"}, "id is int, and 'one' isn't"),
        ({"day": "yesterday"}, "day is date"),
        ({}, "no key was given"),
    ):
        with pytest.raises(ConfigError) as error:
            told(scene, **key)
        assert why in str(error.value)
    with pytest.raises(TableError, match="2 rows of version .* have id=1"):
        told(scene, id="1")
