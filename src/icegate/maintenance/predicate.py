"""A partition as SQL: what `where` of Iceberg's procedures says to mean just its files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from icegate.gate.refs import Metadata
from icegate.health.files import Part
from icegate.tables.metadata import by_id
from icegate.tables.state import literal, quote

EPOCH = date(1970, 1, 1)


def partition_sql(metadata: Metadata, part: Part) -> str | None:
    """Return the predicate of a partition; None where there is no SQL that means it."""
    said = []
    fields = by_id(metadata["partition-specs"], "spec-id", part.spec_id)["fields"]
    for field, value in zip(fields, part.values, strict=True):
        column = _column(metadata, field["source-id"])
        transform, _, width = field["transform"].rstrip("]").partition("[")
        if transform == "void":
            continue
        if column is None:
            return None
        name, kind = column
        if transform not in FUNCTIONS:
            return None
        function, of_value = FUNCTIONS[transform]
        left = f"system.{function}({width}{', ' * bool(width)}{name})" if function else name
        right = None if value is None else (of_value or _values(kind))(value)
        if right is None and value is not None:
            return None
        said.append(f"{left} is null" if right is None else f"{left} = {right}")
    return " and ".join(said)


def _date(days: int) -> str:
    return f"date '{EPOCH + timedelta(days=days)}'"


def _timestamp(microseconds: int, zone: str) -> str:
    at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
    return f"timestamp{'_ntz' * (not zone)} '{at:%Y-%m-%d %H:%M:%S.%f}{zone}'"


# Of a transform: its function in Spark, and what writes its value; None is as the column's.
FUNCTIONS: dict[str, tuple[str, Callable[[Any], str] | None]] = {
    "identity": ("", None),
    "truncate": ("truncate", None),
    "bucket": ("bucket", str),
    "year": ("years", str),
    "month": ("months", str),
    "day": ("days", _date),
    "hour": ("hours", str),
}


def _values(kind: str) -> Callable[[Any], str | None]:
    """Return what writes a value of a type; it gives None for one that SQL can't be sure of."""
    if kind == "string":
        return lambda value: literal(str(value))
    if kind == "date":
        return _date
    if kind in ("timestamp", "timestamptz"):
        return lambda value: _timestamp(value, " UTC" if kind == "timestamptz" else "")
    if kind == "boolean":
        return lambda value: str(bool(value)).lower()
    if kind in ("int", "long"):
        return str
    if kind.startswith("decimal"):
        return lambda value: f"{value}bd" if isinstance(value, Decimal) else None
    return lambda value: None


def _column(metadata: Metadata, id: int) -> tuple[str, str] | None:
    """Return the quoted name and the type of a column, which may lie in a struct."""
    schema = by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])
    return _below(schema["fields"], id, "")


def _below(fields: list[dict[str, Any]], id: int, before: str) -> tuple[str, str] | None:
    for field in fields:
        name, kind = before + quote(field["name"]), field["type"]
        if field["id"] == id:
            return name, str(kind)
        if isinstance(kind, dict) and kind["type"] == "struct":
            found = _below(kind["fields"], id, f"{name}.")
            if found:
                return found
    return None
