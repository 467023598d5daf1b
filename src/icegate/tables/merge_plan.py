"""The configs of a merge, checked against the columns of table and batch, as pieces of SQL."""

from __future__ import annotations

from typing import Any, NamedTuple

from icegate.errors import ConfigError, did_you_mean
from icegate.pii import kinds, masked_sql
from icegate.tables.state import quote, unquote_name

STRATEGIES = ["append", "merge", "delete+insert", "insert_overwrite", "microbatch"]
SOURCE, DEST = "DBT_INTERNAL_SOURCE", "DBT_INTERNAL_DEST"


class Columns(NamedTuple):
    """The columns of the table, of the batch, and those that are written."""

    table: list[str]
    batch: list[str]
    written: list[str]


class MergePlan:
    """What a merge or a delete+insert of one model does; raises when that makes no sense."""

    def __init__(self, model: dict[str, Any], arg_dict: dict[str, Any], columns: Columns) -> None:
        self.model, self.config = model["name"], model["config"]
        self.table, self.batch, written = columns
        self._in_batch(written)
        self.columns = [quote(name) for name in written]
        self.batch_columns = [quote(name) for name in self.batch]
        self.key_names = self._keys(as_list(arg_dict.get("unique_key")))
        self.keys = [quote(name) for name in self.key_names]
        self.shown_keys = shown(self.keys, model)
        self.predicates = as_list(arg_dict.get("incremental_predicates"))
        self.update = self._update_columns(written)
        self.delete_unmatched = self._delete_unmatched()
        self.is_key_declared = _declares_key(model, self.key_names, self.null_safe)
        self.fixed = self._known(
            self.config.get("merge_fixed_columns"), written, "merge_fixed_columns"
        )

    @property
    def null_safe(self) -> bool:
        """Whether a null key meets a null key."""
        return bool(self.config.get("null_safe_keys"))

    @property
    def skips(self) -> bool:
        """Whether rows that the table has as they are needn't be written."""
        is_due = self.config.get("delete_condition") or self.delete_unmatched is not None
        return bool(self.config.get("skip_unchanged_rows") and self.keys) and not is_due

    def on(self, source: str = SOURCE) -> list[str]:
        """Return the conditions under which a row of the batch meets a row of the table."""
        equals = "<=>" if self.null_safe else "="
        matches = [f"{source}.{key} {equals} {DEST}.{key}" for key in self.keys]
        return [f"({predicate})" for predicate in self.predicates] + (matches or ["false"])

    @property
    def is_duplicate(self) -> str:
        """The condition for a row whose key the batch has twice."""
        return is_duplicate(self.keys, self.null_safe)

    @property
    def matched(self) -> str:
        """The condition, with its `and`, for updating a matched row."""
        return _and(self.config.get("matched_condition"))

    @property
    def deleted(self) -> str:
        """The condition, with its `and`, for deleting a matched row; empty without one."""
        return _and(self.config.get("delete_condition"))

    @property
    def not_matched(self) -> str:
        """The condition, with its `and`, for inserting a row that is new."""
        inserted = _and(self.config.get("not_matched_condition"))
        delete = self.config.get("delete_condition")
        if delete and DEST.lower() not in delete.lower():  # a new row has no other side
            inserted += f" and not coalesce(({delete}), false)"
        return inserted

    def _keys(self, given: list[str]) -> list[str]:
        for text in given:
            name = _plain(text).lower()
            for where, columns in (("table", self.table), ("batch", self.batch)):
                known = [column.lower() for column in columns]
                if name not in known:
                    fix = "name columns that both have; an expression needs a column of its own"
                    raise ConfigError(
                        f"unique_key {text!r} of model {self.model} is no column of its {where}",
                        why=f"the {where} has: {', '.join(columns)}",
                        fix=did_you_mean(name, known, fix),
                    )
        return [_plain(text) for text in given]

    def _in_batch(self, columns: list[str]) -> None:
        there = {name.lower() for name in self.batch}
        missing = [name for name in columns if name.lower() not in there]
        if missing:
            raise ConfigError(
                f"model {self.model} no longer has the column {', '.join(missing)} of its table",
                why=f"its rows have: {', '.join(self.batch)}",
                fix="set on_schema_change: append_new_columns (keeps the column, with nulls) or "
                "sync_all_columns (drops it), or select the column",
            )

    def _update_columns(self, columns: list[str]) -> list[str]:
        only = self.config.get("merge_update_columns")
        never = self.config.get("merge_exclude_columns")
        if only is not None and never:
            raise ConfigError(
                f"model {self.model} has both merge_update_columns and merge_exclude_columns",
                why="each of them says which columns a merge updates",
                fix="keep one of them",
            )
        if only is not None:  # an empty list means none
            return [quote(name) for name in self._known(only, columns, "merge_update_columns")]
        kept = self._known(never, self.table, "merge_exclude_columns")
        left_out = {name.lower() for name in kept}
        return [quote(name) for name in columns if name.lower() not in left_out]

    def _known(self, given: Any, columns: list[str], config: str) -> list[str]:
        by_name = {name.lower(): name for name in columns}
        for name in map(_plain, as_list(given)):
            if name.lower() not in by_name:
                raise ConfigError(
                    f"{config} of model {self.model} names {name!r}, which isn't a column",
                    why=f"the columns are: {', '.join(columns)}",
                    fix=did_you_mean(name.lower(), by_name, "take it out"),
                )
        return [by_name[_plain(name).lower()] for name in as_list(given)]

    def _delete_unmatched(self) -> str | None:
        """Return the condition, with its `and`, for deleting what the batch lacks."""
        action = self.config.get("not_matched_by_source_action")
        condition = self.config.get("not_matched_by_source_condition")
        if action is None and condition is None:
            return None
        if str(action).lower() != "delete":
            raise ConfigError(
                f"not_matched_by_source_action of model {self.model} is {action!r}",
                why="what a batch lacks can be deleted only",
                fix="set not_matched_by_source_action: delete",
            )
        # Rows that the predicates leave out of the merge can't match, and must stay.
        scope = [text for text in self.predicates if SOURCE.lower() not in text.lower()]
        return "".join(_and(text) for text in [condition, *scope])


