"""How many records a second `icegate stream` brings from Kafka into a table, against plain Spark.

One append route of six typed columns, JSON, from a real broker on this machine, at least 0.8x of
plain Spark's `from_json` and `toTable`. From the first commit to the last: neither Spark's start
nor the first batch, in which Java is cold, are counted. A third side, without a bar, is plain Spark
with the options of our reader.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from _bench import HOME, ROOT, Claim, Cost, Side, finish, options, our_side, refuse_unfair
from _rounds import tree_cpu

from icegate.catalog import open_catalog
from icegate.gate.store import read_tables
from icegate.settings import Lake

sys.path.insert(0, str(ROOT / "tests" / "python"))

from streams.broker import Broker

BAR, RUNS = 0.8, 3
RECORDS, A_BATCH, PARTITIONS = 2_000_000, 250_000, 4
PEERS = "plain Spark", "plain Spark, its reader as ours"
NAME, TOPIC, TABLE = "orders", "orders", "bronze.orders"
COLUMNS = {
    "order_id": "bigint",
    "shop": "string",
    "amount": "decimal(12,2)",
    "quantity": "int",
    "is_paid": "boolean",
    "ordered_at": "timestamp",
}


def records(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield orders as JSON, of 150 bytes."""
    for number in range(count):
        day, time = f"2026-03-{number % 28 + 1:02d}", f"{number % 24:02d}:30:00.{number % 1000:03d}"
        value = (
            f'{{"order_id": {number}, "shop": "shop {number % 977}", '
            f'"amount": {number % 99991 / 100:.2f}, "quantity": {number % 9}, '
            f'"is_paid": {"true" if number % 3 else "false"}, '
            f'"ordered_at": "{day}T{time}Z"}}'
        )
        yield b"%d" % number, value.encode()


@dataclass
class Rate:
    """What one run took from its first commit to its last, and how many records came meanwhile."""

    records: int
    wall: float
    cpu: float


def sides(kafka: str, batch: int) -> list[Side]:
    """Make the projects: the same stream, which plain Spark takes its columns and limits from."""
    stream = {
        "source": {"kafka": kafka, "topics": TOPIC},
        "batch": {"max_records": batch},
        "routes": [{"table": TABLE, "columns": COLUMNS}],
    }
    files = {f"python_jobs/streams/{NAME}.yml": yaml.safe_dump(stream, sort_keys=False)}
    conf = {"spark_conf": {"spark.sql.session.timeZone": "UTC"}, "ansi": True}
    ours = our_side(HOME / "stream" / "ours", files, **conf)
    plain = our_side(HOME / "stream" / "plain", files, **conf)
    return [ours, *(replace(plain, name=name) for name in PEERS)]


def command(side: Side) -> list[str]:
    """Return what reads all that the topic has, and ends."""
    if side.name == "icegate":
        return [str(side.python), "-m", "icegate.cli.main", "stream", "start", NAME, "--once"]
    plain = str(Path(__file__).parent / "_plain_stream.py")
    return [str(side.python), plain, NAME, *(["polls"] if side.name == PEERS[1] else [])]


def measure(side: Side) -> Rate:
    """Run a side as a process, and watch what it commits from outside."""
    side.forget()
    shutil.rmtree(side.home / "streams", ignore_errors=True)
    lake, marks = Lake(home=side.home, warehouse=side.home / "warehouse"), {}
    with (side.folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command(side), cwd=side.folder, stdout=log, stderr=log)
        while process.poll() is None:
            done = committed(lake)
            if done and done not in marks:
                marks[done] = (time.perf_counter(), tree_cpu(process.pid))
            time.sleep(0.05)
    if process.returncode or len(marks) < 2:
        sys.exit(f"error: {side.name} failed, see {side.folder / 'log.txt'}")
    first, last = min(marks), max(marks)
    wall, cpu = (b - a for a, b in zip(marks[first], marks[last], strict=True))
    return Rate(last - first, wall, cpu)


def committed(lake: Lake) -> int:
    """Return how many records the table has, 0 while there is none."""
    if not lake.catalog_db.exists():
        return 0
    try:
        found = next(iter(read_tables(lake, [TABLE])), None)
    except Exception:  # Spark is about to make the catalog
        return 0
    snapshots = found.metadata.get("snapshots", []) if found else []
    return max((int(s["summary"].get("total-records", 0)) for s in snapshots), default=0)


def check_rows(both: Sequence[Side], count: int) -> None:
    """End the program where two sides' tables, as they were filled last, aren't the same."""
    found = []
    for side in both:
        lake = Lake(home=side.home, warehouse=side.home / "warehouse")
        rows = open_catalog(lake).load_table(TABLE).scan().to_arrow()
        rows = rows.select([*COLUMNS, "source_partition", "source_offset", "source_time"])
        found.append(rows.sort_by("order_id"))
    if found[0].num_rows != count or not found[0].equals(found[1].cast(found[0].schema)):
        sys.exit(f"error: the tables differ, or lack some of {count} records")


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=RUNS)
    refuse_unfair()
    count, batch = (200_000, 50_000) if given.quick else (RECORDS, A_BATCH)
    found: dict[str, list[Rate]] = {name: [] for name in ("icegate", *PEERS)}
    shutil.rmtree(HOME / "stream", ignore_errors=True)
    with Broker(HOME / "stream" / "broker") as broker:
        broker.topic(TOPIC, PARTITIONS)
        broker.produce(TOPIC, records(count))
        three = sides(broker.address, batch)
        for number in range(given.runs):
            for side in three if number % 2 else three[::-1]:
                rate = measure(side)
                found[side.name].append(rate)
                each = f"{rate.records / rate.wall:,.0f} records/s"
                print(
                    f"{side.name}: {each}, {1e6 * rate.cpu / rate.records:.1f} µs of CPU a record",
                    flush=True,
                )
        check_rows(three[:2], count)
    costs = {name: [Cost(r.wall, r.cpu) for r in rates] for name, rates in found.items()}
    claims = [
        Claim(f"{count - batch:,} records", costs["icegate"], costs[peer], bar, peer)
        for peer, bar in zip(PEERS, (BAR, None), strict=True)
    ]
    finish("stream", claims, records=count, batch=batch)


if __name__ == "__main__":
    main()
