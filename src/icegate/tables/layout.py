"""Partitioning and sort order as a model's author writes them, checked and made comparable."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

from icegate.errors import ConfigError, did_you_mean
from icegate.tables.state import quote, split_list, unquote_name

# What Spark's DDL for Iceberg takes, and the one name under which a table shows it.
TRANSFORMS = {
    **{"year": "years", "years": "years", "month": "months", "months": "months"},
    **{"day": "days", "days": "days", "date": "days"},
    **{"hour": "hours", "hours": "hours", "date_hour": "hours"},
    **{"bucket": "bucket", "truncate": "truncate", "identity": "identity"},
}
COUNTED = ("bucket", "truncate")
KNOWN = "a column, years(c), months(c), days(c), hours(c), bucket(n, c), truncate(n, c)"
SORT = re.compile(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?", re.IGNORECASE | re.DOTALL)


class Transform(NamedTuple):
    """A column, or a function of it, by which rows are placed or sorted."""

    name: str
    width: int
    column: str

    def render(self, prefix: str = "", schema: str = "") -> str:
        """Return it as SQL."""
        column = prefix + ".".join(quote(part) for part in self.column.split("."))
        if self.name == "identity":
            return column
        return f"{schema}{self.name}({f'{self.width}, ' if self.width else ''}{column})"

    def value(self, prefix: str = "") -> str:
        """Return the SQL that computes it for a row."""
        return self.render(prefix, "system.")

    def __str__(self) -> str:
        return self.render().replace("`", "")


class SortField(NamedTuple):
    """A transform with its direction and the place of nulls."""

    transform: Transform
    direction: str
    nulls: str

    def render(self) -> str:
        """Return it as SQL."""
        return f"{self.transform.render()} {self.direction} nulls {self.nulls}"

    def __str__(self) -> str:
        return self.render().replace("`", "")


def as_terms(value: list[str] | str | None) -> list[str]:
    """Return a config that may be one text or a list as a list of single terms."""
    texts = [value] if isinstance(value, str) else value or []
    return [term for text in texts for term in split_list(str(text))]


def partition_fields(terms: Iterable[str], where: str) -> list[Transform]:
    """Parse the terms of ``partition_by``; ``where`` says for whom in errors."""
    fields = [parse_transform(term, where) for term in terms]
    # A format-1 table keeps the place of a dropped field.
    return [field for field in fields if field.name != "void"]


def sort_fields(terms: Iterable[str], where: str) -> list[SortField]:
    """Parse the terms of ``sort_by``, with SQL's defaults: ascending, nulls first then."""
    found = []
    for term in terms:
        match = SORT.fullmatch(term.strip())
        body, direction, nulls = match.groups() if match else (term, None, None)
        direction = (direction or "asc").lower()
        nulls = (nulls or ("first" if direction == "asc" else "last")).lower()
        found.append(SortField(parse_transform(body, where), direction, nulls))
    return found


def parse_transform(term: str, where: str) -> Transform:
    """Parse ``days(ts)``, ``bucket(8, id)`` or a column; raises ``ConfigError``."""
    call = re.fullmatch(r"(\w+)\s*\((.*)\)", term.strip(), re.DOTALL)
    if not call:
        return Transform("identity", 0, unquote_name(term.strip()).lower())
    name, arguments = call[1].lower(), split_list(call[2])
    if name == "void":
        return Transform("void", 0, "")
    if name not in TRANSFORMS:
        close = difflib.get_close_matches(name, TRANSFORMS, n=1)
        raise ConfigError(
            f"unknown transform {term.strip()!r} in {where}",
            why=f"Iceberg has: {KNOWN}",
            fix=f"did you mean {close[0]}({call[2]})?" if close else "take one of these",
        )
    width = 0
    if name in COUNTED and len(arguments) == 2:
        counts = [argument for argument in arguments if argument.isdigit()]
        width = int(counts[0]) if len(counts) == 1 else 0
        arguments = [argument for argument in arguments if argument not in counts]
    if len(arguments) != 1 or (name in COUNTED) != bool(width):
        raise ConfigError(
            f"transform {term.strip()!r} in {where} has wrong arguments",
            why=f"Iceberg has: {KNOWN}",
            fix="give it one column, and bucket or truncate a number first",
        )
    return Transform(TRANSFORMS[name], width, unquote_name(arguments[0]).lower())


def check_columns(fields: Iterable[Transform], columns: Iterable[str], where: str) -> None:
    """Raise ``ConfigError`` for a field whose column isn't among ``columns``."""
    names = [name.lower() for name in columns]
    for field in fields:
        top = field.column.split(".")[0]
        if field.column in names or top in names:
            continue
        raise ConfigError(
            f"{where} names column {field.column!r}, which the model doesn't have",
            why=f"its columns are: {', '.join(names)}",
            fix=did_you_mean(field.column, names, "select that column, or name another"),
        )
