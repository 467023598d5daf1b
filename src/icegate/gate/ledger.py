"""The gate's ledger: what became of each build, in Iceberg tables of the lake's own catalog.

PyIceberg writes and reads the rows; it's imported where it's used, as that takes longest of all.
"""

from __future__ import annotations

import getpass
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, fields
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate import storage
from icegate.catalog import list_relations, read_metadata
from icegate.duck import DUCKDB_TYPES, FileColumn, read_parquet, write_parquet
from icegate.errors import CatalogError
from icegate.gate.ledger_rows import KEYS, ROWS, Event, ReleaseTable
from icegate.gate.refs import Metadata
from icegate.gate.store import Moved, Step, StoredTable, make_namespace, move, write_new
from icegate.settings import Lake

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

NAMESPACE = "icegate"
VERSION = "icegate.ledger-version"
LAST_RELEASE = "icegate.last-release"
KEPT = timedelta(days=90)  # of tests and nodes that nobody runs any more
# The first makes a table of version 2 of one of version 1, and so on, in its next append.
MIGRATIONS: list[Callable[[Transaction, str], None]] = []

TYPES = {"datetime": "timestamptz", "str": "string", "int": "long", "bool": "boolean"}


def stage(lake: Lake, events: Sequence[Event], tables: Sequence[ReleaseTable] = ()) -> list[Step]:
    """Write rows, and return the steps in the catalog that show them.

    A table comes with its first rows. Files of steps that nobody takes stay as orphans.
    """
    return _write(lake, {"releases": events, "release_tables": tables})


def _write(lake: Lake, rows: Mapping[str, Sequence[Any]]) -> list[Step]:
    with _explained(lake, "write"):
        stored = _stored(lake)
        if not rows.keys() <= stored.keys():
            make_namespace(lake, NAMESPACE)
        return [
            stored[name].write(_add(name, stored[name].metadata, added))
            if name in stored
            else write_new(NAMESPACE, name, _add(name, _empty(lake.root, name), added))
            for name, added in rows.items()
            if added
        ]


def append(lake: Lake, events: Sequence[Event], tables: Sequence[ReleaseTable] = ()) -> None:
    """Add rows to the ledger."""
    _move(lake, {"releases": events, "release_tables": tables})


def keep(lake: Lake, name: str, rows: Sequence[Any]) -> None:
    """Put rows of a table in ``KEYS`` in the place of those with their keys."""
    _move(lake, {name: rows})


def _move(lake: Lake, rows: Mapping[str, Sequence[Any]]) -> None:
    while True:  # once more whenever another process came first
        with suppress(Moved):
            return move(lake, _write(lake, rows))


def read_kept(lake: Lake, name: str) -> list[Any]:
    """Return the rows of a table in ``KEYS``."""
    return _read(lake, name)


def read_events(lake: Lake, build: str | None = None) -> list[Event]:
    """Return the events of all builds or of one, the oldest first."""
    found = _read(lake, "releases", "build", build)
    return sorted(found, key=lambda event: event.at)


def read_release_tables(lake: Lake, release: int | None = None) -> list[ReleaseTable]:
    """Return the tables of all releases or of one, by release and name."""
    found = _read(lake, "release_tables", "release", release)
    return sorted(found, key=lambda table: (table.release, table.table_name))


def last_release(lake: Lake) -> int:
    """Return the number of the last release, 0 if there is none, without importing PyIceberg."""
    stored = _stored(lake).get("releases")
    return int(stored.metadata["properties"].get(LAST_RELEASE, 0)) if stored else 0


def who() -> str:
    """Return who runs this: by name, else by number, as in containers that know no names."""
    with suppress(KeyError, OSError):
        return getpass.getuser()
    return str(os.getuid())


def warm_up() -> None:
    """Write rows to nowhere, so that all that a publish has to import is there."""
    row = Event(datetime.now(timezone.utc), "", "")
    with suppress(OSError), tempfile.TemporaryDirectory() as folder:
        first = _add("releases", _empty(f"file:{folder}", "releases"), [row])
        _add("releases", first, [row])  # it reads what the first one wrote


def _stored(lake: Lake) -> dict[str, StoredTable]:
    """Return those of the ledger's tables that are there, none of a version not known here."""
    entries = [entry for entry in list_relations(lake, NAMESPACE) if entry.name in ROWS]
    stored = {entry.name: StoredTable(entry, read_metadata(entry)) for entry in entries}
    for table in stored.values():
        if int(table.metadata["properties"][VERSION]) > _newest():
            raise CatalogError(
                f"cannot use the gate's ledger {table.name}",
                why=f"a newer icegate wrote it: this one knows version {_newest()}",
                fix="update icegate",
            )
    return stored


def _newest() -> int:
    return len(MIGRATIONS) + 1


