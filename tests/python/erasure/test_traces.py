"""A key is taken out where it stands besides rows: metadata, names of folders, files left over."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from erasure.forgetting import CUSTOMER, KEY, OTHERS, Forgetting, reasons
from icegate.catalog import local_path

pytestmark = pytest.mark.slow
TABLE = "s.customers"


def location(lake: Forgetting) -> Path:
    return local_path(lake.stored(TABLE).metadata["location"])


def test_summaries_and_folders_of_a_partition(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers(by="customer_id", **{"write_summary_partition-limit": "100"})
    lake_to_clean.sql(f"insert into {TABLE} values ('{KEY}', 'again')")
    assert any(KEY in path.name for path in location(lake_to_clean).rglob("*=*"))
    before = lake_to_clean.forget()
    assert before.held[0].old and before.held[0].folders
    folders = {path.name for path in (location(lake_to_clean) / "data").iterdir()}
    assert folders == {f"customer_id={key}" for key in OTHERS}
    logged = lake_to_clean.stored(TABLE).metadata["metadata-log"]
    assert all(local_path(entry["metadata-file"]).is_file() for entry in logged)


def test_bounds_of_files_that_were_deleted_and_expired(lake_to_clean: Forgetting) -> None:
    """The manifest of a delete lists its files, with the lowest and highest values, to the end."""
    lake_to_clean.table(TABLE, "customer_id string", CUSTOMER)
    newest = "older_than => timestamp'2100-01-01', retain_last => 1"
    lake_to_clean.sql(
        f"insert into {TABLE} values ('{OTHERS[0]}')",
        f"insert into {TABLE} values ('{KEY}')",
        f"delete from {TABLE} where customer_id = '{KEY}'",
        f"call system.expire_snapshots(table => '{TABLE}', {newest})",
    )
    assert all(path.endswith("-m0.avro") for path in lake_to_clean.places())
    (held,) = lake_to_clean.forget().held
    assert (held.rows, len(held.versions)) == (0, 1)
    assert lake_to_clean.rows(f"select * from {TABLE}") == [(OTHERS[0],)]


@pytest.mark.parametrize("version", [2, 3])
def test_delete_files_of_many_partitions_that_one_manifest_lists(
    lake_to_clean: Forgetting, version: int
) -> None:
    how = {"version": version, "mode": "merge-on-read", "by": "customer_id"}
    lake_to_clean.table(TABLE, "customer_id string, n int", CUSTOMER, **how)
    rows = ", ".join(f"('{key}', {n})" for key in (KEY, *OTHERS) for n in range(9))
    lake_to_clean.sql(
        f"insert into {TABLE} select /*+ coalesce(1) */ * from values {rows}",
        f"delete from {TABLE} where n in (1, 2)",
        f"delete from {TABLE} where n = 3",
        f"alter table {TABLE} set tblproperties ('write.delete.mode' = 'copy-on-write')",
    )
    deletes = f"select count(*) from {TABLE}.delete_files"
    assert lake_to_clean.rows(deletes) == [(3,)]
    left = lake_to_clean.rows(f"select * from {TABLE} where customer_id != '{KEY}'")
    lake_to_clean.forget()
    assert lake_to_clean.rows(f"select * from {TABLE}") == left
    # A file of vectors names the data files, and with them the keys, of all partitions.
    assert lake_to_clean.rows(deletes) == [(2 if version == 2 else 0,)]
    lake_to_clean.sql(
        f"alter table {TABLE} set tblproperties ('write.delete.mode' = 'merge-on-read')",
        f"delete from {TABLE} where n = 4",
    )
    assert len(lake_to_clean.rows(f"select * from {TABLE}")) == len(left) - len(OTHERS)


def test_files_that_a_killed_writer_left(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers()
    lake_to_clean.sql(f"delete from {TABLE} where customer_id = '{OTHERS[0]}'")
    with_key = [Path(p) for p in lake_to_clean.places() if p.endswith((".parquet", ".avro"))]
    left = [path.with_name(f"left-{path.name}") for path in with_key]
    for path, copy in zip(with_key, left, strict=True):
        copy.write_bytes(path.read_bytes())
        os.utime(copy, (0, 0))
    young = location(lake_to_clean) / "data" / "young.parquet"
    young.write_bytes(next(p for p in with_key if p.suffix == ".parquet").read_bytes())
    _, after, _ = lake_to_clean.erase()
    assert not after.is_clean
    (reason,) = reasons(after)
    assert reason.startswith(str(young)) and "erase again in an hour" in reason
    assert lake_to_clean.places() == [str(young)]
    os.utime(young, (time.time() - 7200,) * 2)
    lake_to_clean.forget()


def test_a_property_that_names_one_is_for_a_person_to_change(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers()
    lake_to_clean.sql(f"alter table {TABLE} set tblproperties ('asked-for-by' = '{KEY}')")
    for found in lake_to_clean.erase()[:2]:
        assert any("a property, comment or default names the key" in r for r in reasons(found))
    lake_to_clean.sql(f"alter table {TABLE} unset tblproperties ('asked-for-by')")
    _, after, _ = lake_to_clean.erase()
    assert after.is_clean
    assert lake_to_clean.places() == []
