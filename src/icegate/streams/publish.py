"""A stream behind the gate: its rows go to a branch, which is tested and published now and then."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from icegate.audits.answer import Prover
from icegate.audits.ask import ask
from icegate.audits.tests import DataTest, all_tests
from icegate.errors import ConfigError, GateError
from icegate.gate import refs
from icegate.gate.build import Build, hold_alive
from icegate.gate.decision import Outcome, Request
from icegate.gate.publish import finish
from icegate.gate.quarantine import Rule, Wanted, fails_by_one_row, kind_of, rules_of
from icegate.gate.report import Node, Report, TestRun
from icegate.gate.store import edit, read_tables
from icegate.nodes import read_manifest
from icegate.settings import Lake
from icegate.streams.config import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class Gate:
    """Sends a stream's writes to the branch of a named build, and publishes that by its tests.

    While tests fail the stream goes on, on the same branch, and readers have what they had.
    """

    def __init__(
        self, lake: Lake, stream: Stream, project: Path, target: str, models: Models
    ) -> None:
        self.lake, self.stream, self.project, self.target = lake, stream, project, target
        self.models, self.tables = models, [*models.ids]
        self._compiled: dict[str, str] = {}  # the queries of tests, by how they are written
        with suppress(GateError):  # there is time until something is published
            self._tests()
        self._held = ExitStack()
        self.build = self._begin(self._open_build())
        self._tested: dict[str, int | None] = {}  # where the branches were when they were tested

    def enter(self, session: SparkSession) -> None:
        """Send a session's writes and reads of the stream's tables to the branch."""
        for table in self.tables:
            edit(self.lake, table, lambda old: refs.open_branch(old, self.build.branch))
        self.build.enter(session)

    def close(self) -> None:
        """Let go of the build; the next start takes it up again."""
        self._held.close()

    def publish(self, session: SparkSession) -> Outcome | None:
        """Test what is on the branch, and publish it where all is well; None if nothing is new.

        Raises ``GateError`` where a test has no query yet.
        """
        heads = self._heads()
        if not heads or heads == self._tested:
            return None
        tests = self._tests()
        self._tested = heads
        self.enter(session)
        report = Report(self._nodes, {run.id: run for run in self._test(tests, session)})
        request = Request(self.build.name, self.build.invocation_id, "icegate stream", self.target)
        outcome = finish(self.lake, report, request)
        if outcome.release is not None:
            self._held.close()
            self.build = self._begin("")
        return outcome

    def _begin(self, name: str) -> Build:
        name = name or f"{self._prefix}{datetime.now(timezone.utc):%Y%m%d_%H%M%S}"
        self._held.enter_context(hold_alive(self.lake, name))
        return Build(name, uuid.uuid4().hex, named=True)

    @property
    def _prefix(self) -> str:
        return f"stream_{self.stream.name}_"

    def _open_build(self) -> str:
        """Return the build that an earlier process of the stream left, or nothing."""
        found = [
            build
            for table in read_tables(self.lake, self.tables)
            for build in refs.builds(table.metadata)
            if build.startswith(self._prefix)
        ]
        return max(found, default="")

    def _heads(self) -> dict[str, int | None]:
        """Return where the tables' branches are, of those that have rows which `main` lacks."""
        found = {
            table.name: (refs.head(table.metadata, self.build.branch), refs.head(table.metadata))
            for table in read_tables(self.lake, self.tables)
        }
        return {name: at for name, (at, main) in found.items() if at not in (None, main)}

    @property
    def _nodes(self) -> dict[str, Node]:
        return {
            id: Node(id=id, name=table.partition(".")[2], status="success", table=table)
            for table, id in self.models.ids.items()
        }

    def _tests(self) -> list[DataTest]:
        """Return the tests of the stream's tables with the queries that they had last.

        dbt's manifest has none while it builds, and then those alone of what was built.
        """
        found = [test for test in all_tests(self.project) if test.model in self.models.ids]
        self._compiled |= {test.written: test.sql for test in found if test.sql}
        for test in found:
            if test.written not in self._compiled:
                raise GateError(
                    f"cannot run test {test.name} of stream {self.stream.name} yet",
                    why="dbt hasn't compiled it: it's at work, or its last command left it out",
                    fix="wait for its end, or compile it: `dbt compile`",
                )
        return [replace(test, sql=self._compiled[test.written]) for test in found]

    def _test(self, tests: Iterable[DataTest], session: SparkSession) -> Iterator[TestRun]:
        prover = Prover(self.lake)
        for test in tests:
            node = self.models.ids[test.model]
            told = ask(test, prover, lambda sql: session.sql(sql).first(), self.build.branch)
            if told.error:
                log.error("test=%s error=%s", test.name, told.error)
            yield TestRun(
                id=test.name,
                name=test.name,
                nodes=(node,),
                status=told.result,
                attached=node,
                blocks=test.severity == "error",
                failures=told.failures,
                proof=told.proof,
                seconds=told.seconds,
            )
        prover.save()


class Models(NamedTuple):
    """The models that have a stream's tables: their unique ids, and what takes rows away."""

    ids: dict[str, str]  # by table
    rules: dict[str, list[Rule]]  # by table


def read_models(stream: Stream, project: Path) -> Models:
    """Read them from the manifest.

    Raises ``ConfigError`` where a table has none: no test would know it.
    """
    nodes = read_manifest(project, "the tests of the stream's tables")["nodes"]
    known = {
        f"{node['schema']}.{node['alias']}": id
        for id, node in nodes.items()
        if node["resource_type"] == "model"
    }
    for route in stream.routes:
        if route.table not in known:
            raise ConfigError(
                f"cannot publish {route.table} by its tests",
                why="the project has no model of this name, so that no test knows it",
                fix="make one that selects no rows, as models/bronze/commerce/raw_sales.sql does, "
                "or take out `publish` to write to main",
            )
    ids = {route.table: known[route.table] for route in stream.routes}
    return Models(ids, {table: [*_rules(nodes, id)] for table, id in ids.items()})


def _rules(nodes: Mapping[str, Any], model: str) -> Iterator[Rule]:
    """Yield the rules of a model's tests by which its config `quarantine` takes rows away."""
    wanted = Wanted.of(nodes[model]["name"], nodes[model]["config"])
    for node in nodes.values():
        if node.get("attached_node") != model or not node.get("test_metadata"):
            continue
        kind = kind_of(node["test_metadata"]["name"], node["depends_on"]["macros"])
        if kind in wanted.types and fails_by_one_row(node["config"]):
            kwargs, where = node["test_metadata"]["kwargs"], node["config"].get("where")
            yield from rules_of(node["name"], kind, kwargs, where)
