"""Literal conditions that every row of a table meets which a batch can match.

With `target.id = source.id` alone a merge reads each file of the table, and conflicts with every
other writer. A literal is what Iceberg can compare with its files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from icegate.gate.refs import Metadata
from icegate.tables.metadata import by_id
from icegate.tables.state import literal

MOST_VALUES = 200  # in a list; beyond them the lowest and the highest are told
LONGEST = 200  # characters of a text in a condition
INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Column:
    """A column by which rows are found: its name as SQL writes it, and its type."""

    name: str
    sql: str
    kind: str

    def text(self, value: str) -> str:
        """Return the SQL of a value as text that ``literal`` reads without loss.

        A timestamp as text names two moments in the hour that a clock is put back.
        """
        if self.kind == "timestamp":
            value = f"unix_micros({value})"
        return f"cast({value} as string)"

    def literal(self, text: str) -> str:
        """Return the text as a literal of the column's type."""
        if self.kind in INTEGERS:
            return text
        if self.kind == "timestamp":
            return f"timestamp_micros({text})"
        if self.kind in ("date", "timestamp_ntz"):
            return f"{self.kind} {literal(text)}"
        return literal(text) if self.kind == "string" else f"cast({literal(text)} as {self.kind})"

    def value(self, text: str) -> Any:
        """Return the text as what PyIceberg compares bounds with."""
        if self.kind in INTEGERS:
            return int(text)
        if self.kind == "timestamp":
            since = datetime(1970, 1, 1, tzinfo=timezone.utc)
            return (since + timedelta(microseconds=int(text))).isoformat()
        if self.kind == "timestamp_ntz":
            return text.replace(" ", "T")
        return Decimal(text) if self.kind.startswith("decimal") else text


def with_uuids(kinds: dict[str, str], metadata: Metadata | None) -> dict[str, str]:
    """Return Spark's types of a table's columns by name, with those that Iceberg has as UUID.

    For Spark these are text, and Iceberg leaves out wrong files for `id >= '…'`: it orders them
    otherwise. Without metadata any text may be one.
    """
    schemas = metadata["schemas"] if metadata else []
    fields = by_id(schemas, "schema-id", (metadata or {}).get("current-schema-id"))["fields"]
    known = {field["name"].lower(): field["type"] for field in fields}
    return {
        name: "uuid" if kind == "string" and known.get(name) != "string" else kind
        for name, kind in kinds.items()
    }


def bounded(
    names: Sequence[str], table: dict[str, str], batch: dict[str, str], quote: Callable[[str], str]
) -> list[Column]:
    """Return the columns of ``names`` whose order survives a comparison of table and batch.

    ``table`` and ``batch`` have types by names in lower case. Text compared with a number is
    ordered otherwise than by itself; NaN and collations have orders of their own.
    """
    found = []
    for name in names:
        kind, other = table.get(name.lower(), ""), batch.get(name.lower(), "")
        ordered = kind in ("date", "timestamp", "timestamp_ntz", "string")
        ordered = ordered or re.fullmatch(r"decimal\(\d+,\d+\)", kind) is not None
        if (ordered and kind == other) or (kind in INTEGERS and other in INTEGERS):
            widest = max(kind, other, key=INTEGERS.index) if kind in INTEGERS else kind
            found.append(Column(name, quote(name), widest))
    return found


@dataclass(frozen=True)
class Bound:
    """What a batch has in a column, as text: a list of values or the ends; and whether nulls."""

    column: Column
    low: str
    high: str
    values: tuple[str, ...] = ()
    nulls: bool = False

    def condition(self, prefix: str) -> str:
        """Return the condition for a row of the table, or nothing where it would be too long."""
        texts = self.values or (self.low, self.high)
        if max(map(len, texts)) > LONGEST:
            return ""
        named, *literals = prefix + self.column.sql, *map(self.column.literal, texts)
        if self.values:
            said = f"{named} in ({', '.join(literals)})"
        else:
            said = f"{named} >= {literals[0]} and {named} <= {literals[1]}"
        return f"({said} or {named} is null)" if self.nulls else f"({said})"


def conditions(bounds: Sequence[Bound], prefix: str) -> list[str]:
    """Return the conditions of all bounds that have one."""
    return [said for bound in bounds if (said := bound.condition(prefix))]
