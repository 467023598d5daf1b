"""What the functions of Python models compute, on a real Spark."""

from __future__ import annotations

import importlib.util
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql.types import StructType

GOLD = Path(__file__).parents[2] / "models" / "gold"
MODELS = sorted(GOLD.rglob("*.py"))


def load(name: str) -> Any:
    (path,) = GOLD.rglob(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_schema_is_what_the_yaml_promises(path: Path, spark: Any) -> None:
    promised = yaml.safe_load((path.parent / f"_{path.parent.name}.yml").read_text())["models"]
    (columns,) = (model["columns"] for model in promised if model["name"] == path.stem)
    schema = StructType.fromDDL(load(path.stem).SCHEMA)  # by Spark's own parser
    assert [(c["name"], c["data_type"]) for c in columns] == [
        (field.name, field.dataType.simpleString()) for field in schema
    ]


class TestExpectDemand:
    def expected(self, spark: Any, sales: list[tuple[str, int, int]]) -> dict[Any, Any]:
        """Give each sale a product, a day of January 2026 and units; return (sold, expected)."""
        rows = [(product, datetime(2026, 1, day, 23, 59), units) for product, day, units in sales]
        schema = "product_id string, ordered_at timestamp, quantity int"
        items = spark.createDataFrame(rows, schema)
        result = load("fct_expected_demand").expect_demand(items, memory_days=3)
        return {
            (row.product_id, row.sold_on.day): (row.units_sold, row.units_expected)
            for row in result.collect()
        }

    def test_a_day_knows_only_the_days_before(self, spark: Any) -> None:
        found = self.expected(spark, [("A", 1, 4), ("A", 2, 1), ("A", 2, 7), ("A", 3, 100)])
        # A span of 3 days halves the weight each day: (8 + 4 / 2) / 1.5
        assert found == {
            ("A", 1): (4, None),
            ("A", 2): (8, 4.0),
            ("A", 3): (100, pytest.approx(20 / 3)),
        }

    def test_a_day_without_a_sale_is_zero(self, spark: Any) -> None:
        found = self.expected(spark, [("A", 1, 6), ("A", 3, 6)])
        assert found[("A", 2)] == (0, 6.0)
        assert found[("A", 3)] == (6, pytest.approx(2.0))

    def test_products_do_not_mix(self, spark: Any) -> None:
        found = self.expected(spark, [("A", 1, 4), ("B", 2, 9), ("B", 1, 1)])
        assert found == {("A", 1): (4, None), ("B", 1): (1, None), ("B", 2): (9, 1.0)}


class TestOutlook:
    def outlook(self, spark: Any, charges: list[float]) -> Any:
        """Return the outlook of a device that was read once a day."""
        start = datetime(2026, 1, 1)
        rows = [("D", start + timedelta(days=n), charge) for n, charge in enumerate(charges)]
        schema = "device_id string, reading_at timestamp, battery_pct double"
        readings = spark.createDataFrame(rows[::-1], schema)
        (row,) = load("fct_battery_outlook").outlook(readings, low_battery_pct=20.0).collect()
        assert (row.device_id, row.last_reading_at.date()) == (
            "D",
            date(2026, 1, len(charges)),
        )
        return row

    def test_a_steady_drain_ends_at_the_threshold(self, spark: Any) -> None:
        row = self.outlook(spark, [50.0, 45.0, 40.0])
        assert row.battery_pct == 40.0
        assert row.drain_pct_per_day == pytest.approx(5.0)
        assert row.low_in_days == pytest.approx(4.0)

    def test_a_battery_that_is_low_already_has_no_days_left(self, spark: Any) -> None:
        assert self.outlook(spark, [22.0, 20.0, 18.0]).low_in_days == 0.0

    @pytest.mark.parametrize("charges", [[50.0, 60.0], [50.0]], ids=["charging", "one reading"])
    def test_no_drain_means_no_day(self, spark: Any, charges: list[float]) -> None:
        assert self.outlook(spark, charges).low_in_days is None
