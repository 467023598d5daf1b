"""Rows are taken out of every file of every version, however they were written and hidden."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from history.versioned import KINDS

from erasure.forgetting import CUSTOMER, KEY, OTHERS, Forgetting, reasons
from icegate import hash_key
from icegate.catalog import local_path, open_catalog
from icegate.streams.places import ERRORS

pytestmark = pytest.mark.slow


LAYOUTS = ("", "customer_id", "bucket(2, customer_id)")


def test_each_kind_of_table(lake_to_clean: Forgetting) -> None:
    tables = {}
    for number, (kind, by) in enumerate(itertools.product(KINDS, LAYOUTS)):
        name, (version, mode) = f"s.table_{number}", KINDS[kind]
        lake_to_clean.customers(name, version=version, mode=mode, by=by)
        lake_to_clean.sql(
            f"update {name} set name = concat('new ', name) where customer_id != '{OTHERS[1]}'",
            f"delete from {name} where customer_id = '{KEY}'",
            f"alter table {name} rename column name to full_name",
            f"insert into {name} values ('{KEY}', 'came back'), ('{KEY}', null), (null, 'nobody')",
            f"call system.rewrite_manifests('{name}')",
            f"delete from {name} where full_name is null",
        )
        left = f"select * from {name} where customer_id is distinct from '{KEY}'"
        tables[name] = lake_to_clean.rows(left)
    before = lake_to_clean.forget()
    assert {held.name for held in before.held} == {*tables}
    assert all(held.rows >= 3 for held in before.held)
    for name, others in tables.items():
        assert lake_to_clean.rows(f"select * from {name}") == others, name
        lake_to_clean.sql(f"insert into {name} values ('{OTHERS[0]}', 'is written to again')")
        assert len(lake_to_clean.rows(f"select * from {name}")) == len(others) + 1


KEYS = {
    "int": "170017",
    "bigint": "9000000000017",
    "decimal(12, 0)": "230023",
    "date": "1990-05-17",
}


def test_keys_that_are_no_text(lake_to_clean: Forgetting) -> None:
    for number, (kind, key) in enumerate(KEYS.items()):
        name, whose = f"s.table_{number}", f"kind_{number}"
        marks = {"customer_id": {"subject_key": whose}}
        lake_to_clean.table(name, f"customer_id {kind}, n int", marks, by="customer_id")
        value, more = f"cast('{key}' as {kind})", "interval 1 day" if kind == "date" else "1"
        other = f"cast({value} + {more} as {kind})"
        lake_to_clean.sql(f"insert into {name} values ({value}, 1), ({other}, 2), (null, 3)")
    for number, key in enumerate(KEYS.values()):
        _, after, _ = lake_to_clean.erase(subject=f"kind_{number}={key}")
        assert after.is_clean, reasons(after)
        assert lake_to_clean.rows(f"select n from s.table_{number}") == [(2,), (3,)]
        assert len(lake_to_clean.stored(f"s.table_{number}").metadata["snapshots"]) == 1


def test_uuids(lake_to_clean: Forgetting) -> None:
    lake_to_clean.describe("s.customers", CUSTOMER)
    one, two = uuid.uuid4(), uuid.uuid4()
    kept = pa.table({"customer_id": pa.array([one.bytes, two.bytes], pa.uuid()), "n": [1, 2]})
    table = open_catalog(lake_to_clean.lake).create_table("s.customers", kept.schema)
    table.append(kept)
    _, after, _ = lake_to_clean.erase(subject=f"customer={one}")
    assert after.is_clean, reasons(after)
    assert lake_to_clean.rows("select customer_id, n from s.customers") == [(str(two), 2)]


def test_blanks_around_a_key(lake_to_clean: Forgetting) -> None:
    lake_to_clean.table("s.customers", "customer_id string, n int", CUSTOMER)
    others = ", ".join(f"('{key}', 1)" for key in OTHERS)
    lake_to_clean.sql(
        f"insert into s.customers values {others}",
        f"insert into s.customers values (' {KEY}\\t\\n', 2)",
    )
    before = lake_to_clean.forget()
    assert before.held[0].rows == 1
    assert [key for key, _ in lake_to_clean.rows("select * from s.customers")] == sorted(OTHERS)


NOTES = {
    "string": "'{} called'",
    "array<string>": "array('called', '{}')",
    "map<string, string>": "map('by', '{}')",
    "struct<by: string, day: date>": "named_struct('by', '{}', 'day', current_date())",
    "binary": "cast('by {}!' as binary)",
}


def test_text_that_names_one(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers()
    for number, (kind, note) in enumerate(NOTES.items()):
        lake_to_clean.table(
            f"s.calls_{number}", f"id int, note {kind}", {"note": {"subject_text": True}}
        )
        notes = ", ".join(f"({n}, {note.format(key)})" for n, key in enumerate((KEY, *OTHERS)))
        lake_to_clean.sql(f"insert into s.calls_{number} values {notes}, (9, null)")
    lake_to_clean.forget()
    for number in range(len(NOTES)):
        assert lake_to_clean.rows(f"select id from s.calls_{number}") == [(1,), (2,), (9,)]


def test_what_one_has_goes_too_and_what_others_have_stays(lake_to_clean: Forgetting) -> None:
    order: dict[str, Any] = {"order_id": {"subject_key": "customer/order"}}
    line: dict[str, Any] = {"line_id": {"subject_key": "customer/order/line"}}
    lake_to_clean.table("s.orders", "order_id string, customer_id string", {**CUSTOMER, **order})
    lake_to_clean.table("s.lines", "order_id string, line_id string", {**order, **line})
    lake_to_clean.table("s.parcels", "line_id string, weight int", line)
    lake_to_clean.sql(
        f"insert into s.orders values ('O-1', '{KEY}'), ('O-2', '{OTHERS[0]}'), ('O-3', '{KEY}')",
        # An order that another customer's row has as well; and one that was deleted since.
        f"insert into s.orders values ('O-1', '{OTHERS[0]}'), ('O-1', ' ')",
        "delete from s.orders where order_id = 'O-3'",
        "insert into s.lines values ('O-1', 'L-1'), ('O-2', 'L-2'), ('O-3', 'L-3'), (null, 'L-3')",
        "insert into s.parcels values ('L-1', 1), ('L-2', 2), ('L-3', 3)",
    )
    lake_to_clean.forget()
    assert lake_to_clean.places("O-3") == lake_to_clean.places("L-3") == []
    assert lake_to_clean.rows("select * from s.orders") == [
        ("O-1", OTHERS[0]),
        ("O-2", OTHERS[0]),
    ]
    assert lake_to_clean.rows("select * from s.lines") == [("O-2", "L-2")]
    assert lake_to_clean.rows("select * from s.parcels") == [("L-2", 2)]


def test_pseudonyms(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers()
    marks: dict[str, Any] = {"who": {"subject_key": "customer", "keyed_hash": "people"}}
    lake_to_clean.table("s.public", "who string, amount int", marks)
    key = hash_key.read(lake_to_clean.lake.home)
    inner = f"concat('{key}', sha2(concat('{key}:people:', customer_id), 256))"
    lake_to_clean.sql(f"insert into s.public select sha2({inner}, 256), 5 from s.customers")
    ((mine,),) = lake_to_clean.rows(
        f"select sha2({inner}, 256) from s.customers where customer_id = '{KEY}'"
    )
    assert lake_to_clean.places(mine)
    lake_to_clean.forget()
    assert lake_to_clean.places(mine) == []
    assert len(lake_to_clean.rows("select * from s.public")) == len(OTHERS)


def test_deletes_by_values_of_another_engine(lake_to_clean: Forgetting) -> None:
    """An equality delete has the keys that it deletes; Spark reads such files, and writes none."""
    lake_to_clean.customers()
    java = lake_to_clean.spark._jvm
    table = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        lake_to_clean.spark._jsparkSession, "s.customers"
    )
    field = pa.field("customer_id", pa.string(), metadata={"PARQUET:field_id": "1"})
    path = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    parquet.write_table(
        pa.table({"customer_id": [KEY]}, schema=pa.schema([field])), local_path(path)
    )
    ids = lake_to_clean.spark.sparkContext._gateway.new_array(java.int, 1)
    ids[0] = 1
    file = java.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
    file = file.ofEqualityDeletes(ids).withFormat("parquet").withPath(path).withRecordCount(1)
    file = file.withFileSizeInBytes(local_path(path).stat().st_size)
    table.newRowDelta().addDeletes(file.build()).commit()
    lake_to_clean.sql("refresh table s.customers")
    assert len(lake_to_clean.rows("select * from s.customers")) == len(OTHERS)
    lake_to_clean.forget()
    assert len(lake_to_clean.rows("select * from s.customers")) == len(OTHERS)


def test_records_that_a_stream_could_not_read(lake_to_clean: Forgetting) -> None:
    lake_to_clean.customers()
    lake_to_clean.sql(
        "create namespace icegate",
        f"create table {ERRORS} (n int, key binary, raw binary, error string) using iceberg",
        f"insert into {ERRORS} values (1, cast('{KEY}' as binary), null, null),"
        f" (2, null, cast('{{\"by\": \"{KEY}\"}}' as binary), null), (3, null, null, 'of {KEY}'),"
        f' (4, null, cast(\'{{"by": 17, "of": "{OTHERS[1]}"}}\' as binary), null)',
    )
    lake_to_clean.forget()
    lake_to_clean.erase(subject="customer=17")
    assert lake_to_clean.rows(f"select n from {ERRORS}") == [(4,)]
