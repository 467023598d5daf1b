"""What a run does to real tables: files go, rows stay, and no writer loses work."""

from __future__ import annotations

import os
import shutil
import threading
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import DbtProject

from icegate.catalog import list_relations, local_path, read_metadata
from icegate.erasure.listed import Files
from icegate.errors import IcegateError, TableError
from icegate.gate.build import hold_alive
from icegate.gate.publish import in_a_gap
from icegate.gate.refs import head, open_branch, release
from icegate.gate.store import Step, StoredTable, move
from icegate.health.table import Health, look
from icegate.health.unreferenced import unreferenced
from icegate.maintenance import expiry
from icegate.maintenance.lake import plan_lake
from icegate.maintenance.plan import TablePlan
from icegate.maintenance.policy import Policy
from icegate.maintenance.run import BRANCH, DONE, FAILED, LEFT, Done, Run, Sql, check_rows, lease

pytestmark = pytest.mark.slow

MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read'"
SMALL = f"{MERGE_ON_READ}, 'read.split.open-file-cost' = '2000'"
EAGER = Policy(min_files=5, max_query_hours=0, min_snapshots=5)


class Sick:
    """A schema of tables that need maintenance, and runs of it."""

    def __init__(self, project: DbtProject) -> None:
        self.project, self.lake, self.schema = project, project.lake, project.schema
        project.rows("create schema {s}")

    def table(self, name: str = "t", properties: str = SMALL, by: str = "") -> None:
        split = f"partitioned by ({by})" if by else ""
        self.project.rows(
            f"create table {{s}}.{name} (id bigint, part int, name string) using iceberg {split}"
            f" tblproperties ({properties})"
        )

    def fill(self, name: str = "t", files: int = 8, rows: int = 100) -> None:
        for start in range(files):
            self.project.rows(
                f"insert into {{s}}.{name} select /*+ coalesce(1) */ id + {start * rows}, "
                f"cast(id % 2 as int), uuid() from range({rows})"
            )

    def plans(self, **policies: Policy) -> list[TablePlan]:
        entries = list_relations(self.lake, self.schema)
        chosen = [entry for entry in entries if entry.kind == "table"]
        given = {entry.full_name: policies.get(entry.name, EAGER) for entry in chosen}
        return plan_lake(self.lake, chosen, given, datetime.now(timezone.utc))

    def sql(self, text: str) -> list[Any]:
        return [row.asDict() for row in self.project.spark.sql(text).collect()]

    def run(
        self, sql: Sql | None = None, policies: dict[str, Policy] | None = None, **how: Any
    ) -> list[Done]:
        plans = self.plans(**(policies or {}))
        return [*Run(self.lake, sql or self.sql, **how).carry_out(plans)]

    def all(self, name: str = "t", at: str = "") -> list[Any]:
        rows = f"select count(*), sum(id), sum(xxhash64(*) % 100000) from {{s}}.{name} {at}"
        return self.project.rows(rows)

    def health(self, name: str = "t") -> Health:
        entry = next(e for e in list_relations(self.lake, self.schema) if e.name == name)
        return look(entry, datetime.now(timezone.utc), by_partition=True)

    def metadata(self, name: str = "t") -> dict[str, Any]:
        entry = next(e for e in list_relations(self.lake, self.schema) if e.name == name)
        return read_metadata(entry)


@pytest.fixture
def sick(project: DbtProject) -> Sick:
    return Sick(project)


def outcomes(done: list[Done]) -> list[tuple[str, str]]:
    return [(each.action.kind, each.outcome) for each in done]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("by", ["", "part", "bucket(2, id)"])
def test_small_files_and_deletes_go_and_rows_stay(sick: Sick, by: str, verify: bool) -> None:
    sick.table(by=by)
    sick.fill()
    sick.project.rows("delete from {s}.t where id % 3 = 0")
    rows, before = sick.all(), sick.health()
    done = sick.run(verify=verify)
    assert {each.outcome for each in done} == {DONE}, [each.said for each in done]
    after = sick.health()
    assert after.files and before.files and after.files.files < before.files.files
    assert after.files.deletes == after.files.dangling == 0 and after.counts
    assert sick.all() == rows
    assert [each.actions for each in sick.plans()] == [()]
    assert BRANCH not in sick.metadata()["refs"]


