"""What dbt's running task tells: which nodes there are, what became of them, and its last line."""

from __future__ import annotations

import sys
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.events.base_types import EventLevel, EventMsg
from dbt_common.events.event_manager_client import add_callback_to_manager
from dbt_common.events.functions import fire_event
from dbt_common.events.types import Note

from icegate.gate.report import HALF_DONE, Node, Report, TestRun

logger = AdapterLogger("Icegate")

WRITTEN = ("table", "incremental", "seed", "snapshot", "view")
LAST_EVENT = "StatsLine"  # what dbt says at its very end


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


def rehearsed(option: str, report: Report) -> str:
    """Return the line that ends a rehearsal."""
    built = [node.table for node in report.nodes.values() if node.status == "success"]
    text = f"\nrehearsal ({option}): {len(built) - built.count(None)} built and dropped again"
    straight = f" · {built.count(None)} not gated, so written" if None in built else ""
    return f"{text}, nothing published{straight}"


def rehearsal(task: Any) -> str:
    """Return the option that makes a command a rehearsal: its rows are too few for readers."""
    return next((f"--{name}" for name in ("empty", "sample") if getattr(task.args, name, None)), "")


def gated_tables(nodes: dict[str, Any]) -> dict[str, str]:
    """Return the tables that the gate holds, by the unique id of their node."""
    found = {}
    for id, node in nodes.items():
        config = node.config
        if getattr(config, "materialized", None) not in WRITTEN or config.get("gate") is False:
            continue
        if (config.get("file_format") or "iceberg") == "iceberg" and config.get("enabled", True):
            found[id] = f"{node.schema}.{node.alias}"
    ancestors = _Ancestors(nodes)
    snapshots = [id for id in found if nodes[id].resource_type == "snapshot"]
    for id in snapshots:
        if not any(parent in found for parent in ancestors(id)):
            del found[id]
    return found


class _Ancestors:
    """All nodes above one, each looked up once."""

    def __init__(self, nodes: dict[str, Any]) -> None:
        self.nodes = nodes
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, id: str) -> frozenset[str]:
        if id not in self._known:
            node = self.nodes.get(id)
            parents = node.depends_on_nodes if node else []
            self._known[id] = frozenset(parents).union(*(self(parent) for parent in parents))
        return self._known[id]


def report_of(task: Any, gated: dict[str, str]) -> Report:
    """Return what the task's nodes did, and how each test of theirs ended."""
    nodes = task.manifest.nodes
    results = {result.node.unique_id: result for result in task.node_results}
    ancestors, known = _Ancestors(nodes), results.keys() | gated.keys()
    ran = {
        id: Node(
            id=id,
            name=result.node.name,
            status=_NODE_STATUS.get(str(result.status), "error"),
            table=gated.get(id),
            ancestors=tuple(
                sorted(p for p in ancestors(id) if p in known or p.startswith("source."))
            ),
        )
        for id, result in results.items()
        if result.node.resource_type in ("model", "seed", "snapshot")
    }
    tests = {}
    for id, node in nodes.items():
        if node.resource_type == "test":
            test = _test_run(node, results.get(id), nodes)
            if id in results or ran.keys() & {*test.nodes, test.attached}:
                tests[id] = test
    return Report(ran, tests)


_NODE_STATUS = {
    "success": "success",
    "no-op": "success",
    "skipped": "skipped",
    "partial success": HALF_DONE,
}


def _test_run(node: Any, result: Any, nodes: dict[str, Any]) -> TestRun:
    attached = getattr(node, "attached_node", None)
    read = _tables_read(node.depends_on_nodes, nodes)
    is_view = attached in nodes and nodes[attached].config.get("materialized") == "view"
    return TestRun(
        id=node.unique_id,
        name=node.name,
        nodes=tuple(sorted(read)),
        status=str(result.status).replace("runtime ", "") if result else "absent",
        # A view shows what its tables have: all of them are what fails.
        attached=attached if attached in read and not is_view else None,
        blocks=str(node.config.severity).lower() == "error",
        failures=result.failures if result else None,
    )


def _tables_read(read: list[str], nodes: dict[str, Any]) -> set[str]:
    """Return all that is read, and what views and ephemeral models among it read."""
    found = set()
    for id in read:
        node = nodes.get(id)
        kind = node.config.get("materialized") if node is not None else ""
        if node is not None and kind in ("view", "ephemeral"):
            found |= _tables_read(node.depends_on_nodes, nodes)
        if kind != "ephemeral":
            found.add(id)
    return found


def fail_nodes(task: Any, gated: dict[str, str], why: dict[str, str]) -> None:
    """Make the nodes of tables that can't be published errors, so that dbt says so and exits 1."""
    from dbt.artifacts.schemas.results import RunStatus

    for result in task.node_results:
        table = gated.get(result.node.unique_id, "")
        if table in why and result.status == RunStatus.Success:
            result.status, result.message = RunStatus.Error, why[table]
            logger.error(why[table])


def tell_at_end(text: str, level: EventLevel = EventLevel.INFO) -> None:
    told: list[bool] = []

    def tell(message: EventMsg) -> None:
        if message.info.name == LAST_EVENT and not told:
            told.append(True)
            fire_event(Note(msg=text), level=level)

    add_callback_to_manager(tell)
