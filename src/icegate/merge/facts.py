"""What a planner knows: of a batch by one cheap query of its held rows, of a table by metadata."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from icegate.gate.store import StoredTable
from icegate.merge.bounds import MOST_VALUES, Bound, Column

MOST_FILES = 20_000  # of which manifests are read: 50 µs a file


@dataclass(frozen=True)
class Batch:
    """The rows of a batch, those of its fullest key, those without a key, and its bounds."""

    rows: int
    of_one_key: int
    without_key: int
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class Touched:
    """The files of a table that may have a row which the batch matches, and how many it has."""

    files: int
    rows: int
    bytes: int
    all_files: int


@dataclass(frozen=True)
class Known:
    """How many rows of the table have a key of the batch, and how many of them the fullest key."""

    rows: int
    of_one_key: int


def batch_sql(source: str, keys: Sequence[str], null_safe: bool, columns: Sequence[Column]) -> str:
    """Return the query that ``read_batch`` reads: one row. ``keys`` are names as SQL."""
    null_key = " or ".join(f"{key} is null" for key in keys)
    inner, outer = ["count(*) as dbt_rows"], ["coalesce(sum(dbt_rows), 0)"]
    meets = "dbt_rows" if null_safe else f"if({null_key}, 0, dbt_rows)"
    outer.append(f"coalesce(max({meets}), 0)")
    outer.append(f"coalesce(sum(if({null_key}, dbt_rows, 0)), 0)")
    for number, column in enumerate(columns):
        low = high = column.sql
        if column.sql not in keys:
            low, high = f"dbt_low_{number}", f"dbt_high_{number}"
            inner += [f"min({column.sql}) as {low}", f"max({column.sql}) as {high}"]
            inner.append(f"count_if({column.sql} is null) as dbt_nulls_{number}")
            outer.append(f"sum(dbt_nulls_{number}) > 0")
        else:
            outer.append(f"count_if({column.sql} is null) > 0")
        outer += [column.text(f"min({low})"), column.text(f"max({high})")]
    named = ", ".join(keys)
    return (
        f"select {', '.join(outer)}\n"
        f"from (select {', '.join([named, *inner])} from {source} group by {named})"
    )


def read_batch(
    row: Sequence[Any], keys: Sequence[str], null_safe: bool, columns: Sequence[Column]
) -> Batch:
    """Return what the row of ``batch_sql`` says. A null key meets a null only if ``null_safe``."""
    rows, of_one_key, without_key, *found = row
    bounds = []
    for number, column in enumerate(columns):
        nulls, low, high = found[3 * number : 3 * number + 3]
        if low is not None:
            may_meet = null_safe or column.sql not in keys
            bounds.append(Bound(column, low, high, nulls=bool(nulls) and may_meet))
    return Batch(int(rows), int(of_one_key), int(without_key), tuple(bounds))


def values_sql(source: str, column: Column) -> str:
    """Return the query of a column's values, one more at most than a list may have."""
    return (
        f"select {column.text(column.sql)} from "
        f"(select distinct {column.sql} from {source} where {column.sql} is not null "
        f"limit {MOST_VALUES + 1})"
    )


def known_sql(target: str, matches: str, keys: Sequence[str]) -> str:
    """Return the query of ``Known``: it reads the keys of the table's touched files."""
    named = ", ".join(f"DBT_INTERNAL_DEST.{key}" for key in keys)
    return (
        "select coalesce(sum(dbt_rows), 0), coalesce(max(dbt_rows), 0) from (\n"
        f"    select count(*) as dbt_rows from {target} as DBT_INTERNAL_DEST\n"
        f"    where {matches}\n    group by {named}\n)"
    )


def touched(table: StoredTable, branch: str | None, bounds: Sequence[Bound]) -> Touched:
    """Return the files within the bounds, from the manifests of a branch, or of `main`."""
    from icegate.audits.source import source_of

    source = source_of(table, branch)
    if source.total_files > MOST_FILES:
        rows, size = (int(source.summary.get(f"total-{of}", 0)) for of in ("records", "files-size"))
        return Touched(source.total_files, rows, size, source.total_files)
    found = source.files.all_data
    everything = len(found)
    for bound in bounds:
        # One that PyIceberg can't compare, such as of a column that was renamed, leaves out none.
        with suppress(ValueError, TypeError, ArithmeticError, NotImplementedError):
            within = {
                f.file_path for f in source.files.data(_filter(bound), source.files.manifests)
            }
            found = [file for file in found if file.file_path in within]
    rows, size = (
        sum(getattr(f, of) for f in found) for of in ("record_count", "file_size_in_bytes")
    )
    return Touched(len(found), rows, size, everything)


def touched_sql(table: str, bounds: Sequence[Bound]) -> str:
    """Return the query of ``Touched`` for a catalog that only Spark reads."""
    within = ["true"]
    for bound in bounds:
        has = f"readable_metrics.{bound.column.sql}"
        low, high = map(bound.column.literal, (bound.low, bound.high))
        inside = f"{has}.upper_bound >= {low} and {has}.lower_bound <= {high}"
        within += [f"coalesce({inside}, true)"] * (not bound.nulls)
    counted = ", ".join(
        f"coalesce(sum(if({' and '.join(within)}, {of}, 0)), 0)"
        for of in ("1", "record_count", "file_size_in_bytes")
    )
    return f"select {counted}, count(*) from {table}.files where content = 0"


def _filter(bound: Bound) -> Any:
    """Return what PyIceberg finds files with."""
    from pyiceberg import expressions

    on: Any = expressions
    name, value = bound.column.name, bound.column.value
    found: Any = on.And(
        on.GreaterThanOrEqual(name, value(bound.low)), on.LessThanOrEqual(name, value(bound.high))
    )
    if bound.values:
        found = on.In(name, [value(text) for text in bound.values])
    return on.Or(found, on.IsNull(name)) if bound.nulls else found
