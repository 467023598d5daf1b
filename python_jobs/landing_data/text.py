"""Columns of text, whole columns at a time: a call for each value would take many times as long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from landing_data.plan import Numbers

compute: Any = pyarrow.compute  # its functions are made at import, where a type checker sees none

HEX = pyarrow.array([f"{number:04X}" for number in range(2**16)])
TWO_DIGITS = pyarrow.array([f"{number:02d}" for number in range(100)])


def pick(values: list[str], numbers: Numbers) -> Any:
    """Return the value at each number."""
    return pyarrow.array(values).take(pyarrow.array(numbers))


def join(*pieces: Any) -> Any:
    """Put columns and constants of text side by side.

    A tuple of pieces is a piece, too, so that each text is copied just once, at the end.
    """
    flat: list[Any] = []
    for piece in _flat(pieces):
        if isinstance(piece, str) and flat and isinstance(flat[-1], str):
            flat[-1] += piece
        else:
            flat.append(piece)
    return compute.binary_join_element_wise(*flat, "")


def _flat(pieces: Any) -> Iterator[Any]:
    for piece in pieces:
        if isinstance(piece, tuple):
            yield from _flat(piece)
        else:
            yield piece


def digits(numbers: Numbers, width: int = 1) -> Any:
    """Return whole numbers as text, padded with zeros."""
    plain = pyarrow.array(numbers).cast(pyarrow.string())
    return compute.utf8_lpad(plain, width=width, padding="0") if width > 1 else plain


def hundredths(numbers: Numbers) -> Any:
    """Return 1234 as ``12.34``."""
    return digits(numbers // 100), ".", TWO_DIGITS.take(pyarrow.array(numbers % 100))


def key(prefix: str, numbers: Numbers) -> Any:
    """Return ``<prefix>-XXXXXXXX``."""
    high, low = (pyarrow.array(part) for part in (numbers >> 16, numbers & 0xFFFF))
    return f"{prefix}-", HEX.take(high), HEX.take(low)


def moment(seconds: Numbers) -> Any:
    """Return seconds from 1970 as ``YYYY-MM-DDTHH:MM:SS``."""
    plain = pyarrow.array(seconds, pyarrow.timestamp("s")).cast(pyarrow.string())
    return compute.binary_replace_slice(plain, start=10, stop=11, replacement="T")


def string(values: Any) -> Any:
    """Return JSON strings. The values need no escapes: they are from our own lists."""
    return '"', values, '"'


def record(**fields: Any) -> Any:
    """Return JSON objects of fields that are JSON already."""
    named = tuple((f'{"," if n else "{"}"{name}":', fields[name]) for n, name in enumerate(fields))
    return named, "}"


def array(counts: Numbers, values: Any) -> Any:
    """Return JSON arrays, where each takes the next ``counts`` of the values."""
    ends = numpy.concatenate([[0], numpy.cumsum(counts)]).astype(numpy.int32)
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(ends), join(values))
    return "[", compute.binary_join(lists, ","), "]"
