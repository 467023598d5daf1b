"""How a batch of rows gets into a table: what its strategy means, and running it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.hash_key import with_key
from icegate.tables import windows
from icegate.tables.merge_plan import Columns, MergePlan, as_list, is_duplicate, quoted, shown

STRATEGIES = ["append", "merge", "delete+insert", "insert_overwrite", "microbatch"]
DOUBLED, SHOWN = "its unique_key has more than one row in the batch", 10


class Batches:
    """The methods behind `adapter.batches()`."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    @as_dbt_error()
    def plan(self, model: dict[str, Any], arg_dict: dict[str, Any]) -> MergePlan:
        """Check what dbt hands to a strategy, and the configs, against the columns there are."""
        table, batch = (
            [column.name for column in self.adapter.get_columns_in_relation(arg_dict[relation])]
            for relation in ("target_relation", "temp_relation")
        )
        wanted = arg_dict.get("dest_columns")  # dbt-spark's own callers have none
        columns = Columns(table, batch, [c.name for c in wanted] if wanted else table)
        return MergePlan(model, arg_dict, columns)

    @as_dbt_error()
    def window(self, model: dict[str, Any]) -> windows.Window:
        """Return the span of event time that this batch of a microbatch model replaces."""
        return windows.Window(model)

    def rewrites_files(self, model: dict[str, Any], profiles: dict[str, Any]) -> bool:
        """Tell whether a merge into the model's table is copy-on-write, Iceberg's default."""
        config = model["config"]
        properties = self.adapter.table_properties(
            config.get("table_profile"), config.get("tblproperties"), profiles
        )
        return properties.get("write.merge.mode") != "merge-on-read"

    def hold(self, view: str, sql: str, batch: Any, model: dict[str, Any]) -> None:
        """Compute ``sql`` once and put the temporary view ``view`` over its rows, for this node.

        A copy-on-write merge reads its source twice: to find the files to rewrite, then to write
        them. Where the two readings differ, rows double; Spark refuses `rand()` there, but can't
        see a `limit` without an order. Without a session (Thrift) it stays so.
        """
        handle = self.adapter.connections.get_thread_connection().handle
        session = getattr(handle, "session", None)
        if session is None:
            self.adapter.execute(f"create or replace temporary view {view} as {sql}")
            return
        handler = self.adapter.connections.exception_handler(sql)
        with self._all_doubled_keys(batch, model), handler, handle.work.running():
            handle.held.append(view)
            session.sql(with_key(session, sql)).localCheckpoint().createOrReplaceTempView(view)

    def write(self, sql: str, batch: Any, model: dict[str, Any]) -> Any:
        """Run a write, and name all keys of its batch that it refuses."""
        with self._all_doubled_keys(batch, model):
            return self.adapter.execute(sql)[0]

    @contextmanager
    def _all_doubled_keys(self, batch: Any, model: dict[str, Any]) -> Iterator[None]:
        """Name the keys that a merge refuses; Spark's own error can tell of the first one only."""
        try:
            yield
        except DbtRuntimeError as error:
            said = str(error.msg).split("\n  ")  # what, why, fix
            if DOUBLED not in said[0]:
                raise
            with suppress(DbtRuntimeError):  # such as a server that is gone by now
                found = self._doubled_keys(batch, model)
                said[1] = f"why: {found}" if found else said[1]  # rows may be drawn anew
            raise DbtRuntimeError("\n  ".join(said)) from error

    def _doubled_keys(self, batch: Any, model: dict[str, Any]) -> str:
        keys = [quoted(key) for key in as_list(model["config"]["unique_key"])]
        names = ", ".join(keys)
        doubled = is_duplicate(keys, bool(model["config"].get("null_safe_keys")))
        rows = self.adapter.execute(
            "select count(*) as dbt_key_rows, "
            f"to_json(struct({', '.join(shown(keys, model))}), map('ignoreNullFields', 'false')) "
            f"from {batch} group by {names} having {doubled} "
            f"order by 1 desc, {names} limit {SHOWN + 1}",
            fetch=True,
        )[1].rows
        found = [f"{count} rows have the key {key}" for count, key in list(rows)[:SHOWN]]
        return ", ".join(found) + (", and more keys" if len(rows) > SHOWN else "")

    def unknown_strategy(self, name: str, project: str) -> DbtRuntimeError:
        """Return the error for a strategy that neither this adapter nor the project has."""
        macro = f"get_incremental_{name.replace('+', '_')}_sql"
        return DbtRuntimeError(
            f"unknown incremental_strategy {name!r}\n"
            "  why: dbt could not find an incremental strategy macro with the name "
            f'"{macro}" in {project}\n'
            f"  fix: name one of {', '.join(STRATEGIES)}, or write that macro"
        )
