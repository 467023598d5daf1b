"""Deletes, deletion vectors and partitions as Spark writes them, and what Spark does with them."""

from __future__ import annotations

import uuid
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from health.tables import names
from icegate.catalog import list_relations
from icegate.health.table import Health, look
from icegate.settings import Lake

pytestmark = pytest.mark.slow

# So that a few kilobytes are as much to these tables as gigabytes are to others.
SCALE = {"write.target-file-size-bytes": "20000", "read.split.open-file-cost": "100"}
MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
BY_PARTITION = {"format-version": "2", "write.delete.granularity": "partition"}


class Table:
    """A table of three batches in two parts, whose rows are deleted by merge-on-read."""

    def __init__(self, spark: Any, lake: Lake, **properties: str) -> None:
        self.spark, self.lake = spark, lake
        self.schema = f"t_{uuid.uuid4().hex[:10]}"
        told = {**SCALE, **MODES, **{k.replace("_", "."): v for k, v in properties.items()}}
        text = ", ".join(f"'{key}' = '{value}'" for key, value in told.items())
        spark.sql(f"create schema {self.schema}")
        spark.sql(
            f"create table {self} (id bigint, part string, v string) using iceberg"
            f" partitioned by (part) tblproperties ({text})"
        )
        for batch in range(3):
            self.insert(batch * 1000, 1000)

    def __str__(self) -> str:
        return f"{self.schema}.t"

    def insert(self, start: int, rows: int) -> None:
        made = f"id + {start}, if(id % 2 = 0, 'a', 'b'), uuid()"
        self.spark.sql(f"insert into {self} select {made} from range({rows})")

    def sql(self, text: str) -> Any:
        return self.spark.sql(text.format(t=self))

    def call(self, procedure: str, **options: str) -> None:
        told = ", ".join(f"'{k.replace('_', '-')}', '{v}'" for k, v in options.items())
        given = f", options => map({told})" if told else ""
        self.spark.sql(f"call lake.system.{procedure}(table => '{self}'{given})")

    def health(self, **how: Any) -> Health:
        (entry,) = list_relations(self.lake, self.schema)
        found = look(entry, datetime.now(timezone.utc), **how)
        assert not found.error, found.error
        return found

    @property
    def java(self) -> Any:
        """The table of Iceberg's own library, to write what Spark doesn't."""
        iceberg = self.spark._jvm.org.apache.iceberg
        found = iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, str(self))
        return SimpleNamespace(table=found, iceberg=iceberg)

    @property
    def plans_count(self) -> bool:
        """Whether Spark answers `count(*)` without a look into files."""
        plan = self.sql("explain select count(*) from {t}").first()[0]
        return "LocalTableScan" in plan


@pytest.mark.parametrize(
    ("properties", "files", "vectors"),
    [
        ({"format-version": "2"}, 6, 0),
        (BY_PARTITION, 4, 0),
        ({"format-version": "3"}, 0, 6),
    ],
    ids=["a file for each data file", "a file for each partition", "vectors"],
)
def test_deletes_are_told_apart_and_cost_what_readers_merge(
    spark: Any, lake: Lake, properties: dict[str, str], files: int, vectors: int
) -> None:
    table = Table(spark, lake, **properties)
    well = table.health()
    assert well.score == 100 and table.plans_count and well.counts
    table.sql("delete from {t} where id % 10 in (2, 3)")
    table.sql("delete from {t} where id % 10 in (4, 5)")
    found = table.health()
    assert found.read == "manifests"
    assert (found.files.delete_files, found.files.vectors) == (files, vectors)
    assert (found.files.deleted_rows, found.files.rows, found.files.dangling) == (1200, 3000, 0)
    assert {"delete files", "count(*)"} <= set(names(found))
    assert found.counts is False and table.plans_count is False
    said = next(reason for reason in found.reasons if reason.name == "delete files")
    merged = f"{files} delete files" if files else f"{vectors} deletion vectors"
    assert said.sentence == f"1,200 of 3,000 rows are deleted by {merged}, which each reader merges"
    assert said.command.startswith(f"dbt run-operation compact --args '{{table: {table},")


def test_rows_of_new_files_are_not_deleted_by_older_deletes(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake)
    table.sql("delete from {t} where part = 'a' and id < 500")
    before = table.health(by_partition=True)
    table.insert(0, 1000)
    after = table.health(by_partition=True)
    assert (before.files.deletes, before.files.dangling) == (1, 0)
    assert (after.files.deletes, after.files.dangling) == (1, 0)


def test_deletes_for_data_that_was_rewritten_dangle(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, **{"format-version": "2"})
    for digit in (2, 3, 4):
        table.sql(f"delete from {{t}} where id % 10 = {digit}")
    table.call("rewrite_data_files", rewrite_all="true", remove_dangling_deletes="false")
    found = table.health()
    # Iceberg drops the older ones by itself; the last commit's are as young as the new files.
    assert (found.files.deletes, found.files.dangling) == (0, 3)
    assert table.sql("select count(*) from {t}.delete_files").first()[0] == 3
    assert names(found) == {"dangling deletes": 1}
    assert found.counts and table.plans_count  # plans leave out what is for no file
    assert found.reasons[0].sentence.startswith("3 delete files of 3 are for data that is gone")
    table.call("rewrite_data_files", remove_dangling_deletes="true")
    assert table.health(by_partition=True).files.dangling == 0


