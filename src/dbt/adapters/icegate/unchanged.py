"""Nodes that needn't run, since their tables already have what they would make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.icegate.task import rehearsal
from icegate.environments import VARIABLE
from icegate.gate import refs
from icegate.gate.build import INVOCATION_STAMP
from icegate.unchanged.seen import Seen

if TYPE_CHECKING:
    from icegate.unchanged.skips import Skips

logger = AdapterLogger("Icegate")

OPTION = "skip_unchanged"


def is_wanted(config: Any) -> bool:
    """Tell whether dbt_project.yml lets nodes be left out, so that Spark may not be needed."""
    kinds = ("models", "seeds", "snapshots")
    return any(OPTION in str(getattr(config, kind, "")) for kind in kinds)


class Unchanged:
    """What one dbt command leaves out of its nodes with `skip_unchanged`, and remembers of them."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self._skips: Skips | None = None
        self._may_skip = True

    def at_hooks(self, task: Any, when: str) -> None:
        """Begin before the first node, and keep how nodes left their tables after the last."""
        lake, config = self.adapter.embedded_lake, self.adapter.config
        if when == "on-run-start":
            self._skips = None
            # An environment writes in its own schemas only, so there is no memory of it.
            wanted = not os.environ.get(VARIABLE) and any(
                node.config.get(OPTION) for node in task.manifest.nodes.values()
            )
            if wanted and lake is not None and not rehearsal(task):
                from icegate.unchanged.parts import Parts  # with sqlglot: a tenth of a second
                from icegate.unchanged.skips import Skips

                variables = {**config.vars.to_dict(), **config.cli_vars}
                self._skips = Skips(Parts(lake, task.manifest, variables, self._landing))
            full = getattr(task.args, "full_refresh", None) or os.environ.get("ICEGATE_FULL") == "1"
            self._may_skip = not full
        elif self._skips is not None:
            done = (r.node.unique_id for r in task.node_results if str(r.status) == "success")
            self._skips.save(done)

    def look(self, model: Mapping[str, Any]) -> str:
        """Return since when a node is unchanged; nothing where it has to run."""
        config = model["config"]
        if self._skips is None or not config.get(OPTION):
            return ""
        may_skip = self._may_skip and not config.get("full_refresh")
        is_unchanged, why = self._skips.look(model, self._seen(), may_skip=may_skip)
        if not is_unchanged:
            logger.debug(f"runs={model['schema']}.{model['alias']} why={why!r}")
        return why if is_unchanged else ""

    def left(self, node: Any) -> None:
        """Remember how a node left its table, as it ends."""
        if self._skips is None or not self._skips.has_begun(node):
            return
        with suppress(Exception):  # of a Spark that is gone: the node itself has said so
            key, own = self._signature()
            self._skips.left(node.unique_id, self._seen(), lambda s: s.get(key) == own)

    def _signature(self) -> tuple[str, str]:
        """Return what the summaries of this process's snapshots have, and nobody else's.

        A server's application commits for all its sessions, and those of a build sign.
        """
        build = self.adapter.gate().build
        if build is not None:
            return INVOCATION_STAMP, build.invocation_id
        session = self.adapter.connections.get_thread_connection().handle.session
        return "spark.app.id", session.sparkContext.applicationId

    def _seen(self) -> Seen:
        build = self.adapter.gate().build
        branch = build.branch if build else refs.MAIN
        return Seen(self.adapter.embedded_lake, branch, dict(self.adapter.Relation.staged))

    def _landing(self, source: Any) -> Any:
        return self.adapter.Relation.create_from(self.adapter.config, source).landing
