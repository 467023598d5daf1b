"""TPC-H as a dbt project, through the gate against stock dbt-spark without one: the load, the 22
queries as models, the tests, and both refresh functions as incremental models.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean, median

import yaml
from _bench import HOME, MEMORY, Claim, Cost, Side, finish, options, refuse, sides
from _tpch_data import SCALES, files_of, refuse_other_rows
from _tpch_events import Events, event_log, refuse_different, take_events
from _tpch_prices import Prices, read_prices

BAR = 1.0  # of stock's CPU
MEMORY_OF = {"10": "8g"}  # with the usual 2 GB stock dbt-spark's tests run out of heap there
HERE = Path(__file__).parent
PROJECT, PRICES, EVENTS = HERE / "tpch_project", HERE / "tpch_prices.yml", HOME / "tpch" / "events"
IO = Path("/proc/self/io")  # Linux counts what children read to whoever waited for them
PHASES = {
    "load": ["build", "--select", "path:models/load", "path:models/refresh"],
    # One after the other, so that a query's seconds are its own.
    "queries": ["build", "--select", "path:models/queries", "--threads", "1"],
    "tests": ["test"],
    "refresh": ["build", "--select", "path:models/refresh"],
}


@dataclass
class Run:
    """What one side took for everything."""

    phases: dict[str, Cost] = field(default_factory=dict)
    queries: dict[str, float] = field(default_factory=dict)  # seconds, by model
    scanned: int = 0  # bytes of the files of tables that Spark scanned
    read: int = 0  # bytes that all processes read, of whatever file

    @property
    def total(self) -> Cost:
        costs = self.phases.values()
        return Cost(sum(cost.wall for cost in costs), sum(cost.cpu for cost in costs))


def project_files(scale: str, files: Path) -> dict[str, str]:
    """Return the project, which reads these files; both sides get the very same."""
    paths = [path for path in PROJECT.rglob("*") if path.suffix in (".sql", ".yml")]
    found = {str(path.relative_to(PROJECT)): path.read_text() for path in paths}
    project = yaml.safe_load(found["dbt_project.yml"])
    project["vars"] = {"scale": float(scale), "files": str(files)}
    return found | {"dbt_project.yml": yaml.safe_dump(project, sort_keys=False)}


def run(side: Side, events: Events) -> Run:
    """Do everything once, from nothing."""
    side.forget()
    found = Run()
    for phase, command in PHASES.items():
        before = read_by_children()
        cost = found.phases[phase] = side.dbt("--quiet", *command)
        read = read_by_children() - before
        if phase == "queries":
            found.queries = query_seconds(side)
        taken = take_events(EVENTS, side.folder)
        found.scanned += taken.scanned
        found.read += read
        events.add(taken)
        print(f"{side.name}: {phase}: {cost.cpu:.1f} s of CPU, {cost.wall:.1f} s, "
              f"files of {taken.scanned / 1e6:.1f} MB scanned by Spark, {read / 1e6:.0f} MB read "
              "by all processes", flush=True)  # fmt: skip
    return found


def read_by_children() -> int:
    """Return the bytes that this process and all children that it waited for have read."""
    return int(IO.read_text().partition("rchar: ")[2].split()[0])


def query_seconds(side: Side) -> dict[str, float]:
    """Return how long dbt's last run took for each query."""
    results = json.loads((side.folder / "target" / "run_results.json").read_text())["results"]
    ran = {result["unique_id"]: result["execution_time"] for result in results}
    return {id.rpartition(".")[2]: s for id, s in ran.items() if id.startswith("model.")}


def show(runs: dict[str, list[Run]], prices: Prices) -> None:
    """Print both sides, query by query, and what a run read and would cost; medians."""
    names = sorted(next(iter(runs.values()))[0].queries)
    middle = {side: {name: median(each.queries[name] for each in done) for name in names}
              for side, done in runs.items()}  # fmt: skip
    for name in names:
        seconds = ", ".join(f"{side} {found[name]:.2f} s" for side, found in middle.items())
        print(f"{name}: {seconds}")
    for side, done in runs.items():
        scanned, read = (int(median(getattr(r, of) for r in done)) for of in ("scanned", "read"))
        cost = prices.of(median(each.total.cpu for each in done), read)
        print(f"{side}: {len(names)} queries {sum(middle[side].values()):.1f} s in all, geometric "
              f"mean {geometric_mean(middle[side].values()):.3f} s; files of "
              f"{scanned / 1e6:.1f} MB scanned by Spark, {read / 1e6:.0f} MB read by all "
              f"processes; {cost:.6f} {prices.currency} by {PRICES.name}")  # fmt: skip


def main() -> None:
    about = (__doc__ or "").split("\n\n")[0]
    scale = {"default": None, "help": f"scale factor: {', '.join(SCALES)} (default 1, quick 0.01)"}
    if not IO.exists():
        refuse("cannot tell what is read", f"there is no {IO}", "run it on Linux")
    given = options(about, runs=3, scale=scale)
    prices = read_prices(PRICES)
    size = given.scale if given.scale is not None else "0.01" if given.quick else "1"
    files = project_files(size, files_of(size))
    EVENTS.mkdir(parents=True, exist_ok=True)
    memory = MEMORY_OF.get(size, MEMORY)
    ours, peer = sides("tpch", files, event_log(EVENTS), memory, gate=True, audits=True)
    seen = {side.name: Events() for side in (ours, peer)}
    runs: dict[str, list[Run]] = {side.name: [] for side in (ours, peer)}
    take_events(EVENTS, ours.folder)  # of a run that was broken off
    for number in range(given.runs):
        for side in (peer, ours) if number % 2 else (ours, peer):
            runs[side.name].append(run(side, seen[side.name]))
        refuse_different(seen[ours.name], seen[peer.name])
    refuse_other_rows(ours, peer)
    if not all(events.scanned for events in seen.values()):
        refuse("cannot compare what was read", "an event log has no scan", "see spark.eventLog")
    show(runs, prices)
    totals = {side: [each.total for each in done] for side, done in runs.items()}
    what = f"TPC-H at scale factor {size}, load, queries, tests and refresh"
    claim = Claim(what, totals[ours.name], totals[peer.name], BAR, of="cpu")
    kept = {side: [asdict(each) for each in done] for side, done in runs.items()}
    finish("tpch", [claim], scale=size, prices=asdict(prices), runs=kept)


if __name__ == "__main__":
    main()
