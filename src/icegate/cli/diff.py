"""`icegate diff`: how tables differ between two versions, releases, tables or schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icegate.cli.common import Grid, Line, Opened, Shown, find_entry, on_lake, personal, pick_tables
from icegate.cli.gate import CHANGES
from icegate.errors import ConfigError, IcegateError

if TYPE_CHECKING:
    from icegate.catalog import CatalogEntry
    from icegate.history.asked import Asked
    from icegate.history.difference import Difference

Point = Annotated[
    str, typer.Argument(help="A release, a build, `main`; of TABLES also a tag, time or snapshot.")
]
Tables = Annotated[list[str] | None, typer.Argument(help="Tables whose rows are compared, too.")]
Key = Annotated[list[str] | None, typer.Option(help="A column that names a row; else dbt's.")]
Markdown = Annotated[Path | None, typer.Option(help="A file for a comment; `-` prints it.")]
ROWS = "added removed changed compared"
WIDEST = 60  # characters that people see of a value

Facts = dict[str, Any]
Blocks = list[str | Line | Grid]


@on_lake
def diff(
    at: Opened,
    before: Point,
    after: Point,
    tables: Tables = None,
    key: Key = None,
    rows: Annotated[bool, typer.Option("--rows", help="Compare rows of all tables.")] = False,
    examples: Annotated[int, typer.Option(min=0, help="Rows to show of each kind.")] = 3,
    unmasked: Annotated[bool, typer.Option("--unmasked", help="Show personal data.")] = False,
    markdown: Markdown = None,
    html: Annotated[Path | None, typer.Option(help="A file for a page.")] = None,
) -> Shown:
    """Compare two versions of tables, or two tables or schemas: columns, files, rows by key."""
    from icegate.history.difference import METADATA

    asked, notes = _asked(at, before, after, tables or [])
    by_rows = rows or bool(key) or not all(one.is_gated for one in asked)
    look = _Look(at, key or [], examples, unmasked, is_kept=bool(markdown or html))
    told = [look.told(one, by_rows=by_rows, alone=len(asked) == 1) for one in asked]
    found = [facts for facts in told if _differs(facts)]
    blocks = [*_blocks(found, f"{before} and {after}", ROWS if by_rows else "")]
    if by_rows and not found:
        is_proved = all(facts["compared"] == METADATA for facts in told)
        blocks.append(
            "no file differs, so none was read" if is_proved else "all rows were compared"
        )
    kept = [Line(f"{before} → {after}", "bold"), *blocks, *notes]
    shown, files = _written(kept, f"{before} and {after}", markdown, html)
    return Shown(
        {"before": before, "after": after, "tables": told if by_rows else found},
        blocks if shown is None else [shown],
        1 if any(facts.get("error") for facts in told) else 0,
        [*notes, *look.said(), *files],
    )


def _asked(
    at: Opened, before: str, after: str, patterns: Sequence[str]
) -> tuple[list[Asked], list[str]]:
    """Return what is to be compared, and what to say of the rest."""
    from icegate.catalog import list_relations
    from icegate.history import asked

    entries = list_relations(at.lake)
    if patterns:
        chosen = pick_tables(entries, patterns)
        if not chosen:
            why = "a view has no versions"
            what = f"cannot compare {' '.join(patterns)}"
            raise ConfigError(what, why=why, fix="name tables that it reads")
        return asked.of_versions(at.lake, chosen, before, after), []
    sides = [side.removeprefix(f"{at.lake.catalog}.") for side in (before, after)]
    if {entry.full_name for entry in entries} & {*sides}:
        old, new = (find_entry(entries, side, at.lake.catalog) for side in sides)
        return [asked.of_tables(old, new)], []
    schemas = {entry.namespace for entry in entries} - {asked.MAIN}
    if schemas & {*sides}:
        return _of_schemas(entries, schemas, *sides)
    return asked.of_points(at.lake, before, after), []


def _of_schemas(
    entries: Sequence[CatalogEntry], schemas: set[str], before: str, after: str
) -> tuple[list[Asked], list[str]]:
    from icegate.history.asked import of_schemas

    for schema in (before, after):
        if schema not in schemas:
            raise ConfigError(
                f"cannot compare {before} with {after}",
                why=f"one is a schema, and {schema} is none that has tables",
                fix="name two schemas; or two versions, and then what to compare: "
                f"`icegate diff 41 main {before if after == schema else after}`",
            )
    found = [*of_schemas(entries, before, after)]
    names = {one.table.partition(".")[2] for one in found}
    tables = (entry for entry in entries if (entry.namespace, entry.kind) == (before, "table"))
    rest = [entry.name for entry in tables if entry.name not in names]
    return found, [f"only in {before}: {', '.join(rest)}"] if rest else []


@dataclass
class _Look:
    """How tables are compared, and what there is to say of all of them."""

    at: Opened
    key: list[str]
    examples: int
    unmasked: bool
    is_kept: bool  # in a file, where others may read it
    notes: list[str] = field(default_factory=list)
    masked: set[str] = field(default_factory=set)

    def told(self, one: Asked, *, by_rows: bool, alone: bool) -> Facts:
        """Return how a table differs; of one among several, why that can't be told."""
        from icegate.gate.compare import difference
        from icegate.history.difference import Difference

        none = {"error": None, "with": one.other or None, **dict.fromkeys(ROWS.split())}
        facts = {"table": one.table, **dict.fromkeys(CHANGES.split())}
        try:
            old, new = one.sides()
            facts = difference(one.table, old, new)
            if not by_rows:
                return facts
            if old is None or new is None:
                return {**facts, **none, "compared": "new table" if new else "gone"}
            key = self.key or self._keys.get(one.table) or self._keys.get(one.other) or []
            found = Difference(self.at.lake, one.table, old, new, key)
            if self.key:
                found.check_key()
            return {**facts, **none, **self._rows(found, self._kinds(one))}
        except IcegateError as error:
            if alone or not by_rows:
                raise
            return {**facts, **none, "error": error.why or error.what}

    @cached_property
    def _keys(self) -> Mapping[str, list[str]]:
        """The columns that name a row, by the table."""
        from icegate.nodes import keys_of

        nodes = (self.at.manifest or {"nodes": {}})["nodes"]
        return {f"{nodes[id]['schema']}.{nodes[id]['alias']}": key
                for id, key in keys_of(nodes).items()}  # fmt: skip

    def _kinds(self, one: Asked) -> dict[str, str]:
        """Return the kind of personal data in columns, by name in lower case."""
        if self.unmasked:
            return {}
        kinds: dict[str, str] = {}
        for table in filter(None, (one.other, one.table)):
            found, self.notes = personal(self.at, table)
            kinds |= found
        if self.notes and self.is_kept:
            raise ConfigError(
                "cannot write rows into a file that others may read",
                why="what is personal data isn't known before `dbt parse`",
                fix="run `dbt parse`, or add --unmasked to show all of it",
            )
        return kinds

    def _rows(self, found: Difference, kinds: Mapping[str, str]) -> Facts:
        from icegate.history.difference import ADDED, CHANGED, REMOVED
        from icegate.pii import masked

        # By either name: the manifest knows one of them.
        hidden = {pair.name: next((kinds[n.lower()] for n in pair.names if n.lower() in kinds), "")
                  for pair in found.pairs}  # fmt: skip

        def seen(row: Sequence[Any]) -> Facts:
            self.masked |= {name for name, kind in hidden.items() if kind}
            of = zip(hidden.items(), row, strict=True)
            return {name: masked(value, kind) if kind else value for (name, kind), value in of}

        def example(row: tuple[Sequence[Any], Sequence[Any]], name: str) -> Facts:
            was, now = map(seen, row)
            names = {n.lower(): n for n in now}
            key = {names[n.lower()]: now[names[n.lower()]] for n in found.key}
            return {"key": key, "before": was[name], "after": now[name]}

        counts = found.counts
        columns = [
            {"column": name, "rows": many, "examples": [
                example(row, name) for row in found.rows(CHANGED, self.examples, name)]}
            for name, many in found.changed.items()
        ]  # fmt: skip
        added = [seen(row) for _, row in found.rows(ADDED, self.examples)]
        removed = [seen(row) for row, _ in found.rows(REMOVED, self.examples)]
        return {"compared": found.by, "files_read": found.files, "key": [*found.key], **counts,
                "columns": columns, "examples": {ADDED: added, REMOVED: removed}}  # fmt: skip

    def said(self) -> list[str]:
        """Return what people are to know of what was masked."""
        told = f"masked: {', '.join(sorted(self.masked))}; `--unmasked` shows them"
        return [*self.notes, *[told] * bool(self.masked)]


