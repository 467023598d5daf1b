"""What can't be trusted is never a pass: damaged files, too little memory, tables that go."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audits.cases import question
from icegate.audits import scan
from icegate.audits.answer import Answer, Left, Prover
from icegate.audits.source import Source
from icegate.errors import TableError
from icegate.explain import explain
from icegate.settings import Lake

NOT_NULL = "select id from {t} where id is null"  # metadata proves it
UNIQUE = "select id from {t} group by id having count(*) > 1"  # a scan does
ODD = "select id from {t} where hash(id) = 0"  # Spark does


class Damaged:
    """A table with rows in two files and a delete file, to be damaged."""

    def __init__(self, lake: Lake, spark: Any) -> None:
        self.lake, self.spark = lake, spark
        schema = f"audit_{uuid.uuid4().hex[:8]}"
        self.table = f"{schema}.orders"
        spark.sql(f"create namespace {schema}")
        self.create()

    def create(self) -> None:
        self.spark.sql(
            f"create table {self.table} (id bigint) using iceberg tblproperties "
            "('write.delete.mode' = 'merge-on-read', 'format-version' = '2')"
        )
        for start in (0, 1000):
            self.spark.sql(f"insert into {self.table} select id from range({start}, {start} + 999)")
        self.spark.sql(f"delete from {self.table} where id = 7")

    def files(self, which: str, column: str = "file_path") -> list[Path]:
        found = self.spark.sql(f"select {column} from {self.table}.{which} order by 1").collect()
        return [Path(path.removeprefix("file:")) for (path,) in found]

    def query(self, select: str) -> str:
        return question(select.format(t=self.table))

    def ask(self, select: str, prover: Prover | None = None) -> Answer | Left:
        return (prover or Prover(self.lake)).answer(self.query(select))


@pytest.fixture
def damaged(lake: Lake, spark: Any) -> Damaged:
    return Damaged(lake, spark)


DAMAGES: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "a data file is gone": ("data_files", Path.unlink, "is gone"),
    "a data file is cut off": (
        "data_files",
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        "bytes, and its metadata says",
    ),
    "a delete file is gone": ("delete_files", Path.unlink, "is gone"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_file_has_to_be_there(damaged: Damaged, damage: str) -> None:
    prover = Prover(damaged.lake)
    before = [damaged.ask(select, prover) for select in (NOT_NULL, UNIQUE, ODD)]
    assert [type(found) for found in before] == [Answer, Answer, Left]
    prover.save()
    which, do, said = DAMAGES[damage]
    path = damaged.files(which)[0]
    do(path)
    for select in (NOT_NULL, UNIQUE, ODD):
        with pytest.raises(TableError) as raised:
            damaged.ask(select)
        assert raised.value.what.startswith(f"cannot test {damaged.table}: {path} ")
        assert said in raised.value.what


def test_a_damaged_data_file_is_named(damaged: Damaged) -> None:
    path = damaged.files("data_files")[0]
    path.write_bytes(bytes(path.stat().st_size))
    found = damaged.ask(UNIQUE)
    assert isinstance(found, Left), found
    assert found.tried[-1].startswith("scan (duckdb): ")
    assert path.name in found.tried[-1]
    with pytest.raises(Exception, match=path.name):
        damaged.spark.sql(damaged.query(UNIQUE)).collect()


def test_a_damaged_manifest_is_named(damaged: Damaged) -> None:
    path = damaged.files("manifests", "path")[0]
    path.write_bytes(bytes(path.stat().st_size))
    for select in (NOT_NULL, UNIQUE, ODD):
        found = damaged.ask(select)
        assert isinstance(found, Left), found
        with pytest.raises(Exception, match="manifest|Avro|avro") as raised:
            damaged.spark.sql(damaged.query(select)).collect()
    assert path.name in explain(raised.value)


def test_too_little_memory_leaves_it_to_spark(
    damaged: Damaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MEMORY", "10MB")
    damaged.spark.sql(f"alter table {damaged.table} add column name string")
    rows = "select id, md5(string(id)) from range(900000)"
    damaged.spark.sql(f"insert overwrite {damaged.table} {rows}")
    found = damaged.ask("select name from {t} group by name having count(*) > 1")
    assert isinstance(found, Left), found
    assert "Out of Memory" in found.tried[-1]


def test_a_table_that_is_made_anew_meanwhile_is_asked_anew(
    damaged: Damaged, monkeypatch: pytest.MonkeyPatch
) -> None:
    prover = Prover(damaged.lake)
    assert isinstance(damaged.ask(UNIQUE, prover), Answer)
    checked = Source.check_files

    def replaced(source: Source) -> None:
        checked(source)
        monkeypatch.setattr(Source, "check_files", checked)
        damaged.spark.sql(f"drop table {damaged.table} purge")
        damaged.create()
        damaged.spark.sql(f"insert into {damaged.table} values (1), (null)")

    monkeypatch.setattr(Source, "check_files", replaced)
    first = damaged.ask(UNIQUE)
    assert isinstance(first, Left), first  # the files that it began with are gone
    for select, failures in ((UNIQUE, 1), (NOT_NULL, 1)):
        found = damaged.ask(select, prover)
        assert isinstance(found, Answer), found
        assert found.row[0] == failures


def test_a_column_that_is_not_there_is_never_a_pass(damaged: Damaged) -> None:
    found = damaged.ask("select id from {t} where amount is null")
    assert isinstance(found, Left), found
    with pytest.raises(Exception, match="amount"):
        damaged.spark.sql(damaged.query("select id from {t} where amount is null")).collect()
