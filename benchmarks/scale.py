"""How cost grows with tables, files, tests and releases: at most linearly, up to large lakes.

The lakes are synthetic: metadata of one real table under many names, files that are names in
manifests. Each command is a whole process; beside it catalog commits by several writers.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from _bench import HOME, lake_project, options, save
from _chart import Axes, Line, draw
from health import SCHEMA, commit, measure

from icegate.catalog import list_relations, local_path, open_catalog, read_metadata
from icegate.gate import ledger, refs
from icegate.gate.decision import Request
from icegate.gate.ledger_rows import Event, ReleaseTable
from icegate.gate.publish import record
from icegate.gate.report import Node, Report, TestRun
from icegate.gate.store import Moved, edit, move, read_tables
from icegate.settings import Lake

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scale.svg"
BUILD, COLUMNS, PER_COMMIT = "nightly", 10, 10_000
# How much more than linear a step to the next size may be: the machine's own noise.
NOISE = 1.1
WRITERS, COMMITTING_S = (1, 2, 4, 8), 10
Make = Callable[[Path, int], None]


@dataclass
class Series:
    """Seconds of CPU of commands, by the size of what they look at."""

    of: str
    sizes: tuple[int, ...]
    make: Make
    commands: list[list[str]]
    found: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)

    def run(self, *, quick: bool, runs: int) -> None:
        for size in self.sizes[:-1] if quick else self.sizes:
            folder = HOME / "scale"
            shutil.rmtree(folder, ignore_errors=True)
            self.make(folder, size)
            for command in self.commands:
                # A publish can be run once.
                times = 1 if "publish" in command else runs
                cpu, wall = sorted(measure(folder, *command) for _ in range(times))[times // 2]
                name = " ".join(command)
                self.found.setdefault(name, []).append((size, cpu, wall))
                print(f"icegate {name}: {size:,} {self.of}: {cpu:.2f} s of CPU, {wall:.2f} s")
            shutil.rmtree(folder)

    def growth(self, name: str) -> float:
        """Return the power of the size by which the cost grew over the last step; 1 is linear."""
        (small, less, _), (large, more, _) = self.found[name][-2:]
        return math.log(more / less) / math.log(large / small)


def make_tables(folder: Path, tables: int) -> None:
    """Make gated tables, each with rows, and with those of a build that waits and passes."""
    lake = lake_project(folder, gate=True)
    catalog = open_catalog(lake)
    catalog.create_namespace("gold")
    rows = pa.table({f"c{each}": range(100) for each in range(COLUMNS)})
    first = catalog.create_table("gold.t_00000", rows.schema, properties={refs.WAP_ENABLED: "true"})
    first.append(rows)
    branch = refs.branch_of(BUILD)
    edit(lake, "gold.t_00000", lambda old: refs.open_branch(old, branch))
    table = catalog.load_table("gold.t_00000")
    table.append(rows, branch=branch, snapshot_properties={refs.BUILD_STAMP: BUILD})
    _copy(lake, "t_00000", tables)
    _write_tests(folder, tables)
    record(lake, _report(tables), Request(BUILD, "i-1", "dbt build", "dev"))


def _copy(lake: Lake, name: str, tables: int) -> None:
    """Give a table's metadata to others, with ids and folders of their own."""
    (entry,) = (entry for entry in list_relations(lake, "gold") if entry.name == name)
    metadata = read_metadata(entry)
    with closing(sqlite3.connect(lake.catalog_db)) as db:
        for number in range(1, tables):
            other = f"t_{number:05d}"
            location = metadata["location"].replace(name, other)
            file = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
            local_path(file).parent.mkdir(parents=True)
            own = {**metadata, "location": location, "table-uuid": str(uuid.uuid4())}
            local_path(file).write_text(json.dumps(own))
            db.execute(
                "insert into iceberg_tables (catalog_name, table_namespace, table_name,"
                " metadata_location, iceberg_type) values (?, 'gold', ?, ?, 'TABLE')",
                (lake.catalog, other, file),
            )
        db.commit()


def _report(tables: int) -> Report:
    nodes = [Node(f"model.p.t_{n:05d}", f"t_{n:05d}", "success", f"gold.t_{n:05d}")
             for n in range(tables)]  # fmt: skip
    tests = [TestRun(f"test.{n.id}", f"unique_{n.name}", (n.id,), "pass", n.id) for n in nodes]
    return Report({n.id: n for n in nodes}, {t.id: t for t in tests})


