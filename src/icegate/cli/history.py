"""`icegate history`: what became of one row, when, and in which release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, find_entry, on_lake, personal
from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.history.rows import Change


@on_lake
def history(
    at: Opened,
    table: Annotated[str, typer.Argument(help="A table, as in `silver.curated_orders`.")],
    key: Annotated[
        list[str], typer.Option(help="A column of its key, as `id=42`; `id` alone is null.")
    ],
    unmasked: Annotated[bool, typer.Option("--unmasked", help="Show personal data.")] = False,
) -> Shown:
    """Show what became of a row: each change, when readers got it, and in which release."""
    from icegate.catalog import list_relations, open_catalog, read_metadata
    from icegate.gate.refs import with_releases
    from icegate.history.rows import changes_of_row

    entry = find_entry(list_relations(at.lake), table, at.lake.catalog)
    if entry.kind == "view":
        raise ConfigError(
            f"cannot tell the history of a row of {entry.full_name}",
            why="a view has no versions",
            fix="name a table that it reads",
        )
    asked = dict(_parsed(text) for text in key)
    opened = open_catalog(at.lake).load_table((entry.namespace, entry.name))
    found = [*changes_of_row(opened, with_releases(read_metadata(entry)), asked)]
    title = Line(f"{entry.full_name}, {', '.join(key)}", "bold")
    if not found:
        none = "no version that is kept has this row"
        return Shown({"table": entry.full_name, "changes": []}, [title, none], code=1)
    kinds, notes = ({}, []) if unmasked else personal(at, entry.full_name)
    facts = [_facts(change, kinds) for change in found]
    hidden = sorted({c for fact in facts for c in fact["columns"] if c.lower() in kinds})
    if hidden:
        notes = [*notes, f"masked: {', '.join(hidden)}; `--unmasked` shows them"]
    rows = [{**fact, "what": _what(fact)} for fact in facts]
    grid = Grid("at change release snapshot_id what", rows)
    return Shown({"table": entry.full_name, "changes": facts}, [title, grid], notes=notes)


def _parsed(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    return name.strip(), value if equals else None


def _facts(change: Change, kinds: dict[str, str]) -> dict[str, Any]:
    from icegate.pii import masked

    def seen(name: str, value: Any) -> Any:
        kind = kinds.get(name.lower())
        return masked(value, kind) if kind else value

    return {
        "at": change.at,
        "change": change.change,
        "release": change.release,
        "build": change.build,
        "snapshot_id": change.snapshot["snapshot-id"],
        "columns": {
            name: {"old": seen(name, old), "new": seen(name, new)}
            for name, (old, new) in change.columns.items()
        },
    }


def _what(fact: dict[str, Any]) -> str:
    from icegate.cli.output import text
    from icegate.history.rows import DELETE, UPDATE

    def told(values: Iterable[tuple[str, dict[str, Any]]]) -> Iterable[str]:
        for name, of in values:
            if fact["change"] == UPDATE:
                yield f"{name}: {text(of['old'])} → {text(of['new'])}"
            else:
                yield f"{name}: {text(of['old' if fact['change'] == DELETE else 'new'])}"

    return ", ".join(told(fact["columns"].items()))
