"""The gate in a dbt command: it begins before the first node and ends after the last."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import Any, ClassVar

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.events.base_types import EventLevel
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

from dbt.adapters.icegate import task as of_dbt
from dbt.adapters.icegate.environments import begin_with_past
from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import embedded_metadata
from icegate.errors import IcegateError
from icegate.gate import refs, staging, views
from icegate.gate.build import Build, check_name, hold_alive, is_own_name
from icegate.gate.decision import Request
from icegate.gate.guard import guarding
from icegate.gate.ledger import warm_up
from icegate.gate.publish import discard, earlier_build, finish, record
from icegate.gate.report import Report, merge, report_of
from icegate.gate.store import edit
from icegate.gate.summary import describe, errors_of, rehearsed
from icegate.gate.writes import writing
from icegate.history.reads import Source
from icegate.locks import loading
from icegate.nodes import gated_tables
from icegate.public import Personal
from icegate.session import running_session
from icegate.tables.changes import Change
from icegate.tables.model_checks import no_gate

logger = AdapterLogger("Icegate")

# The first Iceberg that reads an earlier version of a table whose branch the session writes to.
READS_PAST = (1, 12)


class Gate:
    """What one dbt command does through the gate; without a build it does nothing."""

    # dbt may be interrupted in a process that goes on: then nobody ended the build.
    running: ClassVar[Gate | None] = None

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.build: Build | None = None
        self.gated: dict[str, str] = {}  # unique id -> schema.table
        self._held = ExitStack()  # the build's locks, and what guards its tables
        self.rehearsal = ""  # the option that makes it one
        self._earlier: list[Report] = []  # of the build that `dbt retry` goes on with
        self._quarantined: dict[str, int] = {}
        self._sessions: list[Any] = []  # whose writes go to the branch
        self.personal = Personal()

    def holds(self, model: dict[str, Any]) -> bool:
        """Tell whether a node writes to the branch of the running build."""
        return self.build is not None and model["unique_id"] in self.gated

    @as_dbt_error()
    def begin_node(self, node: Any) -> ExitStack:
        """Hold what a node needs while it writes its table, until that is closed."""
        self.personal.check(node)
        self.adapter.tables().make_tags(node)
        held = ExitStack()
        held.callback(loading.end)
        table = self.gated.get(getattr(node, "unique_id", ""))
        if self.build is not None and table is not None:
            held.enter_context(writing(self.adapter.embedded_lake, self.build, table))
        held.callback(self.adapter.unchanged().left, node)  # first of all, while the table is held
        return held

    def quarantined(self, table: str, rows: int) -> str:
        """Count rows that go into quarantine; return whose they are: none's in a rehearsal."""
        if rows:
            self._quarantined[table] = self._quarantined.get(table, 0) + rows
        name = self.build.name if self.build else get_invocation_id()[:8]
        return "" if self.rehearsal else name

    def stage(self, model: dict[str, Any]) -> None:
        """Build a node's table or view beside the one that readers see, from here on.

        An existing table is cloned; what reads the node in this build reads the staged one.
        """
        assert self.build is not None
        lake, final = self.adapter.embedded_lake, self.gated[model["unique_id"]]
        as_view = model["config"].get("materialized") == "view"
        staging.stage(lake, final, self.build.name, as_view=as_view)
        self._redirect([final])

    def location(self, model: dict[str, Any]) -> str:
        """Return where a new table that is built beside has its files: it keeps them there."""
        if self.build is None or not self.is_staged(model):
            return ""
        final = self.gated[model["unique_id"]]
        return staging.new_location(self.adapter.embedded_lake, final, self.build.name)

    def must_stage(self, model: dict[str, Any], changes: list[Change]) -> bool:
        """Tell whether changes of a table would reach readers before it's published."""
        open_to_readers = self.holds(model) and not self.is_staged(model)
        return open_to_readers and any(change.is_seen for change in changes)

    def is_staged(self, model: dict[str, Any]) -> bool:
        """Tell whether a node's table or view is built beside the one that readers see."""
        return self.gated.get(model["unique_id"]) in self.adapter.Relation.staged

    def changes_view(self, model: dict[str, Any], existing: Any, sql: str) -> bool:
        """Tell whether a gated view is new or has another text than the one that readers see."""
        if not self.holds(model) or self.is_staged(model):
            return False
        known = embedded_metadata(self.adapter, existing) if existing is not None else None
        return known is None or not views.is_same(known, sql)

    def look_around(self) -> None:
        """See what other processes of a named build have built beside since."""
        if self.build is not None and self.build.named:
            lake, tables = self.adapter.embedded_lake, self.gated.values()
            self._redirect(staging.staged_finals(lake, tables, self.build.name))

    def _redirect(self, finals: Iterable[str]) -> None:
        build = self.build.name if self.build else ""
        names = {final: staging.staging_name(final, build) for final in finals}
        # In one step: other threads do it, too, and who goes through it takes a copy.
        self.adapter.Relation.staged.update(names)

    def open_branch(self, model: dict[str, Any]) -> None:
        """Begin the branch of a node's table where its `main` is, before the first write."""
        if self.build is not None and self.holds(model) and not self.is_staged(model):
            branch, table = self.build.branch, self.gated[model["unique_id"]]
            edit(self.adapter.embedded_lake, table, lambda old: refs.open_branch(old, branch))

    @as_dbt_error()
    def as_of(self, relation: Any, asked: dict[str, Any]) -> str:
        """Return the SQL that reads a table as it was."""
        return self._source(relation).as_of(asked)

    @as_dbt_error()
    def changes(self, relation: Any, since: Any, until: Any, key: Any) -> str:
        """Return the SQL that reads what changed between two versions of a table."""
        return self._source(relation).changes(since, until, key)

    def _source(self, relation: Any) -> Source:
        return self.source(f"{relation.schema}.{relation.identifier}", str(relation))

    def source(self, name: str, sql: str) -> Source:
        """Return a table whose versions are read, in the running build if there is one."""
        lake, build = self.adapter.embedded_lake, self.build
        if build is None:
            return Source(lake, name, sql)
        is_old = lake is not None and self.iceberg < READS_PAST
        return Source(lake, name, sql, build.branch, build.name if is_old else "")

    @cached_property
    def iceberg(self) -> tuple[int, ...]:
        """The version of the Iceberg that this process's statements run on."""
        asked = f"select {self.adapter.embedded_lake.catalog}.system.iceberg_version()"
        ((said,),) = self.adapter.execute(asked, fetch=True)[1].rows
        return tuple(int(part) for part in re.findall(r"\d+", said)[:2])

    def replaced(self, model: dict[str, Any], relation: Any, existing: Any) -> Any:
        """Return the table whose rows a build replaces, if there is one.

        What readers don't have yet is built beside, so that they see it at publish only; another
        process of this build may have begun it since dbt listed the tables.
        """
        if not self.holds(model) or (existing is not None and not existing.is_view):
            return existing
        self.stage(model)
        return relation if embedded_metadata(self.adapter, relation) else None

    def is_there(self, relation: Any, found: Any) -> bool:
        """Tell whether dbt is to take a table as existing, when the catalog has it or not.

        One that a build writes for the first time is; one that readers have no rows of isn't.
        """
        name = f"{relation.schema}.{relation.identifier}"
        gated = self.build is not None and name in self.gated.values()
        metadata = embedded_metadata(self.adapter, relation) if gated else None
        if metadata is None or "table-uuid" not in metadata:  # a view
            return found is not None
        return refs.head(metadata) is not None

    def at_hooks(self, task: Any, when: str) -> None:
        """Begin or end a build: dbt is about to run the hooks before or after all nodes."""
        if when == "on-run-start":
            self.begin(task)
            return begin_with_past(self.adapter, task)
        self.adapter.connections.met.note(task.node_results)
        if self.build is not None:
            try:
                self.end(task)
            finally:
                self._leave()

    def begin(self, task: Any) -> None:
        """Send the writes of gated nodes to the branch of a build."""
        if Gate.running is not None:
            with suppress(Exception):  # its session may be gone
                Gate.running._leave()
        self.personal = Personal(task, self.adapter.Relation)
        self.rehearsal, self._quarantined, self._earlier = of_dbt.rehearsal(task), {}, []
        name = "" if self.rehearsal else os.environ.get("ICEGATE_RELEASE", "")
        retried = "" if self.rehearsal or name else of_dbt.retried_invocation()
        if not self.adapter.config.credentials.gate or not (name or retried or of_dbt.writes(task)):
            return
        if self.adapter.embedded_lake is None:
            raise DbtRuntimeError(str(no_gate()))
        self.gated = gated_tables(task.manifest.nodes)
        if not self.gated:
            return
        invocation = get_invocation_id()
        if retried:
            name, self._earlier = earlier_build(self.adapter.embedded_lake, retried)
            if not name and not of_dbt.writes(task):
                return
        named = bool(name) and not (retried and is_own_name(name))
        self.build = Build(check_name(name) if name else invocation[:8], invocation, named)
        lake = self.adapter.embedded_lake
        self._held.enter_context(hold_alive(lake, self.build.name))
        if retried and not named:
            anew = of_dbt.begun_anew(task) & self.gated.keys()
            staging.drop_overtaken(lake, [self.gated[id] for id in anew], self.build.name)
        self._redirect(staging.staged_finals(lake, self.gated.values(), self.build.name))
        Gate.running = self
        # Spark needn't run before a node needs it.
        type(self.adapter.connections).at_session = self._enter
        with as_dbt_error():
            endpoint = self.adapter.config.credentials.server(lake)
        running = running_session(lake, endpoint)
        for session in (running, *self.adapter.connections.thrift.opened):
            if session is not None:
                self._enter(session)
        self._held.enter_context(guarding(self._is_protected, remote=endpoint is not None))
        threading.Thread(target=warm_up, daemon=True).start()  # what publishing imports

    def end(self, task: Any) -> None:
        """Publish what passed and tell it after dbt's own last line."""
        build = self.build
        assert build is not None
        credentials = self.adapter.config.credentials
        request = Request(
            build=build.name,
            invocation_id=build.invocation_id,
            command=f"dbt {task.args.which}",
            target=self.adapter.config.target_name,
            scope=credentials.gate_scope,
            require_tests=credentials.gate_require_tests,
        )
        lake, report = self.adapter.embedded_lake, report_of(task, self.gated)
        try:
            if self.rehearsal:
                discard(lake, build.name)
                return of_dbt.tell_at_end(rehearsed(self.rehearsal, report))
            if build.named:
                outcome = record(lake, report, request)
            else:
                outcome = finish(lake, merge([*self._earlier, report]), request)
        except IcegateError as error:
            of_dbt.fail_nodes(task, self.gated, dict.fromkeys(self.gated.values(), str(error)))
            return
        of_dbt.fail_nodes(task, self.gated, errors_of(outcome))
        level = EventLevel.ERROR if outcome.held or outcome.blocked else EventLevel.INFO
        outcome.quarantined = self._quarantined
        of_dbt.tell_at_end(describe(outcome), level)

    def _enter(self, session: Any) -> None:
        """Send a session's writes to the branch; a thread may get the one that others have."""
        if self.build is not None and session not in self._sessions:
            self._sessions.append(session)
            self.build.enter(session)
            self._held.callback(self.build.leave, session)

    def _leave(self) -> None:
        type(self.adapter.connections).at_session = None
        self._sessions = []
        self.adapter.Relation.staged = {}
        self.build = Gate.running = None
        self._held.close()

    def _is_protected(self, name: str) -> bool:
        """Tell whether readers have a table of this name, or get it when the build is published."""
        own = (table if "." in name else table.partition(".")[2] for table in self.gated.values())
        return any(f".{name}".endswith(f".{table}") for table in own)
