"""The rows of the ledger's tables: a dataclass a table, a field a column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that became of a build: one row of `icegate.releases`."""

    at: datetime  # with a time zone
    build: str
    event: str  # built (a person decides), published, held, rejected, rolled_back, erased, expired
    release: int | None = None
    invocation_id: str | None = None
    command: str | None = None
    target: str | None = None
    who: str | None = None
    reason: str | None = None
    detail: str | None = None  # JSON


@dataclass(frozen=True)
class ReleaseTable:
    """A table as a release has it, moved or not: one row of `icegate.release_tables`."""

    release: int
    at: datetime
    build: str
    table_name: str  # schema.name
    snapshot_id: int | None  # None while it has no rows
    previous_snapshot_id: int | None
    schema_id: int
    moved: bool
    untested: bool


@dataclass(frozen=True)
class Made:
    """What went into a table when a node last wrote it: one row of `icegate.made`."""

    at: datetime
    table_name: str  # schema.name
    state: str  # of the table, as the node left it
    parts: str  # JSON: a hash of each thing that the node is made of


@dataclass(frozen=True)
class Proof:
    """How many failing rows a test had: one row of `icegate.proofs`."""

    at: datetime
    question: str  # a hash of what was asked, and with which settings
    tables: str  # JSON: how many rows failed, and what the tables were


@dataclass(frozen=True)
class Told:
    """What people at a channel were last told: one row of `icegate.told`."""

    at: datetime
    channel: str  # its name and a hash, as its URL is a secret
    state: str  # JSON: what wasn't as it should be, by unique id


ROWS: dict[str, Any] = {
    "releases": Event,
    "release_tables": ReleaseTable,
    "proofs": Proof,
    "made": Made,
    "told": Told,
}
# Of these the last row of each key stays.
KEYS = {"proofs": "question", "made": "table_name", "told": "channel"}
