"""Which landing files are ready and whole; each way of not being so is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet as parquet
import pytest

from icegate.errors import LandingError
from icegate.landing import LandingTable, file_key, landing_table, new_files


class Column(NamedTuple):
    name: str
    data_type: str
    meta: dict[str, Any] = {}


ORDERS = [Column("order_id", "string"), Column("items", "array<struct<product_id:string>>")]
PRODUCTS = [Column("product_id", "string"), Column("price", "decimal(10, 2)")]
GOOD_ORDERS = [{"order_id": str(n), "items": [{"product_id": "p"}]} for n in range(3)]


def write_day(folder: Path, name: str, day: str = "2026-01-01") -> Path:
    """Write one whole file with its marker and return the file."""
    path = folder / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("parquet"):
        price = pyarrow.array([Decimal("1.50")] * 3, pyarrow.decimal128(10, 2))
        parquet.write_table(pyarrow.table({"product_id": ["a", "b", "c"], "price": price}), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in GOOD_ORDERS))
    mark(path, rows=3)
    return path


def mark(path: Path, rows: int) -> None:
    marker = path.parent / "_SUCCESS"
    files = json.loads(marker.read_text())["files"] if marker.exists() else {}
    files[path.name] = {"rows": rows, "bytes": path.stat().st_size}
    marker.write_text(json.dumps({"files": files}))


@pytest.fixture
def orders(tmp_path: Path) -> LandingTable:
    return landing_table("shop.orders", str(tmp_path / "a b/*/orders-*.jsonl"), "json", ORDERS)


@pytest.fixture
def products(tmp_path: Path) -> LandingTable:
    location = str(tmp_path / "a b/*/products-*.parquet")
    return landing_table("shop.products", location, "parquet", PRODUCTS)


def test_each_file_once_and_only_when_its_day_is_complete(orders: LandingTable) -> None:
    first = write_day(orders.folder, "orders-00000.jsonl")
    second = write_day(orders.folder, "orders-00000.jsonl", day="2026-01-02")
    (second.parent / "_SUCCESS").unlink()
    found = new_files(orders, set())
    assert found.files == [first] and found.waiting == [str(second.parent)]
    assert new_files(orders, {file_key(first)}).files == []
    mark(second, rows=3)
    assert new_files(orders, {file_key(first)}).files == [second]


def test_no_folder_and_no_file(orders: LandingTable) -> None:
    with pytest.raises(LandingError, match=r"no folder(.|\n)*make landing"):
        new_files(orders, set())
    orders.folder.mkdir()
    with pytest.raises(LandingError, match="no file has landed yet"):
        new_files(orders, set())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lose_a_line(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    mark(path, rows=3)


def rewrite(**columns: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        if path.suffix == ".parquet":
            parquet.write_table(pyarrow.table(columns), path)
        else:
            path.write_text(json.dumps(columns) + "\n")
        mark(path, rows=1)

    return change


def promise_another_checksum(path: Path) -> None:
    told = json.loads((path.parent / "_SUCCESS").read_text())
    told["files"][path.name]["sha256"] = "0" * 64
    (path.parent / "_SUCCESS").write_text(json.dumps(told))


def bad_marker(text: str) -> Callable[[Path], None]:
    return lambda path: (path.parent / "_SUCCESS").write_text(text) and None


@pytest.mark.parametrize(
    ("name", "harm", "why"),
    [
        ("orders-00000.jsonl", cut, "truncated"),
        ("products-00000.parquet", cut, "truncated"),
        ("orders-00000.jsonl", empty, "it is empty"),
        ("products-00000.parquet", empty, "it is empty"),
        ("orders-00000.jsonl", lose_a_line, "it has 2 rows, and _SUCCESS promises 3"),
        ("orders-00000.jsonl", promise_another_checksum, "its SHA-256 isn't the one that"),
        ("products-00000.parquet", promise_another_checksum, "its SHA-256 isn't the one that"),
        ("orders-00000.jsonl", rewrite(order_id="1"), "column 'items' is gone"),
        ("orders-00000.jsonl", rewrite(order_id="1", items="x"), "column 'items' is str, not arr"),
        ("orders-00000.jsonl", rewrite(order_id=["1"], items=[]), "'order_id' is list, not string"),
        ("products-00000.parquet", rewrite(product_id=["a"]), "column 'price' is gone"),
        (
            "products-00000.parquet",
            rewrite(product_id=["a"], price=["1"]),
            "'price' is string, not",
        ),
        ("orders-00000.jsonl", Path.unlink, "promises it, but it isn't there"),
        ("orders-00000.jsonl", bad_marker(""), "bad marker"),
        ("orders-00000.jsonl", bad_marker('{"files": {"orders-00000.jsonl": {}}}'), "bad marker"),
        ("orders-00000.jsonl", bad_marker('{"files": {}}'), "doesn't name it"),
    ],
)
def test_a_file_that_is_not_whole_is_refused(
    orders: LandingTable,
    products: LandingTable,
    name: str,
    harm: Callable[[Path], None],
    why: str,
) -> None:
    table = orders if name.startswith("orders") else products
    write_day(table.folder, name)
    write_day(table.folder, name.replace("00000", "00001"))
    assert len(new_files(table, set()).files) == 2
    harm(table.folder / "2026-01-01" / name)
    with pytest.raises(LandingError, match=f"(?s){table.name}.*{why}.*fix: "):
        new_files(table, set())


def test_bytes_are_optional_and_lines_are_counted(orders: LandingTable) -> None:
    path = write_day(orders.folder, "orders-00000.jsonl")
    (path.parent / "_SUCCESS").write_text('{"files": {"orders-00000.jsonl": {"rows": 3}}}')
    assert new_files(orders, set()).files == [path]
    path.write_text(path.read_text() + "not json\n")
    with pytest.raises(LandingError, match="it has 4 rows"):
        new_files(orders, set())


def test_an_optional_column_may_be_absent(tmp_path: Path) -> None:
    columns = [*ORDERS, Column("coupon", "string", {"optional": True})]
    table = landing_table("shop.orders", str(tmp_path / "*/orders-*.jsonl"), "json", columns)
    write_day(table.folder, "orders-00000.jsonl")
    assert len(new_files(table, set()).files) == 1


@pytest.mark.parametrize(
    ("format", "columns", "why"),
    [
        ("csv", ORDERS, "format is 'csv'"),
        ("json", [], "it has no columns"),
        ("json", [Column("a", "")], "no data_type"),
    ],
)
def test_a_source_that_cannot_be_read_from_files(
    format: str, columns: list[Column], why: str
) -> None:
    with pytest.raises(LandingError, match=why):
        landing_table("shop.orders", "landing/*/orders-*.jsonl", format, columns)


@pytest.mark.parametrize("name", ["a%b", "a#b", "a b", "a+b&c=d", "ü", "a;b", "a'b", "a[1]", "a^b"])
def test_spark_knows_a_file_by_the_same_path(tmp_path: Path, spark: Any, name: str) -> None:
    location = str(tmp_path / "landing é/*/orders-*.jsonl")
    table = landing_table("shop.orders", location, "json", ORDERS)
    path = write_day(table.folder, f"orders-{name}.jsonl")
    query = f"select _metadata.file_path, order_id, items from {table.render()}"
    rows = spark.sql(query).collect()
    assert len(rows) == 3 and rows[0].items[0].product_id == "p"
    assert {"/".join(row.file_path.split("/")[-2:]) for row in rows} == {file_key(path)}