def test_deletes_of_a_partition_dangle_by_sequence_number(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, **BY_PARTITION)
    table.sql("delete from {t} where id % 10 in (2, 3)")
    assert table.health(by_partition=True).files.deletes == 2
    # The new files have the number of a commit that came after that of the deletes.
    table.call("rewrite_data_files", rewrite_all="true", use_starting_sequence_number="false")
    found = table.health(by_partition=True)
    assert (found.files.deletes, found.files.dangling) == (0, 2)


def test_vectors_for_a_file_that_is_gone_dangle(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, **{"format-version": "3"})
    table.sql("delete from {t} where id % 10 = 2")
    found = table.health(by_partition=True)
    assert (found.files.vectors, found.files.dangling) == (3, 0)
    # Spark drops vectors with their files; here is one of a writer that doesn't.
    java = table.java
    file = java.iceberg.FileMetadata.deleteFileBuilder(java.table.spec()).ofPositionDeletes()
    file = file.withPath(f"{java.table.location()}/data/1.puffin").withFormat("puffin")
    file = file.withFileSizeInBytes(500).withRecordCount(7).withPartitionPath("part=a")
    file = file.withReferencedDataFile(f"{java.table.location()}/data/gone.parquet")
    file = file.withContentOffset(4).withContentSizeInBytes(40)
    java.table.newRowDelta().addDeletes(file.build()).commit()
    found = table.health(by_partition=True)
    assert (found.files.vectors, found.files.dangling, found.files.deleted_rows) == (3, 1, 300)


def test_equality_deletes_as_flink_writes_them(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, **{"format-version": "2"})
    java = table.java
    ids = spark.sparkContext._gateway.new_array(spark._jvm.int, 1)
    ids[0] = 1

    def delete(part: str, rows: int) -> None:
        file = java.iceberg.FileMetadata.deleteFileBuilder(java.table.spec())
        file = file.ofEqualityDeletes(ids).withFormat("parquet").withPartitionPath(f"part={part}")
        file = file.withPath(f"{java.table.location()}/data/{uuid.uuid4()}.parquet")
        file = file.withFileSizeInBytes(500).withRecordCount(rows)
        java.table.newRowDelta().addDeletes(file.build()).commit()

    delete("a", 100)
    delete("never", 100)  # a partition without data
    found = table.health(by_partition=True)
    assert (found.files.equality_deletes, found.files.dangling) == (1, 1)
    table.insert(5000, 1000)
    for _ in range(10):
        delete("b", 10)
    found = table.health()
    assert (found.files.equality_deletes, found.files.dangling) == (11, 1)
    delete("late", 10)
    table.sql("insert into {t} values (1, 'late', 'x')")  # no row of it is deleted
    late = next(part for part in table.health().partitions if part.name == "part=late")
    assert (late.files.equality_deletes, late.files.dangling) == (0, 1)
    assert "A reader compares 4,000 rows with 200 of 11 equality delete files" in {
        reason.sentence for reason in found.reasons
    }


def test_files_of_many_partitionings(spark: Any, lake: Lake) -> None:
    table = Table(spark, lake, **{"write.distribution-mode": "none"})
    for change in ("add partition field bucket(4, id)", "drop partition field part"):
        table.sql(f"alter table {{t}} {change}")
        for batch in range(2):
            table.insert(batch * 1000, 1000)
    found = table.health()
    old = table.sql("select count(*) from {t}.files where spec_id <> 2").first()[0]
    assert "old partitions" in names(found) and old > 6
    assert f"{old} of {found.files.files} files lie in partitions of before" in {
        reason.sentence.partition(":")[0] for reason in found.reasons
    }
    named = {part.name for part in found.partitions}
    assert {"part=a", "part=b", "part=a/id_bucket_4=1"} <= named


def test_partitions_have_the_names_that_people_write(spark: Any, lake: Lake) -> None:
    schema = f"t_{uuid.uuid4().hex[:10]}"
    spark.sql(f"create schema {schema}")
    spark.sql(
        f"create table {schema}.t (at timestamp, id bigint, sold_on date) using iceberg"
        " partitioned by (months(at), bucket(4, id), sold_on, truncate(10, id))"
    )
    spark.sql(
        f"insert into {schema}.t values"
        " (timestamp'2026-11-23 08:00:00', 34, date'2026-11-23'), (null, 34, null)"
    )
    for change in ("", "drop partition field sold_on", "drop column sold_on"):
        spark.sql(f"alter table {schema}.t {change}") if change else None
        (entry,) = list_relations(lake, schema)
        found = look(entry, datetime.now(timezone.utc), by_partition=True)
        assert {part.name for part in found.partitions} == {
            "at_month=2026-11/id_bucket=3/sold_on=2026-11-23/id_trunc=30",
            "at_month=null/id_bucket=3/sold_on=null/id_trunc=30",
        }
