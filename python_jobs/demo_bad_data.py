"""Plant bad data, one pathology at a time, and show who catches it and what readers see meanwhile.

It runs this project on a home and landing data of its own, below `.icegate/demo`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from icegate.catalog import list_relations, read_metadata
from icegate.connect import local_endpoint
from icegate.dbt_process import DBT
from icegate.errors import IcegateError
from icegate.gate import ledger
from icegate.profiles import load_target
from icegate.session import start_session, stop_session
from icegate.settings import Lake, lake_from_target
from icegate.tables.metadata import current_snapshot, row_count
from landing_data.faults import Fault, choose
from landing_data.generate import generate
from landing_data.plan import Plan
from packages import choose_packages

ROOT = Path(__file__).parents[1]
GOOD_DAYS, ORDERS_A_DAY = 2, 300
TAGS = {"shop": "tag:commerce", "sensors": "tag:sensors"}
WATCHED = {"shop": "gold.fct_orders", "sensors": "gold.agg_room_climate"}


@dataclass
class Build:
    """What a build said: tests and models that failed, and the ledger's newest word."""

    ok: bool
    failed: list[str]
    event: ledger.Event | None


class Demo:
    """One lakehouse that gets a new day for each fault."""

    def __init__(self, home: Path) -> None:
        self.home, self.landing = home, home / "landing"
        os.environ |= {"ICEGATE_HOME": str(home), "ICEGATE_LANDING": str(self.landing)}
        target, keys = load_target(ROOT, None, "connect")
        self.lake: Lake = lake_from_target(keys, ROOT)
        choice = choose_packages(ROOT, target, standins_allowed=True)
        self.environ = choice.environment({**os.environ, "DBT_TARGET": "connect"})
        self.days, self.day = GOOD_DAYS, ""

    def deliver(self, fault: Fault | None = None) -> list[dict[str, Any]]:
        """Land what isn't there yet, and the last day anew; with a fault in it."""
        made = self.home / "made"
        shutil.rmtree(made, ignore_errors=True)
        orders = ORDERS_A_DAY * self.days
        plan = Plan(made, customers=150, products=60, days=self.days, orders=orders)
        planted = generate(plan, [fault] if fault else [], lambda path, rows: None)
        for source in TAGS:
            days = sorted((made / source).iterdir())
            self.day = days[-1].name
            for day in days:
                place = self.landing / source / day.name
                if day is days[-1]:
                    shutil.rmtree(place, ignore_errors=True)
                if not place.exists():
                    shutil.copytree(day, place)
        return planted

    def build(self, *select: str) -> Build:
        """Run `dbt build` and read what it left."""
        command = [*DBT, "--quiet", "build", "--target-path", str(self.home / "target")]
        command += ["--log-path", str(self.home / "logs"), *select]
        written = self.home / "target" / "run_results.json"
        written.unlink(missing_ok=True)
        done = subprocess.run(
            command, cwd=ROOT, env=self.environ, capture_output=True, text=True, check=False
        )
        if not written.exists():
            raise IcegateError("cannot build", why=done.stdout + done.stderr)
        results = json.loads(written.read_text())["results"]
        failed = [
            f"{result['unique_id'].split('.')[2]}: {_reason(result['message'])}"
            for result in results
            if result["status"] in ("fail", "error", "warn")
        ]
        events = ledger.read_events(self.lake)
        return Build(done.returncode == 0, failed, events[-1] if events else None)

    def seen(self, table: str) -> str:
        """Return what a reader of main finds, from metadata."""
        for entry in list_relations(self.lake):
            if entry.full_name == table:
                snapshot = current_snapshot(read_metadata(entry))
                rows, _ = row_count(snapshot["summary"]) if snapshot else (0, False)
                return f"{table} has {rows:,} rows, as of release {ledger.last_release(self.lake)}"
        return f"{table} isn't there"

    def take_back(self, fault: Fault) -> list[str]:
        """Take the rows of a file with wrong rows out of bronze, so that it's loaded again."""
        table = "bronze.raw_room_data" if fault.source == "sensors" else "bronze.raw_orders"
        file = f"{table.partition('raw_')[2]}-00000.jsonl"
        statements = [
            f"delete from {name} where loaded_from = '{self.day}/{file}'"
            for name in (table, f"{table}__rejected")
        ]
        session = start_session(self.lake, local_endpoint(self.lake))
        for statement in statements:
            session.sql(statement)
        return statements


def show(demo: Demo, fault: Fault) -> bool:
    """Plant one fault, look, repair; return whether it ended well."""
    demo.days += 1
    where = demo.deliver(fault)[0]["where"]
    before = demo.seen(WATCHED[fault.source])
    print(f"\n== {fault.name}: {fault.plants}\n  planted     {where}")
    bad = demo.build("--select", TAGS[fault.source])
    for line in bad.failed or [f"by name: {fault.shows}"]:
        print(f"  caught by   {fault.caught_by}: {line}")
    print(f"  before      {before}\n  meanwhile   {demo.seen(WATCHED[fault.source])}")
    print(f"  bad rows    {_query(bad, fault)}")
    demo.deliver()
    print("  repair      the sender delivers the day again, as it should be")
    if fault.caught_by != "loader":
        for statement in demo.take_back(fault):
            print(f"              {statement}")
    good = demo.build("--select", TAGS[fault.source])
    print(f"  after       {demo.seen(WATCHED[fault.source])}", flush=True)
    for line in good.failed:
        print(f"  still       {line}")
    return good.ok


def _query(build: Build, fault: Fault) -> str:
    """Return the SQL that shows the bad rows, of the table whose own test failed."""
    if fault.caught_by == "contract":
        return "select * from bronze.raw_orders__rejected"
    if fault.caught_by == "loader":
        return "nothing of it was loaded"
    detail = json.loads((build.event.detail if build.event else None) or "{}")
    held = detail.get("held", [])
    held.sort(key=lambda one: one["verdict"]["cause"] != "failed_test")
    return held[0]["query"] if held else "not held back"


def _reason(message: str | None) -> str:
    """Return what is wrong and why, in one line; what to do is the demo's own to say."""
    lines = [line.strip() for line in (message or "").split("\n")]
    said = [line for line in lines if not line.startswith(("Runtime Error in", "fix: "))]
    return " ".join(said).replace(f"{ROOT}/", "")[:300].strip()


def main(
    faults: Annotated[str, typer.Option(help="Which: names, loader, contract, test, all.")] = "all",
) -> None:
    """Build good data, then plant each fault in a day of its own."""
    home = ROOT / ".icegate" / "demo"
    try:
        chosen = choose(faults)
        _begin_anew(home)
        demo = Demo(home)
        server = [sys.executable, "-m", "icegate.cli.main", "server"]
        subprocess.run([*server, "start"], cwd=ROOT, env=demo.environ, check=True)
        try:
            demo.deliver()
            first = demo.build()
            print(f"good data: {', '.join(demo.seen(table) for table in WATCHED.values())}")
            ended = [first.ok, *(show(demo, fault) for fault in chosen)]
        finally:
            stop_session()
            subprocess.run([*server, "stop"], cwd=ROOT, env=demo.environ, check=True)
    except IcegateError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    raise typer.Exit(0 if all(ended) else 1)


def _begin_anew(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "ivy").symlink_to(ROOT / ".icegate" / "ivy")


if __name__ == "__main__":
    typer.run(main)
