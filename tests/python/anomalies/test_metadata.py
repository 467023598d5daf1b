"""What is unusual, by snapshots alone: tables that never were, so that many cases are cheap."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from anomalies.synthetic import Made, daily, on_day
from icegate.anomalies.find import find
from icegate.anomalies.history import changes, runs
from icegate.anomalies.look import Finding, Settings
from icegate.anomalies.scores import usual

CHANCE = random.Random(1)
WEEK = (2000, 1000, 1010, 990, 1100, 300, 200)  # rows of Monday to Sunday


def weeks(count: int) -> list[int]:
    return [int(rows * CHANCE.uniform(0.95, 1.05)) for rows in WEEK * count]


def volume(made: Made, **how: Any) -> Finding:
    (found,) = find(made.metadata, kinds=["volume"], table="silver.orders", **how)
    return found


def test_the_formula_is_that_of_iglewicz_and_hoaglin() -> None:
    values = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3]  # median 2.45, MAD 0.15
    few = 1 + 4 / len(values)
    found = usual(values, 3.5, share=0, least=0)
    assert found["high"] == pytest.approx(2.45 + 3.5 * 0.15 / 0.6745 * few)
    same = [5.0] * 9 + [7.0]  # MAD is 0, the mean deviation 0.2
    assert usual(same, 3.5, 0, 0)["high"] == pytest.approx(5 + 3.5 * 1.253314 * 0.2 * few)
    assert usual([5.0] * 9, 3.5, 0, 0) == {"low": 5, "high": 5}
    assert usual([5.0] * 9, 3.5, 0.1, 0) == {"low": 4.5, "high": 5.5}
    assert usual([5.0] * 9, 3.5, 0, 9)["low"] == 0  # there is no count below


VOLUMES: dict[str, tuple[list[int], str]] = {
    "as ever": ([1000, 1020, 980, 1010, 990, 1005, 1000, 1015], "usual"),
    "twice as much": ([1000, 1020, 980, 1010, 990, 1005, 1000, 2000], "unusual"),
    "a dip": ([1000, 1020, 980, 1010, 990, 1005, 1000, 400], "unusual"),
    "nothing": ([1000, 1020, 980, 1010, 990, 1005, 1000, 0], "unusual"),
    "flat": ([1000] * 8, "usual"),
    "flat, and a few more": ([1000] * 7 + [1030], "usual"),
    "flat, and a third more": ([1000] * 7 + [1330], "unusual"),
    "mostly the same": ([1000] * 6 + [1100, 1000, 1075], "usual"),
    "an odd one before": ([1000, 1020, 980, 9000, 990, 1005, 1000, 1015], "usual"),
    "an odd one before and now": ([1000, 1020, 980, 9000, 990, 1005, 1000, 1030, 3000], "unusual"),
    "wide apart": ([100, 900, 400, 1500, 250, 700, 1100, 1900], "usual"),
    "one point": ([1000], "not enough history"),
    "six before": ([1000] * 7, "not enough history"),
    "none but the first load": ([], "not enough history"),
    "empty runs as ever": ([1000, 0, 1020, 0, 980, 990, 0, 1005, 1000, 1020, 990, 0], "usual"),
}


@pytest.mark.parametrize("case", VOLUMES)
def test_volume_of_days(case: str) -> None:
    rows, expected = VOLUMES[case]
    found = volume(daily(*rows))
    assert found.status == expected, found
    if expected == "unusual":
        assert (found.snapshot_id, found.value, found.unit) == (100 + len(rows), rows[-1], "rows")


def test_a_doubled_monday_is_unusual_to_who_knows_mondays() -> None:
    rows = weeks(8)
    assert volume(daily(*rows, 2000)).status == "usual"
    found = volume(daily(*rows, 4000))
    assert found.status == "unusual" and 1500 < (found.low or 0) < 2000 < (found.high or 0) < 2500
    assert found.sentence.startswith("4,000 rows came on Monday 2 March 2026; on Mondays 1,")
    assert volume(daily(*rows, *rows[:5], 2000)).status == "unusual"  # a Saturday like a Monday


def test_while_weekdays_are_few_each_is_as_usual_as_it_was() -> None:
    rows = weeks(3)
    third = [volume(daily(*rows[: 15 + day])) for day in range(7)]
    assert [found.status for found in third] == ["usual"] * 7
    assert volume(daily(*rows[:14], 4000)).status == "unusual"
    assert volume(daily(*rows[:19], 2000)).status == "unusual"


def test_runs_of_a_day_are_added_up_where_one_a_day_is_usual() -> None:
    made = daily(*[1000] * 8)
    made.commit(on_day(8), 600)
    blamed = made.commit(on_day(8, 1), 1400)
    assert (volume(made).value, volume(made).status) == (2000, "unusual")
    assert volume(made).snapshot_id == blamed
    repaired = daily(*[1000] * 8)
    repaired.commit(on_day(8), 400)
    repaired.commit(on_day(8, 1), 600)  # the rest came later
    assert volume(repaired).status == "usual"


def test_each_run_counts_where_many_a_day_are_usual() -> None:
    made = Made()
    for day in range(4):
        for hour in range(0, 18, 3):
            made.commit(on_day(day, hour), 100 + hour)
    made.commit(on_day(4), 101)
    assert volume(made).status == "usual"
    blamed = made.commit(on_day(4, 3), 700)
    assert (volume(made).status, volume(made).snapshot_id) == ("unusual", blamed)


def test_days_without_a_build_are_no_zeros() -> None:
    made = daily(*[1000, 1020, 980, 1010, 990, 1005, 1000, 1015], every=3)
    assert volume(made).status == "usual"


@pytest.mark.parametrize(("last", "status"), [(1013, "usual"), (2020, "unusual"), (880, "unusual")])
def test_of_a_rebuilt_table_the_rows_count(last: int, status: str) -> None:
    made = Made()
    for day, rows in enumerate([1000, 1004, 998, 1001, 1003, 999, 1000, 1002]):
        made.rebuild(on_day(day), rows)
    made.rebuild(on_day(8), last)
    found = volume(made)
    assert (found.status, found.value) == (status, last)
    assert found.sentence.startswith("The table has ")
    made.rebuild(on_day(9), 1001)  # as ever again, though much has gone or come
    assert volume(made).status == "usual"


def test_of_a_rebuilt_table_that_grows_the_growth_counts() -> None:
    made = Made()
    for day in range(10):
        made.rebuild(on_day(day), 5000 + 100 * day + day % 3)
    assert volume(made).status == "usual"
    made.rebuild(on_day(10), 6400)  # no more than it has in a few days
    assert (volume(made).status, volume(made).value) == ("unusual", 500)


def test_a_table_made_anew_has_its_history_in_mains_log() -> None:
    made = Made()
    for day, rows in enumerate([1000, 1004, 998, 1001, 1003, 999, 1000, 1002]):
        made.commit(on_day(day), rows, anew=True)
    assert volume(made).status == "usual"
    made.commit(on_day(8), 500, anew=True)
    assert volume(made).status == "unusual"


def test_maintenance_is_no_change() -> None:
    made = daily(*[1000] * 7)
    compacted = made.commit(on_day(6, 5), 57_000, 57_000, operation="replace")
    made.commit(on_day(7), 1010)
    assert compacted not in [point.snapshot_id for point in changes(made.metadata)]
    assert volume(made).status == "usual"
    made.commit(on_day(7, 5), 58_010, 58_010, operation="replace")
    assert find(made.metadata, kinds=["cadence"], now=on_day(7, 7))[0].at == on_day(7)


def test_a_merge_counts_by_what_it_left() -> None:
    made = daily()
    for day in range(8):
        made.commit(on_day(day), 21_000 + 500 * day, 20_000 + 500 * day, operation="overwrite")
    assert volume(made).value == 1000 and volume(made).status == "usual"
    marks = {"added-position-deletes": "400", "total-position-deletes": "400"}
    made.commit(on_day(8), 1400, operation="overwrite", summary=marks)
    assert volume(made).value == 1000 and volume(made).status == "usual"


def test_equality_deletes_make_growth_unknown() -> None:
    made = daily(*[1000] * 8)
    made.commit(on_day(8), 1000, summary={"added-equality-deletes": "1000"})
    assert volume(made).status == "not enough history"
    assert volume(made).sentence == (
        "It can't be said how many rows are usual: the newest load doesn't tell."
    )


def test_a_full_refresh_is_no_load() -> None:
    made = daily(*[1000] * 8)
    made.rebuild(on_day(8), 58_000)
    assert volume(made).status == "not enough history"
    made.commit(on_day(9), 1010)
    assert volume(made).status == "usual"
    assert (volume(made).low, volume(made).high) == (950, 1050)


def test_what_a_rollback_left_is_no_history() -> None:
    made = daily(*[1000] * 8)
    good = made.metadata["refs"]["main"]["snapshot-id"]
    bad = made.commit(on_day(8), 90_000)
    assert volume(made).status == "unusual"
    made.move_main(good)
    made.rows -= 90_000
    assert volume(made).status == "usual"
    made.commit(on_day(9), 1000)
    assert bad not in [point.snapshot_id for point in changes(made.metadata)]
    assert volume(made).status == "usual"


def test_an_expired_history_begins_with_what_is_kept() -> None:
    made = daily(*[1000] * 12)
    made.expire(103)
    assert changes(made.metadata)[0].growth == 1000
    assert volume(made).status == "usual"
    made.expire(107)
    assert volume(made).status == "not enough history"


def test_a_branch_is_judged_by_main_and_itself() -> None:
    made = daily(*[1000] * 8)
    blamed = made.commit(on_day(8), 7000, on="build_a")
    assert volume(made).status == "usual"
    assert volume(made, ref="build_a").status == "unusual"
    assert volume(made, ref="build_a").snapshot_id == blamed
    made.move_main(blamed)
    assert volume(made).at == on_day(8)  # when it was committed


def test_snapshots_of_one_build_are_one_change() -> None:
    made = daily(*[1000] * 7)
    stamp = {"icegate.build": "nightly"}
    made.commit(on_day(7), 0, 300, operation="delete", summary=stamp)
    made.commit(on_day(7, 0.1), 1300, summary=stamp)
    assert [run.growth for run in runs(changes(made.metadata))][-2:] == [1000, 1000]
    made.metadata["snapshots"][-1]["summary"]["icegate.release"] = "4"
    assert len(runs(changes(made.metadata))) == 10  # each night has its own release


def cadence(made: Made, hours: float) -> Finding:
    last = changes(made.metadata)[-1].at
    (found,) = find(made.metadata, kinds=["cadence"], now=last + timedelta(hours=hours))
    return found


def test_cadence() -> None:
    made = daily(*[1000] * 10)
    assert cadence(made, 25).status == "usual"
    assert cadence(made, 80).status == "unusual"
    assert cadence(made, 80).sentence == (
        "The last rows came 3 days ago, on Wednesday 14 January 2026;"
        " a pause of up to 36 hours is usual."
    )
    assert cadence(daily(*[1000] * 6), 900).status == "not enough history"
    made.commit(on_day(12), 0)  # an empty run brings nothing new
    assert cadence(made, 24).status == "unusual"


def working_days(count: int) -> Made:
    made = Made()
    for day in range(count):
        if on_day(day).weekday() < 5:
            made.commit(on_day(day), 1000)
    return made


def test_weekends_are_usual() -> None:
    assert cadence(working_days(12), 70).status == "usual"  # Friday, of two weeks
    assert cadence(working_days(61), 70).status == "usual"
    assert cadence(working_days(61), 130).status == "unusual"
    assert cadence(working_days(64), 70).status == "unusual"  # a Monday
    assert cadence(working_days(64), 30).status == "usual"


def column(id: int, name: str, kind: Any = "string") -> dict[str, Any]:
    return {"id": id, "name": name, "required": False, "type": kind}


def test_schema() -> None:
    new = [column(1, "order_id", "long"), column(3, "code", "decimal(9, 2)")]
    made = Made(
        {"schema-id": 0, "fields": [column(1, "id", "int"), column(2, "note")]},
        {"schema-id": 1, "fields": new},
    )
    made.metadata["current-schema-id"] = 0
    (found,) = find(made.metadata, kinds=["schema"])
    assert found.status == "not enough history"
    assert found.sentence.endswith("whether the columns changed: 0 of 1 earlier load tells of it.")
    made.commit(on_day(0), 5)
    assert find(made.metadata, kinds=["schema"])[0].status == "not enough history"
    made.commit(on_day(1), 5)
    assert find(made.metadata, kinds=["schema"])[0].status == "usual"
    made.metadata["current-schema-id"] = 1  # changed, and nothing written since
    expected = (
        "The columns changed with the last load: code (decimal(9,2)) is new, note is gone,"
        " id is called order_id now, order_id is bigint, and was int."
    )
    assert find(made.metadata, kinds=["schema"])[0].sentence == expected
    made.commit(on_day(2), 5, schema=1)
    assert find(made.metadata, kinds=["schema"])[0].sentence == expected
    made.commit(on_day(3), 5, schema=1)
    assert find(made.metadata, kinds=["schema"])[0].status == "usual"


def test_a_table_without_a_row_has_no_history() -> None:
    found = find(Made().metadata, table="gold.empty")
    assert {f.kind: f.status for f in found} == dict.fromkeys(
        ("volume", "cadence", "schema"), "not enough history"
    )
    assert all(f.snapshot_id is None and f.table == "gold.empty" for f in found)
    assert found[0].sentence == (
        "It's too early to say how many rows are usual: 0 of 7 earlier loads tell of it."
    )


def test_settings() -> None:
    made = daily(1000, 1010, 990, 1300)
    assert volume(made).status == "not enough history"
    assert volume(made, settings=Settings(min_history=3)).status == "unusual"
    assert volume(made, settings=Settings(min_history=3, threshold=99)).status == "usual"


def test_false_alarms_are_rare_and_doublings_are_seen() -> None:
    """The shares that docs/anomalies.md tells, of days that vary by a tenth."""
    told = {}
    for count in (7, 14, 30):
        rows = [[CHANCE.gauss(1000, 100) for _ in range(count + 1)] for _ in range(2000)]
        found = [(row[-1], usual(row[:-1], 3.5, 0.05, 1)) for row in rows]
        told[count] = (
            sum(not u["low"] <= value <= u["high"] for value, u in found) / len(found),
            sum(2 * value > u["high"] for value, u in found) / len(found),
        )
    assert told[7][0] < 0.04 and told[14][0] < 0.012 and told[30][0] < 0.008, told
    assert told[7][1] > 0.92 and told[14][1] > 0.97, told


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; import icegate.anomalies.find;"
        "heavy = {'pyarrow', 'pandas', 'numpy', 'pyspark', 'pyiceberg', 'sqlglot', 'duckdb'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