def unknown_strategy(name: str, project: str) -> str:
    """Return the error for a strategy that neither this adapter nor the project has."""
    macro = f"get_incremental_{name.replace('+', '_')}_sql"
    return (
        f"unknown incremental_strategy {name!r}\n"
        "  why: dbt could not find an incremental strategy macro with the name "
        f'"{macro}" in {project}\n'
        f"  fix: name one of {', '.join(STRATEGIES)}, or write that macro"
    )


def _declares_key(model: dict[str, Any], keys: list[str], null_safe: bool) -> bool:
    """Tell whether a constraint says that the table has each key once; unique ones allow nulls."""
    columns = (model.get("columns") or {}).items()
    said = [([name], c) for name, column in columns for c in column.get("constraints") or []]
    said += [(c.get("columns") or [], c) for c in model.get("constraints") or []]
    types = {"primary_key"} if null_safe else {"primary_key", "unique"}
    named = {key.lower() for key in keys}
    return any(
        names and {name.lower() for name in names} <= named
        for names, constraint in said
        if getattr(constraint["type"], "value", constraint["type"]) in types
    )


def as_list(value: list[str] | str | None) -> list[str]:
    """Return a config that may be one text or a list as a list; an empty text says nothing."""
    return [value] if value and isinstance(value, str) else list(value or [])


def is_duplicate(keys: list[str], null_safe: bool) -> str:
    """Return the condition for a key that `dbt_key_rows` rows have; null meets nothing."""
    known = [] if null_safe else [f"{key} is not null" for key in keys]
    return " and ".join(["dbt_key_rows > 1", *known])


def shown(keys: list[str], model: dict[str, Any]) -> list[str]:
    """Return select items that show the values of keys to people, without personal data."""
    personal = kinds(model.get("columns") or {})
    found = ((key, personal.get(unquote_name(key).lower())) for key in keys)
    return [f"{masked_sql(key, kind)} as {key}" if kind else key for key, kind in found]


def quoted(name: str) -> str:
    """Return a column's name, given with or without quotes, as SQL has to write it."""
    return quote(_plain(name))


def _plain(name: str) -> str:
    return unquote_name(name.strip())


def _and(condition: str | None) -> str:
    return f" and ({condition})" if condition else ""