def test_vectors_of_format_3(sick: Sick) -> None:
    sick.table(properties=f"{SMALL}, 'format-version' = '3'")
    sick.fill()
    sick.project.rows("delete from {s}.t where id % 3 = 0")
    rows = sick.all()
    assert sick.run()[0].outcome == DONE
    files = sick.health().files
    assert files and files.files == 1 and files.deletes == files.dangling == 0
    assert sick.all() == rows


def test_only_the_partitions_that_pay(sick: Sick) -> None:
    sick.table(by="part")
    sick.fill()
    sick.project.rows("insert into {s}.t select id, 7, 'x' from range(100)")
    before = files_of(sick, "part = 7")
    (done,) = [each for each in sick.run() if each.action.partitions]
    assert sorted(done.action.partitions) == ["part=0", "part=1"]
    assert files_of(sick, "part = 7") == before
    assert len(files_of(sick, "part = 0")) == 1


def files_of(sick: Sick, where: str) -> set[str]:
    found = sick.project.rows(f"select distinct _file from {{s}}.t where {where}")
    return {row[0] for row in found}


def test_many_delete_files_of_few_rows(sick: Sick) -> None:
    sick.table(properties=f"{SMALL}, 'write.delete.granularity' = 'partition'")
    sick.project.rows("insert into {s}.t select /*+ coalesce(1) */ id, 1, uuid() from range(5000)")
    for id in range(14):
        sick.project.rows(f"delete from {{s}}.t where id = {id}")
    rows, data = sick.all(), files_of(sick, "true")
    assert outcomes(sick.run())[0] == ("rewrite_position_delete_files", DONE)
    files = sick.health().files
    assert files and files.delete_files == 1
    assert sick.all() == rows and files_of(sick, "true") == data


def test_delete_files_for_data_that_is_gone(sick: Sick) -> None:
    sick.table()
    sick.fill(files=3)
    sick.project.rows("delete from {s}.t where id % 3 = 0")
    sick.sql(
        f"call system.rewrite_data_files(table => '{sick.schema}.t', "
        "options => map('rewrite-all', 'true'))"
    )
    files, rows = sick.health().files, sick.all()
    assert files and files.dangling
    done = sick.run(policies={"t": Policy()})
    assert outcomes(done) == [("rewrite_position_delete_files", DONE)]
    files = sick.health().files
    assert files and files.dangling == 0 and sick.all() == rows


def check_no_orphans(sick: Sick, name: str = "t") -> None:
    """See that the table needs all files that there are, and that they are all there."""
    entry = next(e for e in list_relations(sick.lake, sick.schema) if e.name == name)
    found = Files(StoredTable(entry, read_metadata(entry)))
    missing = [path for path in found.paths if not local_path(path).exists()]
    orphans = unreferenced(entry, [entry], datetime.now(timezone.utc) + timedelta(days=1), 0)
    assert missing == [] and orphans.paths == ()