def _differs(facts: Facts) -> bool:
    return any(facts.get(name) for name in (*CHANGES.split(), *ROWS.split()[:3], "error"))


def _blocks(found: Sequence[Facts], points: str, rows: str) -> Iterator[str | Line | Grid]:
    if not found:
        yield f"{points} are the same"
        return
    yield Grid(f"table {CHANGES} {rows}{' error' if rows else ''}", found)
    for facts in found:
        if any(facts.get(kind) for kind in ROWS.split()[:3]):
            yield from _details(facts)


def _details(facts: Facts) -> Iterator[str | Line | Grid]:
    yield Line(f"\n{facts['table']}, by {', '.join(facts['key'])}", "bold")
    if facts["with"]:
        yield (
            f"with {facts['with']}: two tables have no files and no field ids in common, so all "
            "rows were compared, in the columns that both have by name"
        )
    lines = []
    for column in facts["columns"]:
        told = {"column": column["column"], "rows": column["rows"]}
        for example in column["examples"] or [{"key": {}, "before": "", "after": ""}]:
            sides = {side: _short(example[side]) for side in ("before", "after")}
            lines.append({**told, "key": _key(example["key"]), **sides})
            told = {"column": "", "rows": ""}
    yield Grid("column rows key before after", lines, "changed columns", right=("rows",))
    for kind in ("added", "removed"):
        some = [{n: _short(value) for n, value in row.items()} for row in facts["examples"][kind]]
        title = f"{kind} rows{f' ({len(some)} of {facts[kind]:,})' * (len(some) < facts[kind])}"
        if some:
            yield Grid([*some[0]], some, title)


def _key(values: Facts) -> Any:
    if len(values) == 1:
        return _short(next(iter(values.values())))
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _short(value: Any) -> Any:
    from icegate.cli.output import text

    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    told = text(value)
    return told if len(told) <= WIDEST else f"{told[: WIDEST - 1]}…"


def _written(
    blocks: Blocks, title: str, markdown: Path | None, html: Path | None
) -> tuple[str | None, list[str]]:
    """Write what is asked for; return what is printed in the place of tables, and the files."""
    from icegate.cli import pages
    from icegate.cli.report import write

    shown, files = None, []
    if html:
        write(html, pages.html(blocks[1:], title))
        files.append(html)
    if markdown and str(markdown) == "-":
        shown = pages.markdown(blocks).rstrip("\n")
    elif markdown:
        write(markdown, pages.markdown(blocks))
        files.append(markdown)
    return shown, [f"look: {file}" for file in files]
