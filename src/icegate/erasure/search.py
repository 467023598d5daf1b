"""Look for keys in data files, as they lie on the disk: also in rows that were deleted since.

By Arrow, a column at a time. Columns are known by field id, as they may have been renamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FIELD_ID = b"PARQUET:field_id"
BLANKS = " \t\r\n"
BATCH = 65_536  # rows that are held at a time
Pairs = tuple[str, str, str]  # a column whose values are wanted, where another has a key; its kind


@dataclass(frozen=True)
class Wanted:
    """What to look for: values by column, and words in columns of text, or in all."""

    values: Mapping[str, Collection[str]]
    above: Mapping[str, str] = field(default_factory=dict)  # a column counts where this is blank
    texts: tuple[str, ...] = ()
    words: re.Pattern[str] | None = None
    anywhere: bool = False  # words in each column, where nothing says which it would be


class Unreadable(Exception):
    """A file in which nobody can look: its format isn't known, or it's cut off."""


def rows_with(path: Path, ids: Mapping[int, str], wanted: Wanted) -> int:
    """Return how many rows of a file have what is wanted; ``ids`` name its columns.

    Raises ``Unreadable``.
    """
    return sum(int(pc.sum(mask).as_py() or 0) for _, mask in _masks(path, ids, wanted))


def values_beside(path: Path, ids: Mapping[int, str], wanted: Wanted, column: str) -> Iterator[str]:
    """Yield the values that a column has in the rows with what is wanted."""
    for batch, mask in _masks(path, ids, wanted, [column]):
        if column in batch:
            found = pc.unique(pc.filter(_text(batch[column]), mask)).to_pylist()
            yield from (value.strip() for value in found if value and value.strip())


def _masks(
    path: Path, ids: Mapping[int, str], wanted: Wanted, more: Collection[str] = ()
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield batches of the columns, by their names in the table, with which rows are meant."""
    try:
        with pq.ParquetFile(path) as file:
            names = _names(file.schema_arrow, ids)
            asked = {*wanted.values, *wanted.texts, *more}
            read = [n for n, name in names.items() if wanted.anywhere or name in asked]
            if not read:
                return
            for batch in file.iter_batches(batch_size=BATCH, columns=read):
                columns = {names[field.name]: batch[field.name] for field in batch.schema}
                yield columns, mask_of(columns, wanted, batch.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"{path} can't be read: {error}") from error


def _names(schema: pa.Schema, ids: Mapping[int, str]) -> dict[str, str]:
    """Return what each column of a file is called in the table now."""
    found = {}
    for column in schema:
        id = (column.metadata or {}).get(FIELD_ID)
        found[column.name] = column.name if id is None else ids.get(int(id), f"#{int(id)}")
    return found


def mask_of(columns: Mapping[str, Any], wanted: Wanted, rows: int) -> Any:
    """Return which of the rows have what is wanted."""
    mask = pa.array([False] * rows, pa.bool_())
    for name, values in wanted.values.items():
        if values and name in columns:
            # A key that came with blanks is cut to size on its way; bronze has it whole.
            key = pc.utf8_trim(_text(columns[name]), characters=BLANKS)
            same = pc.is_in(key, value_set=pa.array([*values], pa.string()))
            owner = columns.get(wanted.above.get(name, ""))
            mask = pc.or_(mask, same if owner is None else pc.and_(same, _is_blank(owner)))
    texts = [*columns] if wanted.anywhere else [n for n in wanted.texts if n in columns]
    for name in texts if wanted.words else ():
        mask = pc.or_(mask, pa.array(_says(columns[name], wanted.words), pa.bool_()))
    return mask


def _is_blank(column: Any) -> Any:
    blank = pc.equal(pc.utf8_trim(_text(column), characters=BLANKS), "")
    return pc.or_(pc.is_null(column), pc.fill_null(blank, False))


def _says(column: Any, words: re.Pattern[str] | None) -> list[bool]:
    assert words is not None
    if not (_is_text(column.type) or pa.types.is_nested(column.type)):
        return [False] * len(column)
    return [value is not None and words.search(as_text(value)) is not None
            for value in column.to_pylist()]  # fmt: skip


def as_text(value: Any) -> str:
    """Return a value as text that has all that is in it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return is_text or types.is_binary(kind) or types.is_large_binary(kind)


def _text(column: Any) -> Any:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_fixed_size_binary(column.type):  # a UUID
        return pa.array([None if v is None else _uuid(v) for v in column.to_pylist()], pa.string())
    return pc.cast(column, pa.string())


def _uuid(value: bytes) -> str:
    text = value.hex()
    is_uuid = len(value) == 16
    return (
        "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])) if is_uuid else text
    )
