"""PyIceberg's catalog over one that it has no client for: it reads tables, and commits to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from icegate.files import StoredFiles
from icegate.gate.store import Moved, StoredTable, dropped, move, read_tables

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from icegate.settings import Lake


class Tables(NoopCatalog):
    """Tables of a lake, by the pointers that its own catalog has."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake.catalog)
        self.lake = lake

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table; raises ``NoSuchTableError``."""
        stored = self._stored(identifier)
        parsed = TableMetadataUtil.parse_obj(stored.metadata)
        at = stored.entry.metadata_location
        name = stored.entry.namespace, stored.entry.name
        return Table(name, parsed, at, StoredFiles(), self)

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse:
        """Change a table, if it's as it was read; raises ``CommitFailedException``."""
        stored = self._stored(table.name())
        base = TableMetadataUtil.parse_obj(stored.metadata)
        for requirement in requirements:
            requirement.validate(base)
        new = update_table_metadata(base, updates)
        step = stored.write(json.loads(new.model_dump_json()))
        try:
            move(self.lake, [step])
        except Moved as moved:
            raise CommitFailedException(f"{moved.table} was changed meanwhile") from moved
        return CommitTableResponse.model_validate(
            {"metadata": new, "metadata-location": step.new_location}
        )

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table; its files stay, as other branches of the catalog may have them too."""
        move(self.lake, [dropped(self._stored(identifier).entry)])

    def _stored(self, identifier: str | Identifier) -> StoredTable:
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        for stored in read_tables(self.lake, [name]):
            return stored
        raise NoSuchTableError(f"Table does not exist: {name}")
