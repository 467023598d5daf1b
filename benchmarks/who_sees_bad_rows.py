"""Who sees the rows of a bad batch: readers of dbt-spark, of SQLMesh and of ours, second by second.

A batch with amounts that are null or negative is built, and fails its tests. Nothing happens for a
while; then the batch comes again, right, and is built. Each side has a reader all the time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from _bench import PEERS, RESULTS, ROOT, Side, options, save, sides
from _picture import Lane, draw
from _reader import AFTER, BAD, BEFORE, SEEN, Poll, reading
from _sqlmesh import sqlmesh, wap_branches
from pyiceberg.expressions import EqualTo

from icegate.catalog import open_catalog
from icegate.settings import Lake

NAME = "who_sees_bad_rows"
REPAIR_S = 60.0  # after the bad batch; later where its build isn't done yet
CALM_S = 5.0  # before the bad batch, after the repair, and at least between the builds
GOOD, BATCH, WRONG = 1000, 100, 10  # orders: in the first batch, in the second, wrong ones in it

ORDERS = """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='order_id') }}
select order_id, amount, batch from {{ source('landing', 'orders') }}
"""
REVENUE = """
{{ config(materialized='table') }}
select count(*) as orders, sum(amount) as revenue from {{ ref('orders') }}
"""
DESCRIBED = """
sources:
  - name: landing
    tables: [{name: orders}]
models:
  - name: orders
    columns:
      - {name: amount, data_tests: [not_null, not_negative]}
