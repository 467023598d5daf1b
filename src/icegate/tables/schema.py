"""Schema changes of an incremental model: columns added, dropped and widened, nested ones too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from icegate.errors import ConfigError
from icegate.tables.changes import DESTRUCTIVE, Change, Wanted, changes, layout_after, renamed
from icegate.tables.model_checks import columns_differ
from icegate.tables.renames import check_returned, pending, renamed_state
from icegate.tables.state import TableState, literal, quote

PARTS = {"ARRAY": ["element"], "MAP": ["key", "value"]}
WIDER = {("INT", "BIGINT"), ("FLOAT", "DOUBLE")}
CONSENT = "the model has no `allow_destructive: true`"
REBUILD = "or rebuild the table with --full-refresh"
TEXT = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)


@dataclass
class SchemaDiff:
    """What differs between a batch and its table, by the dotted path of a column."""

    added: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    widened: dict[str, tuple[str, str]] = field(default_factory=dict)
    retyped: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.widened or self.retyped)

    def describe(self) -> str:
        """Return the differences as one line."""
        types = {**self.widened, **self.retyped}
        parts = {
            "new in the model": [f"{name} {kind}" for name, kind in self.added.items()],
            "not in the model any more": self.dropped,
            "of another type": [f"{name} {old} -> {new}" for name, (old, new) in types.items()],
        }
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)


def diff(batch: Iterable[tuple[str, str]], table: Iterable[tuple[str, str]]) -> SchemaDiff:
    """Compare (name, type) of a batch's columns with those of its table."""
    found = SchemaDiff()
    _compare_fields(found, "", dict(batch), dict(table), lambda kind: kind)
    return found


class ColumnsDiffer(ConfigError):
    """What `on_schema_change: fail` asks for."""


def table_changes(
    state: TableState, wanted: Wanted, columns: Sequence[tuple[str, str]], mode: str
) -> list[Change]:
    """Return all changes of a table that stays, and raise ``ConfigError`` before the first of them.

    ``columns`` are those of the batch, none where nobody asks for them. Renames come first, so that
    the rest counts from the new names; then new columns, since the layout may name them; dropped
    ones last.
    """
    names = pending(state, wanted.renames, wanted.model)
    if columns:
        check_returned(names, [name for name, _ in columns], wanted.model)
    first, state = [*map(renamed, names)], renamed_state(state, names)
    if mode == "ignore" or not columns:
        return [*first, *changes(state, wanted)]
    found = diff(columns, [(c.name, c.type) for c in state.columns])
    if found and mode == "fail":
        raise ColumnsDiffer(columns_differ(wanted.model, found.describe()))
    added, dropped = schema_changes(found, mode, state, wanted)
    after = state.with_columns(found.added)
    return [*first, *added, *changes(after, wanted), *dropped]


def schema_changes(
    found: SchemaDiff, mode: str, state: TableState, wanted: Wanted
) -> tuple[list[Change], list[Change]]:
    """Return what ``on_schema_change: mode`` adds and what it drops; raises ``ConfigError``.

    A column of a type that Iceberg can't make of the old one is made anew, by consent.
    """
    sync = mode == "sync_all_columns"
    anew = found.retyped if sync else {}
    if sync:
        _check_lost(found, state, wanted)
    added = [
        Change(
            f"drop column {_quoted(path)}", f"column={path} type={new} was={old}", True, DESTRUCTIVE
        )
        for path, (old, new) in anew.items()
    ]
    new_columns = {**{path: new for path, (_, new) in anew.items()}, **found.added}
    if new_columns:
        listed = ", ".join(
            _new_column(*item, wanted.comment_of(item[0])) for item in new_columns.items()
        )
        log = f"columns_added={'|'.join(found.added)}" if found.added else ""
        added.append(Change(f"add columns ({listed})", log))
    for path, (old, new) in found.widened.items():
        log = f"column={path} type={new} was={old}"
        added.append(Change(f"alter column {_quoted(path)} type {new}", log))
    if not sync or not found.dropped:
        return added, []
    names = ", ".join(_quoted(path) for path in found.dropped)
    log = f"columns_dropped={'|'.join(found.dropped)}"
    return added, [Change(f"drop columns ({names})", log, True, DESTRUCTIVE)]


def check_rebuild(
    columns: Iterable[tuple[str, str]], state: TableState | None, wanted: Wanted
) -> None:
    """Raise ``ConfigError`` where a rebuilt table would lose what its model says it mustn't."""
    if state is None:
        return
    names = pending(state, wanted.renames, wanted.model)
    columns = list(columns)
    check_returned(names, [name for name, _ in columns], wanted.model)
    if wanted.allow_destructive is False:
        held = renamed_state(state, names).columns
        _check_consent(diff(columns, [(c.name, c.type) for c in held]), wanted)


def same_columns(batch: Iterable[tuple[str, str]], table: Iterable[tuple[str, str]]) -> bool:
    """Tell whether rows of the batch can replace all rows of the table as it is."""
    batch, table = list(batch), list(table)
    names = [name.lower() for name, _ in batch] == [name.lower() for name, _ in table]
    return names and not diff(batch, table)


