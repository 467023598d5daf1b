"""A procedure of Iceberg's that maintenance calls on a table, with why and what it's worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from icegate.gate.refs import Metadata
from icegate.health.files import Key
from icegate.health.limits import Limits
from icegate.maintenance.policy import Policy
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from icegate.maintenance.tags import Tag

COMPACT, DELETES = "rewrite_data_files", "rewrite_position_delete_files"
MAKE_TAG = "create_tag"  # no procedure, and no work for Spark
MANIFESTS, EXPIRE, ORPHANS = "rewrite_manifests", "expire_snapshots", "remove_orphan_files"


class Expiry(NamedTuple):
    """Which snapshots go: those from before a time (ms since 1970), but for the newest ones."""

    older_than_ms: int
    retain_last: int
    removed: int  # how many files all snapshots removed: no more than these can go

    @property
    def arguments(self) -> dict[str, str]:
        """The same for the procedure."""
        since = datetime.fromtimestamp(self.older_than_ms / 1000, timezone.utc)
        return {
            "older_than": f"timestamp '{since:%Y-%m-%d %H:%M:%S.%f} UTC'",
            "retain_last": str(self.retain_last),
            "stream_results": "true",
        }


@dataclass(frozen=True)
class Action:
    """A call. ``rewrites`` is in bytes of files; ``saves`` in bytes of one full read of the table.

    Opening a file counts there as ``read.split.open-file-cost`` bytes.
    """

    table: str
    kind: str
    why: str
    partitions: tuple[str, ...] = ()
    where: str = ""
    options: dict[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)  # SQL by name
    rewrites: int = 0
    saves: int = 0
    files: tuple[str, ...] = ()  # of orphans: which ones
    expiry: Expiry | None = None
    tag: Tag | None = None
    parts: tuple[Key, ...] | None = None  # what is compacted, all if none; None: see ``where``

    @property
    def worth(self) -> float:
        """How much it saves readers for each byte that it rewrites."""
        return self.saves / max(1, self.rewrites)

    def call(self, branch: str = "") -> str:
        """Return the SQL, which works on ``branch`` if one is given; of a tag the command."""
        if self.tag:
            return f"icegate refs {self.table} --make"
        pairs = [literal(text) for option in self.options.items() for text in option]
        given = {
            "table": literal(quoted(self.table)),
            "options": f"map({', '.join(pairs)})" if pairs else "",
            "where": literal(self.where) if self.where else "",
            "branch": literal(branch) if branch else "",
            **self.arguments,
        }
        told = ", ".join(f"{name} => {sql}" for name, sql in given.items() if sql)
        return f"call system.{self.kind}({told})"


@dataclass
class Work:
    """A table while its plan is made: what is known of it, and what was found until now."""

    table: str
    metadata: Metadata
    policy: Policy
    limits: Limits
    now_ms: int
    bytes: int = 0  # of all data files
    actions: list[Action] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def quoted(table: str) -> str:
    """Return `schema.table` quoted for SQL."""
    return ".".join(quote(part) for part in table.split("."))