def _write_tests(folder: Path, tables: int) -> None:
    """Write a manifest in which each column of each table has a test."""
    nodes: dict[str, Any] = {}
    settled = {"severity": "ERROR", "fail_calc": "count(*)", "warn_if": "!= 0", "error_if": "!= 0"}
    for number in range(tables):
        name, id = f"t_{number:05d}", f"model.p.t_{number:05d}"
        nodes[id] = {"resource_type": "model", "schema": "gold", "alias": name, "name": name}
        nodes[id] |= {"unique_id": id, "columns": {}, "config": {}, "depends_on": {"nodes": []}}
        for each in range(COLUMNS):
            test = f"not_null_{name}_c{each}"
            nodes[f"test.p.{test}"] = {
                **{"resource_type": "test", "name": test, "unique_id": f"test.p.{test}"},
                **{"attached_node": id, "config": settled, "depends_on": {"nodes": [id]}},
                **{"schema": "gold_audit", "alias": test},
                "compiled_code": f"select c{each}\nfrom gold.{name}\nwhere c{each} is null",
            }
    schema = "https://schemas.getdbt.com/dbt/manifest/v12.json"
    manifest = {"metadata": {"dbt_schema_version": schema, "project_name": "p"}, "nodes": nodes}
    manifest |= {"sources": {}, "macros": {}, "groups": {}, "exposures": {}}
    (folder / "target").mkdir()
    (folder / "target" / "manifest.json").write_text(json.dumps(manifest))


def make_files(folder: Path, files: int) -> None:
    """Make a table of so many files, which are names in manifests."""
    catalog = open_catalog(lake_project(folder, gate=True))
    catalog.create_namespace("gold")
    table = catalog.create_table("gold.t", SCHEMA)
    for number in range(math.ceil(files / PER_COMMIT)):
        commit(table, min(files, PER_COMMIT), f"day {number}", megabytes=1)


def make_releases(folder: Path, releases: int) -> None:
    """Make a ledger of so many releases of ten tables."""
    lake = lake_project(folder, gate=True)
    open_catalog(lake)  # makes the catalog's tables
    at = datetime.now(timezone.utc)
    events = [Event(at, f"b{n}", "published", n, detail='{"published": ["gold.t_0"]}')
              for n in range(1, releases + 1)]  # fmt: skip
    rows = [ReleaseTable(n, at, f"b{n}", f"gold.t_{t}", n, None, 0, moved=True, untested=False)
            for n in range(1, releases + 1) for t in range(10)]  # fmt: skip
    ledger.append(lake, events, rows)


def commits_a_second(writers: int) -> float:
    """Return how many commits of one table each the catalog takes, with so many processes."""
    folder = HOME / "scale"
    shutil.rmtree(folder, ignore_errors=True)
    lake = lake_project(folder, gate=True)
    catalog = open_catalog(lake)
    catalog.create_namespace("gold")
    for number in range(writers):
        catalog.create_table(f"gold.t{number}", SCHEMA)
    with multiprocessing.get_context("spawn").Pool(writers) as pool:
        done = pool.starmap(_commit_on, [(lake, f"gold.t{n}") for n in range(writers)])
    shutil.rmtree(folder)
    return sum(done) / COMMITTING_S


def _commit_on(lake: Lake, name: str) -> int:
    ends, done = time.monotonic() + COMMITTING_S, 0
    while time.monotonic() < ends:
        (table,) = read_tables(lake, [name])
        edited = refs.with_properties(table.metadata, {"n": str(done)})
        try:
            move(lake, [table.write(edited)])
        except Moved:
            continue
        done += 1
    return done


SERIES = [
    Series(
        "tables",
        (100, 1_000, 10_000),
        make_tables,
        [["tables"], ["status"], ["plan"], ["release", "publish", BUILD]],
    ),
    Series("tests", (100, 1_000, 10_000), lambda f, n: make_tables(f, n // COLUMNS), [["audit"]]),
    Series("files", (1_000, 10_000, 100_000), make_files, [["health"], ["tables"]]),
    Series("releases", (10, 100, 1_000), make_releases, [["release", "list"], ["status"]]),
]


def draw_growth(found: dict[str, Any], growth: dict[str, float]) -> None:
    """Draw what grows most; the chart has five looks."""
    most = sorted(found, key=lambda name: -growth[name])[:5]
    lines = [Line(name, [(n, cpu) for n, cpu, _ in found[name]]) for name in most]
    title = "What grows with a lake, and how"
    draw(PICTURE, title, lines, Axes(across="tables, tests or files"))


def main() -> None:
    given = options((__doc__ or "").split("\n")[0], runs=3)
    for series in SERIES:
        series.run(quick=given.quick, runs=given.runs)
    commits = {n: commits_a_second(n) for n in (WRITERS[:2] if given.quick else WRITERS)}
    for writers, a_second in commits.items():
        print(f"catalog: {a_second:.0f} commits a second by {writers} writers")
    found = {f"{name}, by {s.of}": s.found[name] for s in SERIES for name in s.found}
    growth = {f"{name}, by {s.of}": s.growth(name) for s in SERIES for name in s.found}
    save("scale", found=found, growth=growth, commits=commits)
    if not given.quick:
        draw_growth(found, growth)
    worst = max(growth, key=lambda name: growth[name])
    met = growth[worst] <= math.log10(10 * NOISE)
    print(f"scale: grows at most as size to the power of {growth[worst]:.2f} (icegate {worst}; "
          f"bar 1.04, which is linear: {'met' if met else 'missed'})")  # fmt: skip
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
