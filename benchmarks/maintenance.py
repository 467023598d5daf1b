"""What maintenance costs where it pays, what it brings, and a month of small commits with it.

First 100 tables, of which 5 are sick: `icegate maintain --orphans` against a script that calls all
five procedures on each of them, and both once more the night after. Then 8,640 appends, as of one
in five minutes for 30 days, with a policy and without.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from _bench import HOME, MEMORY, ROOT, Claim, Cost, lake_project, options, save, timed
from _chart import Axes, Line, draw
from _stream import A_DAY, Month, Stream

from icegate.catalog import list_relations, open_catalog
from icegate.maintenance.lake import plan_lake
from icegate.maintenance.policy import Policy
from icegate.maintenance.run import FAILED, Run
from icegate.session import start_session, stop_session
from icegate.settings import Lake

TABLES, SICK, COMMITS, MERGES = 100, 5, 10, 1000
BAR_CPU, BAR_QUERY, BAR_GROWTH = 15.0, 10.0, 1.5
DAYS, RUNS = 30, 1
ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": ["a"] * 100})
# Runs statements on Spark in a process of its own, and prints the seconds that each took.
SPARK = """
import json, sys, time
from icegate.session import start_session
from icegate.settings import Lake
spark, took = start_session(Lake(**json.loads(sys.argv[1]))), []
for sql in json.load(open(sys.argv[2])):
    began = time.perf_counter()
    spark.sql(sql).collect()
    took.append(time.perf_counter() - began)
print("\\n" + json.dumps(took))
"""


def on_spark(lake: Lake, statements: list[str]) -> list[str]:
    """Return the command that runs statements."""
    file = lake.home.parent.with_name("statements.json")
    file.write_text(json.dumps(statements))
    return [sys.executable, "-c", SPARK, lake.model_dump_json(), str(file)]


def seconds(lake: Lake, statements: list[str]) -> list[float]:
    """Run statements; return how long each took."""
    done = subprocess.run(on_spark(lake, statements), check=True, stdout=subprocess.PIPE, text=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def on_all(names: list[str]) -> list[str]:
    """Return the procedures on all tables, with the options that everyone is told to set."""
    calls = [
        "rewrite_data_files(table => '{}', options => map('remove-dangling-deletes', 'true'))",
        "rewrite_position_delete_files(table => '{}')",
        "rewrite_manifests(table => '{}')",
        "expire_snapshots(table => '{}')",
        "remove_orphan_files(table => '{}', prefix_listing => true)",
    ]
    return [f"call system.{call.format(name)}" for name in names for call in calls]


def new_lake(folder: Path) -> Lake:
    """Make an empty project with a lake of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    lake = lake_project(folder, memory=MEMORY)
    (lake.home / "ivy").symlink_to(ROOT / ".icegate" / "ivy")
    (folder / "target").mkdir()
    (folder / "target" / "manifest.json").write_text('{"nodes": {}}')
    return lake


def make_tables(lake: Lake, tables: int, merges: int) -> list[str]:
    """Make tables of ten commits; five are as a month of small merges leaves them."""
    catalog = open_catalog(lake)
    catalog.create_namespace("gold")
    names = [f"gold.t_{number:03d}" for number in range(tables)]
    for name in names[:SICK]:
        Month(lake, name, catalog).month(merges)
    for name in names[SICK:]:
        table = catalog.create_table(name, ROWS.schema)
        for _ in range(COMMITS):
            table.append(ROWS)
    return names


def query(lake: Lake, names: list[str]) -> float:
    """Return the seconds of a full query on each of some tables, by a Spark that is warm.

    It was asked twice of the first of them before.
    """
    asked = "select count(id), max(name), sum(xxhash64(*) % 100) from {}"
    return sum(seconds(lake, [asked.format(name) for name in [names[0]] * 2 + names])[2:])


def copied(source: str, target: str) -> None:
    """Copy a file, or link one that nobody changes: Iceberg only writes and deletes its own."""
    immutable = "warehouse" in Path(source).parts
    (os.link if immutable else shutil.copy2)(source, target)


