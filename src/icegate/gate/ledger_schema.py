"""What the ledger's two tables hold, and the metadata of empty ones."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from icegate.gate.refs import Metadata

NAMESPACE = "icegate"
VERSION = "icegate.ledger-version"
LAST_RELEASE = "icegate.last-release"
MERGE = "commit.manifest-merge.enabled"
KEPT_METADATA = 20

PROPERTIES = {
    MERGE: "true",
    "commit.manifest.min-count-to-merge": "2",
    "commit.manifest.target-size-bytes": "32768",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": str(KEPT_METADATA),
    # One build or one release is looked up; bounds of the rest would only make manifests larger.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.build": "full",
    "write.metadata.metrics.column.release": "full",
}


@dataclass(frozen=True)
class Event:
    """Something that became of a build: one row of `icegate.releases`. ``at`` has a time zone.

    ``event`` is `built` (a dbt process of it ended and published nothing), `published`,
    `rejected`, `held` (it ended and nothing was published), `done` (so is what had to follow a
    publish), `rolled_back` or `expired`. ``detail`` is JSON.
    """

    at: datetime
    build: str
    event: str
    release: int | None = None
    invocation_id: str | None = None
    command: str | None = None
    target: str | None = None
    who: str | None = None
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class ReleaseTable:
    """A table, `schema.name`, as a release has it: one row of `icegate.release_tables`.

    ``snapshot_id`` is None while it has no rows. A table that didn't move is in a release too.
    """

    release: int
    at: datetime
    build: str
    table_name: str
    snapshot_id: int | None
    previous_snapshot_id: int | None
    schema_id: int
    moved: bool
    untested: bool


ROWS: dict[str, Any] = {"releases": Event, "release_tables": ReleaseTable}

# In version 1; `!` is one that is never null. A migration adds what it adds itself.
COLUMNS = {
    "releases": "at timestamptz!, build string!, event string!, release long, "
    "invocation_id string, command string, target string, who string, reason string, "
    "detail string",
    "release_tables": "release long!, at timestamptz!, build string!, table_name string!, "
    "snapshot_id long, previous_snapshot_id long, schema_id int!, moved boolean!, "
    "untested boolean!",
}


def empty_table(name: str, location: str) -> Metadata:
    """Return the metadata of a ledger table that has no rows."""
    columns = [column.split() for column in COLUMNS[name].split(", ")]
    listed = [
        {"id": number, "name": column, "required": "!" in kind, "type": kind.rstrip("!")}
        for number, (column, kind) in enumerate(columns, 1)
    ]
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": int(time.time() * 1000),
        "last-column-id": len(listed),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": listed}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {**PROPERTIES, VERSION: "1"},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
