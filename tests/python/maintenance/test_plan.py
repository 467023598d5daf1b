"""What is planned for tables of many kinds, by their metadata."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from health.tables import NOW, Made, append, write
from pyiceberg.transforms import BucketTransform
from shop import lake_of, make_project

from icegate.catalog import list_relations, local_path, read_metadata
from icegate.gate.build import hold_alive
from icegate.gate.refs import open_branch, without_refs
from icegate.gate.store import StoredTable, move, write_new
from icegate.maintenance.action import COMPACT, EXPIRE, MANIFESTS, Action
from icegate.maintenance.lake import plan_lake
from icegate.maintenance.plan import KEPT, S3_TABLES, Around, TablePlan, plan
from icegate.maintenance.policy import Policy

OLD = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(lake_of(make_project(tmp_path / "a b")))


def planned(made: Made, name: str = "t", hours_on: float = 0, **policy: Any) -> TablePlan:
    entry, now = made.entry(name), later(hours=hours_on, seconds=1)
    return plan(entry, read_metadata(entry), Policy(**policy), now, Around())


def later(**how_long: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(**how_long)


def only(found: TablePlan) -> Action:
    assert not found.left and not found.refused
    (action,) = found.actions
    return action


def test_compaction_begins_at_min_files(made: Made) -> None:
    table = made.table()
    write(table, *[1.0] * 99)
    assert planned(made).actions == ()
    write(table, 1.0)
    action = only(planned(made))
    assert action.kind == COMPACT and action.why == "100 small files where 1 would do"
    assert action.rewrites == 100 * 2**20 and action.saves == 99 * 4 * 2**20
    assert action.where == "" and action.options["remove-dangling-deletes"] == "true"


def test_files_of_the_right_size_are_left(made: Made) -> None:
    write(made.table(), *[400.0] * 200)
    assert planned(made).actions == ()
    assert only(planned(made, target_file_mb=1024)).kind == COMPACT


def test_a_table_within_its_limits_is_judged_by_its_totals(made: Made) -> None:
    table = made.table()
    write(table, *[1.0] * 20)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    before = planned(made)
    for manifest in snapshot.manifests(table.io):
        local_path(manifest.manifest_path).unlink()
    assert planned(made) == before


def test_partitions_of_few_files_count_together(made: Made) -> None:
    table = made.table(days=True)
    for day in range(60):
        write(table, 1.0, 1.0, 1.0, day=f"d{day}")
    one, two = planned(made).actions
    assert len(one.partitions) == 50 and len(two.partitions) == 10
    assert "(`day` = 'd0')" in one.where + two.where and " or " in one.where
    assert [action.kind for action in planned(made, min_files=121).actions] == [MANIFESTS]


def test_only_partitions_that_are_due(made: Made) -> None:
    table = made.table(days=True)
    write(table, *[1.0] * 20, day="bad")
    write(table, 500.0, 500.0, day="good")
    action = only(planned(made, min_files=20))
    assert action.partitions == ("day=bad",) and action.where == "(`day` = 'bad')"
    narrowed = only(planned(made, min_files=20, where="id > 0"))
    assert narrowed.where == "(id > 0) and ((`day` = 'bad'))"


def test_a_partition_is_closed_when_nobody_wrote_to_it(made: Made) -> None:
    write(made.table(days=True), *[1.0] * 20, day="a")
    closed = {"scope": "closed_partitions", "min_files": 10}
    found = planned(made, **closed)
    assert found.actions == ()
    assert found.left == ("1 partition written to less than 1 hours ago",)
    assert only(planned(made, hours_on=2, **closed)).kind == COMPACT


def test_few_small_files_grow_old(made: Made) -> None:
    write(made.table(), 1.0, 1.0)
    assert planned(made, hours_on=5, max_age_hours=6).actions == ()
    action = only(planned(made, hours_on=7, max_age_hours=6))
    assert action.why == "2 small files where 1 would do, for 7 hours"
    assert planned(made, hours_on=7).actions == ()


def test_budget_takes_what_pays_most(made: Made) -> None:
    table = made.table(days=True)
    write(table, *[300.0] * 20, day="heavy")
    write(table, *[1.0] * 20, day="light")
    found = planned(made, min_files=20, max_gb=1)
    assert [action.partitions for action in found.actions] == [("day=light",)]
    assert found.left == ("1 partition: more than 1 GiB in one run",)


def test_manifests_that_are_gone_are_said(made: Made) -> None:
    write(made.table(), *[1.0] * 100)
    for snapshot in read_metadata(made.entry())["snapshots"]:
        local_path(snapshot["manifest-list"]).unlink()
    (said,) = planned(made, max_age_hours=1).refused
    assert said.startswith("it can't be read: a manifest of its snapshot")


def test_manifests(made: Made) -> None:
    table = made.table()
    for _ in range(40):
        write(table, 600.0)
    action = only(planned(made))
    assert action.kind == MANIFESTS and "manifests" in action.why
    assert action.call() == "call system.rewrite_manifests(table => '`s`.`t`')"


def test_snapshots_expire_when_it_pays_and_no_query_needs_them(made: Made) -> None:
    table = made.table(**OLD)
    for _ in range(11):
        write(table, 1.0)
    assert planned(made).actions == ()  # younger than any query may be
    assert planned(made, max_query_hours=0, min_snapshots=11).actions == ()
    action = only(planned(made, max_query_hours=0))
    assert action.kind == EXPIRE and action.why == "10 snapshots can go, 1 left"
    assert "retain_last => 1" in action.call() and "older_than => timestamp '" in action.call()
    assert only(planned(made, hours_on=25)).kind == EXPIRE


def test_what_has_to_stay_is_not_expired(made: Made) -> None:
    table = made.table(**OLD)
    for _ in range(11):
        write(table, 1.0)
    first = table.snapshots()[0].snapshot_id
    # Millions of milliseconds would be days: a tag that has grown too old at once.
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "month_end_2026_10", max_ref_age_ms=1)
    assert only(planned(made, max_query_hours=0)).kind == EXPIRE
    refused = planned(made, max_query_hours=0, protect=["month_end_*"])
    assert refused.actions == () and "would drop month_end_2026_10" in refused.refused[0]


def test_the_newest_batch_of_a_stream_is_not_forgotten(made: Made) -> None:
    table = made.table(**OLD)
    sign = {"icegate.stream": "sales", "icegate.batch": "a1b2:7"}
    with table.transaction() as txn, txn.update_snapshot(sign).fast_append():
        pass  # its files don't matter
    for _ in range(11):
        write(table, 1.0)
    assert "newest batch of the stream sales" in planned(made, max_query_hours=0).left[0]
    with table.transaction() as txn:
        txn.set_properties({"icegate.stream.sales": "a1b2:7"})
    assert only(planned(made, max_query_hours=0)).kind == EXPIRE


@pytest.mark.parametrize("name", ["release_1", "build_nightly"])
def test_releases_and_open_builds_are_protected_by_themselves(made: Made, name: str) -> None:
    table = made.table(**OLD, **{"history.expire.max-ref-age-ms": "1"})
    for _ in range(11):
        write(table, 1.0)
    first = table.snapshots()[0].snapshot_id
    with table.manage_snapshots() as manage:
        (manage.create_tag if name == "release_1" else manage.create_branch)(first, name)
    assert name in planned(made, max_query_hours=0).refused[0]


def test_a_table_that_is_being_built_is_left(made: Made) -> None:
    write(made.table(), *[1.0] * 100)
    entry = made.entry()
    stored = StoredTable(entry, read_metadata(entry))
    move(made.lake, [stored.write(open_branch(stored.metadata, "build_nightly"))])
    entries = list_relations(made.lake)
    with hold_alive(made.lake, "nightly"):
        (found,) = plan_lake(made.lake, entries, {}, NOW)
    assert found.actions == () and found.left == ("build nightly is writing it",)
    (found,) = plan_lake(made.lake, entries, {}, NOW)
    assert only(found).kind == COMPACT


def test_files_that_another_table_shares_are_kept(made: Made) -> None:
    table = made.table(**OLD)
    for _ in range(11):
        write(table, 1.0)
    metadata = read_metadata(made.entry())
    move(made.lake, [write_new("s", "copy", without_refs(metadata, ["none"]))])
    policies = {"s.t": Policy(max_query_hours=0), "s.copy": Policy(enabled=False)}
    plans = plan_lake(made.lake, list_relations(made.lake), policies, later(seconds=1))
    found = next(each for each in plans if each.table == "s.t")
    assert found.actions == () and found.left == ("snapshots: s.copy may need their files",)


def test_files_that_the_table_itself_keeps(made: Made) -> None:
    table = made.table(**OLD, **{"gc.enabled": "false"})
    for _ in range(11):
        write(table, 1.0)
    (local_path(table.location()) / "metadata" / "stray.avro").write_text("nobody's")
    policies = {"s.t": Policy(max_query_hours=0)}
    (found,) = plan_lake(made.lake, list_relations(made.lake), policies, later(days=9), True)
    assert found.actions == () and found.left == (KEPT,)


def test_a_service_does_its_part(made: Made) -> None:
    write(made.table(), *[1.0] * 100)
    found = planned(made, service="glue")
    assert found.actions == () and "AWS Glue's optimizers" in found.left[0]
    entry = made.entry()
    there = {**read_metadata(entry), "location": "s3://ab12--table-s3/x"}
    (said,) = plan(entry, there, Policy(), NOW, Around()).left
    assert said.startswith("S3 Tables compacts")


@pytest.mark.parametrize(("ending", "is_listed"), [(S3_TABLES, True), ("", False)])
def test_files_in_a_bucket_that_s3_tables_cleans(
    made: Made, monkeypatch: pytest.MonkeyPatch, ending: str, is_listed: bool
) -> None:
    monkeypatch.setattr("icegate.maintenance.plan.S3_TABLES", ending)
    table = made.table()
    append(table, "a")
    (local_path(table.location()) / "metadata" / "stray.avro").write_text("nobody's")
    (found,) = plan_lake(made.lake, list_relations(made.lake), {}, later(days=9), orphans=True)
    assert bool(found.left) is is_listed and found.actions == ()


def test_what_is_off_is_off(made: Made) -> None:
    write(made.table(), *[1.0] * 100)
    made.table("empty")
    assert planned(made, enabled=False).actions == ()
    assert planned(made, "empty").actions == ()


def test_tables_come_in_the_order_in_which_they_pay(made: Made) -> None:
    write(made.table("heavy"), *[300.0] * 100)
    write(made.table("light"), *[1.0] * 100)
    manifests = made.table("manifests")
    for _ in range(40):
        write(manifests, 600.0)
    append(made.table("well"), "a")
    plans = plan_lake(made.lake, list_relations(made.lake), {}, NOW)
    assert [each.table for each in plans if each.actions] == ["s.manifests", "s.light", "s.heavy"]


def test_a_broken_table_stands_beside_the_others(made: Made) -> None:
    write(made.table("broken"), *[1.0] * 100)
    write(made.table("sick"), *[1.0] * 100)
    made.entry("broken").metadata_file.unlink()
    plans = plan_lake(made.lake, list_relations(made.lake), {}, NOW)
    by_name = {each.table: each for each in plans}
    assert "isn't there" in by_name["s.broken"].refused[0]
    assert only(by_name["s.sick"]).kind == COMPACT


def test_an_order_goes_into_the_call(made: Made) -> None:
    write(made.table(), *[1.0] * 100)
    call = only(planned(made, strategy="zorder", sort_by=["id", "day"])).call()
    assert "strategy => 'sort'" in call and "sort_order => 'zorder(`id`, `day`)'" in call
    call = only(planned(made, strategy="sort", sort_by=["id desc"])).call()
    assert "sort_order => 'id desc'" in call
    assert "sort_order" not in only(planned(made, strategy="sort")).call()


def test_files_of_an_earlier_partitioning_are_moved_within_their_budget(made: Made) -> None:
    table = made.table(days=True)
    for day in ("a", "b", "c"):
        write(table, 600.0, day=day)  # of the right size: nothing else would touch them
    with table.update_spec() as spec:
        spec.remove_field("day").add_field("id", BucketTransform(4), "bucket")
    assert planned(made).actions == ()
    found = planned(made, old_partitions_max_gb=1.5)
    (action,) = found.actions
    assert (action.kind, action.rewrites) == (COMPACT, 1200 * 2**20)
    assert action.options["rewrite-all"] == "true" and action.where.count("`day` = ") == 2
    assert action.why.endswith("1 file of an earlier partitioning")
    left = "1 partition of an earlier partitioning: more than 1.5 GiB in one run"
    assert found.left == (left,)


def test_what_had_no_partitions_is_moved_as_a_whole_or_not_at_all(made: Made) -> None:
    table = made.table()
    write(table, 600.0, 600.0)
    with table.update_spec() as spec:
        spec.add_identity("day")
    write(table, 600.0, day="a")
    action = only(planned(made, old_partitions_max_gb=2))
    assert (action.where, action.rewrites) == ("", 1800 * 2**20)  # no SQL leaves the new file out
    assert planned(made, old_partitions_max_gb=1.5).actions == ()
