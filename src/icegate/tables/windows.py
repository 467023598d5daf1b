"""The span of event time that one batch of a microbatch model replaces."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from icegate.errors import ConfigError
from icegate.tables.layout import as_terms, partition_fields
from icegate.tables.state import quote, unquote_name

UNHASHABLE = ("map<", "variant", "interval", "geo")
# How the first moment of a transform's partition is written at its end; a bucket has none.
BEGINS = {
    "identity": "",
    "years": "-01-01T00:00:00+00:00",
    "months": "-01T00:00:00+00:00",
    "days": "T00:00:00+00:00",
    "hours": ":00:00+00:00",
}


class Window:
    """`[start, end)` of a batch, and how a table's rows in it are found."""

    def __init__(self, model: dict[str, Any]) -> None:
        batch, config = model.get("batch"), model["config"]
        if not batch:
            raise ConfigError(
                f"model {model['name']} has no batch",
                why="dbt hands the strategy 'microbatch' one batch of event time at a time",
                fix="remove the project's own macro get_incremental_microbatch_sql, or set the "
                "flag require_batched_execution_for_custom_microbatch_strategy",
            )
        self.start, self.end = (_utc(batch[key]) for key in ("event_time_start", "event_time_end"))
        self.name = unquote_name(str(config.get("event_time"))).lower()
        self.partitions = partition_fields(
            as_terms(config.get("partition_by")), f"partition_by of model {model['name']}"
        )

    def condition(self, prefix: str = "") -> str:
        """The condition for a row in the window, in the form of dbt's own filter of sources."""
        column = prefix + quote(self.name)
        return f"{column} >= '{self.start}' and {column} < '{self.end}'"

    def hash(self, columns: list[Any], prefix: str = "") -> str:
        """Return the SQL of a hash over all that a row has, to spread rows evenly."""
        hashed = [
            prefix + quote(column.name)
            for column in columns
            if not any(text in column.dtype.lower() for text in UNHASHABLE)
        ]
        return f"hash({', '.join(hashed)})"

    @property
    def is_whole_partitions(self) -> bool:
        """Whether the window begins and ends where partitions do, so that files can be dropped."""
        return any(
            field.column == self.name
            and field.name in BEGINS
            and all(m.isoformat().endswith(BEGINS[field.name]) for m in (self.start, self.end))
            for field in self.partitions
        )


def _utc(moment: Any) -> datetime:
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
