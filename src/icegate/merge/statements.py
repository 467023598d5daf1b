"""The statements of a merge as SQL; `DBT_INTERNAL_DEST` is the table, as dbt's configs call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icegate.tables.merge_plan import (
    DEST,
    SOURCE,
    MergePlan,
    as_list,
    is_duplicate,
    quoted,
    shown,
)
from icegate.tables.state import literal

ROWS_A_FILE = 1_000_000  # of a batch, at least: many small files cost readers and compaction
DOUBLED, SHOWN = "its unique_key has more than one row in the batch", 10
BROADCAST = 1_000_000  # rows of keys that each task can hold


def merge_sql(merge: MergePlan, target: str, source: str, more: Sequence[str] = ()) -> str:
    """Return the `merge`; ``more`` are conditions that rows which meet fulfil anyway."""
    columns = ", ".join(merge.columns)
    lines = [
        f"merge into {target} as {DEST}",
        f"using {source} as {SOURCE}",
        f"on {' and '.join([*more, *merge.on()])}",
    ]
    if merge.keys and merge.deleted:
        lines.append(f"when matched{merge.deleted} then delete")
    if merge.keys and merge.update:
        assigned = ",\n    ".join(f"{name} = {SOURCE}.{name}" for name in merge.update)
        changed = f" and not ({same(merge)})" if merge.skips else ""
        lines.append(f"when matched{merge.matched}{changed} then update set\n    {assigned}")
    values = ", ".join(f"{SOURCE}.{name}" for name in merge.columns)
    lines.append(f"when not matched{merge.not_matched} then insert ({columns})\nvalues ({values})")
    if merge.delete_unmatched is not None:
        lines.append(f"when not matched by source{merge.delete_unmatched} then delete")
    return "\n".join(lines)


def delete_sql(merge: MergePlan, target: str, source: str, more: Sequence[str], rows: int) -> str:
    """Return the `delete` of the rows that have a key of ``source``."""
    return f"delete from {target} as {DEST}\nwhere {matching(merge, source, more, rows)}"


def matching(merge: MergePlan, source: str, more: Sequence[str], rows: int) -> str:
    """Return the condition for a row of the table that a row of ``source`` meets."""
    hint = f"/*+ broadcast({SOURCE}) */ " if rows <= BROADCAST else ""
    meets = " and ".join(merge.on())
    exists = f"exists (select {hint}1 from {source} as {SOURCE} where {meets})"
    return " and ".join([*more, exists])


def insert_sql(merge: MergePlan, target: str, source: str, rows: int) -> str:
    """Return the `insert` of those rows of ``source`` that a merge inserts if it meets none."""
    columns = ", ".join(merge.columns)
    return (
        f"insert into {target} ({columns})\n"
        f"select /*+ coalesce({rows // ROWS_A_FILE + 1}) */ {columns}\n"
        f"from {source} as {SOURCE}\nwhere true{merge.not_matched}"
    )


def first_rows_sql(merge: MergePlan, source: str) -> str:
    """Return the rows of a batch, of several with one key the first in the declared order."""
    columns, order = ", ".join(merge.batch_columns), merge.config.get("merge_order_by")
    if not (order and merge.keys):
        return f"select {columns} from {source}"
    keys = ", ".join(merge.keys)
    # A null key meets nothing, so that rows without one are no rows of one key.
    alone = "" if merge.null_safe else "".join(f" or {key} is null" for key in merge.keys)
    return (
        f"select {columns} from (\n"
        f"    select *, rank() over (partition by {keys} order by {order}) as dbt_rank\n"
        f"    from {source}\n) where dbt_rank = 1{alone}"
    )


def changed_rows_sql(merge: MergePlan, target: str, source: str, more: Sequence[str]) -> str:
    """Return the rows of ``source`` that the table hasn't as they are, by one read of the table.

    `dbt_known` is how many rows of the table each of them meets.
    """
    keys = ", ".join(f"{SOURCE}.{key} as dbt_key_{n}" for n, key in enumerate(merge.keys))
    meets = " and ".join([*more, *merge.on()])
    found = " and ".join(f"held.{key} <=> met.dbt_key_{n}" for n, key in enumerate(merge.keys))
    return (
        "select held.*, coalesce(met.dbt_rows, 0) as dbt_known\n"
        f"from {source} as held left join (\n"
        f"    select {keys}, count(*) as dbt_rows, every({same(merge)}) as dbt_same\n"
        f"    from {target} as {DEST} inner join {source} as {SOURCE} on {meets}\n"
        f"    group by {', '.join(f'{SOURCE}.{key}' for key in merge.keys)}\n"
        f") as met on {found}\nwhere not coalesce(met.dbt_same, false)"
    )


def same(merge: MergePlan) -> str:
    """Return the condition that an update would change nothing."""
    return " and ".join(f"{DEST}.{name} <=> {SOURCE}.{name}" for name in merge.update) or "true"


def one_row_per_key_sql(merge: MergePlan, source: str, table: str) -> str:
    """Return the rows of a batch, or raise in Spark for a key that it has twice.

    Where nothing can be asked before. Spark itself sees two rows of one key only where the table
    has that key, so that both would be inserted.
    """
    rows = first_rows_sql(merge, source)
    if not merge.keys:
        return rows
    keys = ", ".join(merge.keys)
    shown = f"to_json(struct({', '.join(merge.shown_keys)}), map('ignoreNullFields', 'false'))"
    what, fix = doubled(merge, table)
    return (
        f"select {', '.join(merge.batch_columns)}\n"
        f"from (select *, count(*) over (partition by {keys}) as dbt_key_rows from ({rows}))\n"
        f"where if({merge.is_duplicate}, raise_error(concat(\n"
        f"    {literal(what)}, '\\n  why: ', dbt_key_rows, ' rows have the key ', {shown},\n"
        f"    {literal(f'{chr(10)}  fix: {fix}')}\n)), true)"
    )


def doubled(merge: MergePlan, table: str) -> tuple[str, str]:
    """Return what is wrong with a batch that has a key twice, and what to do."""
    return (
        f"cannot merge into {table}: {DOUBLED}",
        "keep one row of each: name the order in which they count, as with "
        "`merge_order_by: updated_at desc`, or select one",
    )


def doubled_sql(batch: str, model: dict[str, Any]) -> str:
    """Return the query of the keys that a batch has twice, of each how often and its values."""
    keys = [quoted(key) for key in as_list(model["config"]["unique_key"])]
    names = ", ".join(keys)
    doubled = is_duplicate(keys, bool(model["config"].get("null_safe_keys")))
    return (
        "select count(*) as dbt_key_rows, "
        f"to_json(struct({', '.join(shown(keys, model))}), map('ignoreNullFields', 'false')) "
        f"from {batch} group by {names} having {doubled} order by 1 desc, {names} limit {SHOWN + 1}"
    )


def doubled_keys(rows: Sequence[tuple[int, str]]) -> str:
    """Return the rows of ``doubled_sql`` in words."""
    found = [f"{count} rows have the key {key}" for count, key in rows[:SHOWN]]
    return ", ".join(found) + (", and more keys" if len(rows) > SHOWN else "")
