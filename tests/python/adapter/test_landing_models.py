"""A bronze model over landing files: each file once, and a bad day leaves the table as it was."""

from __future__ import annotations

import fcntl
import subprocess

import pytest
from conftest import DbtProject
from test_landing import mark, write_day

from icegate.dbt_process import DBT

pytestmark = pytest.mark.slow

BRONZE = """
    {{ config(materialized='incremental') }}
    select order_id, size(items) as item_count, _raw_text,
        substring_index(_metadata.file_path, '/', -2) as loaded_from
    from {{ source('shop', 'orders') }}
    where {{ not_yet_loaded(source('shop', 'orders')) }}
"""


@pytest.fixture
def shop(project: DbtProject) -> DbtProject:
    columns = [
        {"name": "order_id", "data_type": "string"},
        {"name": "items", "data_type": "array<struct<product_id:string>>"},
    ]
    meta = {"location": "landing/*/orders-*.jsonl", "format": "json"}
    table = {"name": "orders", "config": {"meta": meta}, "columns": columns}
    project.write_yaml("models/sources.yml", {"sources": [{"name": "shop", "tables": [table]}]})
    project.write("models/raw_orders.sql", BRONZE)
    return project


def test_two_runs_on_the_same_files_change_nothing(shop: DbtProject) -> None:
    landing = shop.folder / "landing"
    write_day(landing, "orders-00000.jsonl")
    assert shop.dbt("run").ok
    assert shop.dbt("run").ok
    assert shop.rows("select count(*), sum(item_count) from {s}.raw_orders") == [(3, 3)]
    assert shop.rows("select count(*) from {s}.raw_orders.snapshots") == [(1,)]
    write_day(landing, "orders-00000.jsonl", day="2026-01-02")
    assert shop.dbt("run").ok
    found = shop.rows("select loaded_from, count(*) from {s}.raw_orders group by 1 order by 1")
    assert found == [("2026-01-01/orders-00000.jsonl", 3), ("2026-01-02/orders-00000.jsonl", 3)]


@pytest.mark.parametrize("above", ["elsewhere/..", "."])
def test_a_folder_that_is_named_the_long_way_has_its_rows(shop: DbtProject, above: str) -> None:
    sources = (shop.folder / "models/sources.yml").read_text()
    shop.write("models/sources.yml", sources.replace("landing/*", f"{above}//landing/*"))
    write_day(shop.folder / "landing", "orders-00000.jsonl")
    assert shop.dbt("run").ok
    assert shop.rows("select count(*) from {s}.raw_orders") == [(3,)]


def test_a_project_that_is_named_from_where_one_stands_has_its_rows(
    shop: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_day(shop.folder / "landing", "orders-00000.jsonl")
    monkeypatch.chdir(shop.folder.parent)
    shop.folder = shop.folder.relative_to(shop.folder.parent)
    assert shop.dbt("run").ok
    assert shop.rows("select count(*) from {s}.raw_orders") == [(3,)]


def test_a_day_without_its_marker_waits(shop: DbtProject) -> None:
    write_day(shop.folder / "landing", "orders-00000.jsonl")
    late = write_day(shop.folder / "landing", "orders-00000.jsonl", day="2026-01-02")
    (late.parent / "_SUCCESS").unlink()
    assert shop.dbt("run").ok
    assert shop.rows("select count(*) from {s}.raw_orders") == [(3,)]
    mark(late, rows=3)
    assert shop.dbt("run").ok
    assert shop.rows("select count(*) from {s}.raw_orders") == [(6,)]


def test_a_truncated_file_stops_the_model_and_leaves_the_table(shop: DbtProject) -> None:
    write_day(shop.folder / "landing", "orders-00000.jsonl")
    assert shop.dbt("run").ok
    bad = write_day(shop.folder / "landing", "orders-00000.jsonl", day="2026-01-02")
    bad.write_bytes(bad.read_bytes()[:-5])
    run = shop.dbt("run")
    assert not run.ok
    assert "orders-00000.jsonl into shop.orders" in run.text and "truncated" in run.text
    assert shop.rows("select count(*) from {s}.raw_orders") == [(3,)]


def test_a_missing_folder_names_the_way_out(shop: DbtProject) -> None:
    run = shop.dbt("run")
    assert not run.ok and "make landing" in run.text


def test_a_line_that_is_no_json_is_kept_as_text(shop: DbtProject) -> None:
    path = write_day(shop.folder / "landing", "orders-00000.jsonl")
    path.write_text(path.read_text() + '{"order_id": "9", \n')
    mark(path, rows=4)
    assert shop.dbt("run").ok
    found = shop.rows("select order_id, _raw_text from {s}.raw_orders where item_count is null")
    assert [text for _, text in found] == ['{"order_id": "9", ']


def test_two_builds_at_once_load_a_file_once(shop: DbtProject) -> None:
    """The second waits at the table until the first has committed, and finds nothing to load."""
    landing = shop.folder / "landing"
    write_day(landing, "orders-00000.jsonl")
    assert shop.dbt("run").ok
    write_day(landing, "orders-00000.jsonl", day="2026-01-02")
    processes = []
    for name in ("left", "right"):
        paths = ["--target-path", str(shop.folder / name), "--log-path", str(shop.folder / name)]
        where = ["--project-dir", str(shop.folder), "--profiles-dir", str(shop.folder)]
        command = [*DBT, "--quiet", "run", *where, *paths]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for process in processes:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    found = shop.rows("select loaded_from, count(*) from {s}.raw_orders group by 1 order by 1")
    assert found == [("2026-01-01/orders-00000.jsonl", 3), ("2026-01-02/orders-00000.jsonl", 3)]


def test_a_build_that_ended_in_an_error_lets_others_load(shop: DbtProject) -> None:
    write_day(shop.folder / "landing", "orders-00000.jsonl")
    assert shop.dbt("run").ok
    wrong = BRONZE + " and nonsense"
    shop.write("models/raw_orders.sql", wrong)
    assert not shop.dbt("run").ok
    lock = shop.lake.home / "builds" / f"loading.{shop.schema}.raw_orders.lock"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
