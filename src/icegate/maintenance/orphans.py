"""Files that nothing refers to: listed in one run, deleted in a later one if that is still so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta

from icegate.catalog import CatalogEntry, read_metadata
from icegate.health.reasons import many
from icegate.health.unreferenced import unreferenced
from icegate.maintenance.action import ORPHANS, Action
from icegate.maintenance.policy import Policy
from icegate.settings import Lake
from icegate.storage import is_remote, local_path, shown, stat
from icegate.tables.state import literal

VIEW, AT_ONCE = "icegate_orphans", 1000


class Listed:
    """What earlier runs listed: by table, each file with the time of its first listing."""

    def __init__(self, lake: Lake) -> None:
        self.path = lake.home / "maintenance" / "orphans.json"
        try:
            self.held: dict[str, dict[str, str]] = json.loads(self.path.read_text())
        except (OSError, ValueError):  # then they wait once more
            self.held = {}

    def plan(
        self, entry: CatalogEntry, entries: list[CatalogEntry], policy: Policy, now: datetime
    ) -> tuple[Action | None, str]:
        """Return the call that deletes what has waited, and what is to be told of the rest.

        Raises ``CatalogError`` and ``TableError`` where a table of the catalog can't be read, whose
        files these may be.
        """
        found, name = unreferenced(entry, entries, now, policy.orphan_days), entry.full_name
        before = self.held.get(name, {})
        self.held[name] = {path: before.get(path, now.isoformat()) for path in found.paths}
        since = now - timedelta(hours=policy.orphan_wait_hours)
        due = [
            path
            for path in found.paths
            if path in before and datetime.fromisoformat(before[path]) <= since
        ]
        waiting = len(found.paths) - len(due)
        said = f"{many(waiting, 'file')} that nothing refers to: listed, and deleted from "
        said += f"{policy.orphan_wait_hours:g} hours after that on"
        if not due:
            return None, said if waiting else ""
        older = now - timedelta(days=policy.orphan_days)
        arguments = {
            "file_list_view": literal(VIEW),
            "older_than": f"timestamp '{older:%Y-%m-%d %H:%M:%S} UTC'",
        }
        why = f"nothing refers to {many(len(due), 'file')}"
        files = _as_in_metadata(read_metadata(entry)["location"], due)
        action = Action(name, ORPHANS, why, arguments=arguments, files=files)
        return action, said if waiting else ""

    def save(self) -> None:
        """Keep what was listed for the next run."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({name: held for name, held in self.held.items() if held}))


def views(files: tuple[str, ...]) -> Iterator[str]:
    """Yield the SQL of views over files, which the procedure looks through once more."""
    for start in range(0, len(files), AT_ONCE):
        rows = ", ".join(map(_row, files[start : start + AT_ONCE]))
        values = f"values {rows} as files(file_path, last_modified)"
        yield f"create or replace temporary view {VIEW} as select * from {values}"


def _as_in_metadata(location: str, paths: list[str]) -> tuple[str, ...]:
    """Return paths as the table writes its location: others the procedure leaves out."""
    own = shown(location) if is_remote(location) else os.path.realpath(local_path(location))
    real = own.rstrip("/")
    return tuple(location.rstrip("/") + path.removeprefix(real) for path in paths)


def _row(file: str) -> str:
    try:
        written = stat(file).written
    except FileNotFoundError:
        written = 0
    return f"({literal(file)}, timestamp_seconds({written:.0f}))"
