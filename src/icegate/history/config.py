"""What a model of materialization `history` asks for, by its configs and its SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp

from icegate.dialect import SPARK
from icegate.errors import ConfigError, did_you_mean
from icegate.history.dimension import DIFF, MODES
from icegate.history.steps import ERROR, GAPS
from icegate.tables.merge_plan import as_list


@dataclass(frozen=True)
class Asked:
    """What a model of materialization `history` says; ``columns`` is None for all of its source."""

    model: str
    key: Sequence[str]
    track: Sequence[str]
    mode: str | None
    gap: str
    columns: Sequence[str] | None

    @classmethod
    def of(cls, model: Mapping[str, Any], sql: str) -> Asked:
        """Read a model's configs and SQL; raise ``ConfigError`` for what can't be."""
        name, config = model["name"], model["config"]
        mode, gap = config.get("history_mode"), config.get("history_gap") or ERROR
        for what, given, known in (
            ("history_mode", mode or DIFF, MODES),
            ("history_gap", gap, GAPS),
        ):
            if given not in known:
                raise ConfigError(
                    f"unknown {what} {given!r} of model {name}",
                    why=f"there are {', '.join(known)}",
                    fix=did_you_mean(str(given), known, "take one of them, or none"),
                )
        key, track = (as_list(config.get(of)) for of in ("unique_key", "track_columns"))
        if not key:
            raise ConfigError(
                f"model {name} has no unique_key",
                why="a history follows the rows that have the same key",
                fix="set `unique_key`, to a column or a list of them",
            )
        return cls(name, key, track, mode, gap, read_select(name, sql)[1])


def read_select(model: str, sql: str) -> tuple[str, list[str] | None]:
    """Return the one table that a select reads, as it names it, and its columns, None for all.

    Raises ``ConfigError`` for one that does more: its rows have no versions.
    """
    tree = sqlglot.parse_one(sql, dialect=SPARK)
    source = (
        tree.args.get("from_") or tree.args.get("from") if isinstance(tree, exp.Select) else None
    )
    table = source.this if source else None
    more = [name for name, value in tree.args.items() if value and name not in _OF_SELECT]
    columns = tree.expressions if source else []
    plain = all(isinstance(column, (exp.Column, exp.Star)) for column in columns)
    if not isinstance(table, exp.Table) or more or not plain:
        raise ConfigError(
            f"cannot keep the history of model {model}",
            why="it isn't a plain select of columns of one table, and only a table has versions",
            fix="make that select a table of its own, and `select * from` it here",
        )
    every = any(isinstance(column, exp.Star) or column.is_star for column in columns)
    return f"{table.db}.{table.name}", None if every else [column.name for column in columns]


_OF_SELECT = ("from_", "from", "expressions", "kind")
