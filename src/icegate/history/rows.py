"""What became of one row, by the versions of its table that readers had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from icegate.errors import ConfigError, TableError, did_you_mean
from icegate.gate import refs
from icegate.gate.refs import BUILD_STAMP, RELEASE_STAMP, Metadata
from icegate.tables.metadata import moment

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import DataScan, Table

FIRST, INSERT, UPDATE, DELETE = "first known", "insert", "update", "delete"

Row = dict[int, Any]  # values by field id


@dataclass(frozen=True)
class Change:
    """What a version did to a row: old and new value of each column that it changed.

    ``at`` is when readers got it, ``snapshot`` that of the version as the metadata has it.
    """

    change: str
    at: datetime | None
    snapshot: Mapping[str, Any]
    columns: dict[str, tuple[Any, Any]]

    @property
    def release(self) -> int | None:
        """The release that it came with, of a table behind the gate."""
        number = self.snapshot.get("summary", {}).get(RELEASE_STAMP)
        return None if number is None else int(number)

    @property
    def build(self) -> str | None:
        """The build that wrote it, of a table behind the gate."""
        found: str | None = self.snapshot.get("summary", {}).get(BUILD_STAMP)
        return found


def changes_of_row(
    table: Table, metadata: Metadata, key: Mapping[str, str | None]
) -> Iterator[Change]:
    """Yield what became of the row that has ``key``, text by column, None for null; oldest first.

    Only files that may have the row are opened, and only where they are others than in the
    version before. The first change is FIRST where older versions have expired. Columns are those
    of the table now. Raises ``ConfigError`` for a key that can't be, ``TableError`` for one that
    two rows have.
    """
    columns = {field.field_id: field.name for field in table.schema().fields}
    wanted = _wanted(table, key)
    ids = {id for id, name in columns.items() if name in wanted}
    log = [
        e for e in metadata.get("snapshot-log") or [] if refs.snapshot(metadata, e["snapshot-id"])
    ]
    was: Row | None = None
    files: object = None
    predicate = _predicate(wanted)
    for entry in log:
        snapshot = refs.snapshot(metadata, entry["snapshot-id"]) or {}
        scan = table.scan(predicate, snapshot_id=entry["snapshot-id"]) if snapshot else None
        if scan and not ids <= {field.field_id for field in scan.projection().fields}:
            scan = None  # that version lacks a column of the key
        found = _files(scan) if scan else frozenset()
        if found == files:
            continue
        row = _row(scan, table.name()[-1], key) if scan and found else None
        is_first = entry is log[0] and snapshot.get("parent-snapshot-id") is not None
        if changed := _differing(was, row, columns):
            kind = DELETE if row is None else UPDATE if was is not None else INSERT
            at = moment(entry["timestamp-ms"])
            yield Change(FIRST if is_first else kind, at, snapshot, changed)
        was, files = row, found


def _wanted(table: Table, key: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of the key as Iceberg's literals; None for null."""
    from pyiceberg.expressions import literal

    columns = {field.name: field for field in table.schema().fields}
    what = f"cannot tell the history of a row of {'.'.join(table.name())}"
    if not key:
        raise ConfigError(what, why="no key was given", fix="say which row, as in --key id=42")
    wanted = {}
    for name, value in key.items():
        if name not in columns:
            asked = did_you_mean(name, columns, f"its columns are {', '.join(columns)}")
            raise ConfigError(what, why=f"it has no column {name!r}", fix=asked)
        kind = columns[name].field_type
        try:
            wanted[name] = None if value is None else literal(value).to(kind)
        except (ValueError, TypeError, ArithmeticError):
            raise ConfigError(
                what,
                why=f"{name} is {kind}, and {value!r} isn't",
                fix=f"give a {kind}, or {name} without `=` for null",
            ) from None
    return wanted


def _predicate(wanted: Mapping[str, Any]) -> BooleanExpression:
    """Return what the row must meet, by names of now: PyIceberg looks them up there."""
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, IsNull, Reference

    told: BooleanExpression = AlwaysTrue()
    for name, value in wanted.items():
        term = Reference(name)
        told = And(told, IsNull(term=term) if value is None else EqualTo(term=term, value=value))
    return told


def _files(scan: DataScan) -> frozenset[object]:
    """Return the data files that may have the row, each with the deletes that apply to it."""
    return frozenset(
        (task.file.file_path, frozenset(file.file_path for file in task.delete_files))
        for task in scan.plan_files()
    )


def _row(scan: DataScan, table: str, key: Mapping[str, str | None]) -> Row | None:
    rows = scan.to_arrow().to_pylist()
    if len(rows) > 1:
        said = ", ".join(
            name if value is None else f"{name}={value}" for name, value in key.items()
        )
        raise TableError(
            f"cannot tell the history of a row of {table}",
            why=f"{len(rows)} rows of version {scan.snapshot_id} have {said}",
            fix="add the other columns of its key",
        )
    ids = {field.name: field.field_id for field in scan.projection().fields}
    return {ids[name]: value for name, value in rows[0].items()} if rows else None


def _differing(
    was: Row | None, now: Row | None, columns: Mapping[int, str]
) -> dict[str, tuple[Any, Any]]:
    if was is None and now is None:
        return {}
    sides = {name: ((was or {}).get(id), (now or {}).get(id)) for id, name in columns.items()}
    whole = was is None or now is None
    return {name: pair for name, pair in sides.items() if whole or not _same(*pair)}


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (one != one and other != other)  # NaN
