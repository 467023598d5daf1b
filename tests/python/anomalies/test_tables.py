"""What is unusual in real Iceberg tables, as Spark writes and maintains them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from icegate.anomalies.files import measured
from icegate.anomalies.find import find
from icegate.anomalies.history import changes
from icegate.anomalies.look import Finding
from icegate.catalog import list_relations, read_metadata
from icegate.files import StoredFiles
from icegate.gate.refs import head
from icegate.settings import Lake

pytestmark = pytest.mark.slow

COLUMNS = "id bigint, amount decimal(9, 2), note string, ordered_at timestamp, sold_on date"


class Table:
    """A table of orders to which batches come."""

    def __init__(self, spark: Any, lake: Lake, **properties: str) -> None:
        self.spark, self.lake = spark, lake
        self.schema, self.name = f"t_{uuid.uuid4().hex[:10]}", "orders"
        spark.sql(f"create schema {self.schema}")
        told = ", ".join(f"'{k.replace('_', '.')}' = '{v}'" for k, v in properties.items())
        with_properties = f"tblproperties ({told})" if told else ""
        spark.sql(f"create table {self} ({COLUMNS}) using iceberg {with_properties}")

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def batch(self, rows: int, amount: str = "id % 50", note: str = "'a'", hours: float = 1) -> int:
        """Append so many rows, the newest of them ``hours`` old; return the snapshot."""
        newest = datetime.now(timezone.utc) - timedelta(hours=hours)
        self.spark.sql(
            f"insert into {self} select id, {amount}, {note},"
            f" timestamp'{newest:%Y-%m-%d %H:%M:%S}' - make_interval(0, 0, 0, 0, id % 24),"
            f" date'{newest:%Y-%m-%d}' from range({rows})"
        )
        return self.head

    @property
    def metadata(self) -> dict[str, Any]:
        entries = list_relations(self.lake, self.schema)
        return read_metadata(next(entry for entry in entries if entry.name == self.name))

    @property
    def head(self) -> int:
        found = head(self.metadata)
        assert found is not None
        return found

    def unusual(self, **how: Any) -> list[Finding]:
        found = find(self.metadata, StoredFiles(), table=str(self), **how)
        assert len(found) > 1
        return [finding for finding in found if finding.status == "unusual"]


@pytest.fixture(scope="module")
def ten(spark: Any, lake: Lake) -> Table:
    """A table with ten batches; each test takes its own back."""
    table = Table(spark, lake)
    for place in range(10):
        note = "case when id % 20 = 0 then null else 'a' end"
        table.batch(990 + 2 * (place % 5), note=note, hours=1 + place % 2 / 2)
    return table


@pytest.fixture
def table(ten: Table) -> Iterator[Table]:
    before = ten.head
    yield ten
    ten.spark.sql(f"call lake.system.rollback_to_snapshot('{ten}', {before})")


def test_a_good_batch_is_usual(table: Table) -> None:
    table.batch(1000, note="case when id % 20 = 0 then null else 'a' end")
    assert table.unusual() == []
    kinds = {finding.kind for finding in find(table.metadata, StoredFiles())}
    assert kinds == {"volume", "cadence", "late data", "null rate", "bounds", "schema"}


BAD: dict[str, tuple[dict[str, Any], set[tuple[str, str | None]]]] = {
    "five times the rows": ({"rows": 5200}, {("volume", None), ("bounds", "id")}),
    "no row": ({"rows": 0}, {("volume", None)}),
    "amounts are missing": (
        {"rows": 1000, "amount": "case when id % 3 = 0 then null else id % 50 end"},
        {("null rate", "amount")},
    ),
    "negative amounts": ({"rows": 1000, "amount": "id % 50 - 5"}, {("bounds", "amount")}),
    "old rows": (
        {"rows": 1000, "hours": 400},
        {("late data", "ordered_at"), ("bounds", "ordered_at"), ("bounds", "sold_on")},
    ),
    "rows of the future": (
        {"rows": 1000, "hours": -400},
        {("bounds", "ordered_at"), ("bounds", "sold_on")},
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_the_bad_batch_is_blamed(table: Table, case: str) -> None:
    batch, expected = BAD[case]
    blamed = table.batch(**{"note": "case when id % 20 = 0 then null else 'a' end", **batch})
    found = table.unusual()
    assert {(finding.kind, finding.column) for finding in found} == expected, found
    assert {finding.snapshot_id for finding in found} == {blamed}


def test_what_is_said(table: Table) -> None:
    table.batch(5200, amount="if(id % 2 = 0, null, -id)", note="'a'", hours=400)
    said = [finding.sentence for finding in table.unusual()]
    day = f"{datetime.now(timezone.utc):%A} {datetime.now(timezone.utc).day}"
    assert any(s.startswith(f"5,200 rows came on {day} ") for s in said), said
    assert any(s.startswith("50% of amount is missing in the rows of ") for s in said), said
    assert any("The lowest amount in the rows of" in s and "is -5,199; from 0" in s for s in said)
    assert any("The newest ordered_at is from 17 days before its rows came" in s for s in said)


def test_a_load_without_rows_changes_no_null_rate(table: Table) -> None:
    blamed = table.batch(1000, note="cast(null as string)")
    table.batch(0)
    assert ("null rate", blamed) in [(f.kind, f.snapshot_id) for f in table.unusual()]


def test_compaction_is_no_change(table: Table) -> None:
    before = [point.snapshot_id for point in changes(table.metadata)]
    options = "map('rewrite-all', 'true')"
    table.spark.sql(f"call lake.system.rewrite_data_files('{table}', options => {options})")
    table.spark.sql(f"call lake.system.rewrite_manifests('{table}')")
    assert table.metadata["snapshots"][-1]["summary"]["operation"] == "replace"
    assert [point.snapshot_id for point in changes(table.metadata)] == before
    assert table.unusual() == []
    note = "case when id % 20 = 0 then null else 'a' end"
    table.batch(1000, note=note)
    assert table.unusual() == []  # its manifest may be one with older files
    blamed = table.batch(1000, note="cast(null as string)")
    assert [(f.kind, f.snapshot_id) for f in table.unusual()] == [("null rate", blamed)]


def test_files_of_a_change_are_its_own(table: Table) -> None:
    table.spark.sql(
        f"alter table {table} set tblproperties ('commit.manifest.min-count-to-merge' = '2')"
    )
    table.batch(10, note="null")
    table.batch(20)
    points = measured(table.metadata, changes(table.metadata), StoredFiles(), last=2)
    assert [p.value_counts["id"] if p.value_counts else None for p in points[-3:]] == [None, 10, 20]
    assert [(p.null_counts or {})["note"] for p in points[-2:]] == [10, 0]
    last = points[-1]
    assert last.lowest and last.highest and (last.lowest["id"], last.highest["id"]) == (0, 19)
    assert "note" not in last.highest  # text
    table.spark.sql(
        f"alter table {table} unset tblproperties ('commit.manifest.min-count-to-merge')"
    )


def test_delete_files_are_no_rows(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, write_delete_mode="merge-on-read", write_merge_mode="merge-on-read")
    for _ in range(9):
        table.batch(1000)
    updated = "select *, id + 10000 as new from range(300)"
    for _ in range(2):
        spark.sql(
            f"merge into {table} as t using ({updated}) as s on t.id = s.new when matched then"
            " update set note = 'b' when not matched then insert (id, note) values (s.new, 'c')"
        )
    first, second = changes(table.metadata)[-2:]
    assert (first.growth, second.rows_added, second.growth) == (300, 300, 0)
    assert second.rows == 9300 == spark.sql(f"select count(*) from {table}").first()[0]
    (volume,) = find(table.metadata, kinds=["volume"])
    assert (volume.status, volume.value) == ("unusual", 0)
    spark.sql(f"delete from {table} where id between 10000 and 10099")
    (volume,) = find(table.metadata, kinds=["volume"])
    assert volume.value == -100 and volume.sentence.startswith("100 rows went away on ")


def test_a_merge_that_copies_counts_by_what_it_left(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake)
    table.batch(1000)
    for first in range(1000, 1900, 100):
        spark.sql(
            f"merge into {table} as t using (select * from range({first}, {first + 100})) as s"
            f" on t.id = s.id or (t.id < 50 and s.id = {first}) when matched then"
            " update set note = 'b' when not matched then insert (id, note) values (s.id, 'c')"
        )
    (volume,) = find(table.metadata, kinds=["volume"])
    assert (volume.value, volume.status) == (99, "usual"), volume
    assert changes(table.metadata)[-1].rows_added > 500  # of 99 new ones and 50 others


def test_a_table_made_anew_keeps_its_history(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake)
    rows = [1000, 1004, 998, 1001, 1003, 999, 1000, 1002, 2000]
    for count in rows:
        spark.sql(f"create or replace table {table} using iceberg as select * from range({count})")
    assert [point.rows for point in changes(table.metadata)] == rows
    assert {f.kind for f in table.unusual()} == {"volume", "bounds"}


def test_columns_that_changed(table: Table) -> None:
    columns = table.metadata["current-schema-id"]
    table.spark.sql(f"alter table {table} add column code int")
    (found,) = table.unusual()
    assert found.sentence == "The columns changed with the last load: code (int) is new."
    table.spark.sql(f"alter table {table} drop column code")
    assert table.metadata["current-schema-id"] != columns + 1
    assert table.unusual() == []


def test_a_date_is_known_to_the_day(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake)
    for _ in range(8):
        table.batch(100, hours=0)
    table.batch(100, hours=24)
    assert ("bounds", "sold_on") not in [(f.kind, f.column) for f in table.unusual()]
    table.batch(100, hours=72)
    assert ("bounds", "sold_on") in [(f.kind, f.column) for f in table.unusual()]


def test_a_long_column_that_was_an_int_has_bounds(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake)
    spark.sql(f"create or replace table {table} (n int, d float) using iceberg")
    for _ in range(8):
        spark.sql(f"insert into {table} select id, id from range(100)")
    spark.sql(f"alter table {table} alter column n type bigint")
    spark.sql(f"alter table {table} alter column d type double")
    spark.sql(f"insert into {table} select id, id from range(100)")
    bounds = find(table.metadata, StoredFiles(), kinds=["bounds"])
    assert {(f.column, f.status) for f in bounds} == {("n", "usual"), ("d", "usual")}


def test_of_a_table_with_only_the_version_of_maintenance_too_little_is_known(
    spark: Any, lake: Lake
) -> None:
    """As an erasure leaves one, which takes away all versions that had a person's rows."""
    table = Table(spark, lake)
    for _ in range(3):
        table.batch(100)
    spark.sql(
        f"call lake.system.rewrite_data_files('{table}', options => map('rewrite-all', 'true'))"
    )
    newest = "older_than => timestamp'2100-01-01', retain_last => 1"
    spark.sql(f"call lake.system.expire_snapshots(table => '{table}', {newest})")
    (only,) = table.metadata["snapshots"]
    assert only["summary"]["operation"] == "replace"
    assert table.unusual() == []
