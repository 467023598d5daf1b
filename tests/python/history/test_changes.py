"""What changed between two versions, told by hand for each form of a table."""

from __future__ import annotations

import pytest

from history.scene import Scene
from icegate.errors import ConfigError

# Each builds real tables and their versions, some seconds a test.
pytestmark = pytest.mark.slow

PRODUCTS = (
    "insert into {t} values (1, 'Heater', 250.0), (2, 'Thermostat', 400.0),"
    " (3, 'Television', 600.0), (4, 'Blender', 100.0), (5, 'USB charger', 50.0)"
)
MERGED = (
    "merge into {t} t using"
    " (select * from values (1, 'Heater', 500.0), (6, 'Chair', 75.0) as (id, name, price)) s"
    " on t.id = s.id when matched then update set * when not matched then insert *"
)


def test_a_shop_changes_a_price_adds_a_chair_and_drops_a_television(scene: Scene) -> None:
    scene.make("id int, name string, price double")
    first = scene.sql(PRODUCTS)
    merged = scene.sql(MERGED)
    last = scene.sql("delete from {t} where name = 'Television'")
    heater = [("update_after", 1, "Heater", 500.0), ("update_before", 1, "Heater", 250.0)]
    chair, gone = ("insert", 6, "Chair", 75.0), ("delete", 3, "Television", 600.0)
    assert scene.changes(first, merged) == [chair, *heater]
    assert scene.changes(merged, last) == [gone]
    assert scene.changes(first) == [gone, chair, *heater]
    # What goes back is told the other way round.
    assert [change[:2] for change in scene.changes(last, first)] == [
        ("delete", 6), ("insert", 3), ("update_after", 1), ("update_before", 1)]  # fmt: skip


def test_a_key_that_comes_back_is_an_update_or_nothing(scene: Scene) -> None:
    scene.make("id int, v string")
    first = scene.sql("insert into {t} values (1, 'a'), (2, 'b')")
    gone = scene.sql("delete from {t} where id in (1, 2)")
    back = scene.sql("insert into {t} values (1, 'a'), (2, 'other')")
    assert scene.changes(first, gone) == [("delete", 1, "a"), ("delete", 2, "b")]
    assert scene.changes(first, back) == [("update_after", 2, "other"), ("update_before", 2, "b")]


def test_a_key_may_be_of_several_columns_and_null(scene: Scene) -> None:
    scene.make("a int, b string, v int")
    first = scene.sql("insert into {t} values (1, null, 1), (1, 'x', 2), (null, null, 3)")
    scene.sql("update {t} set v = v + 10 where b is null")
    assert scene.changes(first, key=["a", "b"]) == [
        ("update_after", 1, None, 11),
        ("update_after", None, None, 13),
        ("update_before", 1, None, 1),
        ("update_before", None, None, 3),
    ]


def test_a_row_that_moves_to_another_partition_is_an_update(scene: Scene) -> None:
    scene.make("id int, p string", by="p")
    first = scene.sql("insert into {t} values (1, 'a'), (2, 'a'), (3, 'b')")
    scene.sql("update {t} set p = 'b' where id = 1")
    assert scene.changes(first) == [("update_after", 1, "b"), ("update_before", 1, "a")]


def test_compaction_is_no_change_and_a_rollback_is_its_opposite(scene: Scene) -> None:
    scene.make("id int, v int")
    first = scene.sql("insert into {t} values (1, 1), (2, 2)")
    second = scene.sql("insert into {t} values (3, 3)", "delete from {t} where id = 1")
    options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    compact = scene.sql(f"call lake.system.rewrite_data_files('{scene.table}', {options})")
    assert compact != second
    assert scene.changes(second, compact) == []
    assert scene.changes(first) == [("delete", 1, 1), ("insert", 3, 3)]
    scene.sql(f"call lake.system.rollback_to_snapshot('{scene.table}', {first})")
    assert scene.changes(first) == []
    assert scene.changes(second) == [("delete", 3, 3), ("insert", 1, 1)]


def test_no_file_that_differs_is_no_scan(scene: Scene) -> None:
    scene.make("id int, v decimal(9, 2), at timestamp, tags array<string>")
    first = scene.sql("insert into {t} values (1, 1.5, now(), array('a'))")
    query = scene.source.changes(first, None, "id")
    assert scene.table not in query
    found = scene.spark.sql(f"select * from {query}")
    assert found.collect() == []
    assert [field.dataType for field in found.schema.fields[1:]] == [
        field.dataType for field in scene.spark.table(scene.table).schema.fields
    ]


def test_columns_are_told_apart_by_their_ids(scene: Scene) -> None:
    scene.make("id int, old string, n int, s struct<a: int>, l array<struct<x: int>>")
    first = scene.sql(
        "insert into {t} values (1, 'a', 1, struct(1), array(struct(1))),"
        " (2, 'b', 2, null, array(null)), (3, 'c', null, struct(3), null)"
    )
    scene.sql(
        "alter table {t} rename column old to new",
        "alter table {t} alter column n type bigint",
        "alter table {t} add column s.b string",
        "alter table {t} add column l.element.y int",
        "alter table {t} add column old string",
        "alter table {t} alter column old first",
    )
    assert scene.changes(first) == []
    # A new file with all of it, and no row of another value.
    scene.sql("update {t} set new = new where id > 0")
    assert scene.changes(first) == []
    scene.sql("update {t} set old = 'now', s.b = 'b' where id = 1")
    before, after = (None, 1, "a", 1, (1, None)), ("now", 1, "a", 1, (1, "b"))
    assert [change[:6] for change in scene.changes(first)] == [
        ("update_after", *after), ("update_before", *before)]  # fmt: skip


def test_values_that_cannot_be_ordered_are_compared_too(scene: Scene) -> None:
    scene.make("id int, m map<string, int>, x double")
    first = scene.sql(
        "insert into {t} select * from values (1, map('a', 1), double('NaN')), (2, map('a', 1), 0)"
    )
    scene.sql("update {t} set m = map('a', 2) where id = 2", "update {t} set x = x where id = 1")
    assert [change[:3] for change in scene.changes(first)] == [
        ("update_after", 2, {"a": 2}), ("update_before", 2, {"a": 1})]  # fmt: skip


def test_a_key_that_names_two_changed_rows_ends_the_query(scene: Scene) -> None:
    scene.make("id int, v int")
    first = scene.sql("insert into {t} values (1, 1), (2, 2)")
    scene.sql("insert into {t} values (3, 1), (3, 2)")
    with pytest.raises(Exception, match=r'the key names .* row: {"id":3}'):
        scene.changes(first)


@pytest.mark.parametrize(
    ("key", "why", "fix"),
    [
        ("idd", "it has no column 'idd'", "id"),
        ((), "no key was given", "name the columns of its key"),
        ("late", "its older version had no column late, which is of the key", "a later version"),
    ],
)
def test_a_key_that_is_no_key_is_refused(scene: Scene, key: str, why: str, fix: str) -> None:
    scene.make("id int, v int")
    first = scene.sql("insert into {t} values (1, 1)")
    scene.sql("alter table {t} add column late int", "insert into {t} values (2, 2, 2)")
    with pytest.raises(ConfigError) as error:
        scene.changes(first, key=key)
    assert why in str(error.value)
    assert fix in str(error.value)


def test_a_column_with_the_name_of_what_is_told_is_refused(scene: Scene) -> None:
    scene.make("id int, Change_Type string")
    first = scene.sql("insert into {t} values (1, 'x')")
    with pytest.raises(ConfigError, match="it has a column change_type"):
        scene.changes(first)
