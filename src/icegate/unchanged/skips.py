"""Which nodes of a dbt command needn't run, and what the ledger keeps to tell it the next time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from functools import cached_property
from typing import Any, NamedTuple

from icegate.errors import CatalogError
from icegate.gate import ledger
from icegate.gate.ledger_rows import Made
from icegate.gate.refs import Metadata
from icegate.tables.metadata import ancestry
from icegate.unchanged.parts import Parts, Runs
from icegate.unchanged.seen import Seen

log = logging.getLogger(__name__)

SAME = "same inputs, code and settings"


class Begun(NamedTuple):
    """A node that runs: its table, what it's made of, and the table's snapshot before."""

    table: str
    parts: dict[str, str]
    head: int | None


class Skips:
    """The nodes of one dbt command that have `skip_unchanged`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._begun: dict[str, Begun] = {}
        self._made: dict[str, Made] = {}

    def look(self, model: Mapping[str, Any], seen: Seen, *, may_skip: bool) -> tuple[bool, str]:
        """Tell whether a node is unchanged, and since when; or why it runs.

        Of one that runs keep what it's made of.
        """
        table = f"{model['schema']}.{model['alias']}"
        try:
            parts = self.parts.of(model, seen, anew=not may_skip)
            why = self._changed(table, parts, seen) if may_skip else "it was asked to"
        except (Runs, CatalogError) as reason:
            return False, str(reason)
        if not why:
            return True, f"unchanged since {seen.since(table)}: {SAME}"
        before = seen.metadata(table)
        head = seen.head(before) if before else None
        self._begun[model["unique_id"]] = Begun(table, parts, head)
        return False, why

    def has_begun(self, node: Any) -> bool:
        """Tell whether a node runs of which it's to be remembered how it left its table."""
        return getattr(node, "unique_id", None) in self._begun

    def left(self, id: str, seen: Seen, is_own: Callable[[Mapping[str, str]], bool]) -> None:
        """Remember how a node left its table, unless someone else wrote it meanwhile.

        ``is_own`` tells by the summary of a snapshot whether this process committed it.
        """
        begun = self._begun.pop(id, None)
        metadata = seen.metadata(begun.table) if begun else None
        state = seen.state(begun.table) if begun else None
        if begun is None or metadata is None or state is None:
            return
        others = _may_be_others(metadata, begun.table in seen.staged)
        for snapshot in ancestry(metadata, seen.head(metadata)):
            if snapshot["snapshot-id"] == begun.head:
                break
            if others(snapshot["snapshot-id"]) and not is_own(snapshot["summary"]):
                return
        now = datetime.now(timezone.utc)
        self._made[id] = Made(now, begun.table, state, json.dumps(begun.parts))

    def save(self, built: Iterable[str]) -> None:
        """Keep how these nodes, by unique id, left their tables."""
        made = [self._made[id] for id in built if id in self._made]
        try:
            if made:
                ledger.keep(self.parts.lake, "made", made)
        except CatalogError as error:
            log.warning("what was built isn't remembered, so it will be built again: %s", error)

    @cached_property
    def _known(self) -> dict[str, Made]:
        try:
            return {made.table_name: made for made in ledger.read_kept(self.parts.lake, "made")}
        except CatalogError as error:
            log.warning("what was built can't be read, so it is built again: %s", error)
            return {}

    def _changed(self, table: str, parts: dict[str, str], seen: Seen) -> str:
        """Return what isn't as it was when a node last ran, or nothing."""
        known = self._known.get(table)
        if known is None:
            return "it isn't known what it was made of"
        if known.state != seen.state(table):
            return "its table isn't as it left it"
        before: dict[str, str] = json.loads(known.parts)
        if before.get("sql") == "":
            before["sql"] = parts["sql"]
        differing = (k for k in {**before, **parts} if before.get(k) != parts.get(k))
        return ", ".join(sorted(differing))


def _may_be_others(metadata: Metadata, is_staged: bool) -> Callable[[int], bool]:
    """Return what tells of a snapshot whether another process may have committed it.

    Nobody else writes to a staged table or to a build's branch; and what has been on `main` is in
    the table's log. Iceberg 1.10 signs no snapshot of SQL, so that this has to do.
    """
    log = {entry["snapshot-id"] for entry in metadata.get("snapshot-log") or ()}
    return lambda id: not is_staged and (not log or id in log)
