"""What Iceberg's metadata tells of a table, without a scan: rows, columns, bytes, releases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from icegate.catalog import CatalogEntry, read_metadata
from icegate.errors import CatalogError
from icegate.gate import refs
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.refs import Metadata
from icegate.gate.store import StoredTable
from icegate.tables.metadata import (
    by_id,
    changed_rows,
    columns,
    current_snapshot,
    history,
    last_change,
    moment,
    row_count,
    type_name,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.types import NestedField

POINTS = 60  # changes that a chart of rows has
FILES = 20_000  # data files of one table whose columns are looked at
EPOCH = date(1970, 1, 1)
RANGED = ("int", "long", "float", "double", "decimal", "date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class Column:
    """A column as the table has it; null rate and range are None where metadata doesn't tell."""

    name: str
    type: str
    description: str = ""
    required: bool = False
    null_rate: float | None = None  # 0 to 1
    low: Any = None
    high: Any = None
    personal: str = ""  # what kind of personal data: then there is no range
    tested: bool = False


@dataclass(frozen=True)
class Moved:
    """What a release changed of a table; ``rows`` is how many more it has since."""

    release: int
    at: datetime
    build: str
    rows: int | None
    columns_added: tuple[str, ...] = ()
    columns_dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """A table as its metadata has it; ``error`` says why it can't be read."""

    name: str
    kind: str = "table"
    rows: int | None = None
    is_about: bool = False  # delete files make the rows an estimate
    files: int | None = None
    bytes: int = 0
    bytes_of_history: int = 0
    changed_at: datetime | None = None
    over_time: tuple[tuple[datetime, int], ...] = ()
    columns: tuple[Column, ...] = ()
    error: str = ""


def look_at(entry: CatalogEntry) -> tuple[Look, Metadata]:
    """Return what a table's metadata file says, and all of it; of columns only names and types."""
    try:
        metadata = read_metadata(entry)
    except CatalogError as error:
        return Look(entry.full_name, entry.kind, error=error.why), {}
    return _looked(entry, metadata), metadata


def _looked(entry: CatalogEntry, metadata: Metadata) -> Look:
    named = tuple(Column(c["name"], c["type"], required=c["required"]) for c in columns(metadata))
    if entry.kind == "view":
        return Look(entry.full_name, "view", columns=named)
    current, change = current_snapshot(metadata), last_change(metadata)
    summary = (current or {}).get("summary") or {}
    rows, about = row_count(summary) if current else (0, False)
    return Look(
        entry.full_name,
        rows=rows,
        is_about=about,
        files=int(summary.get("total-data-files", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        bytes_of_history=_bytes_of_history(metadata),
        changed_at=moment(change["timestamp-ms"] if change else None),
        over_time=tuple(_over_time(metadata)),
        columns=named,
    )


def _over_time(metadata: Metadata) -> Iterable[tuple[datetime, int]]:
    changes = [s for s in history(metadata) if changed_rows(s)][:POINTS]
    for snapshot in reversed(changes):
        at, rows = moment(snapshot["timestamp-ms"]), row_count(snapshot["summary"])[0]
        if at is not None and rows is not None:
            yield at, rows


def _bytes_of_history(metadata: Metadata) -> int:
    """Return the bytes that only older snapshots and branches of a table need.

    What a snapshot removed is still there for its parent, as long as that is kept; what a snapshot
    that isn't main's added is there for its branch.
    """
    kept = {s["snapshot-id"]: s for s in metadata.get("snapshots") or []}
    mains = {s["snapshot-id"] for s in history(metadata)}
    held = 0
    for id, snapshot in kept.items():
        summary = snapshot.get("summary") or {}
        if snapshot.get("parent-snapshot-id") in kept and id in mains:
            held += int(summary.get("removed-files-size", 0))
        elif id not in mains:
            held += int(summary.get("added-files-size", 0))
    return held


def with_columns(
    look: Look,
    table: StoredTable,
    described: Mapping[str, Mapping[str, Any]],
    personal: Mapping[str, str],
    tested: Iterable[str],
) -> Look:
    """Add what the manifests of the current snapshot tell of columns: null rate and range."""
    from icegate.audits.source import source_of

    known = {name.lower(): told for name, told in described.items()}
    tests = {name.lower() for name in tested}
    told: dict[str, dict[str, Any]] = {}
    if not look.error and look.kind == "table" and look.rows and (look.files or 0) <= FILES:
        files = source_of(table, None).files
        told = {f.name: _told(f, files.all_data) for f in files.metadata.schema().fields}
    found = [
        Column(
            column.name,
            column.type,
            " ".join(str(known.get(column.name.lower(), {}).get("description") or "").split()),
            column.required,
            personal=personal.get(column.name.lower(), ""),
            tested=column.name.lower() in tests,
            **told.get(column.name, {}),
        )
        for column in look.columns
    ]
    # What lies in the range of a column with personal data is somebody's.
    found = [replace(c, low=None, high=None) if c.personal else c for c in found]
    return replace(look, columns=tuple(found))


def _told(field: NestedField, files: Sequence[DataFile]) -> dict[str, Any]:
    """Return null rate and range of a column over data files, as far as each of them tells."""
    from pyiceberg.conversions import from_bytes

    id, kind = field.field_id, field.field_type
    values = [(file.value_counts or {}).get(id) for file in files]
    nulls = [(file.null_value_counts or {}).get(id) for file in files]
    total = 0 if None in [*values, *nulls] else sum(filter(None, values))
    rate = sum(filter(None, nulls)) / total if total else None
    # A file of nulls only has no bounds.
    bounded = [f for f, v, n in zip(files, values, nulls, strict=True) if v is None or v != n]
    bounds = [(b or {}).get(id) for f in bounded for b in (f.lower_bounds, f.upper_bounds)]
    if not bounds or None in bounds or str(kind).partition("(")[0] not in RANGED:
        return {"null_rate": rate}
    read = [from_bytes(kind, bound) for bound in bounds]  # type: ignore[arg-type]
    low, high = (_shown(str(kind), end) for end in (min(read), max(read)))
    return {"null_rate": rate, "low": low, "high": high}


def _shown(kind: str, value: Any) -> Any:
    """Return a bound as Python has it; Iceberg's days and microseconds as dates and times."""
    if kind == "date":
        return EPOCH + timedelta(days=value)
    if kind.startswith("timestamp"):
        return datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=value)
    return float(value) if kind.startswith("decimal") else value


def moves(metadata: Metadata, rows: Sequence[ReleaseTable], last: int = 10) -> list[Moved]:
    """Return what the last releases changed of a table, the newest first."""
    found = [row for row in rows if row.moved][-last:]
    return [_moved(metadata, row) for row in reversed(found)]


def _moved(metadata: Metadata, row: ReleaseTable) -> Moved:
    before = refs.snapshot(metadata, row.previous_snapshot_id)
    is_known = row.previous_snapshot_id is None or before is not None
    more = None
    if is_known and refs.snapshot(metadata, row.snapshot_id):
        more = refs.rows_between(metadata, row.previous_snapshot_id, row.snapshot_id)
    was = _names(metadata, (before or {}).get("schema-id"))
    now = _names(metadata, row.schema_id)
    return Moved(
        row.release,
        row.at,
        row.build,
        more,
        tuple(name for name in now if was and name not in was),
        tuple(name for name in was if name not in now),
    )


def _names(metadata: Metadata, schema_id: int | None) -> list[str]:
    schema = by_id(metadata.get("schemas") or [], "schema-id", schema_id)
    return [f"{f['name']} ({type_name(f['type'])})" for f in schema["fields"]]
