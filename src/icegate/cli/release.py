"""`icegate release`: what was published, what waits, and what a person does with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Opened, Shown, group, on_lake
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.gate.ledger_rows import Event

Name = Annotated[str, typer.Argument(help="The number of a release or the name of a build.")]
Reason = Annotated[str, typer.Option(help="Why; the ledger keeps it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do, and do nothing.")]

NAMED = 5  # tables of an open build

release = group(
    "release", "Look at releases and at what the gate holds back; publish, drop or take back."
)


@release.command("list")
@on_lake
def list_(
    at: Opened, last: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20
) -> Shown:
    """List releases, what was rejected, and what is open or held back now; newest first."""
    releases, opened = past(at)[:last], open_facts(at)
    counted = [
        {**r, "moved": len(r["published"]), "held_back": len(r["held"]) + len(r["blocked"])}
        for r in releases
    ]
    columns = "release build state at who command moved held_back untested accepted standins reason"
    none = ["no releases yet: run `dbt build` with `gate: true` in the target"]
    return Shown(
        {"releases": releases, "open": opened},
        [Grid(columns, counted), open_grid(opened), *(none if not releases + opened else [])],
    )


def past(at: Opened) -> list[dict[str, Any]]:
    """Return what became of builds, the newest first."""
    from icegate.gate.ledger import read_events

    ended = ("published", "held", "rejected", "rolled_back", "erased")
    return [event_facts(event) for event in reversed(read_events(at.lake)) if event.event in ended]


def open_facts(at: Opened) -> list[dict[str, Any]]:
    """Return the builds that readers don't see all of."""
    from icegate.gate.releases import open_builds

    return [asdict(build) for build in open_builds(at.lake)]


def open_grid(builds: list[dict[str, Any]]) -> Grid:
    """Return them for people, who won't read the names of a thousand tables."""
    from icegate.trust.words import cut

    shown = [{**build, "tables": cut(build["tables"], NAMED)} for build in builds]
    return Grid("name state written_at tables", shown, "open or held back now")


def event_facts(event: Event) -> dict[str, Any]:
    """Return what the ledger says of one thing that became of a build."""
    detail = json.loads(event.detail or "{}")
    known = ("release", "build", "at", "who", "command", "target", "reason")
    return {
        "state": {"held": "held back"}.get(event.event, event.event.replace("_", " ")),
        **{key: getattr(event, key) for key in known},
        **{key: detail.get(key, []) for key in ("published", "untested", "accepted", "standins")},
        "held": [_held_facts(event.build, held) for held in detail.get("held", [])],
        "blocked": detail.get("blocked") or {},
    }


def _held_facts(build: str, row: dict[str, Any]) -> dict[str, Any]:
    from icegate.gate.decision import Held
    from icegate.gate.summary import cause
    from icegate.gate.verdict import Verdict

    held = Held(**{**row, "verdict": Verdict(**row["verdict"])})
    return {
        "table": held.verdict.table,
        "why": cause(held),
        "test": held.verdict.by,
        "failing_rows": held.verdict.failures,
        "rows_wait": held.rows,
        "build": build,
        "look": held.query,
        "readers_see": held.since,
    }


def event_line(event: dict[str, Any]) -> str:
    """Return one line on something that became of a build."""
    number = f"release {event['release']}, " if event["release"] else ""
    what = f"{number}build {event['build']}: {event['state']} {event['at']:%F %T}Z"
    reason = f": {event['reason']}" if event["reason"] else ""
    standins = f", with stand-ins for {', '.join(event['standins'])}" if event["standins"] else ""
    return f"{what} by {event['who']}, {event['command']}{standins}{reason}"


