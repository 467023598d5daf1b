"""The materialization `history` in a dbt run: what `icegate.history` asks and does here."""

from __future__ import annotations

from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.merges import MergeEngine
from icegate.gate.staging import final_names
from icegate.history.config import Asked, read_select
from icegate.history.past import Past
from icegate.merge.plans import MODE
from icegate.tables.changes import Change, renamed

logger = AdapterLogger("Icegate")


class History:
    """The methods behind `adapter.history(…)`, of a model that keeps one in its ``table``."""

    @as_dbt_error()
    def __init__(self, adapter: Any, model: dict[str, Any], table: Any, sql: str) -> None:
        self.adapter, self.model, self.table = adapter, model, table
        read = read_select(model["name"], sql)[0]
        source = adapter.gate().source(final_names(read, adapter.Relation.staged), read)
        engine, asked = MergeEngine(adapter.batches(), model, table, None), Asked.of(model, sql)
        self.past = Past(engine, source, f"{table.schema}.{table.identifier}", table, asked)

    @as_dbt_error()
    def parts(self, is_new: bool) -> list[Any]:
        """Begin, and return the steps that the table lacks, by statement."""
        parts = self.past.begin(is_new)
        logger.info(self.past.told)
        return parts

    @as_dbt_error()
    def hold(self, part: Any, view: str) -> str:
        """Compute the events of a part behind a view, and return the query of their versions."""
        return self.past.hold(part, view)

    def renames(self) -> list[Change]:
        """Return the changes of columns that have another name in the source now."""
        return [*map(renamed, self.past.renames(self.adapter.tables().state(self.table)))]

    @as_dbt_error()
    def statement(self, view: str, wanted: Any) -> str:
        """Return the statement that writes the events of a view."""
        state = self.adapter.tables().state(self.table)
        return self.past.statement(view, state, wanted.properties.get(MODE))

    def end(self, is_new: bool) -> None:
        """Keep what the next run goes on from: a build may still be rejected."""
        self.past.end(is_new or not self.adapter.gate().holds(self.model))
