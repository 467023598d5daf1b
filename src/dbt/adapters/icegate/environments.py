"""Incremental models that an environment builds for the first time begin with production's past."""

from __future__ import annotations

from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.task import rehearsal
from icegate.history.reads import Source

logger = AdapterLogger("Icegate")


@as_dbt_error()
def begin_with_past(adapter: Any, task: Any) -> None:
    """Copy the tables of selected models with `from_history` that aren't there yet.

    As dbt is about to run its hooks: it knows by then what `--defer` reads, and compiles the
    models afterwards, so that `is_incremental()` is true of the first run too.
    """
    deferred = getattr(task.args, "defer", False) and not rehearsal(task)
    if not deferred or task.args.full_refresh or adapter.config.credentials.gate:
        return
    for selected in task._flattened_nodes or ():
        node = task.manifest.nodes.get(selected.unique_id)
        asked = node.config.get("from_history") if node else None
        if asked and node.config.get("materialized") == "incremental":
            _copy(adapter, node, asked)


def _copy(adapter: Any, node: Any, asked: Any) -> None:
    known, relation = node.defer_relation, adapter.Relation.create_from(adapter.config, node)
    if known is None or (known.schema, known.alias) == (node.schema, node.alias):
        return
    relation = relation.incorporate(type="table")
    if adapter.get_relation(None, node.schema, node.alias) is not None:
        return
    name = f"{known.schema}.{known.alias}"
    source = Source(adapter.embedded_lake, name, name)
    layout, read = source.copied(None if asked is True else asked)
    adapter.execute(f"create table {relation} using iceberg {layout} as\nselect * from {read}")
    adapter.cache_added(relation)
    logger.info(f"table={node.schema}.{node.alias} begins_with={read!r}")
