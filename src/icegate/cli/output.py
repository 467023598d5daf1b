"""Print results: a rich table in a terminal, plain aligned lines elsewhere, JSON or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

Row = Sequence[str]


def is_terminal() -> bool:
    """Tell whether a person sees what is printed."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print CSV with a header; null is an empty cell."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if cell is None else text(cell) for cell in row] for row in rows)


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Row = (), title: str = ""
) -> None:
    """Print rows as a table; numbers, and the columns named in ``right``, are to the right."""
    numbers = [
        name
        for name, *values in zip(columns, *rows, strict=True)
        if name in right or any(isinstance(value, int | float | Decimal) for value in values)
    ]
    cells = [[text(cell) for cell in row] for row in rows]
    if not is_terminal():
        _print_plain(columns, cells, numbers, title)
    elif _fits(columns, cells):
        _print_rich(columns, cells, numbers, title)
    else:
        for number, row in enumerate(cells, 1):
            fields = list(zip(columns, row, strict=True))
            _print_rich(("column", "value"), fields, (), f"row {number}")


def _print_plain(columns: Row, rows: Sequence[Row], right: Row, title: str) -> None:
    if title:
        print(f"\n{title}")
    flat = str.maketrans({"\n": "\\n", "\t": " "})
    cells = [[cell.translate(flat) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def _print_rich(columns: Row, rows: Sequence[Row], right: Row, title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if title:
        console.print(Text(f"\n{title}", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _fits(columns: Row, rows: Sequence[Row]) -> bool:
    from rich.console import Console

    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    return sum(widths) + 3 * len(widths) <= Console().width


def print_line(line: str, style: str = "") -> None:
    """Print one line, in a terminal with the style of rich."""
    if is_terminal() and style:
        from rich.console import Console

        Console(highlight=False).print(line, style=style, markup=False, soft_wrap=True)
    else:
        print(line)


def note(line: str) -> None:
    """Say something beside the result, so that what is piped stays clean."""
    print(line, file=sys.stderr)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: decimals and times as text, so that no digit is lost."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else text(value)
    if isinstance(value, dt.datetime):
        return text(value).replace(" ", "T", 1)
    if hasattr(value, "asDict"):  # a struct of Spark
        return plain(value.asDict())
    if isinstance(value, dict):
        return {text(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(inner) for inner in value]
    return text(value)


def text(value: Any) -> str:
    """Return a value in one cell of a table."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        shown = value.isoformat(sep=" ")
        return shown.replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict | list | tuple):
        return json.dumps(plain(value), ensure_ascii=False)
    return str(value)
