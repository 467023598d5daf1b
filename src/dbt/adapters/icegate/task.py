"""What dbt's running task tells: which nodes there are, what became of them, and its last line."""

from __future__ import annotations

import sys
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.artifacts.schemas.results import RunStatus, TestStatus
from dbt_common.events.base_types import EventLevel, EventMsg
from dbt_common.events.event_manager_client import add_callback_to_manager
from dbt_common.events.functions import fire_event
from dbt_common.events.types import Note
from dbt_common.exceptions import DbtRuntimeError

from icegate.catalog import catalog_of
from icegate.errors import some_of
from icegate.settings import Lake
from icegate.tables.model_checks import no_session

logger = AdapterLogger("Icegate")


def calling_task(hook_phase_frame: Any) -> tuple[Any, str] | None:
    """Return dbt's task and the phase of hooks, when that is what calls the adapter.

    dbt gives results to hooks only, and a hook of ours would be counted among the results.
    """
    names = hook_phase_frame.f_locals
    task = names.get("self")
    if "hook_type" not in names or not hasattr(task, "node_results"):
        return None
    return task, str(names["hook_type"].value)


def retried_invocation() -> str:
    """Return the id of the invocation that `dbt retry` repeats, or nothing in another command."""
    frame = sys._getframe()
    while frame is not None:
        previous = getattr(frame.f_locals.get("self"), "previous_results", None)
        if previous is not None and hasattr(previous, "metadata"):
            return str(previous.metadata.invocation_id)
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def begun_anew(task: Any) -> set[str]:
    """Return the nodes that a task runs from their beginning, by unique id.

    Of a microbatch model that got half through, `dbt retry` repeats the other half only.
    """
    half_done = getattr(task, "batch_map", None) or {}
    return {node.unique_id for node in task._flattened_nodes or ()} - half_done.keys()


def writes(task: Any) -> bool:
    """Tell whether a command can write tables: `dbt test` alone has no build."""
    from dbt.task.test import TestTask

    return not isinstance(task, TestTask)


def fit_nodes(task: Any, when: str, credentials: Any, lake: Lake | None) -> None:
    """Raise before anything is written for nodes that a target can't build by SQL alone.

    Models that are views are built as tables where the catalog has no views.
    """
    if when != "on-run-start":
        return
    nodes = list(task._flattened_nodes or ())
    in_python = sorted(
        node.name
        for node in nodes
        if node.resource_type == "seed" or getattr(node, "language", "sql") == "python"
    )
    if in_python and not credentials.has_session:
        raise DbtRuntimeError(str(no_session(credentials.method, in_python)))
    if lake is not None and not catalog_of(lake).has_views:
        _views_as_tables(nodes, task.manifest)


def _views_as_tables(nodes: list[Any], manifest: Any) -> None:
    views = {
        id: node
        for id, node in manifest.nodes.items()
        if node.resource_type == "model" and node.config.materialized == "view"
    }
    for node in views.values():
        node.config.materialized = "table"
    if built := [node.name for node in nodes if node.unique_id in views]:
        logger.info(f"the catalog has no views, so these are built as tables: {some_of(built)}")


def rehearsal(task: Any) -> str:
    """Return the option that makes a command a rehearsal: its rows are too few for readers."""
    return next((f"--{name}" for name in ("empty", "sample") if getattr(task.args, name, None)), "")


def fail_nodes(task: Any, gated: dict[str, str], why: dict[str, str]) -> None:
    """Make the nodes of tables that can't be published errors, so that dbt says so and exits 1.

    `dbt retry` builds them anew, and repeats those of their tests that count as left out here.
    """
    failed = {id: why[table] for id, table in gated.items() if table in why}
    for result in task.node_results:
        id = result.node.unique_id
        if id in failed and result.status == "success":
            result.status, result.message = RunStatus.Error, failed[id]
            logger.error(failed[id])
        elif result.status in ("pass", "warn") and failed.keys() & {*result.node.depends_on_nodes}:
            result.status = TestStatus.Skipped
            result.message = "a table that it reads can't be published"


def tell_at_end(text: str, level: EventLevel = EventLevel.INFO) -> None:
    told: list[bool] = []

    def tell(message: EventMsg) -> None:
        if message.info.name == "StatsLine" and not told:  # what dbt says at its very end
            told.append(True)
            fire_event(Note(msg=text), level=level)

    add_callback_to_manager(tell)
