"""What a person does with builds and releases, on real tables that PyIceberg wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from released import (
    FIRST,
    SECOND,
    THIRD,
    add,
    change,
    end,
    ids,
    make,
    metadata,
    pointers,
    said,
    say,
    two_releases,
)

from icegate.catalog import list_namespaces, list_relations, open_catalog
from icegate.catalogs.rest_moves import MARK
from icegate.errors import ConfigError, GateError, IcegateError
from icegate.gate import refs, releases, rollback
from icegate.gate.build import hold_alive
from icegate.gate.compare import diff, plan
from icegate.gate.history import DAY_MS
from icegate.gate.ledger import last_release, read_events, read_release_tables
from icegate.gate.store import Step, StoredTable, make_namespace, move
from icegate.settings import Lake


@pytest.fixture
def empty(tmp_path: Path, new_catalog: Callable[[], dict[str, Any]]) -> Lake:
    home = tmp_path / "a home"
    home.mkdir()
    return Lake(home=home, warehouse=home / "warehouse", **new_catalog())


@pytest.fixture
def lake(empty: Lake) -> Lake:
    two_releases(empty)
    return empty


def back(lake: Lake, number: int, *tables: str, dry_run: bool = False) -> Any:
    return rollback.rollback(lake, number, tables, "local", dry_run=dry_run)


def forget_snapshot(lake: Lake, name: str, release: int) -> None:
    """Let the snapshot of a release expire, with its tag."""
    tag = refs.tag_of(release)

    def without(old: refs.Metadata) -> refs.Metadata:
        gone = refs.head(old, tag)
        kept = [s for s in old["snapshots"] if s["snapshot-id"] != gone]
        log = [entry for entry in old["snapshot-log"] if entry["snapshot-id"] != gone]
        return {**refs.without_refs(old, [tag]), "snapshots": kept, "snapshot-log": log}

    change(lake, name, without)


# rollback


def test_rollback_is_a_release_of_its_own(lake: Lake) -> None:
    release, moved = back(lake, 1)
    assert release == 3 and [(row["table"], row["rows"]) for row in moved] == [
        ("s.a", -1),
        ("s.b", -1),
    ]
    assert ids(lake, "s.a") == ids(lake, "s.b") == ids(lake, "s.a", "release_3") == [0, 1]
    assert ids(lake, "s.a", "release_2") == [0, 1, 2]
    assert last_release(lake) == 3 and said(lake)[-1] == "rolled_back"
    rows = {row.table_name: row for row in read_release_tables(lake, 3)}
    assert {n: (row.moved, row.snapshot_id) for n, row in rows.items()} == {
        row.table_name: (True, row.snapshot_id) for row in read_release_tables(lake, 1)
    }
    assert rows["s.a"].previous_snapshot_id == read_release_tables(lake, 2)[0].snapshot_id
    assert back(lake, 2)[0] == 4
    assert ids(lake, "s.a") == [0, 1, 2]


def test_rollback_of_one_table(lake: Lake) -> None:
    assert [row["table"] for row in back(lake, 1, "lake.s.b")[1]] == ["s.b"]
    assert (ids(lake, "s.a"), ids(lake, "s.b")) == ([0, 1, 2], [0, 1])
    assert [row.moved for row in read_release_tables(lake, 3)] == [False, True]
    assert "release_3" not in metadata(lake, "s.a")["refs"]


def test_a_dry_run_and_a_rollback_to_what_is_there_move_nothing(lake: Lake) -> None:
    before, events = pointers(lake), said(lake)
    assert len(back(lake, 1, dry_run=True)[1]) == 2
    assert back(lake, 2) == (None, [])
    assert (pointers(lake), said(lake)) == (before, events)


def test_rollback_over_a_column_that_got_another_type(lake: Lake) -> None:
    table = open_catalog(lake).load_table("s.b")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("amount")
    from pyiceberg.types import LongType

    with table.update_schema() as update:
        update.add_column("amount", LongType())
    now = open_catalog(lake).load_table("s.b")
    assert set(now.scan().to_arrow()["amount"].to_pylist()) == {None}
    back(lake, 2, "s.b")
    now = open_catalog(lake).load_table("s.b")
    assert sorted(now.scan().to_arrow()["amount"].to_pylist()) == ["0", "1", "2"]
    assert len(metadata(lake, "s.b")["schemas"]) == 3


def test_rollback_to_before_the_first_rows(empty: Lake) -> None:
    make(empty, "s.a", "s.b")
    add(empty, "s.a", 0)
    add(empty, "s.a", 1, build=FIRST)
    end(empty, FIRST, a="pass")
    add(empty, "s.b", 5)
    assert back(empty, 1)[0] == 2
    assert (ids(empty, "s.a"), ids(empty, "s.b")) == ([0, 1], [])
    assert open_catalog(empty).load_table("s.b").scan().to_arrow().num_rows == 0


def test_a_table_that_is_newer_than_the_release_stays(lake: Lake) -> None:
    make(lake, "s.c")
    add(lake, "s.c", 7)
    back(lake, 1)
    assert ids(lake, "s.c") == [7]
    assert [row.table_name for row in read_release_tables(lake, 3)] == ["s.a", "s.b", "s.c"]


@pytest.mark.parametrize("how", ["expired", "dropped", "replaced"])
def test_rollback_moves_nothing_unless_it_can_move_all(lake: Lake, how: str) -> None:
    if how == "expired":
        forget_snapshot(lake, "s.b", 1)
    else:
        open_catalog(lake).drop_table("s.b")
        if how == "replaced":
            make(lake, "s.b")
    before = pointers(lake)
    why = "the table is gone" if how == "dropped" else "has expired, or the table was replaced"
    for dry_run in (True, False):
        with pytest.raises(GateError, match=f"nothing was moved\n.*s.b: .*{why}"):
            back(lake, 1, dry_run=dry_run)
    assert pointers(lake) == before
    assert [row["table"] for row in back(lake, 1, "s.a")[1]] == ["s.a"]


@pytest.mark.own_files
def test_rollback_keeps_what_only_a_newer_format_knows(lake: Lake) -> None:
    change(lake, "s.b", lambda old: {**old, "format-version": 3, "next-row-id": 9, "later": [1]})
    back(lake, 1, "s.b")
    found = metadata(lake, "s.b")
    assert (found["format-version"], found["next-row-id"], found["later"]) == (3, 9, [1])
    assert found["current-snapshot-id"] == refs.head(found, "release_3")
    assert found["snapshot-log"][-1]["snapshot-id"] == found["current-snapshot-id"]


def test_a_build_that_was_held_back_cannot_overwrite_a_rollback(lake: Lake) -> None:
    back(lake, 1)
    outcome = releases.publish(lake, THIRD, "local", {}, ["not_null_a"], "known")
    assert list(outcome.blocked) == ["s.a"] and ids(lake, "s.a") == [0, 1]


# publish


def test_publish_ships_in_spite_of_a_named_test(lake: Lake) -> None:
    outcome = releases.publish(lake, THIRD, "local", {}, ["not_null_a"], "a known gap")
    assert (outcome.release, outcome.published, outcome.accepted) == (3, ["s.a"], ["not_null_a"])
    assert ids(lake, "s.a") == [0, 1, 2, 3, 4]
    (event,) = [e for e in read_events(lake, THIRD) if e.event == "published"]
    assert event.reason == "a known gap" and "not_null_a" in (event.detail or "")
    assert releases.open_builds(lake) == []


def test_publish_without_accepting_keeps_it_back(lake: Lake) -> None:
    assert releases.publish(lake, THIRD, "local", {}, [], "").held[0].verdict.table == "s.a"
    assert ids(lake, "s.a") == [0, 1, 2]


@pytest.mark.parametrize(("scope", "moved"), [("table", ["s.b"]), ("run", [])])
def test_publish_has_the_scope_of_the_target(empty: Lake, scope: str, moved: list[str]) -> None:
    make(empty, "s.a", "s.b")
    for name in ("s.a", "s.b"):
        add(empty, name, 0)
        add(empty, name, 1, build="nightly")
    say(empty, "nightly", a="fail")
    say(empty, "nightly", b="pass")
    keys = {"gate_scope": scope}
    planned = plan(empty, None, "local", keys)[1]
    assert [row["table"] for row in planned if row["result"] == "published"] == moved
    assert releases.publish(empty, "nightly", "local", keys, [], "").published == moved


def test_a_named_build_waits_until_a_person_publishes_all_of_it(empty: Lake) -> None:
    make(empty, "s.a", "s.b")
    for name in ("s.a", "s.b"):
        add(empty, name, 0)
        add(empty, name, 1, build="nightly")
    say(empty, "nightly", a="pass")
    with pytest.raises(GateError, match="half built: what wrote s.b never came to its end"):
        releases.publish(empty, "nightly", "local", {}, [], "")
    say(empty, "nightly", b="pass")
    with hold_alive(empty, "nightly"), pytest.raises(GateError, match="a process of it is running"):
        releases.publish(empty, "nightly", "local", {}, [], "")
    assert said(empty) == ["built", "built"]
    assert releases.publish(empty, "nightly", "local", {}, [], "").published == ["s.a", "s.b"]


def test_what_cannot_be_accepted_or_published(lake: Lake) -> None:
    before, events = pointers(lake), said(lake)
    with pytest.raises(ConfigError, match="those that failed are: not_null_a\n.*mean 'not_null_a'"):
        releases.publish(lake, THIRD, "local", {}, ["not_null_b"], "why not")
    with pytest.raises(GateError, match="nothing of it waits: it was published"):
        releases.publish(lake, "2", "local", {}, [], "")
    for name, why in {"9": "the last release is 2", "nigthly": "no release or branch"}.items():
        with pytest.raises(ConfigError, match=f"cannot find .*{name}.*\n.*{why}"):
            releases.publish(lake, name, "local", {}, [], "")
    for name in ("Nightly", "a b", "a__b", "../x", "x" * 61, ""):
        with pytest.raises(ConfigError, match="cannot name a release"):
            releases.find(lake, name)
    assert (pointers(lake), said(lake)) == (before, events)


# reject and recover


def test_reject_drops_a_build_from_all_its_tables(lake: Lake) -> None:
    add(lake, "s.a", 5, build="nightly")
    add(lake, "s.b", 5, build="nightly")
    say(lake, "nightly", a="pass", b="pass")
    assert releases.reject(lake, "nightly", "local", "a wrong day").tables == ["s.a", "s.b"]
    assert [build.name for build in releases.open_builds(lake)] == [THIRD]
    event = read_events(lake, "nightly")[-1]
    assert (event.event, event.reason, event.target) == ("rejected", "a wrong day", "local")
    with pytest.raises(GateError, match="nothing of it waits"):
        releases.reject(lake, "nightly", "local", "")
    with hold_alive(lake, THIRD), pytest.raises(GateError, match="a process of it is running"):
        releases.reject(lake, THIRD, "local", "")
    assert ids(lake, "s.a") == [0, 1, 2]


def test_recover_drops_what_crashed_and_nothing_else(lake: Lake) -> None:
    for build in ("dddddddd", "eeeeeeee", "nightly"):
        add(lake, "s.b", 5, build=build)
    location = metadata(lake, "s.b")["location"]
    file = next(Path(location.removeprefix("file://")).glob("metadata/00000*"))
    make_namespace(lake, "icegate_staging")
    move(lake, [Step("icegate_staging", "s__c__dddddddd", None, f"file:{file}")])
    with hold_alive(lake, "eeeeeeee"):
        states = {build.name: build.state for build in releases.open_builds(lake)}
        assert states == {
            "dddddddd": "crashed", "eeeeeeee": "running", "nightly": "open", THIRD: "held back",
        }  # fmt: skip
        (dropped,) = releases.recover(lake, "local")
        assert dropped.tables == ["s.b", "icegate_staging.s__c__dddddddd"]
        assert releases.recover(lake, "local") == []
    assert set(refs.builds(metadata(lake, "s.b"))) == {"eeeeeeee", "nightly"}
    assert list_relations(lake, "icegate_staging") == []
    assert [e.event for e in read_events(lake, "dddddddd")] == ["rejected"]


def test_someone_who_writes_meanwhile_loses_nothing(lake: Lake) -> None:
    branch, attempts = f"build_{THIRD}", []

    def plan(tables: dict[str, StoredTable]) -> releases.Edits:
        attempts.append(add(lake, "s.a", 9) if len(attempts) == 1 else 0)  # after a first look
        edited = {n: refs.without_refs(table.metadata, [branch]) for n, table in tables.items()}
        return releases.Edits(edited, [releases.event("rejected", THIRD, "local", "reject")])

    releases.apply(lake, plan)
    assert len(attempts) == 3 and said(lake).count("rejected") == 1
    assert ids(lake, "s.a") == [0, 1, 2, 9] and refs.builds(metadata(lake, "s.a")) == []


def test_tags_tell_the_releases_of_snapshots_that_are_not_signed(lake: Lake) -> None:
    def of(metadata: refs.Metadata) -> list[str | None]:
        return [s["summary"].get(refs.RELEASE_STAMP) for s in metadata["snapshots"]]

    found = metadata(lake, "s.a")
    bare = [
        {**s, "summary": {k: v for k, v in s["summary"].items() if k != refs.RELEASE_STAMP}}
        for s in found["snapshots"]
    ]
    assert of(refs.with_releases({**found, "snapshots": bare})) == [None, "1", "2", None]
    assert of(refs.with_releases(found)) == [None, "1", "2", None]
    assert refs.with_releases({}) == {"snapshots": []}


# expire


@pytest.mark.own_files
def test_expire_keeps_the_last_the_young_and_what_they_need(empty: Lake) -> None:
    make(empty, "s.a", "s.b")
    add(empty, "s.b", 0)
    add(empty, "s.b", 1, build=FIRST)
    end(empty, FIRST, b="pass")
    add(empty, "s.a", 0)
    for number in range(4):
        build = f"{number}" * 8
        add(empty, "s.a", number, build=build)
        end(empty, build, a="pass")
    assert rollback.expire(empty, 2, 7, "local", dry_run=False) == {}
    change(empty, "s.a", lambda old: {**old, "snapshots": [
        {**s, "timestamp-ms": s["timestamp-ms"] - 8 * DAY_MS} for s in old["snapshots"]
    ]})  # fmt: skip
    before = pointers(empty)
    assert rollback.expire(empty, 2, 9, "local", dry_run=False) == {}
    # Release 4 may have what release 3 had; s.b hasn't moved since release 1.
    expected = {"s.a": ["release_2"]}
    assert rollback.expire(empty, 2, 7, "local", dry_run=True) == expected
    assert pointers(empty) == before
    assert rollback.expire(empty, 2, 7, "local", dry_run=False) == expected
    assert set(metadata(empty, "s.a")["refs"]) == {"main", "release_3", "release_4", "release_5"}
    assert set(metadata(empty, "s.b")["refs"]) == {"main", "release_1"}
    assert said(empty)[-1] == "expired"


# plan and diff


def test_plan_says_what_publishing_would_do(lake: Lake) -> None:
    build, (row,) = plan(lake, None, "local", {})
    assert build == THIRD
    assert (row["table"], row["result"], row["why"]) == (
        "s.a", "held back", "a test failed on s.a (1 row)",
    )  # fmt: skip
    assert (row["rows"], row["files_added"], row["files_removed"]) == (2, 1, 0)
    assert [row[f"columns_{how}"] for how in ("added", "dropped", "retyped")] == [[], [], []]
    assert (row["main"], row["head"]) == (
        refs.head(metadata(lake, "s.a")), refs.head(metadata(lake, "s.a"), f"build_{THIRD}"),
    )  # fmt: skip
    with hold_alive(lake, THIRD), pytest.raises(GateError, match="a process of it is running"):
        plan(lake, THIRD, "local", {})
    releases.reject(lake, THIRD, "local", "")
    assert plan(lake, None, "local", {}) == ("", [])


def test_diff_between_releases_builds_and_main(lake: Lake) -> None:
    assert [(d["table"], d["rows"], d["files_added"], d["files_removed"]) for d in
            diff(lake, "1", "main")] == [("s.a", 1, 1, 0), ("s.b", 1, 1, 0)]  # fmt: skip
    assert [(d["table"], d["rows"], d["files_removed"]) for d in diff(lake, THIRD, "2")] == [
        ("s.a", -2, 1),
    ]
    assert diff(lake, "2", "main") == []
    with pytest.raises(ConfigError, match="cannot find release"):
        diff(lake, "1", "9")
    forget_snapshot(lake, "s.b", 1)
    with pytest.raises(GateError, match="cannot compare s.b"):
        diff(lake, "1", "main")


def test_diff_tells_columns_from_another_of_the_same_name(lake: Lake) -> None:
    from pyiceberg.types import LongType, StringType

    table = open_catalog(lake).load_table("s.b")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("amount").add_column("note", StringType())
    (row,) = diff(lake, "2", "main")
    assert (row["rows"], row["columns_added"], row["columns_dropped"]) == (0, ["note"], ["amount"])
    with table.update_schema() as update:
        update.add_column("amount", LongType())
    (row,) = diff(lake, "2", "main")
    assert row["columns_retyped"] == ["amount: string -> bigint"]


# eject, and what can't be written


def test_eject_leaves_plain_tables(lake: Lake) -> None:
    notes = {"snapshot-id": refs.head(metadata(lake, "s.a")), "type": "tag"}
    change(lake, "s.a", lambda old: {**old, "refs": {**old["refs"], "release_notes": notes}})
    change(lake, "s.b", lambda old: {
        **old, "properties": {**old["properties"], "icegate.managed": "x.y,write.wap.enabled"},
    })  # fmt: skip
    before = pointers(lake)
    taken = rollback.eject(lake, dry_run=True)
    assert taken["tables"]["s.a"] == [
        f"build_{THIRD}", "release_1", "release_2", "write.wap.enabled",
    ]  # fmt: skip
    assert pointers(lake) == before
    with hold_alive(lake, THIRD), pytest.raises(GateError, match=f"build {THIRD} is half built"):
        rollback.eject(lake, dry_run=False)
    assert rollback.eject(lake, dry_run=False) == taken
    assert set(metadata(lake, "s.a")["refs"]) == {"main", "release_notes"}
    left = metadata(lake, "s.b")["properties"]
    left.pop(MARK, None)  # of the last move in a REST catalog, which is this one
    assert left == {"icegate.managed": "x.y"}
    assert list_namespaces(lake) == ["s"]
    assert ids(lake, "s.a") == [0, 1, 2]
    assert rollback.eject(lake, dry_run=False) == {"tables": {}, "dropped": []}


def test_a_disk_that_cannot_be_written(lake: Lake, make_read_only: Callable[[Path], None]) -> None:
    make_read_only(lake.home)
    for use in (
        lambda: releases.publish(lake, THIRD, "local", {}, [], ""),
        lambda: releases.reject(lake, THIRD, "local", ""),
        lambda: back(lake, 1),
        lambda: rollback.eject(lake, dry_run=False),
    ):
        with pytest.raises(IcegateError, match="can't be written: Read-only file system"):
            use()
    assert releases.find(lake, SECOND).events
    assert len(back(lake, 1, dry_run=True)[1]) == 2
    assert len(diff(lake, "1", "2")) == 2
