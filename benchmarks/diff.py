"""What it costs to tell which rows differ between two versions of a table, of which 0.1 % changed:
`changes_between` against a full outer join of both on Spark, in one warm session.

Changes lie in 3 of 300 partitions, or anywhere; both sides count all that they find, and must
find the same. `icegate diff`, which needs no Spark, is run beside datacompy, which holds both
versions in memory: on a table of a tenth of the size, as whole processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _bench import HOME, ROOT, Claim, Cost, finish, options, peer_python, refuse_unfair
from _rounds import tree_cpu

from icegate.history.reads import Source
from icegate.session import start_session, stop_session
from icegate.settings import Lake

ROWS, QUICK_ROWS, DAYS, RUNS = 50_000_000, 1_000_000, 300, 3
MEMORY = "4g"  # of one Java for both: the join needs it
TABLE = "bench.orders"
PROFILE = "bench: {target: b, outputs: {b: {type: icegate, method: session, schema: bench}}}\n"
COLUMNS = ("id", "shop_id", "net", "tax", "day", "status", "reference", "updated_at")
MADE = """
create table {table} using iceberg partitioned by (day)
tblproperties ('format-version' = '2', 'write.update.mode' = '{mode}',
    'write.distribution-mode' = 'none') as
select id, id % 5000 as shop_id, cast(hash(id) % 100000 as decimal(12, 2)) as net,
    cast(hash(7, id) % 9973 as decimal(12, 2)) as tax, cast(id div {a_day} as int) as day,
    element_at(array('open', 'shipped', 'done'), int(pmod(hash(id), 3)) + 1) as status,
    concat('R', hex(xxhash64(id))) as reference, timestamp_seconds(1767225600 + id) as updated_at
from range(0, {rows}, 1, {days})
"""
CHANGED = "update {table} set status = 'changed', net = net + 1 where {where}"


@dataclass(frozen=True)
class Case:
    """How a table is written, which of its rows change, and the bar that we say we meet."""

    name: str
    mode: str
    where: str
    bar: float | None

    @property
    def what(self) -> str:
        """What the figure is of."""
        return f"0.1 % of rows, {self.name}, {self.mode}"


CASES = {
    "near": Case(
        "in 3 of 300 partitions", "merge-on-read", "day in (7, 8, 250) and id % 10 = 3", 20
    ),
    "far": Case("anywhere", "merge-on-read", "pmod(xxhash64(id), 1000) = 3", 5),
    "rewritten": Case("anywhere", "copy-on-write", "pmod(xxhash64(id), 1000) = 3", None),
}
BESIDE = ("near", "far")  # those that datacompy is run on


def joined(table: str, old: int, new: int) -> str:
    """Return the query that everyone writes: both versions, joined by the key."""
    same = " and ".join(f"o.{name} <=> n.{name}" for name in COLUMNS)
    shown = ", ".join(f"coalesce(n.{name}, o.{name}) as {name}" for name in COLUMNS)
    return (
        "(select case when o.id is null then 'insert' when n.id is null then 'delete'"
        f" else 'update_after' end as change_type, {shown}"
        f" from {table} version as of {old} o full outer join {table} version as of {new} n"
        f" on o.id = n.id where o.id is null or n.id is null or not ({same}))"
    )


def counted(spark: Any, query: str) -> list[Any]:
    """Run a query and look at all columns of what it finds."""
    columns = ", ".join(COLUMNS)
    rows = spark.sql(
        f"select change_type, count(*), sum(xxhash64({columns}) % 1000) from {query}"
        " where change_type <> 'update_before' group by change_type order by change_type"
    ).collect()
    return [tuple(row) for row in rows]


def measured(run: Callable[[], list[Any]]) -> tuple[Cost, list[Any]]:
    """Run something in this process; return what that cost, with its Java, and what it found."""
    cpu, wall = tree_cpu(), time.perf_counter()
    found = run()
    return Cost(time.perf_counter() - wall, tree_cpu() - cpu), found


def made(spark: Any, case: Case, rows: int) -> list[int]:
    """Make a table and change it; return both snapshots."""
    spark.sql(MADE.format(table=TABLE, mode=case.mode, rows=rows, a_day=rows // DAYS, days=DAYS))
    spark.sql(CHANGED.format(table=TABLE, where=case.where))
    snapshots = f"select snapshot_id from {TABLE}.snapshots order by committed_at"
    return [row[0] for row in spark.sql(snapshots).collect()]


def by_command(lake: Lake, spark: Any, case: Case, rows: int, runs: int) -> Claim:
    """Run `icegate diff` and datacompy in turns on one table, each in a process of its own."""
    what = f"{case.what}, icegate diff"
    old, new = map(str, made(spark, case, rows))
    folder = lake.home.parent
    (folder / "dbt_project.yml").write_text("name: bench\nprofile: bench\n")
    (folder / "profiles.yml").write_text(PROFILE)
    command = [Path(sys.executable).with_name("icegate"), "diff", old, new, TABLE, "--key", "id"]
    program = Path(__file__).with_name("_datacompy.py")
    peer = [peer_python("datacompy"), program, lake.catalog_db, TABLE, old, new]
    ours, peers = [], []
    for _ in range(runs):
        a, mine = measured(lambda: told([*command, "--json"], folder))
        b, others = measured(lambda: told(peer, folder))
        counts = [mine["tables"][0][kind] for kind in ("added", "removed", "changed")]
        if counts != others:
            sys.exit(f"error: {what}: ours found {counts}, datacompy {others}")
        print(f"{what}: {counts}; ours {a}, datacompy {b}", flush=True)
        ours.append(a)
        peers.append(b)
    spark.sql(f"drop table {TABLE} purge")
    return Claim(what, ours, peers, None, "datacompy", of="cpu")


def told(command: list[Any], folder: Path) -> Any:
    """Return the JSON that a command prints; a failure ends the benchmark."""
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"error: {command[0]} failed\n{ran.stdout}{ran.stderr}")
    return json.loads(ran.stdout)


def compared(lake: Lake, spark: Any, case: Case, rows: int, runs: int) -> Claim:
    """Make a table, change it, and tell the changes both ways in turns."""
    table = TABLE
    old, new = made(spark, case, rows)
    source, ours, peers = Source(lake, table, table), [], []
    for run in range(runs + 1):
        a, mine = measured(lambda: counted(spark, source.changes(old, new, "id")))
        b, others = measured(lambda: counted(spark, joined(table, old, new)))
        if mine != others:
            sys.exit(f"error: {case.what}: ours found {mine}, the join {others}")
        print(f"{case.what}: {mine}; ours {a}, join {b}", flush=True)
        if run:  # the first warms Java up
            ours.append(a)
            peers.append(b)
    spark.sql(f"drop table {table} purge")
    return Claim(case.what, ours, peers, case.bar, "a full outer join", of="cpu")


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=RUNS)
    rows = QUICK_ROWS if given.quick else ROWS
    refuse_unfair()
    os.environ.pop("ICEGATE_HOME", None)
    folder = HOME / "diff"
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / ".icegate"
    home.mkdir(parents=True)
    (home / "ivy").symlink_to(ROOT / ".icegate" / "ivy")
    lake = Lake(home=home, warehouse=home / "warehouse", memory=MEMORY)
    spark = start_session(lake)
    spark.sql("create namespace bench")
    try:
        claims = [compared(lake, spark, case, rows, given.runs) for case in CASES.values()]
        some = rows if given.quick else rows // 10
        claims += [by_command(lake, spark, CASES[name], some, given.runs) for name in BESIDE]
    finally:
        stop_session()
    finish("diff", claims)


if __name__ == "__main__":
    main()