def where_it_pays(runs: int, tables: int, merges: int) -> list[Claim]:
    """Maintain the same tables both ways, twice; compare CPU, and queries before and after."""
    lake = new_lake(HOME / "maintenance" / "made")
    names = make_tables(lake, tables, merges)
    before = query(lake, names[:SICK])
    kept = lake.home.parent.with_name("kept")
    shutil.rmtree(kept, ignore_errors=True)
    lake.home.parent.rename(kept)
    sides: tuple[list[Cost], ...] = ([], [], [], [])
    ours, peers, ours_again, peers_again = sides
    command = [sys.executable, "-m", "icegate.cli.main", "maintain", "--orphans"]
    script = on_spark(lake, on_all(names))
    for _ in range(runs):
        for first, again, words in ((peers, peers_again, script), (ours, ours_again, command)):
            # The catalog has absolute paths: each time in the same place, from the same copy.
            shutil.rmtree(lake.home.parent, ignore_errors=True)
            shutil.copytree(kept, lake.home.parent, symlinks=True, copy_function=copied)
            first.append(timed(words, lake.home.parent, {}))
            again.append(timed(words, lake.home.parent, {}))
    after = query(lake, names[:SICK])
    shutil.rmtree(kept)
    peer, what = "the procedures on all", f"{tables} tables, {SICK} of them sick"
    cpu = Claim(what, ours, peers, BAR_CPU, peer, of="cpu")
    night = Claim("the night after", ours_again, peers_again, peer=peer, of="cpu")
    asked = Claim("a full query on the sick ones", [Cost(after, after)], [Cost(before, before)])
    asked.bar, asked.peer = BAR_QUERY, "before"
    return [cpu, night, asked]


def month(days: int) -> dict[str, list[dict[str, float]]]:
    """Return what each day ends with, with a policy and without one."""
    lake = new_lake(HOME / "maintenance" / "month")
    catalog = open_catalog(lake)
    catalog.create_namespace("bronze")
    found: dict[str, list[dict[str, float]]] = {}
    for way, maintain in (("with a policy", maintained), ("without", None)):
        stream = Stream(lake, f"bronze.{way.replace(' ', '_')}", catalog)
        found[way] = []
        for number in range(1, days + 1):
            stream.commit(A_DAY)
            if maintain:
                maintain(lake, stream.name)
            found[way].append(stream.look())
            print(f"{way}, day {number}: {found[way][-1]}", flush=True)
        assert catalog.load_table(stream.name).scan().count() == 10 * A_DAY * days
    stop_session()
    return found


def maintained(lake: Lake, name: str) -> None:
    """Carry out the policy of the stream once."""
    policy = Policy(max_query_hours=0, min_files=100)
    entries = [entry for entry in list_relations(lake) if entry.full_name == name]
    plans = plan_lake(lake, entries, {name: policy}, datetime.now(timezone.utc))
    spark = start_session(lake)
    run: Callable[[str], list[Any]] = lambda sql: [r.asDict() for r in spark.sql(sql).collect()]  # noqa: E731
    failed = [done.said for done in Run(lake, run).carry_out(plans) if done.outcome == FAILED]
    if failed:
        sys.exit(f"error: {failed}")


def growth(days: list[dict[str, float]], of: str) -> float:
    """Return how many times of day 2 the worst later day has."""
    return max(day[of] for day in days[1:]) / days[1][of]


def picture(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    lines = [
        Line(f"{what}, {way}", [(n, day[of] / days[1][of]) for n, day in enumerate(days, 1)])
        for way, days in found.items()
        for of, what in (("bytes", "metadata.json"), ("plan_s", "planning"))
    ]
    title = "A month of a commit every five minutes"
    marks = tuple(n for n in (1, 2, 3, 5, 10, 20, 30) if n <= len(found["without"]))
    draw(path, title, lines, Axes("times of day 2", "x", "day", marks))


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=RUNS)
    tables, merges, days = (20, 200, 4) if given.quick else (TABLES, MERGES, DAYS)
    os.environ.pop("ICEGATE_HOME", None)
    claims = where_it_pays(given.runs, tables, merges)
    print(*(claim.line("maintenance") for claim in claims), sep="\n", flush=True)
    found = month(days)
    worst = {way: [growth(each, of) for of in ("plan_s", "bytes")] for way, each in found.items()}
    save("maintenance", month=found, claims=[claim.line("maintenance") for claim in claims])
    name = "results/maintenance.svg" if given.quick else "../docs/images/maintenance.svg"
    picture(found, Path(__file__).parent / name)
    for claim in claims:
        print(claim.line("maintenance"))
    grown = max(worst["with a policy"])
    met = grown <= BAR_GROWTH
    said = ", ".join(f"{way} {plan:.2f}x and {size:.2f}x" for way, (plan, size) in worst.items())
    print(
        f"maintenance: planning and metadata.json of {days * A_DAY:,} commits against day 2: "
        f"{said} (bar {BAR_GROWTH}x with a policy: {'met' if met else 'missed'})"
    )
    sys.exit(0 if met and all(claim.met for claim in claims) else 1)


if __name__ == "__main__":
    main()