"""
NOT_NEGATIVE = """
{% test not_negative(model, column_name) %}
select * from {{ model }} where {{ column_name }} < 0
{% endtest %}
"""
FILES = {
    "models/orders.sql": ORDERS.strip() + "\n",
    "models/revenue.sql": REVENUE.strip() + "\n",
    "models/_models.yml": DESCRIBED.strip() + "\n",
    "tests/generic/not_negative.sql": NOT_NEGATIVE.strip() + "\n",
}
# The same tests; audits block where nothing else is said. Without columns, SQLMesh makes a table
# with its rows at once, and then inserts them once more to have a snapshot for its branches.
AUDITS = "not_null(columns := amount), forall(criteria := (amount >= 0))"
MORE = {
    "orders": f"columns (order_id bigint, amount bigint, batch bigint), audits ({AUDITS})",
    "revenue": "columns (orders bigint, revenue bigint)",
}
BUILD = {"sqlmesh": ("sqlmesh", "run")}  # what cron calls: SQLMesh builds the days that it lacks
# A plan for production takes no end; made two days ago, it leaves days to `run`.
PLAN = ("sqlmesh", "plan", "--auto-apply", "--no-prompts", "--skip-tests")
FIRST = {"sqlmesh": (*PLAN, "--execution-time", "2 days ago")}
DBT = ("dbt", "--quiet", "build")


@dataclass
class Story:
    """What happened on one side, and what its reader got; times are seconds since the bad batch."""

    name: str
    builds: list[tuple[float, float]] = field(default_factory=list)  # of the bad batch, the repair
    polls: list[Poll] = field(default_factory=list)

    def spans(self) -> list[tuple[float, float, str]]:
        """Return from when to when the reader got the same: until a poll that finds another."""
        found: list[tuple[float, float, str]] = []
        for poll, following in zip(self.polls, [*self.polls[1:], self.polls[-1]], strict=True):
            seen = poll.seen(GOOD + BATCH)
            start = found.pop()[0] if found and found[-1][2] == seen else poll.at
            found.append((start, following.at, seen))
        return found

    def line(self) -> str:
        """Say how long the reader got what, and in how many polls."""
        words = [poll.seen(GOOD + BATCH) for poll in self.polls]
        told = []
        for seen in SEEN:
            seconds = sum(end - start for start, end, found in self.spans() if found == seen)
            if seen == BAD or seen in words:
                told.append(f"{seen} for {seconds:.1f} s ({words.count(seen):,} polls)")
        return f"{NAME}: {self.name}: readers saw {', '.join(told)}, of {len(words):,} polls"

    def record(self) -> dict[str, Any]:
        """Return what is kept of it: of the polls those that found something new."""
        pairs = zip([None, *self.polls], self.polls, strict=False)
        changes = [asdict(b) for a, b in pairs if a is None or replace(a, at=b.at) != b]
        return {"name": self.name, "builds": self.builds, "changes": changes, "said": self.line()}


def deliver(side: Side, batch: int, orders: int, wrong: int = 0) -> None:
    """Land a batch, in place of what was landed of it before."""
    amounts: list[int | None] = [10 + number for number in range(orders)]
    amounts[:wrong] = [(None, -5)[number % 2] for number in range(wrong)]
    ids = range(batch * 100_000, batch * 100_000 + orders)
    rows = pa.table({"order_id": ids, "amount": amounts, "batch": [batch] * orders})
    catalog = open_catalog(Lake(home=side.home, warehouse=side.home / "warehouse"))
    catalog.create_namespace_if_not_exists("landing")
    landing = catalog.create_table_if_not_exists("landing.orders", rows.schema)
    if landing.scan(EqualTo("batch", batch)).count():
        landing.delete(EqualTo("batch", batch))
    landing.append(rows)


def build(side: Side, command: tuple[str, ...], fails: bool = False) -> tuple[float, float]:
    """Build, and return when that began and ended; what ends otherwise ends the benchmark."""
    started = time.time()
    done = subprocess.run(
        [str(side.python.parent / command[0]), *command[1:]],
        cwd=side.folder,
        env={**os.environ, **side.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ended = time.time()
    if bool(done.returncode) != fails or (fails and "not_null" not in done.stdout):
        wanted = "fail its tests" if fails else "pass"
        sys.exit(f"error: {command} of {side.name} should {wanted}\n{done.stdout}")
    return started, ended


def live_through(side: Side, quick: bool) -> Story:
    """Build a good batch; then let a reader look while the bad one and its repair are built."""
    side.forget()
    (side.folder / "state.db").unlink(missing_ok=True)  # SQLMesh's
    command = BUILD.get(side.name, DBT)
    deliver(side, 1, GOOD)
    build(side, FIRST.get(side.name, DBT))
    with reading(Lake(home=side.home, warehouse=side.home / "warehouse")) as polls:
        time.sleep(CALM_S)
        deliver(side, 2, BATCH, WRONG)
        failed = build(side, command, fails=True)
        time.sleep(max(CALM_S, 0 if quick else failed[0] + REPAIR_S - time.time()))
        deliver(side, 2, BATCH)
        repaired = build(side, command)
        time.sleep(CALM_S)
    zero = failed[0]
    return Story(
        side.name,
        [(start - zero, end - zero) for start, end in (failed, repaired)],
        [replace(poll, at=poll.at - zero) for poll in polls],
    )


def told_of_wap(story: Story, branches: dict[int, str]) -> str:
    """Say which branches SQLMesh had; without one its WAP was off, and that ends the benchmark."""
    if not branches:
        sys.exit("error: cannot compare: SQLMesh wrote no branch, so its WAP was off")
    bad = {poll.snapshots[0] for poll in story.polls if poll.seen(GOOD + BATCH) == BAD}
    shown = [f"{snapshot} of {branches.get(snapshot, 'no branch')}" for snapshot in sorted(bad)]
    return (
        f"sqlmesh: WAP was on: it wrote {len(set(branches.values()))} branches, of two tables; "
        f"the bad rows that its reader got are snapshot {', '.join(shown) or '(none)'}"
    )


def picture(stories: list[Story], quick: bool, load: float) -> Path:
    """Draw what was lived through: for README, or beside the results of a quick run.

    ``load`` is how many processes wanted a core before: on a busy machine builds take longer.
    """
    path = RESULTS / f"{NAME}.svg" if quick else ROOT / "docs" / "images" / "who-sees-bad-rows.svg"
    about = {
        "dbt-spark": ("dbt-spark", version("dbt-spark")),
        "sqlmesh": ("SQLMesh", f"{PEERS['sqlmesh'][0].partition('==')[2]}, WAP on"),
        "icegate": ("Icegate", f"{version('icegate')}, gate: true"),
    }
    lanes = [Lane(*about[story.name], story.spans(), story.builds) for story in stories]
    note = (
        f"One run of benchmarks/{NAME} on {os.cpu_count()} cores (load before it {load:.1f}), "
        f"{time.strftime('%Y-%m-%d')}. Tables orders and revenue, read through PyIceberg "
        f"{sum(len(story.polls) for story in stories):,} times."
    )
    draw(path, lanes, note)
    return path


def main() -> None:
    given = options(__doc__ or "", runs=1)
    ours, peer = sides(NAME, FILES, gate=True)
    mesh = sqlmesh(NAME, FILES, MORE, wap_enabled=True)
    runs: list[list[Story]] = []
    load = os.getloadavg()[0]
    for _ in range(given.runs):
        runs.append([live_through(side, given.quick) for side in (peer, mesh, ours)])
        print(told_of_wap(runs[-1][1], wap_branches(mesh)))
        print("\n".join(story.line() for story in runs[-1]), flush=True)
    save(NAME, load=load, runs=[[story.record() for story in stories] for stories in runs])
    print(f"{NAME}: {picture(runs[-1], given.quick, load)}")
    held = all([seen for _, _, seen in stories[-1].spans()] == [BEFORE, AFTER] for stories in runs)
    verdict = "met" if held else "missed"
    print(f"{NAME}: bar: our readers get right rows only, of both tables at once: {verdict}")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