@release.command("show")
@on_lake
def show_(at: Opened, name: Name) -> Shown:
    """Show the tables of a release, and what of its build is held back and why."""
    from icegate.gate.ledger import read_release_tables
    from icegate.gate.releases import find

    found = find(at.lake, name)
    events = [event_facts(event) for event in found.events]
    numbers = sorted({event.release for event in found.events if event.release})
    tables = [asdict(row) for n in numbers for row in read_release_tables(at.lake, n)]
    waits = [asdict(found.waits)] if found.waits else []
    last = events[-1] if events else {"held": [], "blocked": {}}
    held: list[dict[str, Any]] = last["held"]
    if waits:
        look = [f"look: {row['look']}" for row in held if row["table"] in waits[0]["tables"]]
    else:
        look = ["none of it waits any more: it was built anew, published or dropped"]
    return Shown(
        {"build": found.build, "events": events, "tables": tables, "open": waits},
        [
            *map(event_line, events),
            Grid("table_name release snapshot_id previous_snapshot_id moved untested", tables),
            Grid("table why test failing_rows rows_wait", held, "held back"),
            open_grid(waits),
            *(f"{table}: {why}" for table, why in last["blocked"].items()),
            *(look if held else []),
        ],
    )


@release.command()
@on_lake
def publish(
    at: Opened,
    name: Name,
    accept: Annotated[
        list[str] | None, typer.Option(help="A failed test to publish in spite of.")
    ] = None,
    reason: Reason = "",
) -> Shown:
    """Publish what passes of a build that is open or held back."""
    from icegate.gate import releases
    from icegate.gate.summary import describe

    if accept and not reason:
        raise ConfigError(
            "cannot accept a failed test without a reason",
            why="the ledger keeps who let it pass, and why",
            fix='add --reason "…"',
        )
    outcome = releases.publish(at.lake, name, at.target, at.keys, accept or [], reason)
    _tell(at)
    code = 1 if outcome.held or outcome.blocked else 0
    return Shown(asdict(outcome), [describe(outcome).strip("\n")], code)


def _tell(at: Opened) -> None:
    from icegate.dbt_process import tell

    tell(at.project_dir, at.profiles_dir, at.wanted)


@release.command()
@on_lake
def reject(at: Opened, name: Name, reason: Reason = "") -> Shown:
    """Drop what waits of a build."""
    from icegate.gate import releases

    dropped = releases.reject(at.lake, name, at.target, reason)
    _tell(at)
    line = f"rejected build {dropped.name}: dropped from {', '.join(dropped.tables)}"
    return Shown(asdict(dropped), [line])


@release.command()
@on_lake
def rollback(
    at: Opened,
    number: Annotated[int, typer.Argument(min=1, help="The release to go back to.")],
    tables: Annotated[list[str] | None, typer.Argument(help="Tables; else all of it.")] = None,
    dry_run: DryRun = False,
) -> Shown:
    """Let readers see again what an earlier release had; that's a release of its own."""
    from icegate.gate.rollback import rollback as go_back

    made, moved = go_back(at.lake, number, tables or [], at.target, dry_run=dry_run)
    if not dry_run:
        _tell(at)
    done = f"release {made} {'would be' if dry_run else 'is'} what release {number} had"
    nothing = f"nothing to do: main has what release {number} had"
    return Shown(
        {"release": made, "dry_run": dry_run, "tables": moved},
        [Grid("table main to rows", moved), done if moved else nothing],
    )


@release.command()
@on_lake
def recover(at: Opened) -> Shown:
    """Drop what builds left that crashed or were killed; the next build does it too."""
    from icegate.gate import releases

    dropped = releases.recover(at.lake, at.target)
    lines = [f"dropped build {build.name} from {', '.join(build.tables)}" for build in dropped]
    return Shown({"dropped": list(map(asdict, dropped))}, lines or ["nothing to recover"])


@release.command()
@on_lake
def expire(
    at: Opened,
    keep: Annotated[int, typer.Option(min=1, help="Releases to keep whatever their age.")] = 10,
    days: Annotated[int, typer.Option(min=0, help="Days to keep any.")] = 7,
    dry_run: DryRun = False,
) -> Shown:
    """Drop the tags of old releases, so that their snapshots can expire."""
    from icegate.gate.rollback import expire as drop_tags

    tags = drop_tags(at.lake, keep, days, at.target, dry_run=dry_run)
    verb = "would drop" if dry_run else "dropped"
    lines = [f"{verb} {', '.join(names)} of {table}" for table, names in tags.items()]
    return Shown({"dry_run": dry_run, "tags": tags}, lines or ["nothing to expire"])
