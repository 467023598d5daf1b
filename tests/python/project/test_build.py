"""The project itself: built from landing data, built again, built day by day, and with faults."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, DbtRun, make_home

from icegate.profiles import load_target
from icegate.session import start_session
from icegate.settings import lake_from_target
from landing_data.faults import FAULTS
from landing_data.generate import generate
from landing_data.plan import Plan

pytestmark = pytest.mark.slow

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
KEYS = {
    "silver.curated_customers": "customer_id",
    "silver.curated_products": "product_id",
    "silver.curated_orders": "order_id",
    "silver.curated_order_items": "order_item_id",
    "silver.curated_readings": "device_id, reading_at",
    "silver.curated_rooms": "room_type, measured_at",
    "gold.agg_daily_metrics": "metric_date, metric_type, dimension_key, dimension_value",
    "gold.fct_expected_demand": "product_id, sold_on",
}
VOLATILE = ("ingested_at", "computed_at")


class Lakehouse:
    """This checkout's project on a home and landing data of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.landing, self.home = folder / "landing", make_home(folder / "a home")
        self.folder, self.monkeypatch = folder, monkeypatch

    def _environ(self) -> None:
        self.monkeypatch.setenv("ICEGATE_HOME", str(self.home))
        self.monkeypatch.setenv("ICEGATE_LANDING", str(self.landing))
        self.monkeypatch.setenv("ICEGATE_STANDINS", "1")
        self.monkeypatch.delenv("DBT_TARGET", raising=False)

    def land(self, *faults: str) -> None:
        plan = Plan(self.landing, customers=150, products=60, orders=900)
        assert plan.start == date(2026, 1, 1)
        generate(plan, [FAULTS[name] for name in faults], lambda path, rows: None)

    def dbt(self, *args: str) -> DbtRun:
        from dbt.cli.main import dbtRunner

        self._environ()
        where = ["--project-dir", str(ROOT), "--profiles-dir", str(ROOT)]
        where += ["--target-path", str(self.folder / "target"), "--quiet"]
        return DbtRun(dbtRunner().invoke([*args, *where, "--log-path", str(self.folder / "logs")]))

    def content(self) -> dict[str, list[Any]]:
        """Return the rows of each table in ``KEYS``, without columns that say when it ran."""
        self._environ()
        spark = start_session(lake_from_target(load_target(ROOT)[1], ROOT))
        found = {}
        for table, key in KEYS.items():
            rows = spark.table(table)
            kept = [name for name in rows.columns if name not in VOLATILE]
            found[table] = rows.select(kept).orderBy(*key.split(", ")).collect()
        return found


@pytest.fixture(scope="module")
def environ() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def built(environ: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    lakehouse = Lakehouse(tmp_path_factory.mktemp("good data"), environ)
    lakehouse.land()
    run = lakehouse.dbt("build")
    assert run.ok, run.text
    assert not [name for name, status in run.status.items() if status in ("warn", "skipped")]
    return lakehouse


def test_a_second_build_changes_nothing(built: Lakehouse) -> None:
    before = built.content()
    assert all(before.values())
    run = built.dbt("build")
    assert run.ok, run.text
    assert built.content() == before


@pytest.mark.long
def test_day_by_day_is_the_same_as_all_at_once(
    built: Lakehouse, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daily = Lakehouse(tmp_path, environ)
    for day in DAYS:
        for source in ("shop", "sensors"):
            shutil.copytree(built.landing / source / day, daily.landing / source / day)
        run = daily.dbt("build", "--exclude-resource-type", "test", "unit_test")
        assert run.ok, run.text
    assert daily.content() == built.content()
    run = daily.dbt("run", "--full-refresh", "--select", "silver", "gold")
    assert run.ok, run.text
    gone = "is_deleted"  # a full refresh has no lines that went away
    kept = built.content()
    kept["silver.curated_order_items"] = [
        row for row in kept["silver.curated_order_items"] if not row[gone]
    ]
    assert daily.content() == kept


# What each fault makes fail: parts of the names of data tests, or the table that keeps the text.
CAUGHT = {
    "orphan_key": "relationships_curated_orders_customer_id",
    "negative_amount": "accepted_range_curated_orders_subtotal_amount",
    "unknown_status": "accepted_values_curated_orders_order_status",
    "currency_mix_up": "assert_orders_equal_their_items",
    "duplicate_key": "curated_orders_has_one_newest_version",
    "hot_reading": "accepted_range_curated_rooms_temperature_c",
}
WARNED = {
    "null_key": "not_null_raw_orders_order_id",
    "impossible_date": "is_empty_raw_orders__rejected",
    "text_in_number": "is_empty_raw_orders__rejected",
}


def test_each_planted_fault_is_caught_by_its_test(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lakehouse = Lakehouse(tmp_path, environ)
    lakehouse.land(*CAUGHT, *WARNED)
    ran = lakehouse.dbt("build", "--exclude-resource-type", "test", "unit_test")
    assert ran.ok, ran.text
    tested = lakehouse.dbt("test", "--exclude-resource-type", "unit_test")
    for expected, status in ((CAUGHT, "fail"), (WARNED, "warn")):
        found = [name for name, said in tested.status.items() if said == status]
        missed = {f for f, test in expected.items() if not any(test in name for name in found)}
        assert not missed, f"{missed} not seen in {found}"
    assert not [name for name, said in tested.status.items() if said == "error"]


REFUSED = {
    "truncated_file": "raw_customers",
    "changed_type": "raw_products",
    "marker_contradicts": "raw_orders",
    "empty_file": "raw_readings",
    "gone_column": "raw_room_data",
}


def test_a_bad_delivery_stops_its_table_only_and_says_why(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lakehouse = Lakehouse(tmp_path, environ)
    lakehouse.land(*REFUSED)
    run = lakehouse.dbt("run", "--select", *REFUSED.values())
    assert {run.status[table] for table in REFUSED.values()} == {"error"}
    for fault, table in REFUSED.items():
        why = FAULTS[fault].shows.split("…")[0].strip().removesuffix(" promises")
        assert why.split(",")[0] in run.message[table], run.message[table]
        assert "fix: " in run.message[table] and "\tat " not in run.message[table]


def test_a_day_without_marker_waits(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lakehouse = Lakehouse(tmp_path, environ)
    lakehouse.land("missing_success")
    run = lakehouse.dbt("run", "--select", "raw_readings")
    assert run.ok, run.text
    spark = start_session(lake_from_target(load_target(ROOT)[1], ROOT))
    loaded = spark.sql("select distinct loaded_from from bronze.raw_readings").collect()
    assert sorted(row.loaded_from.partition("/")[0] for row in loaded) == list(DAYS[:2])


def test_one_subject_builds_alone(built: Lakehouse) -> None:
    run = built.dbt("build", "--select", "tag:commerce", "--exclude-resource-type", "test")
    assert run.ok, run.text
    assert "fct_orders" in run.status and "raw_readings" not in run.status


def test_freshness_of_every_source_is_known(built: Lakehouse) -> None:
    run = built.dbt("source", "freshness")
    sources = {"customers", "products", "orders", "readings", "room_data"}
    assert {run.status.get(name) for name in sources} == {"pass"}, run.text
