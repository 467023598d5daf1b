"""What a model says to read a table as it was, or what changed in it, as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from icegate.catalog import list_relations, read_metadata
from icegate.errors import ConfigError
from icegate.gate.refs import Metadata
from icegate.gate.staging import with_past
from icegate.history.versions import HOW, find, find_any, moment_of, newest
from icegate.settings import Lake
from icegate.tables.layout import partition_fields
from icegate.tables.state import literal, state_from_metadata


@dataclass(frozen=True)
class Source:
    """A table by its name, by what SQL calls it in this build, and the branch that a build has.

    ``lake`` is None where the catalog is another one than the embedded; ``clones`` is the build
    whose Iceberg reads earlier versions from clones alone.
    """

    lake: Lake | None
    name: str
    sql: str
    branch: str = ""
    clones: str = ""

    def as_of(self, asked: dict[str, Any]) -> str:
        """Return a table or query in brackets: the table by exactly one of ``HOW``."""
        given = {how: value for how, value in asked.items() if value is not None}
        if len(given) != 1 or not given.keys() <= set(HOW):
            raise ConfigError(
                f"cannot read {self.name} as of {' and '.join(given) or 'nothing'}",
                why="as_of takes one thing that says which version is meant",
                fix="give one of release=, timestamp=, snapshot= and tag=",
            )
        ((how, value),) = given.items()
        if self.lake is None and how != "release":  # then the catalog alone knows
            if how == "timestamp":
                return f"{self.name} timestamp as of '{moment_of(value):%Y-%m-%d %H:%M:%S%z}'"
            return f"{self.name} version as of {literal(value) if how == 'tag' else int(value)}"
        # What was is read from the table that readers have, also while a build writes a clone.
        lake, metadata = self.known(self.name, f"cannot read {self.name} as of {how} {value}")
        found = find(lake, self.name, metadata, how, value)
        if found.snapshot_id is None:  # its first rows came with a later release
            return f"(select * from {self.name} where false)"
        return f"{self.with_past(self.name)} version as of {found.snapshot_id}"

    def changes(self, since: Any, until: Any, key: str | Sequence[str]) -> str:
        """Return a query in brackets of the rows that differ between two versions."""
        from icegate.files import StoredFiles
        from icegate.history.changes import Changes

        lake, metadata = self.known(self.sql, f"cannot tell the changes of {self.name}")
        old = find_any(lake, self.name, metadata, since)
        if until is None:
            new = newest(metadata, self.branch)
        else:
            new = find_any(lake, self.name, metadata, until)
        keys = [key] if isinstance(key, str) else list(key or ())
        return Changes(self.with_past(self.sql), metadata, old, new, keys).sql(StoredFiles())

    def copied(self, asked: Any) -> tuple[str, str]:
        """Return the clauses of a table like this one, and what it is as of ``asked``, or now."""
        lake, metadata = self.known(self.name, f"cannot begin with the history of {self.name}")
        version = newest(metadata, "")
        if asked is not None:
            version = find_any(lake, self.name, metadata, asked)
        state = state_from_metadata(metadata)
        fields = partition_fields(state.partitions, self.name)
        by = f"partitioned by ({', '.join(field.render() for field in fields)}) " if fields else ""
        clauses = f"{by}tblproperties ('format-version' = '{metadata['format-version']}')"
        if version.snapshot_id is None:
            return clauses, f"{self.sql} where false"
        return clauses, f"{self.with_past(self.sql)} version as of {version.snapshot_id}"

    def with_past(self, name: str) -> str:
        """Return what SQL calls the table, or its clone in staging, to read earlier versions."""
        return with_past(self.lake, name, self.clones) if self.lake and self.clones else name

    def known(self, name: str, what: str) -> tuple[Lake, Metadata]:
        """Return the lake and the metadata of a table; raise ``ConfigError`` if it has none."""
        if self.lake is None or name.count(".") != 1:  # with more dots it's another catalog's
            raise ConfigError(
                what,
                why="that is read from metadata files, which only the embedded catalog gives",
                fix="take a target with method session, or read `version as of` by SQL",
            )
        schema, _, table = name.lower().partition(".")
        for entry in list_relations(self.lake):
            if (entry.namespace.lower(), entry.name.lower()) == (schema, table):
                if entry.kind == "table":
                    return self.lake, read_metadata(entry)
                raise ConfigError(
                    what, why="a view has no versions", fix="materialize it as a table"
                )
        raise ConfigError(what, why="the catalog has no such table", fix="build it first")