def on_disk(sick: Sick) -> set[str]:
    folder = local_path(sick.metadata()["location"])
    return {str(p) for p in folder.rglob("*") if p.suffix in (".parquet", ".puffin", ".avro")}


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("by", ["the procedure", "this process"])
def test_expiry_frees_files_and_keeps_what_is_tagged(
    sick: Sick, by: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "'history.expire.max-snapshot-age-ms' = '1'"
    sick.table(properties=f"{SMALL}, {old}, 'format-version' = '{version}'")
    sick.fill(files=4)
    sick.project.rows("alter table {s}.t create tag release_1")
    tagged = sick.all(at="version as of 'release_1'")
    sick.fill(files=4)
    sick.project.rows("delete from {s}.t where id = 7")
    assert outcomes(sick.run(policies={"t": Policy(min_files=5)})) == [("rewrite_data_files", DONE)]
    rows, before, asked = sick.all(), len(sick.metadata()["snapshots"]), []
    if by == "the procedure":
        monkeypatch.setattr(expiry, "MOST_FILES", 8)  # and one file of deletes goes, too

    def sql(text: str) -> Any:
        asked.append(text)
        return sick.sql(text)

    policies = {"t": Policy(max_query_hours=0, min_snapshots=2)}
    done = sick.run(sql, policies)
    assert outcomes(done) == [("expire_snapshots", DONE)]
    assert done[0].said == f"{before - 2} snapshots expired"
    assert bool(asked) == (by == "the procedure")
    assert sick.all(at="version as of 'release_1'") == tagged and sick.all() == rows
    assert len(sick.metadata()["snapshots"]) == 2
    check_no_orphans(sick)
    kept = [path for path in on_disk(sick) if path.endswith("parquet")]
    assert len(kept) == 4 + 1  # what is tagged, and what was compacted


def test_manifests_are_written_together(sick: Sick) -> None:
    manual = "'commit.manifest-merge.enabled' = 'false'"
    sick.table(properties=f"{SMALL}, {manual}")
    sick.fill(files=40, rows=1)
    before = sick.health().around
    done = sick.run(policies={"t": Policy(min_files=1000)})
    assert outcomes(done) == [("rewrite_manifests", DONE)]
    after = sick.health().around
    assert before and after and before.manifests == 40 and after.manifests == 1


def test_a_verified_compaction_that_loses_a_row_is_not_published(sick: Sick) -> None:
    sick.table()
    sick.fill()
    rows, main = sick.all(), sick.metadata()["current-snapshot-id"]

    def loses(text: str) -> list[Any]:
        found = sick.sql(text)
        if "rewrite_data_files" in text:
            sick.sql(f"delete from {sick.schema}.t.branch_{BRANCH} where id = 1")
        return found

    (done,) = sick.run(loses, verify=True)
    assert done.outcome == FAILED and "its rows would change" in done.said
    assert "there were 800 rows, and on its branch are 799" in done.said
    assert sick.all() == rows and sick.metadata()["current-snapshot-id"] == main
    assert sick.run(verify=True)[0].outcome == DONE  # what was left there is no hindrance
    assert sick.all() == rows


def test_a_verified_compaction_gives_way_to_a_writer(sick: Sick) -> None:
    sick.table()
    sick.fill()

    def met(text: str) -> list[Any]:
        found = sick.sql(text)
        if "rewrite_data_files" in text:
            sick.sql(f"insert into {sick.schema}.t values (-1, 0, 'new')")
        return found

    (done,) = sick.run(met, verify=True)
    assert done.outcome == LEFT and "someone wrote to it meanwhile" in done.said
    assert BRANCH not in sick.metadata()["refs"]
    assert sick.all()[0][0] == 801


def test_appends_go_on_while_it_compacts(sick: Sick) -> None:
    sick.table()
    sick.fill(files=20)
    stop, added = threading.Event(), []

    def stream() -> None:
        while not stop.is_set():
            sick.sql(f"insert into {sick.schema}.t values (-1, 0, 'new')")
            added.append(1)

    writer = threading.Thread(target=stream)
    writer.start()
    try:
        done = [each for _ in range(3) for each in sick.run()]
    finally:
        stop.set()
        writer.join()
    assert done and {each.outcome for each in done} <= {DONE, LEFT}
    assert any(each.outcome == DONE for each in done)
    assert sick.all()[0][0] == 2000 + len(added) and added


def test_a_release_in_the_middle_loses_no_row_and_no_compaction(sick: Sick) -> None:
    gated = "'write.wap.enabled' = 'true', 'write.distribution-mode' = 'none'"
    sick.table(properties=f"{SMALL}, {gated}, 'write.spark.fanout.enabled' = 'true'", by="part")
    rows = "select id, cast(id % 40 as int), 'a' from range(0, 800, 1, 3)"
    sick.project.rows(f"insert into {{s}}.t {rows}")
    main = sick.metadata()["current-snapshot-id"]
    sick.project.rows("alter table {s}.t create branch build_one")
    sick.project.rows("insert into {s}.t.branch_build_one values (-1, 0, 'new')")
    done: list[Done] = []
    compacting = threading.Thread(target=lambda: done.extend(sick.run()))
    compacting.start()
    while not done and sick.metadata()["current-snapshot-id"] == main:
        pass  # until the first groups are committed
    in_a_gap(sick.lake, "publish", lambda: move(sick.lake, [released(sick)]))
    compacting.join()
    assert {each.outcome for each in done} == {DONE}, done
    assert sick.all()[0][0] == 801 and "release_1" in sick.metadata()["refs"]
    assert [each.outcome for each in sick.run()] in ([], [DONE])
    assert sick.all()[0][0] == 801


def released(sick: Sick) -> Step:
    stored = stored_table(sick)
    at = head(stored.metadata, "build_one")
    assert at is not None
    return stored.write(release(stored.metadata, at, 1))


def test_a_build_that_begins_meanwhile_is_left_alone(sick: Sick) -> None:
    sick.table()
    sick.fill()
    plans = sick.plans()
    stored = stored_table(sick)
    move(sick.lake, [stored.write(open_branch(stored.metadata, "build_nightly"))])
    with hold_alive(sick.lake, "nightly"):
        (done,) = Run(sick.lake, sick.sql).carry_out(plans)
    assert (done.outcome, done.said) == (LEFT, "build nightly is writing it")
    assert sick.run()[0].outcome == DONE


def stored_table(sick: Sick) -> StoredTable:
    (entry,) = list_relations(sick.lake, sick.schema)
    return StoredTable(entry, read_metadata(entry))


def test_an_unreadable_file_is_told_and_the_others_go_on(sick: Sick) -> None:
    for name in ("broken", "well"):
        sick.table(name)
        sick.fill(name)
    gone = next(iter(sick.project.rows("select file_path from {s}.broken.files")))[0]
    local_path(gone).unlink()
    done = {each.action.table.split(".")[1]: each for each in sick.run()}
    assert done["broken"].outcome == FAILED and done["well"].outcome == DONE
    assert local_path(gone).name in done["broken"].said, done["broken"].said


def test_no_space(sick: Sick, monkeypatch: pytest.MonkeyPatch) -> None:
    sick.table()
    sick.fill()
    main = sick.metadata()["current-snapshot-id"]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    (done,) = sick.run()
    assert done.outcome == FAILED and "1,000 bytes are free" in done.said
    assert sick.metadata()["current-snapshot-id"] == main


def test_budget_of_a_run(sick: Sick) -> None:
    for name in ("one", "two"):
        sick.table(name)
        sick.fill(name)
    nothing = sick.run(max_gb=0.000001)
    assert {each.said for each in nothing} == {"it would be more than 1e-06 GiB in this run"}
    done = sick.run(max_minutes=0)
    assert {(each.outcome, each.said) for each in done} == {(LEFT, "its 0 minutes are over")}
    short = sick.run(policies={"one": Policy(min_files=5, max_minutes=1e-9)})
    assert sorted(each.outcome for each in short) == [DONE, LEFT]


def test_it_goes_on_where_it_was_interrupted(sick: Sick) -> None:
    apart = "'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true'"
    sick.table(by="part", properties=f"{SMALL}, {apart}")
    sick.project.rows(
        "insert into {s}.t select id, cast(id % 60 as int), 'a' from range(0, 600, 1, 3)"
    )
    rows = sick.all()
    steps = Run(sick.lake, sick.sql).carry_out(sick.plans())
    assert next(steps).outcome == DONE
    steps.close()
    (rest,) = sick.plans()
    assert len(rest.actions[0].partitions) == 10
    assert sick.run()[0].outcome == DONE
    assert sick.all() == rows
    assert [each.actions for each in sick.plans()] == [()]


def test_one_at_a_time(sick: Sick) -> None:
    again = lease(sick.lake)
    with lease(sick.lake), pytest.raises(IcegateError, match="another process does"):
        again.__enter__()


@pytest.mark.parametrize("totals", [{"records": 90}, {"records": 110}, {"records": 99}])
def test_rows_are_counted_by_the_commits_totals(totals: dict[str, int]) -> None:
    before, after = history_of({"records": 100}, totals)
    with pytest.raises(TableError, match="rollback_to_snapshot"):
        check_rows(before, after, "s.t")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"records": 100}, {"records": 100}),
        ({"records": 100, "position-deletes": 10}, {"records": 90}),
        ({"records": 100, "position-deletes": 10}, {"records": 95}),  # rows deleted twice
        ({"records": 100, "equality-deletes": 1}, {"records": 20}),
        ({}, {"records": 20}),
    ],
)
def test_what_totals_allow(old: dict[str, int], new: dict[str, int]) -> None:
    check_rows(*history_of(old, new), "s.t")