def _check_lost(found: SchemaDiff, state: TableState, wanted: Wanted) -> None:
    """Raise for a column that can't be dropped, or of whose loss the model doesn't say a word."""
    partitions, sort = layout_after(state, wanted)
    spec = [item.column for item in partitions]
    order = [item.transform.column for item in sort]
    for path in (*found.dropped, *found.retyped):
        verb = "drop" if path in found.dropped else "change the type of"
        for use, columns in (("partitioned", spec), ("sorted", order)):
            if any(f"{name}.".startswith(f"{path.lower()}.") for name in columns):
                raise ConfigError(
                    f"cannot {verb} column {path} of model {wanted.model}",
                    why=f"its table is {use} by it",
                    fix="keep the column, or rebuild the table with --full-refresh",
                )
    _check_consent(found, wanted)
    for path, (old, new) in found.retyped.items():
        if "." in path:  # it may be in an array, of which nothing can be dropped
            why = "only a column as a whole can be made anew"
            raise _not_widened(path, old, new, wanted, why, REBUILD)


def _check_consent(found: SchemaDiff, wanted: Wanted) -> None:
    if wanted.allow_destructive:
        return
    for path, (old, new) in found.retyped.items():
        fix = "" if wanted.allow_destructive is False else f"{REBUILD[3:]}, "
        raise _not_widened(path, old, new, wanted, f"readers would lose its values, and {CONSENT}",
                           f"{fix}or set that")  # fmt: skip
    if found.dropped:
        many = "s" if len(found.dropped) > 1 else ""
        renamed = "; or say `meta: {renamed_from: …}` of one that was renamed" * bool(found.added)
        raise ConfigError(
            f"cannot drop column{many} {', '.join(found.dropped)} of model {wanted.model}",
            why=f"readers would lose the values, and {CONSENT}",
            fix=f"keep in the query what the table has, or set that{renamed}",
        )


def _not_widened(path: str, old: str, new: str, wanted: Wanted, why: str, fix: str) -> ConfigError:
    return ConfigError(
        f"cannot change column {path} of model {wanted.model} from {old} to {new}",
        why=f"Iceberg only widens: int to bigint, float to double, a decimal's precision; {why}",
        fix=f"cast it to {old} in the model, {fix}",
    )


def _new_column(path: str, kind: str, comment: str) -> str:
    return f"{_quoted(path)} {kind}" + (f" comment {literal(comment)}" if comment else "")


def _quoted(path: str) -> str:
    return ".".join(quote(part) for part in path.split("."))


def _compare_fields(
    found: SchemaDiff,
    prefix: str,
    new: dict[str, Any],
    old: dict[str, Any],
    text: Callable[[Any], str],
) -> None:
    now = {name.lower(): (name, kind) for name, kind in old.items()}
    for name, kind in new.items():
        if name.lower() in now:
            held, old_kind = now.pop(name.lower())
            _compare(found, prefix + held, kind, old_kind)
        else:
            found.added[prefix + name] = text(kind)
    found.dropped += [prefix + name for name, _ in now.values()]


def _compare(found: SchemaDiff, path: str, new: Any, old: Any) -> None:
    """Compare two types, each Spark's text or a parsed one."""
    if isinstance(new, str) and isinstance(old, str):
        new, old = TEXT.sub("string", new), TEXT.sub("string", old)
        if re.sub(r"\s", "", new).lower() == re.sub(r"\s", "", old).lower():
            return
    new, old = _parse(new), _parse(old)
    if _sql(new) == _sql(old):
        return
    if new.this == old.this and new.this.value == "STRUCT":
        _compare_fields(found, f"{path}.", _fields(new), _fields(old), _sql)
    elif new.this == old.this and new.this.value in PARTS:
        parts = PARTS[new.this.value]
        for part, a, b in zip(parts, new.expressions, old.expressions, strict=True):
            _compare(found, f"{path}.{part}", a, b)
    elif _widens(old, new):
        found.widened[path] = (_sql(old), _sql(new))
    else:
        found.retyped[path] = (_sql(old), _sql(new))


def _parse(kind: Any) -> Any:
    from sqlglot import exp  # a third of a second that only a changed type has to pay

    parsed = exp.DataType.build(kind, dialect="spark") if isinstance(kind, str) else kind
    for part in parsed.find_all(exp.ColumnDef):
        part.set("constraints", None)  # a nested comment is no difference
    return parsed


def _sql(kind: Any) -> str:
    return str(kind.sql("spark")).lower()


def _fields(struct: Any) -> dict[str, Any]:
    return {part.name: part.args["kind"] for part in struct.expressions}


def _widens(old: Any, new: Any) -> bool:
    if "decimal" == str(old.this.value).lower() == str(new.this.value).lower():
        (a, b), (c, d) = _numbers(old), _numbers(new)
        return c > a and d == b
    return (str(old.this.value), str(new.this.value)) in WIDER


def _numbers(kind: Any) -> tuple[int, int]:
    numbers = [int(part.name) for part in kind.expressions]
    precision, scale = [*numbers, *(10, 0)[len(numbers) :]]
    return precision, scale
