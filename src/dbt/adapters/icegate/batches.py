"""How a batch of rows gets into a table: what its strategy means, and running it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.column import SparkColumn
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.merges import MergeEngine
from dbt.adapters.icegate.metadata import embedded_metadata
from icegate.hash_key import with_key
from icegate.merge.bounds import with_uuids
from icegate.merge.plans import MODE, ON_READ
from icegate.merge.run import Merge
from icegate.merge.statements import DOUBLED, doubled_keys, doubled_sql
from icegate.tables import windows
from icegate.tables.merge_plan import Columns, MergePlan

logger = AdapterLogger("Icegate")


class Batches:
    """The methods behind `adapter.batches()`."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    @as_dbt_error()
    def plan(self, model: dict[str, Any], arg_dict: dict[str, Any]) -> MergePlan:
        """Check what dbt hands to a strategy, and the configs, against the columns there are."""
        return self._plan(model, arg_dict, *self._columns(arg_dict))

    def _plan(
        self, model: dict[str, Any], arg_dict: dict[str, Any], *found: list[SparkColumn]
    ) -> MergePlan:
        table, batch = ([column.name for column in columns] for columns in found)
        wanted = arg_dict.get("dest_columns")  # dbt-spark's own callers have none
        columns = Columns(table, batch, [c.name for c in wanted] if wanted else table)
        return MergePlan(model, arg_dict, columns)

    def _columns(self, arg_dict: dict[str, Any]) -> list[list[SparkColumn]]:
        relations = (arg_dict[of] for of in ("target_relation", "temp_relation"))
        return [self.adapter.get_columns_in_relation(relation) for relation in relations]

    @as_dbt_error()
    def window(self, model: dict[str, Any]) -> windows.Window:
        """Return the span of event time that this batch of a microbatch model replaces."""
        return windows.Window(model)

    def rewrites_files(self, model: dict[str, Any], profiles: dict[str, Any]) -> bool:
        """Tell whether a merge into the model's table is copy-on-write, Iceberg's default."""
        return self._properties(model, profiles).get(MODE) != ON_READ

    def _properties(self, model: dict[str, Any], profiles: dict[str, Any]) -> dict[str, str]:
        given = (model["config"].get(of) for of in ("table_profile", "tblproperties"))
        return self.adapter.table_properties(*given, profiles)

    @as_dbt_error()
    def merge(
        self, model: dict[str, Any], arg_dict: dict[str, Any], profiles: dict[str, Any]
    ) -> str:
        """Run what a merge needs before its last statement, and return that."""
        target, batch = arg_dict["target_relation"], arg_dict["temp_relation"]
        properties = self._properties(model, profiles)
        found = self._columns(arg_dict)
        of_table, of_batch = ({c.name.lower(): c.dtype for c in columns} for columns in found)
        kinds = with_uuids(of_table, embedded_metadata(self.adapter, target)), of_batch
        plan = self._plan(model, arg_dict, *found)
        merge = Merge(plan, str(target), str(batch), kinds, properties)
        sql = merge.statement(MergeEngine(self, model, target, batch))
        if merge.told:
            logger.info(merge.told)
        if merge.warning:
            logger.warning(merge.warning)
        return sql

    def is_known_empty(self, view: str) -> bool:
        """Tell whether the plan alone says that ``view`` has no row, as with `where false`."""
        _, plan = self.adapter.execute(f"explain select * from {view}", fetch=True)
        return bool(re.match(r"== Physical Plan ==\s+LocalTableScan <empty>", plan.rows[0][0]))

    def session(self) -> Any:
        """Return the session that a node goes on in, None where SQL is all that can be sent."""
        work = getattr(self.adapter.connections.get_thread_connection().handle, "work", None)
        return work.enter() if work else None

    def hold(self, view: str, sql: str) -> None:
        """Compute ``sql`` once and put the temporary view ``view`` over its rows, for this node.

        A copy-on-write merge reads its source twice: to find the files to rewrite, then to write
        them. Where the two readings differ, rows double; Spark refuses `rand()` there, but can't
        see a `limit` without an order. Without a session (Thrift) it stays so.
        """
        session, connections = self.session(), self.adapter.connections
        if session is None:
            self.adapter.execute(f"create or replace temporary view {view} as {sql}")
            return
        handle = connections.get_thread_connection().handle
        with connections.exception_handler(sql), handle.work.running():
            handle.held.append(view)
            rows = session.sql(with_key(session, sql))
            lake = self.adapter.embedded_lake
            # What a worker holds is lost with it.
            is_kept = lake is not None and lake.keeps_checkpoints
            held = rows.checkpoint() if is_kept else rows.localCheckpoint()
            held.createOrReplaceTempView(view)

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
                found = self.doubled_keys(batch, model)
                said[1] = f"why: {found}" if found else said[1]  # rows may be drawn anew
            raise DbtRuntimeError("\n  ".join(said)) from error

    def doubled_keys(self, batch: Any, model: dict[str, Any]) -> str:
        """Return which keys a batch has twice, in words."""
        rows = self.adapter.execute(doubled_sql(str(batch), model), fetch=True)[1].rows
        return doubled_keys([tuple(row) for row in rows])
