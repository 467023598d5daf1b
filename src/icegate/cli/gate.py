"""`icegate status`, `plan` and `eject`: the gate as a whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from icegate.cli.common import Grid, Opened, Shown, on_lake
from icegate.cli.release import event_line, open_facts, open_grid, past
from icegate.errors import ConfigError

CHANGES = (
    "rows files_added files_removed columns_added columns_dropped columns_renamed columns_retyped"
)


@on_lake
def status(at: Opened) -> Shown:
    """Say what readers see, what is held back since when, and what is open."""
    events, builds = past(at), open_facts(at)
    last = next((event for event in events if event["release"]), None)
    made = {event["release"]: event["at"] for event in events if event["release"]}
    newest = {event["build"]: event for event in reversed(events)}
    held = [
        {**row, "since": made.get(row["readers_see"])}
        for build in builds
        if build["name"] in newest
        for row in newest[build["name"]]["held"]
    ]
    return Shown(
        {"release": last, "held": held, "open": builds},
        [
            event_line(last) if last else "nothing was released yet",
            Grid("table why test rows_wait build readers_see since", held, "held back"),
            open_grid(builds) if builds else "nothing is held back, no build is open",
        ],
    )


@on_lake
def plan(
    at: Opened, name: Annotated[str | None, typer.Argument(help="A build; else the newest.")] = None
) -> Shown:
    """Say what `release publish` would move, and what the next run changes of tables."""
    from icegate.gate.compare import plan as plan_of

    build, tables = plan_of(at.lake, name, at.target, at.keys)
    title = f"icegate release publish {build}" if build else "nothing waits"
    columns = f"table main head {CHANGES} result why"
    facts, grids, notes = _evolution(at)
    facts = {"build": build, "tables": tables, **facts}
    return Shown(facts, [title, Grid(columns, tables), *grids], notes=notes)


def _evolution(at: Opened) -> tuple[dict[str, Any], list[Grid], list[str]]:
    """Return what the next run changes, as facts, for people, and what can't be known before."""
    from icegate.health.reasons import size
    from icegate.nodes import changed_since, read_manifest
    from icegate.tables.evolution import evolution

    try:
        manifest = read_manifest(at.project, "what the next run changes of tables")
    except ConfigError:
        none = "what the next run changes of tables isn't known before `dbt compile`"
        return {"changes": None, "unknown": {}}, [], [none]
    planned, unknown = evolution(at.lake, manifest, gate=bool(at.keys.get("gate")))
    facts = [each._asdict() for each in planned]
    rows = [{**each._asdict(), "bytes": size(each.bytes) if each.bytes else ""} for each in planned]
    columns = "table change effect bytes stops_the_build why"
    grid = Grid(columns, rows, "the next run changes", right=("bytes",))
    notes = []
    for why in dict.fromkeys(unknown.values()):
        unseen = ", ".join(table for table, of in unknown.items() if of == why)
        notes.append(f"not known before the run, as {why}: {unseen}")
    if newer := changed_since(at.project):
        notes.append(f"{newer} changed since dbt's last parse: `dbt compile`")
    return {"changes": facts, "unknown": unknown}, [grid] * bool(rows), notes


@on_lake
def eject(
    at: Opened,
    yes: Annotated[bool, typer.Option("--yes", help="Do it rather than say it.")] = False,
) -> Shown:
    """Take branches, tags, properties and ledger out of the catalog; main and files stay."""
    from icegate.gate.rollback import eject as take_out

    taken = take_out(at.lake, dry_run=not yes)
    verb = "removed" if yes else "would remove"
    lines = [f"{verb} {', '.join(names)} from {table}" for table, names in taken["tables"].items()]
    lines += [f"{verb} {name} from the catalog" for name in taken["dropped"]]
    lines += ["nothing was changed: `icegate eject --yes` does it"] * bool(lines and not yes)
    return Shown({"dry_run": not yes, **taken}, lines or ["nothing to remove"])
