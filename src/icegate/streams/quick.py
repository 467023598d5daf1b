"""The quick way to read a record: numbers by type, where that gives what reading text gives.

It's for records that are one flat object. What has a value of another form, or a number that isn't
exactly what its column keeps, is read as text, as all others are: see `read.py`.
"""

from __future__ import annotations

import uuid
from collections import Counter

from icegate.streams.config import Column, Route, Stream

# Begins as an object, and ends with the first object in it: nothing follows, and nothing is inside.
IS_FLAT = (
    "startswith(_value, X'7B') and endswith(_value, X'7D') "
    "and not contains(substring(_value, 1, octet_length(_value) - 1), X'7D')"
)
# What has the record where a value isn't of its type: a name that no record can know.
ODD = f"odd_{uuid.uuid4().hex}"
_WHOLE = ("tinyint", "smallint", "int", "bigint")
# So many digits a double keeps, and writes without an exponent, with room to spare.
_DIGITS = 12


def fits(stream: Stream) -> bool:
    """Tell whether a stream's records may be flat: it asks for nothing inside of an object."""
    return all(path.count(".") <= 1 for route in stream.routes for path in route.paths)


def typed(stream: Stream) -> dict[str, str]:
    """Return the paths that are read as a number or a boolean, each as which."""
    columns = [(route, name) for route in stream.routes for name in route.columns]
    readers = Counter(path for route, name in columns for path in route.paths_of(name))
    as_text = {path for route in stream.routes for path in [*route.when, *_operations(route)]}
    found = {}
    for route, name in columns:
        path, *others = route.paths_of(name)
        kind = _type(route.columns[name])
        if kind and not others and readers[path] == 1 and path.count(".") == 1:
            found[path] = kind
    return {path: kind for path, kind in found.items() if path not in as_text}


def _operations(route: Route) -> list[str]:
    return [route.operation.path] if route.operation else []


def _type(column: Column) -> str | None:
    if column.epoch or column.type in _WHOLE:
        return "bigint"  # Jackson takes 200 for a byte
    if column.type.startswith("decimal"):
        return "double" if _scale(column) < _DIGITS else None
    return column.type if column.type in ("boolean", "double") else None


def _scale(column: Column) -> int:
    return int(column.type.rstrip(")").rpartition(",")[2])


def is_odd(column: Column, number: str) -> str | None:
    """Return whether a ``number`` isn't all that a record says, or a column can't keep it.

    None where that's never so: whole numbers are read as such or not at all. A null is neither.
    """
    if column.type == "double":
        return f"abs({number}) >= double('infinity')"
    if column.type.startswith("decimal"):
        most, unit = f"1e{_DIGITS - _scale(column)}D", f"1e{_scale(column)}D"
        return f"abs({number}) >= {most} or rint({number} * {unit}) / {unit} <> {number}"
    return None


def decimal(column: Column, number: str) -> str:
    """Return the decimal that an exact ``number`` is; Spark's own cast writes and reads text."""
    scale = _scale(column)
    whole = f"try_cast(rint({number} * 1e{scale}D) as bigint)"
    unit = f" * {10**-scale:.{scale}f}BD" if scale else ""
    return f"try_cast(try_cast({whole} as decimal({_DIGITS},0)){unit} as {column.type})"
