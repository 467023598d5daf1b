"""Compaction and expiry without Spark: Spark has to find the same rows, and all that it needs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from icegate.errors import CatalogError
from icegate.gate.store import Moved, read_tables
from icegate.maintenance import binpack, replace
from icegate.maintenance.binpack import Elsewhere
from icegate.maintenance.policy import Policy
from icegate.maintenance.run import DONE
from maintenance.test_run import (
    EAGER,
    SMALL,
    Sick,
    check_no_orphans,
    files_of,
    on_disk,
    outcomes,
)
from maintenance.test_run import sick as sick

pytestmark = pytest.mark.slow

TYPES = {
    "id": "bigint",
    "small": "int",
    "price": "double",
    "ratio": "float",
    "amount": "decimal(20, 4)",
    "name": "string",
    "is_paid": "boolean",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "nothing": "string",
}
ROWS = """
select id, cast(id % 7 as int) as small,
  case id % 5 when 0 then double('NaN') when 1 then -0.0d when 2 then double('Infinity')
    when 3 then null else id / 3.0d end as price,
  cast(if(id % 4 = 0, float('NaN'), id / 7) as float) as ratio,
  cast(if(id % 6 = 0, null, id * 1000000.0001) as decimal(20, 4)) as amount,
  case id % 4 when 0 then '' when 1 then 'a long name, more than sixteen letters'
    when 2 then 'ü/=% 漢' else null end as name,
  id % 2 = 0 as is_paid,
  date_add(date '1969-12-30', cast(id % 5 as int)) as day,
  timestamp_micros(id * 1234567891) as at,
  cast(timestamp_micros(-id * 987654321) as timestamp_ntz) as local,
  cast(null as string) as nothing
