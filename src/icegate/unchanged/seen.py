"""Tables and views as the nodes of a dbt command see them: the branch of its build, else `main`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from icegate.catalog import list_relations, read_metadata
from icegate.gate import refs, staging, views
from icegate.gate.refs import Metadata
from icegate.settings import Lake
from icegate.tables.metadata import ancestry, columns, view_version


@dataclass(frozen=True)
class Seen:
    """A lake and the running build: its branch, and its names in staging by final name."""

    lake: Lake
    branch: str = refs.MAIN
    staged: Mapping[str, str] = field(default_factory=dict)

    def metadata(self, name: str) -> Metadata | None:
        """Return the metadata of a table or view, `schema.name`, if there is one."""
        staged = self.staged.get(name)
        wanted = f"{staging.NAMESPACE}.{staged}" if staged else name
        for entry in list_relations(self.lake, wanted.partition(".")[0]):
            if entry.full_name.lower() == wanted.lower():
                return read_metadata(entry)
        return None

    def head(self, metadata: Metadata) -> int | None:
        """Return the snapshot of a table that nodes read."""
        found = refs.head(metadata, self.branch)
        return refs.head(metadata) if found is None else found

    def state(self, name: str) -> str | None:
        """Return what tells the rows of a table, or the text of a view, from any others.

        None where nothing is there, or no rows yet. Compaction leaves rows as they are.
        """
        known = self.metadata(name)
        if known is None:
            return None
        if "versions" in known:
            return hashed(staging.final_names(views.sql_of(known), self.staged).split())
        head = self.head(known)
        if head is None:
            return None
        changes = (s for s in ancestry(known, head) if s["summary"]["operation"] != "replace")
        newest = next(changes, {"snapshot-id": head})
        return f"{newest['snapshot-id']} {hashed(columns(known))}"

    def since(self, name: str) -> str:
        """Return the release that a table or view is of, else when it was written."""
        known = refs.with_releases(self.metadata(name) or {})
        now = view_version(known) or refs.snapshot(known, self.head(known)) or {}
        release = now.get("summary", {}).get(refs.RELEASE_STAMP)
        written = datetime.fromtimestamp(now.get("timestamp-ms", 0) / 1000, timezone.utc)
        return f"release {release}" if release else f"{written:%Y-%m-%d %H:%M} UTC"


def hashed(told: Any) -> str:
    """Return a hash of anything that JSON can tell."""
    text = json.dumps(told, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
