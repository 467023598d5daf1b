"""What an error means, which statement may be run again, and how often it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icegate import retries
from icegate.retries import CONFLICT, LOST, OTHER, Meetings, kind_of, settled, target
from icegate.settings import Lake
from writers.failing import failing, failing_session
from writers.tables import Counted

ICEBERG = "org.apache.iceberg.exceptions"
CONFLICTS = f"({ICEBERG}.ValidationException) Found conflicting files that can contain records"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (CONFLICTS, CONFLICT),  # as Connect says it
        (f"Error running query: {ICEBERG}.CommitFailedException: metadata moved", CONFLICT),
        (f"{ICEBERG}.ValidationException: Cannot remove dangling deletes: current snapshot changed "
         "from 1 to 2", CONFLICT),  # files were compacted, and another writer came
        (f"{ICEBERG}.CommitStateUnknownException: lost", LOST),
        (f"{ICEBERG}.CommitStateUnknownException: {ICEBERG}.CommitFailedException", LOST),
        ("org.apache.iceberg.jdbc.UncheckedSQLException: Unknown failure", LOST),
        (f"{ICEBERG}.CherrypickAncestorCommitException: already an ancestor", OTHER),
        (f"{ICEBERG}.ForbiddenException: Forbidden: no right", OTHER),
        (f"{ICEBERG}.CommitFailedException: java.nio.file.AccessDeniedException: t", OTHER),
        (f"{ICEBERG}.CommitFailedException: (Permission denied)", OTHER),
        ("ValidationException: of another library", OTHER),
        ("[DIVIDE_BY_ZERO] Division by zero", OTHER),
    ],
)  # fmt: skip
def test_an_error_is_a_conflict_a_lost_reply_or_neither(said: str, kind: str) -> None:
    assert kind_of(RuntimeError(said)) == kind
    wrapped = ValueError("for people")
    wrapped.__cause__ = RuntimeError(said)  # as dbt's errors are
    assert kind_of(wrapped) == kind


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("insert into s.t (id) select 1", "s.t"),
        ('/* {"by": "update x"} */\n\n  insert overwrite table `s`.`a b`', "`s`.`a b`"),
        ("-- a note\nmerge into c.s.t as d using s on true when matched then update set a = 1",
         "c.s.t"),
        ("with n as (select 1 as id)\ninsert into s.t select * from n", "s.t"),
        ("update s.t as x set a = 1", "s.t"),
        ("DELETE FROM s.t WHERE a = 1", "s.t"),
        ("call system.rewrite_data_files(table => 's.t', where => 'a = 1')", "s.t"),
        ("call lake.system.rewrite_manifests('s.t')", "s.t"),
        ("call system.rewrite_data_files(options => map('a', 'b'), table => 's.t')", ""),
        ("call system.rollback_to_snapshot('s.t', 1)", ""),
        ("call system.cherrypick_snapshot('s.t', 1)", ""),
        ("create or replace table s.t as select 'insert into x' as a", ""),
        ("alter table s.t add column insert_into int", ""),
        ("select * from s.update", ""),
        ("create temporary view v as select 1", ""),
    ],
)  # fmt: skip
def test_only_what_writes_rows_or_their_files_is_run_again(sql: str, table: str) -> None:
    assert target(sql) == table


def failing_times(number: int, said: str) -> tuple[Callable[[], str], list[int]]:
    tries: list[int] = []

    def run() -> str:
        tries.append(1)
        if len(tries) <= number:
            raise RuntimeError(said)
        return "done"

    return run, tries


def test_a_conflict_is_tried_again_after_longer_and_longer_waits() -> None:
    met, waits, told = Meetings(), list[float](), list[str]()
    run, tries = failing_times(5, f"{CONFLICTS} matching true: [a]")
    assert met.again(run, "`S`.t", waits.append, told.append) == "done"
    assert len(tries) == 6
    assert [0 <= wait <= 2**n for n, wait in enumerate(waits)] == [True] * 5
    assert len(set(waits)) == 5  # by chance, so that writers don't meet again
    assert (met.of("s.t").conflicts, met.of("s.t").how) == (5, "overlap")
    assert 0 < met.of("s.t").waited_s <= sum(waits) + 0.05  # it's rounded
    assert told[0].startswith("conflict table=`S`.t how=overlap attempt=1 wait_s=")


def test_the_last_conflict_is_raised_as_it_is() -> None:
    met, waits = Meetings(), list[float]()
    run, tries = failing_times(99, CONFLICTS)
    with pytest.raises(RuntimeError, match="Found conflicting files"):
        met.again(run, "s.t", waits.append)
    assert len(tries) == retries.ATTEMPTS == met.of("s.t").conflicts
    assert max(waits) <= 20


@pytest.mark.parametrize("said", ["[DIVIDE_BY_ZERO]", f"{ICEBERG}.ForbiddenException: no"])
def test_every_other_error_is_raised_at_once(said: str) -> None:
    met = Meetings()
    run, tries = failing_times(1, said)
    with pytest.raises(RuntimeError):
        met.again(run, "s.t", pytest.fail)
    assert len(tries) == 1 and not met


def test_a_cancel_ends_the_wait() -> None:
    from dbt.adapters.icegate.connections import Work

    work = Work.__new__(Work)
    work.cancelled = threading.Event()
    threading.Timer(0.1, work.cancelled.set).start()
    began = time.monotonic()
    run, _ = failing_times(1, CONFLICTS)
    Meetings().again(run, "s.t", lambda _: work.cancelled.wait(60))
    assert time.monotonic() - began < 10


@pytest.fixture(scope="module")
def session(spark: Any, lake: Lake) -> Any:
    return failing_session(spark, lake)


def insert(table: Counted) -> str:
    return f"insert into {table.name} values (7, 'z', 0)"


@pytest.mark.slow
@pytest.mark.parametrize("changes", ["insert", "merge", "update"])
def test_a_lost_reply_is_found_below_what_others_committed_since(
    changes: str, session: Any, spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other, look = Counted(session), failing_session(spark, lake), retries._is_committed
    statements = {
        "insert": insert(table),
        "merge": f"merge into {table.name} as t using (select 7 as id) as s on false "
        "when not matched then insert (id, p, n) values (7, 'z', 0)",
        "update": f"update {table.name} set id = 7, p = 'z' where id = 0 and p = 'a'",
    }

    def look_later(*asked: Any) -> bool:
        spark._jvm.java.lang.System.clearProperty(f"icegate.fails.{table.name.split('.')[1]}")
        other.sql(f"insert into {table.name} values (8, 'z', 0)")
        return look(*asked)

    monkeypatch.setattr(retries, "_is_committed", look_later)
    with failing(session, table.name, "lost after"):
        table.met.write(session, statements[changes])
    rows = session.sql(f"select id from {table.name} where p = 'z' order by id").collect()
    assert [row.id for row in rows] == [7, 8]


@pytest.mark.slow
def test_of_two_writes_at_once_a_lost_reply_stays_an_error(session: Any) -> None:
    """Either of them may have made the commit that is found."""
    table = Counted(session)
    with (
        failing(session, table.name, "lost after"),
        settled(session, insert(table)),
        pytest.raises(Exception, match="the connection broke"),
    ):
        table.met.write(session, insert(table))
    with failing(session, table.name, "lost after"):
        table.met.write(session, insert(table))


@pytest.mark.slow
def test_an_earlier_write_does_not_pass_for_a_later_one(session: Any) -> None:
    table = Counted(session)
    table.met.write(session, insert(table))
    for _ in range(2):
        with (
            failing(session, table.name, "lost before"),
            pytest.raises(Exception, match="the connection broke"),
        ):
            table.met.write(session, insert(table))
    assert session.sql(f"select id from {table.name} where p = 'z'").count() == 1


@pytest.mark.slow
def test_a_disk_that_cannot_be_written_is_no_conflict(
    spark: Any, lake: Lake, make_read_only: Callable[[Path], None]
) -> None:
    table = Counted(spark)
    make_read_only(lake.warehouse / table.name.replace(".", "/"))
    with pytest.raises(Exception, match="Read-only file system") as raised:
        table.insert(100, "a")
    assert kind_of(raised.value) == OTHER and not table.met