def _add(name: str, metadata: Metadata, rows: Sequence[Any]) -> Metadata:
    """Write rows, and return the metadata of the table with them."""
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    table, properties = _open(name, metadata), metadata["properties"]
    txn = table.transaction()
    for migrate in MIGRATIONS[int(properties[VERSION]) - 1 :]:
        migrate(txn, name)
    last = max(
        int(properties.get(LAST_RELEASE, 0)), *(getattr(row, "release", None) or 0 for row in rows)
    )
    txn.set_properties({VERSION: str(_newest()), LAST_RELEASE: str(last)})
    # The last snapshot has all rows there ever were. Files stay, for whoever is reading them.
    ExpireSnapshots(txn).older_than(datetime.now(timezone.utc)).commit()
    if name in KEYS:
        _replace(txn, table, KEYS[name], rows)
    else:
        _append(txn, rows)
    return {**json.loads(txn.table_metadata.model_dump_json()), "metadata-log": []}


def _append(txn: Transaction, rows: Sequence[Any]) -> None:
    import pyarrow as pa

    schema = txn.table_metadata.schema().as_arrow()
    txn.append(pa.Table.from_pylist([asdict(row) for row in rows], schema=schema))


def _replace(txn: Transaction, table: Table, key: str, rows: Sequence[Any]) -> None:
    """Write rows instead of those of their keys, and of very old ones.

    Without Arrow: its import takes most of an audit.
    """
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    old = [task.file for task in table.scan().plan_files()]
    anew, oldest = {getattr(row, key) for row in rows}, datetime.now(timezone.utc) - KEPT
    others = (r for r in _rows_of(table, old) if getattr(r, key) not in anew and r.at > oldest)
    rows = [*others, *rows]
    location = f"{txn.table_metadata.location}/data/{uuid.uuid4()}.parquet"
    columns = _columns(txn.table_metadata)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        write_parquet(path, columns, (astuple(row) for row in rows))
        written_bytes = path.read_bytes()
    storage.write(location, written_bytes)
    written = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=len(written_bytes),
        spec_id=txn.table_metadata.default_spec_id,
    )
    with txn.update_snapshot().overwrite() as update:
        # No manifest stays: PyIceberg keeps each of files that went before, in all snapshots.
        update._existing_manifests = list  # type: ignore[method-assign]
        for file in old:
            update.delete_data_file(file)
        update.append_data_file(written)


def _rows_of(table: Table, files: Iterable[DataFile]) -> list[Any]:
    with storage.on_disk(file.file_path for file in files) as paths:
        read = read_parquet(_columns(table.metadata), paths) if paths else []
    return [ROWS[table.name()[0]](*row) for row in read]


def _columns(metadata: TableMetadata) -> list[FileColumn]:
    fields = metadata.schema().fields
    return [FileColumn(f.field_id, f.name, DUCKDB_TYPES[str(f.field_type)]) for f in fields]


def _read(lake: Lake, name: str, column: str = "", value: Any = None) -> list[Any]:
    """Return all rows, or those that have a value in a column.

    Without Arrow, whose import takes longer than all else.
    """
    with _explained(lake, "read"):
        stored = _stored(lake).get(name)
        if stored is None:
            return []
        table = _open(name, stored.metadata)
        scan = table.scan() if value is None else table.scan(f"{column} = {value!r}")
        rows = _rows_of(table, [task.file for task in scan.plan_files()])
        return rows if value is None else [r for r in rows if getattr(r, column) == value]


def _empty(root: str, name: str) -> Metadata:
    """Return a table without rows, whose columns are the fields of its dataclass."""
    kinds = {field.name: field.type.split(" | ") for field in fields(ROWS[name])}
    columns = [
        {"id": number, "name": column, "type": TYPES[kind], "required": not none}
        for number, (column, (kind, *none)) in enumerate(kinds.items(), 1)
    ]
    return {
        "format-version": 2,
        "location": f"{root}/{NAMESPACE}/{name}",
        "last-column-id": len(columns),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": columns}],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            VERSION: str(_newest()),
            "commit.manifest-merge.enabled": "true",  # each append adds a manifest
            "commit.manifest.min-count-to-merge": "30",
        },
    }


def _open(name: str, metadata: Metadata) -> Table:
    from pyiceberg.catalog.noop import NoopCatalog  # the real one would import SQLAlchemy too
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    from icegate.files import StoredFiles

    parsed = TableMetadataUtil.parse_obj(metadata)
    return Table((name,), parsed, "", StoredFiles(), NoopCatalog("lake"))


@contextmanager
def _explained(lake: Lake, verb: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise CatalogError(
            f"cannot {verb} the gate's ledger in {storage.shown(lake.root)}/{NAMESPACE}",
            why=str(error),
            fix="give this user the permission, free space, or restore the files from a backup",
        ) from error
