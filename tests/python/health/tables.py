"""Iceberg tables of many files: some of real rows, some of files that only manifests know."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from icegate.catalog import CatalogEntry, list_relations, open_catalog
from icegate.health.table import Health, look
from icegate.settings import Lake

MB = 2**20
NOW = datetime.now(timezone.utc)
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
NUMBERS = count()


class Made:
    """A lake in a folder, with tables to which files come."""

    def __init__(self, lake: Lake) -> None:
        lake.home.mkdir(parents=True, exist_ok=True)
        self.lake, self.catalog = lake, open_catalog(lake)
        self.catalog.create_namespace("s")

    def table(self, name: str = "t", days: bool = False, **properties: Any) -> Table:
        """Make an empty table, partitioned by day or not; of properties `_` stands for `.`."""
        spec = BY_DAY if days else UNPARTITIONED_PARTITION_SPEC
        return self.catalog.create_table(
            f"s.{name}", SCHEMA, partition_spec=spec, properties=properties
        )

    def entry(self, name: str = "t") -> CatalogEntry:
        return next(e for e in list_relations(self.lake) if e.full_name == f"s.{name}")

    def health(self, name: str = "t", days_on: float = 0, **how: Any) -> Health:
        """Judge a table, as if it were so many days later."""
        found = look(self.entry(name), NOW + timedelta(days=days_on), **how)
        assert not found.error, found.error
        return found


def write(table: Table, *sizes: float, day: str | None = None, rows: int = 1000) -> None:
    """Commit one manifest of data files of so many MB, which hold nothing."""
    with table.transaction() as changes, changes.update_snapshot().fast_append() as added:
        for size in sizes:
            partition = Record(*([day] if table.spec().fields else []))
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/data/{next(NUMBERS)}.parquet",
                file_format=FileFormat.PARQUET,
                partition=partition,
                record_count=rows,
                file_size_in_bytes=int(size * MB),
            )
            file.spec_id = table.spec().spec_id
            added.append_data_file(file)


def append(table: Table, *days: str) -> None:
    """Append real rows, one a day."""
    table.append(pa.table({"id": pa.array(range(len(days)), pa.int64()), "day": list(days)}))


def names(found: Health) -> dict[str, int]:
    """Return what each reason costs."""
    return {reason.name: reason.points for reason in found.reasons}
