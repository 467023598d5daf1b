"""A stream from start to end: each record once, whatever ends in between."""

from __future__ import annotations

from typing import Any

import pytest

from icegate.errors import ConfigError
from icegate.streams.parse import parsed
from icegate.streams.run import Run
from icegate.streams.write import Writer
from streams.tills import ERRORS, Tills, crash

pytestmark = pytest.mark.slow

OPERATION = {"path": "$.op", "insert": "c", "update": "u", "delete": "d"}


def orders(tills: Tills, **keys: Any) -> dict[str, Any]:
    """Return a route into a table that has the newest row of each order."""
    what = {"when": {"$.op": ["c", "u", "d", "x"]}, "key": "id", "operation": OPERATION}
    return tills.route("orders", "id int", "amount int", **what | keys)


def put(op: str, id: int | str, amount: Any = None) -> dict[str, Any]:
    return {"op": op, "id": id, "amount": amount}


def click(id: int) -> dict[str, Any]:
    return {"click": "yes", "id": id}


def clicks(tills: Tills) -> dict[str, Any]:
    return tills.route("clicks", "id int", when={"$.click": "yes"})


def test_each_record_once_wherever_it_ends(tills: Tills) -> None:
    """One batch after the other is cut short at the next place, and given again."""
    tills.stream(orders(tills), clicks(tills))
    first, second = tills.table("orders"), tills.table("clicks")
    places = [(first, False), (first, True), (second, True), (ERRORS, False)]
    for n, (table, told) in enumerate(places):
        tills.drop(put("c", n, n), put("u", n, n + 100), click(n), f"bad {n}")
        tills.cut_short(table, told)
        tills.once()
        assert tills.read("orders", "id", "amount") == [(i, i + 100) for i in range(n + 1)]
        assert tills.read("clicks", "id") == list(range(n + 1)), (table, told)
        assert len(tills.errors()) == n + 1, (table, told)
    assert tills.told()["batch"] == len(places) - 1


