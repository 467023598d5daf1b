"""`icegate health`: which tables cost their readers more than they need to, and what mends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from icegate.cli.common import Grid, Line, Opened, Shown, on_lake, pick, pick_tables
from icegate.errors import CatalogError, ConfigError, TableError

if TYPE_CHECKING:
    from icegate.catalog import CatalogEntry
    from icegate.health.table import Health

PARTITIONS = 20  # that are printed; --json has all


@on_lake
def health(
    at: Opened,
    select: Annotated[
        list[str] | None, typer.Argument(help="Schemas or tables, as in `silver '*.dim_*'`.")
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Judge each partition, too.")
    ] = False,
    unreferenced: Annotated[
        bool, typer.Option("--unreferenced", help="Count files that nothing refers to.")
    ] = False,
    older_than_days: Annotated[float, typer.Option(min=0, help="Of --unreferenced.")] = 3,
    fail_under: Annotated[
        int, typer.Option(min=0, max=100, help="End with 1 if a table has less.")
    ] = 0,
) -> Shown:
    """Score tables from 0 to 100, say why, and what mends them."""
    from icegate.catalog import list_relations
    from icegate.health.table import look

    entries, now = list_relations(at.lake), datetime.now(timezone.utc)
    chosen = _tables(entries, select or [])
    found = [look(entry, now, partitions) for entry in chosen]
    if unreferenced:
        found = [
            _with_unreferenced(each, entry, entries, now, older_than_days)
            for each, entry in zip(found, chosen, strict=True)
        ]
    found.sort(key=lambda each: (-1 if each.score is None else each.score, each.name))
    is_low = any(each.score is None or each.score < fail_under for each in found)
    blocks: list[str | Line | Grid] = [*_one(found[0])] if len(found) == 1 else [_all(found)]
    if partitions:
        blocks += [block for each in found for block in _parts(each)]
    none = ["no tables yet: run `dbt build`"]
    told = {"catalog": at.lake.catalog, "tables": [asdict(each) for each in found]}
    blocks += [_unreferenced(each) for each in found if each.unreferenced]
    return Shown(told, blocks if found else none, code=int(is_low))


def _tables(entries: Sequence[CatalogEntry], patterns: list[str]) -> list[CatalogEntry]:
    """Return the tables that are meant; the gate's own only if they are named."""
    tables = pick_tables(entries, patterns)
    if patterns and not tables:
        raise ConfigError(
            f"cannot tell how healthy {pick(entries, patterns)[0].full_name} is",
            why="it's a view: its rows are those of the tables that it reads",
            fix="name these; `icegate show` prints its SQL",
        )
    return tables


def _with_unreferenced(each: Health, entry: CatalogEntry, *how: Any) -> Health:
    from icegate.health.unreferenced import unreferenced

    try:
        return each if each.error else replace(each, unreferenced=unreferenced(entry, *how))
    except (CatalogError, TableError) as error:
        return replace(each, score=None, error=error.why)


def _unreferenced(each: Health) -> str:
    from icegate.health.reasons import many

    found = each.unreferenced
    assert found is not None
    size = f", {decimal(found.bytes)}" if found.files else ""
    young = f"; {found.young:,} more, too young to tell" if found.young else ""
    return f"{each.name}: nothing refers to {many(found.files, 'file')}{size}{young}"


def _all(found: list[Health]) -> Grid:
    columns = "table score bytes files deletes first_reason"
    return Grid(columns, [_cells(each) for each in found], right=("bytes",))


def _cells(each: Health) -> dict[str, Any]:
    files = each.files
    first = each.reasons[0].sentence if each.reasons else each.note
    return {
        "table": each.name,
        "score": "?" if each.score is None else each.score,
        "bytes": decimal(files.bytes) if files else "",
        "files": f"{files.files:,}" if files else "",
        "deletes": (files.deletes + files.dangling or "") if files else "",
        "first_reason": f"error: {each.error}" if each.error else first,
    }


def _one(each: Health) -> Iterator[str | Line | Grid]:
    if each.error:
        yield f"{each.name}: error: {each.error}"
        return
    why = each.note or ("" if each.reasons else "nothing to mend")
    yield Line(f"{each.name}: {each.score} of 100{', ' * bool(why)}{why}", "bold")
    for reason in each.reasons:
        yield f"-{reason.points} {reason.name}: {reason.sentence}"
        yield f"    {reason.command}" if reason.command else ""


def _parts(each: Health) -> Iterator[str | Grid]:
    named = each.partitions if any(part.name for part in each.partitions) else ()
    columns = "partition score bytes files deletes first_reason"
    rows = [{**_cells(part), "partition": part.name or "(none)"} for part in named[:PARTITIONS]]
    yield Grid(columns, rows, f"partitions of {each.name}", right=("bytes",))
    if named[PARTITIONS:]:
        yield f"and {len(named) - PARTITIONS:,} more; `--json` has all of them"
