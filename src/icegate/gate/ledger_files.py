"""Rows of one of the ledger's tables, which PyIceberg writes and reads without its catalog.

It and PyArrow are imported where they are used: that takes longer than all else here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate.catalog import local_path
from icegate.gate.ledger_schema import KEPT_METADATA, MERGE
from icegate.gate.refs import MAIN, Metadata, head
from icegate.gate.store import Pointer, StoredTable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction

KEPT_SNAPSHOTS = 20
MERGED_EVERY = 20  # appends


@dataclass(frozen=True)
class Change:
    """A table before and after rows were added, which nobody sees before ``pointer`` moves."""

    before: Metadata
    after: Metadata
    pointer: Pointer

    def delete_outdated(self) -> None:
        """Delete old metadata files, and manifests that only expired snapshots had."""
        named = {entry["metadata-file"] for entry in self.after["metadata-log"]}
        _delete({entry["metadata-file"] for entry in self.before["metadata-log"]} - named)
        kept = self.after["snapshots"]
        gone = {
            path
            for snapshot in self.before["snapshots"]
            if snapshot not in kept
            for path in _manifests_of(snapshot)
        }
        # History is one line: what the oldest that is kept has not, no later one has. A tag
        # holds a snapshot from further back, and then all stay.
        if gone and list(self.after["refs"]) == [MAIN]:
            _delete(gone - _manifests_of(kept[0]) - _manifests_of(kept[-1]))

    def delete_written(self) -> None:
        """Delete what was written for rows that nobody will see."""
        snapshot = self.after["snapshots"][-1]
        commit = Path(snapshot["manifest-list"]).stem[-36:]  # a uuid in the name of every file
        _delete(map(str, local_path(self.after["location"]).rglob(f"*{commit}*")))
        _delete([self.pointer.new_location])


def begin(stored: StoredTable) -> Transaction:
    """Open a transaction of PyIceberg on a table, of which ``add_rows`` is the end."""
    metadata = _head_only(stored.metadata)
    # Left to itself it would merge the same manifests again with every append. The length of
    # the name is there so that tables which are written together don't merge together.
    merge = (metadata["last-sequence-number"] + len(stored.name)) % MERGED_EVERY == 0
    metadata["properties"] = {**metadata["properties"], MERGE: str(merge).lower()}
    return _table(StoredTable(stored.entry, metadata)).transaction()


def add_rows(stored: StoredTable, txn: Transaction, rows: list[dict[str, Any]]) -> Change:
    """Write rows and the metadata that has them, whatever else the transaction changed, too."""
    import pyarrow as pa

    schema = txn.table_metadata.schema().as_arrow()
    txn.append(pa.Table.from_pylist(rows, schema=schema))
    before, new = stored.metadata, json.loads(txn.table_metadata.model_dump_json())
    snapshots = [*before["snapshots"], new["snapshots"][-1]]
    refs = {**before["refs"], MAIN: new["refs"][MAIN]}
    held = {ref["snapshot-id"] for ref in refs.values()}
    past = [s for s in snapshots[:-KEPT_SNAPSHOTS] if s["snapshot-id"] in held]
    kept = [*past, *snapshots[-KEPT_SNAPSHOTS:]]
    ids = {snapshot["snapshot-id"] for snapshot in kept}
    log = [*before["snapshot-log"], *new["snapshot-log"]]
    after = {
        **before,
        **new,
        "snapshots": kept,
        "refs": refs,
        "properties": {**new["properties"], MERGE: before["properties"].get(MERGE, "true")},
        "snapshot-log": [entry for entry in log if entry["snapshot-id"] in ids],
        "metadata-log": before["metadata-log"][1 - KEPT_METADATA :],  # writing it adds one
    }
    return Change(before, after, stored.write(after))


def read_rows(
    stored: StoredTable, columns: Iterable[str], equal: tuple[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the rows, or those that have a value, with those of the columns that are there."""
    from pyiceberg.expressions import AlwaysTrue, EqualTo, Reference

    table = _table(stored)
    there = [column for column in columns if column in table.schema().column_names]
    wanted = EqualTo(term=Reference(equal[0]), value=equal[1]) if equal else AlwaysTrue()
    return table.scan(wanted, tuple(there)).to_arrow().to_pylist()


def _head_only(metadata: Metadata) -> Metadata:
    """Return metadata without its past: PyIceberg copies it 25 times for an append."""
    current = head(metadata)
    return {
        **metadata,
        "snapshots": [s for s in metadata["snapshots"] if s["snapshot-id"] == current],
        "refs": {name: ref for name, ref in metadata["refs"].items() if name == MAIN},
        "snapshot-log": [],
        "metadata-log": [],
    }


def _table(stored: StoredTable) -> Table:
    from pyiceberg.catalog.noop import NoopCatalog  # the real one would import SQLAlchemy too
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    metadata = TableMetadataUtil.parse_obj(stored.metadata)
    name = (stored.entry.namespace, stored.entry.name)
    location = stored.entry.metadata_location
    return Table(name, metadata, location, local_files(), NoopCatalog("lake"))


@cache
def local_files() -> FileIO:
    """Return what PyIceberg reads and writes files with."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    class LocalFiles(PyArrowFileIO):
        """Paths as Iceberg writes them: PyIceberg takes `#` and `?` for parts of an address."""

        @staticmethod
        def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
            return "file", "", str(local_path(location))

    return LocalFiles()


def _manifests_of(snapshot: Metadata) -> set[str]:
    from pyiceberg.manifest import read_manifest_list

    listed = read_manifest_list(local_files().new_input(snapshot["manifest-list"]))
    return {snapshot["manifest-list"], *(manifest.manifest_path for manifest in listed)}


def _delete(locations: Iterable[str]) -> None:
    for location in locations:
        with suppress(OSError):  # what stays is litter and does no harm
            local_path(location).unlink()
