"""What a command shows, as Markdown for a comment, or as a page of HTML that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from icegate.cli.common import Grid, Line, cells_of
from icegate.cli.output import text

Blocks = Iterable[str | Line | Grid]

LONGEST = 60_000  # characters: a comment on GitHub has 65,536 at most
# What Markdown takes as it stands; all else would be markup, or call somebody by their @name.
PLAIN = re.compile(r"\(?[A-Za-z0-9\u2022](?:[\w\u2022.:+-]*[A-Za-z0-9\u2022])?[.,:)]*|\u2192")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem }
th, td { border-bottom: 1px solid #8a9098; padding: .25rem .75rem; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
@media (prefers-color-scheme: dark) { body { background: #16191d; color: #e4e6e8 } }
"""


def markdown(blocks: Blocks) -> str:
    """Return Markdown; what is longer than a comment may be is cut off, and says so."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Line):
            lines += [f"### {_code(block.text.strip())}", ""]
        elif isinstance(block, str):
            lines += [_code(block), ""]
        elif block.rows:
            lines += [f"**{_code(block.title)}**", ""] if block.title else []
            names, rows = cells_of(block)
            lines += [_row(names), f"|{' --- |' * len(names)}", *map(_row, rows), ""]
    told = "\n".join(lines)
    if len(told) <= LONGEST:
        return told
    whole = told[:LONGEST].rpartition("\n")[0]
    return f"{whole}\n\n… cut off here, since a comment can't hold more: `--html` has all of it\n"


def html(blocks: Blocks, title: str) -> str:
    """Return a page, without scripts and without anything from elsewhere."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    told = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
    ]
    for block in blocks:
        if isinstance(block, Line):
            told.append(f"<h2>{escape(block.text.strip())}</h2>")
        elif isinstance(block, str):
            told.append(f"<p>{escape(block)}</p>")
        elif block.rows:
            names, rows = cells_of(block)
            head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
            caption = f"<caption>{escape(block.title)}</caption>" if block.title else ""
            told += [f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>"]
            told += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
            told.append("</tbody></table>")
    return "\n".join([*told, "</main></body></html>", ""])


def _row(cells: Sequence[object]) -> str:
    told = (_code(" ".join(text(cell).splitlines())).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(told)} |"


def _code(value: str) -> str:
    """Return text that Markdown takes for nothing else."""
    if not value or all(map(PLAIN.fullmatch, value.split())):
        return value
    fence = "`" * (max((len(ticks) for ticks in re.findall("`+", value)), default=0) + 1)
    return f"{fence} {value} {fence}" if "`" in value else f"{fence}{value}{fence}"


def _cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kind = ' class="number"' if is_number else ""
    return f"<td{kind}>{escape(text(value))}</td>"
