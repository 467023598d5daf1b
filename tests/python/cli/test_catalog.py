"""The catalog is listed and checked without a JVM, and a broken one says how to repair it."""

from __future__ import annotations

import gzip
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from shop import lake_of, make_project

from icegate.catalog import (
    CatalogEntry,
    check_catalog,
    list_relations,
    local_path,
    open_catalog,
    read_metadata,
)
from icegate.errors import CatalogError

ROOT_MAY_ALL = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_lists_what_pyiceberg_made(shop):
    names = [(entry.full_name, entry.kind) for entry in list_relations(lake_of(shop))]
    assert names == [
        ("gold.dim_customers", "table"),
        ("gold.who_bought", "view"),
        ("silver.curated_orders", "table"),
        ("silver.empty", "table"),
    ]


def test_pyiceberg_opens_the_same_tables(shop):
    table = open_catalog(lake_of(shop)).load_table("silver.curated_orders")
    assert table.scan().to_arrow().num_rows == 3


def test_a_project_that_was_never_built_is_fine(tmp_path):
    lake = lake_of(make_project(tmp_path / "a b"))
    check_catalog(lake)
    assert list_relations(lake) == []
    assert not lake.home.exists()


def test_an_empty_database_has_no_tables(tmp_path):
    lake = lake_of(make_project(tmp_path / "a b"))
    lake.home.mkdir()
    lake.catalog_db.touch()
    check_catalog(lake)
    assert list_relations(lake) == []


@pytest.mark.parametrize("location", ["file:/a b/x%20y", "file:///a b/x%20y", "/a b/x%20y"])
def test_locations_are_taken_as_they_stand(location):
    assert local_path(location) == Path("/a b/x%20y")


def test_reads_compressed_metadata(tmp_path):
    file = tmp_path / "1.gz.metadata.json"
    file.write_bytes(gzip.compress(b'{"format-version": 2}'))
    entry = CatalogEntry("a", "b", "table", f"file:{file}")
    assert read_metadata(entry) == {"format-version": 2}


def test_check_passes_and_changes_nothing(own_shop):
    lake = lake_of(own_shop)
    before = lake.catalog_db.read_bytes()
    check_catalog(lake)
    assert lake.catalog_db.read_bytes() == before


def test_a_lock_of_another_process_is_named(locked):
    with pytest.raises(CatalogError, match="another process has held its lock for over 1 s"):
        check_catalog(lake_of(locked))


def test_a_moved_warehouse_names_both_places(own_shop):
    lake = lake_of(own_shop)
    moved = own_shop.rename(own_shop.with_name("c d"))
    with pytest.raises(CatalogError) as caught:
        check_catalog(lake_of(moved))
    assert "4 of 4 tables" in caught.value.what
    assert str(lake.warehouse) in caught.value.why
    assert str(moved) in caught.value.why
    assert f"move it back to {lake.warehouse}" in caught.value.fix


def test_lost_files_are_not_called_a_move(own_shop):
    lake = lake_of(own_shop)
    list_relations(lake)[0].metadata_file.unlink()
    with pytest.raises(CatalogError, match="1 of 4 tables are gone") as caught:
        check_catalog(lake)
    assert "the first of gold.dim_customers" in caught.value.why


def test_a_file_that_is_no_database(own_shop):
    lake = lake_of(own_shop)
    lake.catalog_db.write_bytes(b"no database" * 1000)
    with pytest.raises(CatalogError, match="isn't a whole SQLite database"):
        check_catalog(lake)


@ROOT_MAY_ALL
def test_a_folder_without_write_permission(own_shop):
    lake = lake_of(own_shop)
    lake.home.chmod(0o500)
    try:
        assert len(list_relations(lake)) == 4
        with pytest.raises(CatalogError, match="may not write"):
            check_catalog(lake)
    finally:
        lake.home.chmod(0o700)


def test_catalogs_of_before_views_are_read(own_shop):
    lake = lake_of(own_shop)
    with closing(sqlite3.connect(lake.catalog_db)) as db:
        db.execute("alter table iceberg_tables drop column iceberg_type")
        db.commit()
    assert len(list_relations(lake)) == 4
