"""A lake in which a customer is to be forgotten, and who looks into each of its files for the key.

Who looks is no part of the product: Parquet is read whole, whatever deletes its rows, and Avro as
bytes, so that bounds and statistics count as well.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from icegate.catalog import list_relations
from icegate.erasure.run import Erasure, Found
from icegate.erasure.subject import Known, Subject
from icegate.gate import refs
from icegate.gate.store import StoredTable, read_tables
from icegate.settings import Lake

KEY = "C-000017"
OTHERS = ("C-000018", "C-0000171")
CUSTOMER: dict[str, Any] = {"customer_id": {"subject_key": "customer"}}
Rows = list[tuple[Any, ...]]


class Forgetting:
    """Tables that SQL makes, marked as a manifest of dbt would have it."""

    def __init__(self, folder: Path, lake: Lake, spark: Any) -> None:
        self.folder, self.lake, self.spark = folder, lake, spark
        self.marks: dict[str, dict[str, Any]] = {}
        self.manifest: dict[str, Any] = {"nodes": {}, "sources": {}}
        folder.mkdir(parents=True, exist_ok=True)
        spark.sql("create namespace if not exists s")

    def describe(self, name: str, columns: Mapping[str, Any], **config: Any) -> None:
        """Mark the columns of a model."""
        schema, _, alias = name.partition(".")
        self.manifest["nodes"][f"model.shop.{alias}"] = {
            "resource_type": "model",
            "unique_id": f"model.shop.{alias}",
            "schema": schema,
            "alias": alias,
            "columns": {c: {"name": c, "config": {"meta": meta}} for c, meta in columns.items()},
            "config": config,
            "depends_on": {"nodes": []},
        }

    def table(
        self,
        name: str,
        columns: str,
        marks: Mapping[str, Any],
        *,
        version: int = 2,
        mode: str = "copy-on-write",
        by: str = "",
        **properties: str,
    ) -> None:
        """Make a table of a model."""
        told = {"format-version": str(version)}
        told |= {f"write.{of}.mode": mode for of in ("merge", "update", "delete")}
        told |= {key.replace("_", "."): value for key, value in properties.items()}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in told.items())
        self.sql(
            f"create table {name} ({columns}) using iceberg"
            f" {by and f'partitioned by ({by})'} tblproperties ({listed})"
        )
        self.describe(name, marks)

    def customers(self, name: str = "s.customers", **how: Any) -> None:
        """Make a table with three customers, of which one is to go."""
        self.table(name, "customer_id string, name string", CUSTOMER, **how)
        self.sql(f"insert into {name} values {self.people()}")

    @staticmethod
    def people() -> str:
        """Return three customers as values."""
        return ", ".join(f"('{key}', '{key} by name')" for key in (KEY, *OTHERS))

    def sql(self, *statements: str) -> None:
        """Run statements."""
        for statement in statements:
            self.spark.sql(statement)

    def rows(self, query: str) -> Rows:
        """Return the rows of a query, sorted."""
        return sorted((tuple(row) for row in self.spark.sql(query).collect()), key=repr)

    def stored(self, name: str) -> StoredTable:
        """Return a table as the catalog has it."""
        (found,) = read_tables(self.lake, [name])
        return found

    def refs(self, name: str) -> set[str]:
        """Return the branches and tags of a table."""
        return set(self.stored(name).metadata["refs"])

    def head(self, name: str) -> int | None:
        """Return what main is."""
        return refs.head(self.stored(name).metadata)

    def erasure(self, *drop: str, subject: str = f"customer={KEY}") -> Erasure:
        """Return the erasure of a subject that isn't done yet."""
        whom = Subject.of(subject, Known(self.manifest).kinds)
        return Erasure(self.lake, self.folder, self.manifest, whom, "t", drop)

    def erase(
        self, *drop: str, subject: str = f"customer={KEY}"
    ) -> tuple[Found, Found, dict[str, Any]]:
        """Erase; return what was found before and after, and the cost."""
        return self.erasure(*drop, subject=subject).erase(lambda: self.spark)

    def forget(self, *drop: str, subject: str = f"customer={KEY}", key: str = KEY) -> Found:
        """Erase, and see that it's certified, and rightly so: no file has the key."""
        assert self.places(key)
        before, after, _ = self.erase(*drop, subject=subject)
        assert [*after.blocks()] == []
        assert after.is_clean, after.held
        assert self.places(key) == [], self.places(key)
        return before

    def places(self, key: str = KEY) -> list[str]:
        """Return the files that have a key in them, or in their names."""
        word = re.compile(rf"(?<![\w-]){re.escape(key)}(?![\w-])".encode())
        tops = [self.lake.warehouse, self.folder]
        files = [path for top in tops for path in sorted(top.rglob("*")) if path.is_file()]
        return [str(p) for p in files if word.search(str(p).encode()) or word.search(content(p))]

    def files(self) -> dict[str, bytes]:
        """Return all files, to see that nothing has changed."""
        tops = [self.lake.warehouse, self.folder]
        return {str(p): p.read_bytes() for top in tops for p in top.rglob("*") if p.is_file()}

    def tables(self) -> set[str]:
        """Return the names of all tables."""
        return {e.full_name for e in list_relations(self.lake) if e.kind == "table"}


def content(path: Path) -> bytes:
    """Return what is in a file, where it's compressed too."""
    if path.suffix == ".parquet":
        return repr(parquet.ParquetFile(path).read().to_pylist()).encode()
    raw = path.read_bytes()
    return b"".join(_blocks(raw)) if path.suffix == ".avro" else raw


def _blocks(raw: bytes) -> Iterator[bytes]:
    """Yield the header and the blocks of an Avro file, by its specification."""
    marker = raw[-16:]
    header, *blocks = raw.split(marker)[:-1]
    yield header
    for block in blocks:
        place = 0
        for _ in ("how many objects", "how many bytes"):
            while block[place] & 0x80:
                place += 1
            place += 1
        yield zlib.decompress(block[place:], -15) if b"deflate" in header else block[place:]


def raising(times: int = 1) -> Callable[..., Any]:
    """Return what fails when it's called, as often as said."""
    left = [times]

    def call(*_: Any, **__: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt
        raise AssertionError

    return call


def reasons(found: Found) -> Sequence[str]:
    """Return what is in the way of a certificate."""
    return [f"{what}: {why}" for what, why in found.blocks()]
