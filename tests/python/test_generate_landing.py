"""Landing data: the same again each time, whole, true in itself, and wrong only where asked."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import date
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet as parquet
import pytest
from typer.testing import CliRunner

from generate_landing import app
from icegate.errors import IcegateError, LandingError
from icegate.landing import LandingColumn, LandingTable, new_files
from landing_data import commerce
from landing_data.faults import FAULTS, choose
from landing_data.generate import generate
from landing_data.plan import Plan

ROOT = Path(__file__).parents[2]
JOB = ROOT / "python_jobs" / "generate_landing.py"
LAST = "2026-01-03"
SMALL = Plan(Path(), customers=100, products=60, orders=900)
LOADER = [name for name, fault in FAULTS.items() if fault.caught_by == "loader"]


def make(out: Path, faults: str = "", plan: Plan = SMALL, **changes: Any) -> Path:
    generate(replace(plan, out=out, **changes), choose(faults), lambda path, rows: None)
    return out


def run(*options: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, JOB, *map(str, options)],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip


def digests(out: Path) -> dict[str, str]:
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(parquet.read_table(path).to_pylist())
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(out: Path, table: str, day: str = "*") -> list[dict[str, Any]]:
    return [row for path in sorted(out.glob(f"*/{day}/{table}-*")) for row in rows_of(path)]


@cache
def _good(folder: Path) -> Path:
    return make(folder / "good")


@pytest.fixture
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _good(tmp_path_factory.getbasetemp())


def cents(order: dict[str, Any]) -> int:
    """Sum the items as a cashier does: each line rounded to cents, half a cent up."""
    return sum(
        (
            item["quantity"] * round(item["unit_price"] * 100) * round(100 - item["discount"] * 100)
            + 50
        )
        // 100
        for item in order["items"]
    )


def unbalanced(orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [order for order in orders if round(order["total_amount"] * 100) != cents(order)]


# The same again


def test_the_same_options_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    options = ["--customers", 100, "--products", 60, "--orders", 900, "--faults", "all"]
    make(tmp_path / "here", "all")
    done = run("--out", tmp_path / "there", *options, PYTHONHASHSEED="7", TZ="Asia/Tokyo")
    assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_another_seed_gives_other_bytes(good: Path, tmp_path: Path) -> None:
    mine, others = digests(good), digests(make(tmp_path, seed=43))
    assert mine.keys() == others.keys()
    assert not [name for name in mine if "/room_data" not in name and mine[name] == others[name]]


def test_running_again_rewrites_what_a_larger_run_left(good: Path, tmp_path: Path) -> None:
    make(tmp_path, part_rows=50)
    make(tmp_path)
    assert digests(tmp_path) == digests(good)


def test_a_longer_run_of_as_many_orders_a_day_has_the_same_first_days(
    good: Path, tmp_path: Path
) -> None:
    longer = digests(make(tmp_path, days=5, orders=1500))
    short = digests(good)
    assert short.items() < longer.items()


# Whole


def test_the_marker_agrees_with_the_files(tmp_path: Path) -> None:
    make(tmp_path, part_rows=100)
    markers = list(tmp_path.glob("*/*/_SUCCESS"))
    assert len(markers) == 6
    for marker in markers:
        promised = json.loads(marker.read_text())["files"]
        there = {path.name: path for path in marker.parent.iterdir() if path != marker}
        assert promised == {
            name: {
                "rows": len(rows_of(path)),
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for name, path in there.items()
        }
    assert max(len(rows_of(path)) for path in tmp_path.glob("shop/*/orders-*")) == 100


def test_a_crash_leaves_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path)

    def crash(plan: Plan, day: int) -> Iterator[Any]:
        yield commerce._orders(plan, pyarrow.array(range(9)).to_numpy(), day)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(commerce, "orders", crash)
    with pytest.raises(LandingError, match="No space left on device"):
        make(tmp_path)
    assert not (tmp_path / "shop/2026-01-01/_SUCCESS").exists()
    assert not list(tmp_path.glob("shop/2026-01-01/orders*"))


def test_memory_does_not_grow_with_scale(tmp_path: Path) -> None:
    # In a process of its own: threads of other tests would be counted with it.
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        peaks = alone.submit(_peaks, tmp_path).result()
    assert peaks[1] < 1.2 * peaks[0], peaks


def _peaks(folder: Path) -> list[int]:
    """Return how many bytes are used at most, to generate little and four times as much."""
    make(folder / "warm", part_rows=1_000)
    peaks = []
    for scale in (2, 8):
        before = pyarrow.default_memory_pool()
        pool = pyarrow.proxy_memory_pool(before)
        pyarrow.set_memory_pool(pool)
        tracemalloc.start()
        make(folder / str(scale), plan=SMALL.scaled(scale * 10), part_rows=1_000)
        peaks.append(tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0))
        tracemalloc.stop()
        pyarrow.set_memory_pool(before)
    return peaks


# True in itself


def test_totals_are_the_sum_of_the_items(good: Path) -> None:
    orders = rows(good, "orders")
    assert len(orders) > 900
    assert unbalanced(orders) == []
    assert all(order["total_amount"] > 0 for order in orders)


def test_references_are_intact(good: Path) -> None:
    orders = rows(good, "orders")
    customers = [row["customer_id"] for row in rows(good, "customers", "2026-01-01")]
    products = [row["product_id"] for row in rows(good, "products", "2026-01-01")]
    assert (len(set(customers)), len(set(products))) == (100, 60)
    assert {order["customer_id"] for order in orders} <= set(customers)
    assert {item["product_id"] for order in orders for item in order["items"]} <= set(products)
    assert len({order["order_id"] for order in orders}) == 900


def test_keys_are_unique_in_large_shops_too() -> None:
    keys = SMALL.key_number("order", numpy.arange(2**31 - 500_000, 2**31, dtype=numpy.int64))
    keys = numpy.concatenate([keys, SMALL.key_number("order", numpy.arange(500_000))])
    assert len(numpy.unique(keys)) == 1_000_000
    assert (keys.min() >= 0, keys.max() < 2**32) == (True, True)


def test_prices_are_those_of_the_products(good: Path) -> None:
    prices = {p["product_id"]: p["price"] for p in rows(good, "products", "2026-01-01")}
    for order in rows(good, "orders"):
        for item in order["items"]:
            assert round(float(prices[item["product_id"]]), 2) == item["unit_price"]


def test_later_days_have_late_and_changed_rows(good: Path) -> None:
    known: set[str] = set()
    for day in ("2026-01-01", "2026-01-02", LAST):
        orders = rows(good, "orders", day)
        changed = [order for order in orders if order["order_id"] in known]
        new = [order for order in orders if order["order_id"] not in known]
        late = [order for order in new if order["order_date"][:10] < day]
        if day != "2026-01-01":
            assert len(changed) > 5
            assert 5 < len(late) < len(new) / 4
            assert all(order["updated_at"][:10] == day for order in changed)
            assert rows(good, "customers", day)
            assert rows(good, "products", day)
        known |= {order["order_id"] for order in orders}


MOVING = {"order_status", "shipped_date", "delivered_date", "updated_at"}


def test_orders_only_move_forward(good: Path) -> None:
    path = {"pending": 0, "processing": 1, "shipped": 2, "cancelled": 2, "delivered": 3}
    latest: dict[str, dict[str, Any]] = {}
    for order in rows(good, "orders"):
        dates = [order["order_date"], order["shipped_date"], order["delivered_date"]]
        there = [moment for moment in dates if moment]
        assert there == sorted(there)
        assert bool(order["shipped_date"]) == (order["order_status"] in ("shipped", "delivered"))
        assert bool(order["delivered_date"]) == (order["order_status"] == "delivered")
        before = latest.get(order["order_id"])
        if before:
            assert before["updated_at"] < order["updated_at"]
            assert path[before["order_status"]] < path[order["order_status"]]
            assert {key for key in order if before[key] != order[key]} <= MOVING
        latest[order["order_id"]] = order
    assert Counter(order["order_status"] for order in latest.values()).keys() == set(path)


def test_people_type_as_people_do(good: Path) -> None:
    customers = rows(good, "customers", "2026-01-01")
    emails = [row["email"] for row in customers]
    assert any(email != email.strip() for email in emails)
    assert any(email != email.lower() for email in emails)
    assert len({email.strip().lower() for email in emails}) == 100
    assert len({"".join(c for c in row["phone"] if not c.isdigit()) for row in customers}) == 4
    assert {order["currency"] for order in rows(good, "orders")} == {"USD", "EUR", "GBP"}


def test_rooms_are_measured_each_minute(good: Path) -> None:
    measured = rows(good, "room_data", LAST)
    assert (measured[0]["measured_at"], measured[-1]["measured_at"]) == (
        "2026-01-03T10:05:00", "2026-01-03T11:00:00",
    )  # fmt: skip
    assert Counter(row["room_type"] for row in measured) == dict.fromkeys(
        ("myroom", "living", "kitchen"), 56
    )
    readings = {(row["device_id"], row["reading_at"]) for row in rows(good, "readings")}
    assert len(readings) == len(rows(good, "readings")) > 17_000


# Wrong where asked

CHANGED_ROWS = {
    "orphan_key": lambda old, new: old["customer_id"] != new["customer_id"],
    "null_key": lambda old, new: new["order_id"] is None,
    "negative_amount": lambda old, new: new["total_amount"] < 0 and not unbalanced([new]),
    "impossible_date": lambda old, new: new["order_date"] == "2026-02-30T10:00:00",
    "text_in_number": lambda old, new: new["total_amount"].endswith(f" {new['currency']}"),
    "unknown_status": lambda old, new: new["order_status"] == "returned",
    "currency_mix_up": lambda old, new: new["currency"] == "EUR" and unbalanced([new]),
    "hot_reading": lambda old, new: (
        (new["room_type"], new["current_temperature"]) == ("living", 105.0)
    ),
}


@pytest.mark.parametrize("name", CHANGED_ROWS)
def test_a_fault_of_rows_is_there_and_only_there(name: str, good: Path, tmp_path: Path) -> None:
    make(tmp_path, name)
    before, after = digests(good), digests(tmp_path)
    source, table = ("sensors", "room_data") if name == "hot_reading" else ("shop", "orders")
    file = f"{source}/{LAST}/{table}-00000.jsonl"
    differing = {f for f in before if before[f] != after[f]}
    assert differing - {f"{source}/{LAST}/_SUCCESS"} == {file}
    pairs = list(zip(rows_of(good / file), rows_of(tmp_path / file), strict=True))
    different = [(old, new) for old, new in pairs if old != new]
    assert len(different) == 3
    for old, new in different:
        assert CHANGED_ROWS[name](old, new)
    customers = {row["customer_id"] for row in rows(good, "customers")}
    strangers = {new.get("customer_id") for _, new in pairs} - customers - {None}
    assert bool(strangers) == (name == "orphan_key")


def test_a_duplicate_key_disagrees_and_is_as_new(good: Path, tmp_path: Path) -> None:
    orders = rows(make(tmp_path, "duplicate_key"), "orders", LAST)
    assert unbalanced(orders) == []
    twice = [key for key, n in Counter(order["order_id"] for order in orders).items() if n > 1]
    assert len(twice) == 3
    for key in twice:
        first, second = (order for order in orders if order["order_id"] == key)
        assert first["updated_at"] == second["updated_at"]
        assert first["items"] != second["items"]
    assert len(orders) == len(rows(good, "orders", LAST)) + 3


def test_all_faults_of_rows_get_rows_of_their_own(tmp_path: Path) -> None:
    orders = rows(make(tmp_path, "test,contract"), "orders", LAST)
    assert sum(order["order_id"] is None for order in orders) == 3
    assert sum(order["order_status"] == "returned" for order in orders) == 3
    assert sum(isinstance(order["total_amount"], str) for order in orders) == 3
    assert sum(order["order_date"].startswith("2026-02-30") for order in orders) == 3


def declared(out: Path, good: Path, source: str, name: str, format: str) -> LandingTable:
    """Declare the table as what a good file has, so that only the fault differs."""
    sample = next((good / source / "2026-01-01").glob(f"{name}-*"))
    if format == "parquet":
        types = {"decimal128(10, 2)": "decimal(10,2)", "int32": "int"}
        types |= {"timestamp[us, tz=UTC]": "timestamp"}
        schema = parquet.read_schema(sample)
        columns = [
            LandingColumn(f.name, "map<string,string>" if f.name == "attributes"
                          else types.get(str(f.type), str(f.type)), False)
            for f in schema
        ]  # fmt: skip
    else:
        kinds: dict[type, str] = {
            dict: "map<string,string>",
            list: "array<struct<product_id:string>>",
        }
        columns = [
            LandingColumn(key, kinds.get(type(value), "string"), key.endswith("ed_date"))
            for key, value in rows_of(sample)[0].items()
        ]
    ending = "parquet" if format == "parquet" else "jsonl"
    return LandingTable(name, out / source, f"*/{name}-*.{ending}", format, tuple(columns))


TABLES = {
    "customers": ("shop", "json"), "products": ("shop", "parquet"), "orders": ("shop", "json"),
    "readings": ("sensors", "parquet"), "room_data": ("sensors", "json"),
}  # fmt: skip
REFUSED = {
    "truncated_file": "customers", "changed_type": "products", "marker_contradicts": "orders",
    "empty_file": "readings", "gone_column": "room_data",
}  # fmt: skip


@pytest.mark.parametrize("name", ["", *REFUSED])
def test_the_loader_refuses_the_table_with_the_fault_and_no_other(
    name: str, good: Path, tmp_path: Path
) -> None:
    make(tmp_path, name)
    for table, (source, format) in TABLES.items():
        landing = declared(tmp_path, good, source, table, format)
        if REFUSED.get(name) != table:
            assert len(new_files(landing, []).files) == 3
            continue
        with pytest.raises(LandingError) as refused:
            new_files(landing, [])
        for part in FAULTS[name].shows.split("…"):
            assert part.strip() in refused.value.why


def test_the_loader_waits_for_a_missing_marker(good: Path, tmp_path: Path) -> None:
    make(tmp_path, "missing_success")
    found = new_files(declared(tmp_path, good, "sensors", "readings", "parquet"), [])
    assert (len(found.files), found.waiting) == (2, [str(tmp_path / "sensors" / LAST)])
    assert set(digests(good)) - set(digests(tmp_path)) == {f"sensors/{LAST}/_SUCCESS"}


def test_each_fault_is_tested_documented_and_listed() -> None:
    tested = {*CHANGED_ROWS, *REFUSED, "duplicate_key", "missing_success"}
    assert tested == set(FAULTS)
    page = (ROOT / "docs" / "landing.md").read_text(encoding="utf-8")
    listed = CliRunner().invoke(app, ["--faults", "list"]).stdout
    for name, fault in FAULTS.items():
        assert f"| `{name}` | {fault.plants} | {fault.caught_by} |" in page
        assert name in listed


def test_what_was_planted_is_printed(tmp_path: Path) -> None:
    options = ["--out", str(tmp_path), "--faults", "loader", "--orders", "3"]
    done = CliRunner().invoke(app, options)
    planted = json.loads(done.stdout[done.stdout.index("{") :])["planted"]
    assert {entry["fault"] for entry in planted} == set(LOADER)
    assert all(LAST in entry["where"] for entry in planted)
    assert not list(tmp_path.rglob("*.json"))


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--faults", "duplicate_keys"], "did you mean 'duplicate_key'?"),
        (["--orders", "-5"], "'--orders'"),
        (["--scale", "0"], "'--scale'"),
        (["--scale", "99999999"], "take a smaller --scale"),
        (["--start", "2026-02-30"], "'2026-02-30' does not match the format"),
        (["--start", "1900-01-01"], "cannot start on 1900-01-01"),
        (["--orders", "30", "--faults", "null_key"], "the last day needs 24 of them"),
        (["--out", "/proc/landing"], "cannot write landing data to /proc/landing"),
    ],
)
def test_bad_options_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--out", str(tmp_path / "out"), *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert isinstance(done.exception, SystemExit)  # else Python would show a traceback
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["notes.txt", "shop", "shop/Gemfile", "shop/2026-01-01/x.csv"])
def test_a_folder_with_something_else_is_left_alone(place: str, tmp_path: Path) -> None:
    stranger = tmp_path / place
    stranger.parent.mkdir(parents=True, exist_ok=True)
    stranger.write_text("mine")
    with pytest.raises(IcegateError, match="it holds something else") as refused:
        make(tmp_path)
    assert refused.value.exit_code == 2
    assert list(digests(tmp_path)) == [place]


def test_a_file_where_the_folder_should_be_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("mine")
    with pytest.raises(IcegateError, match="cannot write landing data") as refused:
        make(tmp_path / "landing")
    assert refused.value.exit_code == 2
    assert (tmp_path / "landing").read_text() == "mine"


def test_other_sources_may_land_beside(tmp_path: Path) -> None:
    make(tmp_path, days=1)
    (tmp_path / "crm" / "2026-01-01").mkdir(parents=True)
    make(tmp_path, days=1, start=date(2026, 1, 2))
    assert len(list((tmp_path / "shop").iterdir())) == 2