def history_of(old: dict[str, int], new: dict[str, int]) -> tuple[Any, Any]:
    def summary(operation: str, totals: dict[str, int]) -> dict[str, str]:
        told = {f"total-{name}": str(value) for name, value in totals.items()}
        return {"operation": operation, **told}

    first = {"snapshot-id": 1, "summary": summary("append", old)}
    second = {"snapshot-id": 2, "parent-snapshot-id": 1, "summary": summary("replace", new)}
    before = {"snapshots": [first], "current-snapshot-id": 1}
    return before, {"snapshots": [first, second], "current-snapshot-id": 2}


def test_files_that_nothing_refers_to_go_in_two_steps(own_project: DbtProject) -> None:
    sick = Sick(own_project)
    sick.table()
    sick.fill(files=2)
    location = sick.metadata()["location"]
    folder = local_path(location) / "data"
    stray, late = folder / "it's stray.parquet", folder / "late.parquet"
    now = datetime.now(timezone.utc) - timedelta(days=10)
    stray.write_bytes(b"x")
    os.utime(stray, (now.timestamp(), now.timestamp()))

    def run(days: float) -> list[TablePlan]:
        entries = list_relations(sick.lake, sick.schema)
        at = now + timedelta(days=days)
        plans = plan_lake(sick.lake, entries, {}, at, orphans=True, keep=True)
        done = [*Run(sick.lake, sick.sql).carry_out(plans)]
        assert all(each.outcome == DONE for each in done), [each.said for each in done]
        return plans

    files = {*folder.iterdir()}
    assert run(0)[0].left == ()  # too young to tell
    (said,) = run(4)[0].left
    assert said.startswith("1 file that nothing refers to: listed") and stray.exists()
    late.write_bytes(b"x")
    os.utime(late, (now.timestamp(), now.timestamp()))
    assert run(4.5)[0].actions == () and stray.exists()
    (plan,) = run(5.1)
    assert [action.files for action in plan.actions] == [(f"{location}/data/{stray.name}",)]
    assert not stray.exists() and late.exists()
    assert {*folder.iterdir()} == {file for file in files if "stray" not in file.name} | {late}
    assert sick.all()[0][0] == 200


@pytest.mark.parametrize(("before", "after"), [("", "part"), ("part", "bucket(2, id)")])
def test_files_of_an_earlier_partitioning_go_into_todays(
    sick: Sick, before: str, after: str
) -> None:
    sick.table(by=before)
    sick.fill(files=3)
    if before:
        sick.project.rows(f"alter table {{s}}.t drop partition field {before}")
    sick.project.rows(f"alter table {{s}}.t add partition field {after}")
    sick.fill(files=1)
    rows, policy = sick.all(), Policy(old_partitions_max_gb=1)
    today = sick.metadata()["default-spec-id"]
    assert {part.files.spec_id for part in sick.health().partitions if part.files} > {today}
    (done,) = sick.run(policies={"t": policy}, verify=True)
    assert done.outcome == DONE, done.said
    assert {part.files.spec_id for part in sick.health().partitions if part.files} == {today}
    assert sick.all() == rows
    assert sick.run(policies={"t": policy}) == []