def test_an_append_in_one_pass_is_once_too(tills: Tills) -> None:
    tills.stream(tills.route("clicks", "id int"))
    for n, (table, told) in enumerate([("clicks", False), ("clicks", True), (ERRORS, False)]):
        tills.drop({"id": n}, {"id": "x"})
        tills.cut_short(table if table == ERRORS else tills.table(table), told)
        tills.once()
        assert tills.read("clicks", "id") == list(range(n + 1)), (table, told)
        assert tills.errors() == ["id can't be read as int"] * (n + 1), (table, told)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_stream_whose_records_are_not_for_the_quick_way_leaves_it(
    tills: Tills, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """Between two batches: each record comes once, and one batch only was tried in vain."""
    tried: list[bool] = []

    def noted(records: Any, stream: Any, rules: Any, quickly: bool) -> Any:
        tried.append(quickly)
        return parsed(records, stream, rules, quickly)

    monkeypatch.setattr("icegate.streams.run.parsed", noted)
    monkeypatch.setattr("icegate.streams.run.MANY", 1)
    keys = {"key": "id"} if keyed else {}
    tills.stream(tills.route("clicks", "id int", **keys), batch={"seconds": 1, "max_files": 1})
    for n in range(4):
        tills.drop({"id": 3 * n}, {"id": str(3 * n + 1)}, {"id": str(3 * n + 2)}, "bad")
    assert tills.once().rows == {tills.table("clicks"): 12}
    assert sorted(tills.read("clicks", "id")) == list(range(12)) and len(tills.errors()) == 4
    assert tried == [True, False]
    tills.stream(tills.route("clicks", "id int", **keys), batch={"seconds": 1})
    tills.drop({"id": 12}, {"id": 13}, {"id": "14"})
    tills.once()
    assert sorted(tills.read("clicks", "id")) == list(range(15)) and tried == [True, False, True]
    tills.drop({"id": "15"}, {"id": "16"})
    tills.once()
    assert tried == [True, False, True, True], "no other query where all is read"


def test_the_property_is_enough_when_all_old_snapshots_are_gone(tills: Tills) -> None:
    tills.stream(clicks(tills))
    tills.drop(click(1))
    tills.cut_short(tills.table("clicks"), told=True)
    tills.sql("insert into {s}.clicks (id) values (99)")  # as another writer
    expire = "call lake.system.expire_snapshots(table => '{s}.clicks', retain_last => 1,"
    tills.sql(expire + " older_than => timestamp '2999-01-01 00:00:00')")
    (left,) = tills.metadata("clicks")["snapshots"]
    assert "icegate.batch" not in left["summary"]
    tills.once()
    assert tills.read("clicks", "id") == [1, 99]


@pytest.mark.parametrize("pause_s", [600, -1])
def test_one_table_has_its_copy_now_and_then_and_at_the_end(
    tills: Tills, monkeypatch: pytest.MonkeyPatch, pause_s: int
) -> None:
    monkeypatch.setattr("icegate.streams.write.COPY_S", pause_s)
    tills.stream(tills.route("clicks", "id int"))
    for n in range(4):
        tills.drop({"id": n})
    tills.once()
    found = tills.metadata("clicks")
    (copy,) = [v for name, v in found["properties"].items() if name == "icegate.stream.tills"]
    assert copy == found["snapshots"][-1]["summary"]["icegate.batch"] and copy.endswith(":3")
    copies = 2 if pause_s > 0 else 4
    assert len(found["metadata-log"]) == 4 + copies  # and the table, which is no older one
    tills.once()
    assert tills.metadata("clicks") == found
    assert tills.read("clicks", "id") == [0, 1, 2, 3]


def test_newer_wins_by_line_in_a_file_and_by_time_between_files(tills: Tills) -> None:
    tills.stream(orders(tills), batch={"seconds": 1, "max_files": 1})
    tills.drop(put("c", 1, 1), put("c", 2, 1), put("c", 3, 1), put("c", 4, 1), hour=10)
    tills.once()
    tills.drop(put("u", 1, 2), put("u", 1, 3), put("d", 2), put("d", 3), put("c", 3, 4), hour=12)
    tills.once()
    expected = [(1, 3), (3, 4), (4, 1)]
    assert tills.read("orders", "id", "amount") == expected
    tills.drop(put("u", 1, 9), put("d", 3), put("d", 4), put("c", 5, 1), put("d", 6), hour=11)
    tills.once()  # is late: it's newer than the row of 4 only
    assert tills.read("orders", "id", "amount") == [(1, 3), (3, 4), (5, 1)]
    tills.stream(orders(tills), batch={"seconds": 1})  # both in one batch, the older one second
    tills.drop(put("u", 1, 20), put("c", 7, 20), put("d", 5), put("d", 8), hour=20)
    tills.drop(put("u", 1, 19), put("d", 7), put("u", 5, 19), put("c", 8, 19), hour=19)
    tills.once()
    assert tills.read("orders", "id", "amount") == [(1, 20), (3, 4), (7, 20)]


def test_replayed_errors_come_once_and_undo_nothing(tills: Tills) -> None:
    tills.stream(orders(tills), clicks(tills))
    tills.drop(
        put("c", 1, 1),
        put("x", 1, 5),  # is deleted later in the batch
        put("d", 1),
        put("c", 2, 2),
        put("x", 2, 7),  # is the newest
        put("x", 3, 3),  # is the only one
        put("x", 4, 3),  # is updated later
        put("u", 4, 4),
        put("x", 5, 5),  # is deleted in a later batch
        put("x", 6, "much"),  # is bad by any rule
        {"tap": "yes", "id": 1},
    )
    tills.once()
    tills.drop(put("d", 5), click(2))
    tills.once()
    assert tills.read("orders", "id", "amount") == [(2, 2), (4, 4)]
    assert tills.told()["errors_waiting"] == len(tills.errors()) == 7
    tills.stream(
        orders(tills, operation={**OPERATION, "insert": ["c", "x"]}),
        {**clicks(tills), "when": {"$.click": "yes"}},
        tills.route("taps", "id int", when={"$.tap": "yes"}),
    )
    done = [tills.new_run().replay() for _ in range(2)]
    assert done == [{"replayed": 6, "waiting": 1}, {"replayed": 0, "waiting": 1}]
    assert tills.read("orders", "id", "amount") == [(2, 7), (3, 3), (4, 4)]
    assert tills.read("clicks", "id") == [2] and tills.read("taps", "id") == [1]
    assert tills.errors() == ["amount can't be read as int"]
    tills.drop(put("u", 2, 8), put("d", 6))
    tills.once()
    assert tills.read("orders", "id", "amount") == [(2, 8), (3, 3), (4, 4)]


def test_a_replay_that_was_cut_short_adds_nothing_twice(tills: Tills) -> None:
    tills.stream(clicks(tills))
    tills.drop(click(1), {"click": "perhaps", "id": 2}, {"click": "perhaps", "id": 3})
    tills.once()
    tills.stream({**clicks(tills), "when": {"$.click": ["yes", "perhaps"]}})
    tills.failing(Writer, "_settle", crash, replays=True)
    assert tills.read("clicks", "id") == [1, 2, 3] and len(tills.errors()) == 2
    assert tills.new_run().replay() == {"replayed": 2, "waiting": 0}
    assert tills.read("clicks", "id") == [1, 2, 3] and tills.errors() == []


def test_columns_come_and_grow_wider(tills: Tills) -> None:
    tills.stream(tills.route("clicks", "id int", "price decimal(5,2)"))
    tills.drop({"id": 1, "price": 1.25})
    tills.once()
    tills.stream(tills.route("clicks", "id bigint", "price decimal(12,2)", "page string"))
    tills.drop({"id": 2**40, "price": "1234567.25", "page": "/"})
    tills.once()
    found = [
        (id, str(price), page) for id, price, page in tills.read("clicks", "id", "price", "page")
    ]
    assert found == [(1, "1.25", None), (2**40, "1234567.25", "/")]
    for column, is_, wanted in [("id int", "bigint", "int"), ("page int", "string", "int")]:
        tills.stream(tills.route("clicks", column))
        tills.drop({"id": 3, "page": 3})
        with pytest.raises(ConfigError, match="cannot stream into") as caught:
            tills.once()
        name = column.split()[0]
        said = f"its column {name} is {is_}, and the stream reads it as {wanted}"
        assert said in str(caught.value) and said in tills.told()["error"]
    tills.stream(tills.route("clicks", "id bigint"))  # others stay, and are null
    tills.once()
    assert [row[0] for row in tills.read("clicks", "id", "page") if row[1] is None] == [1, 3, 3]


def test_a_column_that_is_dropped_beside_the_stream(tills: Tills) -> None:
    """It ends before it writes; started again it makes the column again, and loses nothing."""
    tills.stream(tills.route("clicks", "id int", "page"))
    for n in (1, 2, 3):
        tills.drop({"id": n, "page": f"/{n}"})
    write = Run._write

    def dropped_before(run: Run, records: Any, number: int) -> None:
        if number == 1:
            tills.sql("alter table {s}.clicks drop column page")
        write(run, records, number)

    said = str(tills.failing(Run, "_write", dropped_before))
    assert "stream tills stopped" in said and "page" in said and "start it again" in said
    assert len(said.splitlines()) <= 6 and "\tat " not in said, said
    assert tills.read("clicks", "id") == [1]
    tills.once()
    assert tills.read("clicks", "id", "page") == [(1, None), (2, "/2"), (3, "/3")]


def test_a_stop_just_before_a_batch_is_no_failure(tills: Tills) -> None:
    tills.stream(clicks(tills))
    tills.drop(click(1))
    tills.drop(click(2))
    batch = Run._batch

    def stopped_before(run: Run, records: Any, number: int) -> None:
        run.stopping = number == 1
        batch(run, records, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_batch", stopped_before)
        tills.once()
    assert tills.told()["state"] == "stopped" and not tills.told()["error"]
    assert tills.read("clicks", "id") == [1]
    tills.once()
    assert tills.read("clicks", "id") == [1, 2]


def test_an_error_without_a_word_is_told_by_its_kind(tills: Tills) -> None:
    tills.stream(clicks(tills))
    tills.drop(click(1))
    assert "stream tills stopped: Crash" in str(tills.failing(Run, "_write", crash))


def test_it_forgets_when_it_is_told_to(tills: Tills) -> None:
    tills.stream(orders(tills), clicks(tills))
    tills.drop(put("c", 1, 1), click(1))
    tills.once()
    tills.once()
    assert (tills.read("orders", "id"), tills.read("clicks", "id")) == ([1], [1])
    tills.once(forget=True)
    assert (tills.read("orders", "id"), tills.read("clicks", "id")) == ([1], [1, 1])
