"""What `icegate health` costs on 100 tables: 80 of 5 files, 20 of 400, half of those partitioned.

Each has 20 snapshots. The files are names in manifests; nothing opens them.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from _bench import HOME, lake_project, options, save
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType

from icegate.catalog import open_catalog

TABLES, SNAPSHOTS, RUNS = 100, 20, 5
BAR_CPU_S = 2.0
SCHEMA = Schema(NestedField(1, "day", StringType()))
BY_DAY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))


def make_lake(folder: Path) -> None:
    """Make the tables: one commit each, and others that change no file."""
    catalog = open_catalog(lake_project(folder))
    catalog.create_namespace("gold")
    for number in range(TABLES):
        spec = BY_DAY if number % 10 == 9 else UNPARTITIONED_PARTITION_SPEC
        table = catalog.create_table(f"gold.t_{number:03d}", SCHEMA, partition_spec=spec)
        is_large = number % 10 >= 8
        for each in range(SNAPSHOTS):
            commit(table, 20 if is_large else int(each < 5), f"day {each}")


def commit(table: Table, files: int, day: str, megabytes: int = 400) -> None:
    """Add a snapshot with so many files of such a size."""
    with table.transaction() as changes, changes.update_snapshot().fast_append() as added:
        for number in range(files):
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/data/{day}/{number}.parquet",
                file_format=FileFormat.PARQUET,
                partition=Record(*([day] if table.spec().fields else [])),
                record_count=1000,
                file_size_in_bytes=megabytes * 1_000_000,
            )
            file.spec_id = table.spec().spec_id
            added.append_data_file(file)


def measure(folder: Path, *arguments: str) -> tuple[float, float]:
    """Run a command there as a user does; return seconds of CPU, and of the clock."""
    command = [sys.executable, "-m", "icegate.cli.main", *arguments]
    began, environ = time.monotonic(), {**os.environ, "DBT_PROJECT_DIR": str(folder)}
    environ.pop("ICEGATE_HOME", None)
    with open(os.devnull, "w") as nothing:
        to_nothing = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 1)]
        child = os.posix_spawn(sys.executable, command, environ, file_actions=to_nothing)
        _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"icegate ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=RUNS)
    place = HOME / "health"
    shutil.rmtree(place, ignore_errors=True)
    make_lake(place)
    found: dict[str, tuple[float, float]] = {}
    for command in (["health"], ["health", "--partitions"], ["tables"]):
        ran = sorted(measure(place, *command) for _ in range(given.runs))
        found[" ".join(command)] = cpu, wall = ran[len(ran) // 2]
        print(f"icegate {' '.join(command)}: {cpu:.2f} s of CPU, {wall:.2f} s", flush=True)
    shutil.rmtree(place)
    cpu, wall = found["health"]
    met = cpu <= BAR_CPU_S
    save("health", runs=found)
    said = f"bar {BAR_CPU_S:g} s of CPU: {'met' if met else 'missed'}"
    took = f"{cpu:.2f} s of CPU, {wall:.2f} s"
    print(f"health: {TABLES} tables in {took} ({given.runs} runs, {said})")
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
