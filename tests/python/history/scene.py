"""One table that a test changes by SQL, and what is told of its history."""

from __future__ import annotations

from typing import Any

from history.versioned import KINDS, differing, metadata_of
from icegate.catalog import list_relations
from icegate.gate.refs import head
from icegate.history.reads import Source
from icegate.history.versions import find_any, newest
from icegate.settings import Lake

Rows = list[tuple[Any, ...]]


def normal(rows: Rows) -> list[Any]:
    """Return rows without what differs between Spark's values and Arrow's, sorted."""

    def told(value: Any) -> Any:
        if hasattr(value, "asDict"):
            value = value.asDict()
        if isinstance(value, dict):
            return [(key, told(inner)) for key, inner in value.items()]
        return [*map(told, value)] if isinstance(value, list) else value

    return sorted(([told(value) for value in row] for row in rows), key=repr)


class Scene:
    """A table `schema.t` of a kind; ``{t}`` in SQL stands for its name."""

    def __init__(self, spark: Any, lake: Lake, schema: str, kind: str) -> None:
        self.spark, self.lake, self.table = spark, lake, f"{schema}.t"
        self.version, self.mode = KINDS[kind]
        spark.sql(f"create namespace {schema}")

    def make(self, columns: str, by: str = "") -> None:
        """Make the table, partitioned or not."""
        modes = (f"'write.{of}.mode' = '{self.mode}'" for of in ("merge", "update", "delete"))
        self.sql(
            f"create table {{t}} ({columns}) using iceberg {by and f'partitioned by ({by})'}"
            f" tblproperties ('format-version' = '{self.version}', {', '.join(modes)})"
        )

    def sql(self, *statements: str) -> int:
        """Run statements; return the newest snapshot, 0 for none."""
        for sql in statements:
            self.spark.sql(sql.replace("{t}", self.table))
        return head(self.metadata) or 0

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the table."""
        return metadata_of(self.lake, self.table)

    @property
    def source(self) -> Source:
        """What models ask."""
        return Source(self.lake, self.table, self.table)

    def changes(self, old: Any, new: Any = None, key: Any = "id") -> Rows:
        """Return the rows of `changes_between`, sorted: the same as `icegate diff` finds."""
        found = self.spark.sql(f"select * from {self.source.changes(old, new, key)}").collect()
        told = sorted((tuple(row) for row in found), key=repr)
        assert normal(self.difference(old, new, key)) == normal(told)
        return told

    def difference(self, old: Any, new: Any = None, key: Any = "id") -> Rows:
        """Return the same rows as `icegate diff` finds them."""
        metadata = self.metadata
        was = find_any(self.lake, self.table, metadata, old)
        now = find_any(self.lake, self.table, metadata, new) if new else newest(metadata, "")
        keys = [key] if isinstance(key, str) else key
        return differing(self.lake, self.table, metadata, was, now, keys)

    def as_of(self, **asked: Any) -> Rows:
        """Return the rows of `as_of`, sorted."""
        found = self.spark.sql(f"select * from {self.source.as_of(asked)}").collect()
        return sorted((tuple(row) for row in found), key=repr)

    def close(self) -> None:
        """Drop the table and its schema."""
        schema = self.table.partition(".")[0]
        for entry in list_relations(self.lake, schema):
            self.spark.sql(f"drop {entry.kind} {entry.full_name}")
        self.spark.sql(f"drop namespace {schema}")