from range({first}, {first} + 40)
"""
METRICS = ("value_count", "null_value_count", "nan_value_count", "lower_bound", "upper_bound")
BY = ["", "name, bucket(2, id)", "days(at), truncate(4, name), is_paid"]


def in_process(sick: Sick, **policies: Policy) -> list[tuple[str, str]]:
    """Maintain, and see that no statement is asked of Spark."""
    done = sick.run(lambda sql: pytest.fail(sql), policies)
    assert all(each.outcome == DONE for each in done), [each.said for each in done]
    return outcomes(done)


def check_no_deletes(sick: Sick) -> None:
    files = sick.health().files
    assert files and files.deletes == files.dangling == 0


def of_all_types(sick: Sick, by: str = "", name: str = "t") -> None:
    columns = ", ".join(f"{column} {kind}" for column, kind in TYPES.items())
    split = f"partitioned by ({by})" if by else ""
    sick.project.rows(
        f"create table {{s}}.{name} ({columns}) using iceberg {split} tblproperties ({SMALL})"
    )
    for first in range(0, 200, 40):
        insert = f"insert into {{s}}.{name} {ROWS.format(first=first)}"
        sick.project.rows(insert)


def metrics(sick: Sick, name: str, by: str) -> list[Any]:
    """Return what the metadata of files says of them and their columns, as Iceberg reads it."""
    told = ", ".join(f"readable_metrics.{column}.{of}" for column in TYPES for of in METRICS)
    own = "record_count, spec_id" + (", partition" if by else "")
    return sorted(sick.project.rows(f"select {own}, {told} from {{s}}.{name}.data_files"), key=str)


@pytest.mark.parametrize("by", BY)
def test_all_types_come_out_as_spark_writes_them(sick: Sick, by: str) -> None:
    for name in ("t", "by_spark"):
        of_all_types(sick, by, name)
        sick.project.rows(f"delete from {{s}}.{name} where id % 3 = 0")
    rows = sick.all()
    assert ("rewrite_data_files", DONE) in in_process(sick, by_spark=Policy(enabled=False))
    assert sick.all() == rows == sick.all("by_spark")
    check_no_deletes(sick)
    sick.sql(
        f"call system.rewrite_data_files(table => '{sick.schema}.by_spark', options => "
        "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))"
    )
    assert metrics(sick, "t", by) == metrics(sick, "by_spark", by)
    check_no_orphans(sick)


def test_columns_that_came_were_renamed_widened_and_dropped(sick: Sick) -> None:
    sick.table()
    sick.fill(files=3)
    for change in (
        "rename column name to title",
        "add column name string",
        "alter column part type bigint",
        "add column amount decimal(5, 2)",
    ):
        sick.project.rows(f"alter table {{s}}.t {change}")
    sick.project.rows("insert into {s}.t values (7, 3000000000, 'a', 'b', 1.25)")
    sick.project.rows("alter table {s}.t alter column amount type decimal(9, 2)")
    sick.project.rows("insert into {s}.t values (8, 3000000001, 'c', 'd', 1234567.25)")
    sick.project.rows("alter table {s}.t drop column title")
    rows = sorted(sick.project.rows("select * from {s}.t"), key=str)
    assert in_process(sick)[0] == ("rewrite_data_files", DONE)
    assert sorted(sick.project.rows("select * from {s}.t"), key=str) == rows
    assert len(files_of(sick, "true")) == 1


def test_spark_goes_on_from_there(sick: Sick) -> None:
    """Writers, procedures and readers of the past find what they need."""
    sick.table(by="part")
    sick.fill()
    sick.project.rows("delete from {s}.t where id % 3 = 0")
    before, old = sick.all(), sick.metadata()["current-snapshot-id"]
    in_process(sick)
    sick.project.rows("delete from {s}.t where id = 1")
    sick.project.rows("insert into {s}.t values (1, 1, 'again')")
    sick.project.rows("update {s}.t set name = 'x' where id = 2")
    rows = sick.all()
    for call in (
        "rewrite_manifests(table => '{t}')",
        "rewrite_position_delete_files(table => '{t}', options => map('rewrite-all', 'true'))",
        "rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))",
    ):
        sick.sql(f"call system.{call.format(t=f'{sick.schema}.t')}")
        assert sick.all() == rows
    assert sick.all(at=f"version as of {old}") == before
    sick.sql(
        f"call system.expire_snapshots(table => '{sick.schema}.t', older_than => now(), "
        "retain_last => 1)"
    )
    assert sick.all() == rows
    check_no_orphans(sick)


def test_deletes_of_several_files_and_of_twice_the_same_row(sick: Sick) -> None:
    properties = f"{SMALL}, 'write.delete.granularity' = 'partition'"
    sick.table(properties=properties, by="part")
    sick.fill()
    sick.project.rows("delete from {s}.t where id % 5 = 0")
    sick.project.rows("delete from {s}.t where id % 7 = 0")
    rows = sick.all()
    assert in_process(sick)[0] == ("rewrite_data_files", DONE)
    assert sick.all() == rows
    check_no_deletes(sick)


def test_deletes_of_other_partitions_stay_as_they_are(sick: Sick) -> None:
    """They are in one manifest with those that go."""
    sick.table(by="part")
    sick.fill()
    sick.project.rows("insert into {s}.t select /*+ coalesce(1) */ id, 7, 'x' from range(100)")
    sick.project.rows("delete from {s}.t where id % 3 = 0 and part < 2 or id = 5")
    told = "select file_path, record_count, referenced_data_file from {s}.t.delete_files"
    (kept,) = sick.project.rows(f"{told} where partition.part = 7")
    rows = sick.all()
    done = sick.run(lambda sql: pytest.fail(sql))
    assert sorted(done[0].action.partitions) == ["part=0", "part=1"]
    assert sick.project.rows(told) == [kept]
    assert sick.all() == rows


def test_a_partition_of_which_all_rows_are_deleted(sick: Sick) -> None:
    sick.table(by="part")
    sick.fill()
    sick.project.rows("delete from {s}.t where id % 2 = 1")
    rows = sick.all()
    assert in_process(sick)[0] == ("rewrite_data_files", DONE)
    assert sick.all() == rows
    assert files_of(sick, "part = 1") == set() and len(files_of(sick, "true")) == 1
    check_no_deletes(sick)


def sorted_table(sick: Sick) -> None:
    sick.project.rows("alter table {s}.t write ordered by id")


def of_one_more_type(sick: Sick) -> None:
    sick.project.rows("alter table {s}.t add column more array<int>")


def with_blooms(sick: Sick) -> None:
    name = "write.parquet.bloom-filter-enabled.column.id"
    sick.project.rows(f"alter table {{s}}.t set tblproperties ('{name}' = 'true')")


def in_lz4(sick: Sick) -> None:
    sick.project.rows(
        "alter table {s}.t set tblproperties ('write.parquet.compression-codec' = 'lz4_raw')"
    )


def split_anew(sick: Sick) -> None:
    sick.project.rows("alter table {s}.t add partition field part")


def elsewhere(sick: Sick) -> None:
    folder = sick.project.folder / "elsewhere"
    sick.project.rows(
        f"alter table {{s}}.t set tblproperties ('write.data.path' = 'file://{folder}')"
    )


def nothing(sick: Sick) -> None:
    """For what the policy says alone."""


@pytest.mark.parametrize(
    ("change", "policy", "why"),
    [
        (sorted_table, {}, "sorted"),
        (of_one_more_type, {}, "a column of type"),
        (with_blooms, {}, "a property"),
        (in_lz4, {}, "codec"),
        (split_anew, {}, "an earlier partitioning"),
        (elsewhere, {}, "a property"),
        (nothing, {"strategy": "sort", "sort_by": ("id",)}, "sorted"),
        (nothing, {"where": "id < 50"}, "not only whole partitions"),
    ],
)
def test_what_is_work_for_spark(
    sick: Sick, change: Any, policy: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.table()
    sick.fill()
    change(sick)
    rows, said = sick.all(), []

    def compact(*given: Any) -> Any:
        try:
            return binpack.compact(*given)
        except Elsewhere as error:
            said.append(str(error))
            raise

    monkeypatch.setattr("icegate.maintenance.run.compact", compact)
    done = sick.run(policies={"t": EAGER.model_copy(update=policy)})
    assert outcomes(done)[0] == ("rewrite_data_files", DONE), done[0].said
    assert len(said) == 1 and why in said[0]
    assert sick.all() == rows


def test_files_without_ids_are_work_for_spark(sick: Sick) -> None:
    """Their columns are found by name, and a partition's value isn't in them."""
    sick.table(by="part")
    folder = sick.project.folder / "parquet"
    for number in range(6):
        sick.project.spark.sql(f"select {number}L as id, 'n' as name, 1 as part").write.partitionBy(
            "part"
        ).mode("append").parquet(str(folder))
    sick.sql(
        f"call system.add_files(table => '{sick.schema}.t', source_table => '`parquet`.`{folder}`')"
    )
    sick.project.rows("alter table {s}.t unset tblproperties ('schema.name-mapping.default')")
    sick.project.rows("insert into {s}.t values (7, 1, 'm')")
    (plan,) = sick.plans()
    (stored,) = read_tables(sick.lake, [plan.table])
    with pytest.raises(Elsewhere, match="lacks ids"):
        binpack.compact(sick.lake, stored, plan.actions[0])


def test_somebody_who_writes_meanwhile_loses_nothing(
    sick: Sick, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.table()
    sick.fill()
    moving = replace.move

    def late(*given: Any) -> None:
        monkeypatch.setattr(replace, "move", moving)
        sick.project.rows("insert into {s}.t values (9999, 1, 'meanwhile')")
        moving(*given)

    monkeypatch.setattr(replace, "move", late)
    (plan,) = sick.plans()
    (stored,) = read_tables(sick.lake, [plan.table])
    with pytest.raises(Moved):
        binpack.compact(sick.lake, stored, plan.actions[0])
    check_no_orphans(sick)
    assert sick.project.rows("select count(*) from {s}.t")[0][0] == 801
    assert sick.run()[0].outcome == DONE  # the procedure or a second try, whichever
    assert sick.project.rows("select count(*) from {s}.t")[0][0] == 801


@pytest.mark.parametrize("at", ["write_file", "write_manifest_list", "set_main"])
def test_an_error_on_the_way_leaves_nothing(
    sick: Sick, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.table()
    sick.fill()
    rows, before = sick.all(), on_disk(sick)

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replace, at, fails)
    (done,) = sick.run()
    assert done.outcome == "failed" and "No space left" in done.said
    assert on_disk(sick) == before and sick.all() == rows


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CatalogError("no answer from it")])
def test_a_commit_without_an_answer_keeps_its_files(
    sick: Sick, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.table()
    sick.fill()
    rows, moving = sick.all(), replace.move

    def silent(*given: Any) -> None:
        moving(*given)
        raise error

    monkeypatch.setattr(replace, "move", silent)
    (plan,) = sick.plans()
    (stored,) = read_tables(sick.lake, [plan.table])
    with pytest.raises(type(error)):
        binpack.compact(sick.lake, stored, plan.actions[0])
    assert sick.all() == rows and len(files_of(sick, "true")) == 1
    check_no_orphans(sick)


def test_a_file_that_is_cut_off_is_told(sick: Sick) -> None:
    sick.table()
    sick.fill()
    path = sorted(files_of(sick, "true"))[0].removeprefix("file:")
    with open(path, "r+b") as file:
        file.truncate(100)
    (done,) = sick.run()
    assert done.outcome == "failed" and "parquet" in done.said.lower()


AT_ONCE = Policy(min_files=10_000, delete_ratio=1, max_query_hours=0, min_snapshots=1)
OLD = f"{SMALL}, 'history.expire.max-snapshot-age-ms' = '1'"


def test_what_the_oldest_version_left_had_deleted_goes(sick: Sick) -> None:
    sick.table(properties=OLD)
    sick.fill(files=3)
    sick.project.rows("insert overwrite {s}.t values (1, 1, 'only')")
    assert in_process(sick, t=AT_ONCE) == [("expire_snapshots", DONE)]
    assert len([path for path in on_disk(sick) if path.endswith("parquet")]) == 1
    check_no_orphans(sick)


@pytest.mark.parametrize("tagged", [False, True])
def test_files_stay_whose_manifests_were_written_anew(sick: Sick, tagged: bool) -> None:
    sick.table(properties=OLD)
    sick.fill(files=3)
    if tagged:  # then the versions left aren't of one line
        first = sick.metadata()["snapshots"][0]["snapshot-id"]
        sick.project.rows(f"alter table {{s}}.t create tag first as of version {first}")
    sick.project.rows("delete from {s}.t where id = 250")
    sick.sql(f"call system.rewrite_manifests('{sick.schema}.t')")
    rows = sick.all()
    assert in_process(sick, t=AT_ONCE) == [("expire_snapshots", DONE)]
    assert sick.all() == rows and len(files_of(sick, "true")) == 3
    check_no_orphans(sick)


def test_a_file_that_was_deleted_and_came_back_stays(sick: Sick) -> None:
    """As of a commit that is made to put back what an overwrite took."""
    sick.table(properties=OLD)
    sick.fill(files=2)
    files = files_of(sick, "true")
    sick.project.rows("insert overwrite {s}.t values (1, 1, 'only')")
    folder = sorted(files)[0].rpartition("/")[0]
    sick.sql(
        f"call system.add_files(table => '{sick.schema}.t', check_duplicate_files => false, "
        f"source_table => '`parquet`.`{folder}`')"
    )
    rows = sick.all()
    assert in_process(sick, t=AT_ONCE) == [("expire_snapshots", DONE)]
    assert sick.all() == rows
    check_no_orphans(sick)


def change_at_random(sick: Sick, chance: random.Random) -> None:
    """Do one of the things that a table's life has."""
    low = chance.randrange(1000)
    tags = [name for name in sick.metadata().get("refs", {}) if name.startswith("tag")]
    version = chance.choice([s["snapshot-id"] for s in sick.metadata()["snapshots"]])
    choices = [
        f"insert into {{s}}.t select id, cast(id % 3 as int), uuid() from range({low}, {low + 40})",
        f"insert into {{s}}.t select id, cast(id % 3 as int), uuid() from range({low}, {low + 40})",
        f"delete from {{s}}.t where id between {low} and {low + 15}",
        f"insert overwrite {{s}}.t select id, 1, uuid() from range({low}, {low + 20})",
        f"alter table {{s}}.t create or replace tag tag_{low % 3} as of version {version}",
        f"call lake.system.set_current_snapshot('{{s}}.t', {version})",
        "call lake.system.rewrite_manifests('{s}.t')",
        "call lake.system.rewrite_data_files('{s}.t', options => map('rewrite-all', 'true'))",
    ]
    if tags:
        choices.append(f"alter table {{s}}.t drop tag {chance.choice(tags)}")
    sick.project.rows(chance.choice(choices))


@pytest.mark.parametrize("seed", range(3))
def test_expiry_leaves_all_that_is_needed_and_nothing_else(sick: Sick, seed: int) -> None:
    """After anything that can become of a table: rollbacks and tags make no line of it."""
    least = f"'history.expire.min-snapshots-to-keep' = '{seed + 1}'"  # more of them leave a line
    sick.table(by="part", properties=f"{OLD}, {least}")
    sick.fill(files=2)
    chance = random.Random(seed)
    for _ in range(3):
        for _ in range(7):
            change_at_random(sick, chance)
        done = sick.run(policies={"t": AT_ONCE})
        assert {each.outcome for each in done} <= {DONE}, [each.said for each in done]
        left = {s["snapshot-id"] for s in sick.metadata()["snapshots"]}
        for version in left:
            sick.all(at=f"version as of {version}")
        check_no_orphans(sick)
