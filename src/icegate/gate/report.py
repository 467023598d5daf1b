"""What the processes of a build did: the nodes that they ran and the verdicts of their tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from icegate.nodes import Ancestors, tables_read
from icegate.packages import standins_in

# Statuses of a test that say it ran and doesn't block.
PASSED = ("pass", "warn")
# Status of a microbatch model of which some batches failed: `dbt retry` repeats only these.
HALF_DONE = "half done"
# By dbt's own statuses; all others are errors.
OF_DBT = {
    "success": "success",
    "no-op": "success",
    "skipped": "skipped",
    "partial success": HALF_DONE,
}


@dataclass(frozen=True)
class Node:
    """A model, seed or snapshot that a process ran.

    ``table`` is `schema.name` where the gate holds it, None for views and what isn't gated.
    ``ancestors`` are the unique ids of all nodes above it, as far as dbt's graph goes; ``head``
    is where its branch was when the process ended.
    """

    id: str
    name: str
    status: str  # success, error, skipped or HALF_DONE
    table: str | None = None
    ancestors: tuple[str, ...] = ()
    head: int | None = None
    conflicts: int = 0  # how often its writes met other writers
    waited_s: float = 0.0  # the most that one of them waited
    how: str = ""  # they met the last time, as `icegate.retries` has it


@dataclass(frozen=True)
class TestRun:
    """A data test that reads a node of the build, run by it or not.

    ``nodes`` are the unique ids of the models that it reads, ``attached`` the one that it's
    declared on. Status `absent` is one that nobody selected.
    """

    __test__ = False  # pytest takes every Test… for its own

    id: str
    name: str
    nodes: tuple[str, ...]
    status: str  # pass, warn, fail, error, skipped or absent
    attached: str | None = None
    blocks: bool = True  # severity: error
    failures: int | None = None
    proof: str = ""  # how it was answered, as `adapter_response` has it
    seconds: float | None = None


@dataclass(frozen=True)
class Report:
    """All that is known of a build: nodes and tests by their unique ids.

    ``standins`` are the dbt packages, with versions, that weren't the real ones.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    tests: dict[str, TestRun] = field(default_factory=dict)
    standins: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as the ledger's JSON has it."""
        return {
            "nodes": [asdict(node) for node in self.nodes.values()],
            "tests": [asdict(test) for test in self.tests.values()],
            "standins": list(self.standins),
        }

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Report:
        """Read what ``to_dict`` made; keys that a newer version added are left out."""
        nodes = (_known(Node, row) for row in found["nodes"])
        tests = (_known(TestRun, row) for row in found["tests"])
        standins = tuple(found.get("standins", ()))
        return cls({n.id: n for n in nodes}, {t.id: t for t in tests}, standins)


def report_of(task: Any, gated: dict[str, str]) -> Report:
    """Return what the nodes of a task of dbt's did, and how each test of theirs ended."""
    nodes = task.manifest.nodes
    results = {result.node.unique_id: result for result in task.node_results}
    ancestors, known = Ancestors(nodes), results.keys() | gated.keys()
    ran = {
        id: Node(
            id=id,
            name=result.node.name,
            status=OF_DBT.get(str(result.status), "error"),
            table=gated.get(id),
            ancestors=tuple(
                sorted(p for p in ancestors(id) if p in known or p.startswith("source."))
            ),
            **_met(result),
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
    return Report(ran, tests, standins_in(task.config))


def merge(reports: Iterable[Report]) -> Report:
    """Return what a build is after all of its processes, the oldest first.

    A table that is written again has to be tested again: what its tests said before is dropped.
    """
    nodes: dict[str, Node] = {}
    tests: dict[str, TestRun] = {}
    standins: set[str] = set()
    for report in reports:
        standins.update(report.standins)
        written = {node.id for node in report.nodes.values() if node.status == "success"}
        for test in report.tests.values():
            known = tests.get(test.id)
            if test.status != "absent" or known is None or written & set(test.nodes):
                tests[test.id] = test
        for node in report.nodes.values():
            if node.status != "skipped" or node.id not in nodes:
                nodes[node.id] = node
    return Report(nodes, tests, tuple(sorted(standins)))


def _test_run(node: Any, result: Any, nodes: dict[str, Any]) -> TestRun:
    attached = getattr(node, "attached_node", None)
    read = tables_read(node.depends_on_nodes, nodes)
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
        proof=str((result.adapter_response or {}).get("proof") or "") if result else "",
        seconds=round(result.execution_time, 3) if result else None,
    )


def _met(result: Any) -> dict[str, Any]:
    response = result.adapter_response or {}
    return {key: response[key] for key in ("conflicts", "waited_s", "how") if key in response}


def _known(kind: Any, row: dict[str, Any]) -> Any:
    names = kind.__dataclass_fields__.keys() & row.keys()
    return kind(**{k: tuple(row[k]) if isinstance(row[k], list) else row[k] for k in names})
