"""Personal data in what dbt writes: none in models for the public, masked in failing rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from icegate.errors import ConfigError
from icegate.gate.staging import final_names
from icegate.pii import HIDDEN, masked_sql
from icegate.tables.state import quote

if TYPE_CHECKING:
    from icegate.lineage import Lineage

TAG = "public"
SHOWN = 5  # columns in a message
# A model's SQL as of its first run, without a look at files or tables.
AS_FIRST_RUN = {"is_incremental": lambda: False, "not_yet_loaded": lambda *_: "true"}


class Personal:
    """The personal data of one dbt command; ``task`` is dbt's, ``relation`` the adapter's class."""

    def __init__(self, task: Any = None, relation: Any = None) -> None:
        self._task, self._relation = task, relation
        self._one_at_a_time = threading.Lock()  # what is known of a node is made of others

    def check(self, node: Any) -> None:
        """Raise ``ConfigError`` where personal data reaches a public model that is to be written.

        A masking macro on the way keeps it from that.
        """
        if self._task is None or TAG not in (getattr(node, "tags", None) or ()):
            return
        from icegate.lineage import name_of  # with sqlglot: a tenth of a second

        with self._one_at_a_time:
            ways = [*self._ways(node)]
        if ways:
            more = f" … and {len(ways) - SHOWN} more" if len(ways) > SHOWN else ""
            raise ConfigError(
                f"cannot write {name_of(node)}: it is tagged `{TAG}`, and personal data reaches it",
                why="; ".join(ways[:SHOWN]) + more,
                fix="mask it by a macro of macros/anonymise, or leave it out; where a column on "
                "the way holds no personal data, say so there: `meta: {pii: false}`",
            )

    def masked(self, test: Mapping[str, Any], sql: str) -> str:
        """Return a test's query with the personal data in its rows masked, to store them.

        Of a query that can't be followed, the rows are stored without their values.
        """
        with self._one_at_a_time:
            found = self._known.personal(self._final(sql), test["depends_on"]["nodes"])
        if found is None:
            return f"select '{HIDDEN}' as hidden_row from (\n{sql}\n) as failing"
        if not any(found.values()):
            return sql
        named = {quote(name): kind for name, kind in found.items()}
        items = (f"{masked_sql(name, k)} as {name}" if k else name for name, k in named.items())
        return f"select\n    {', '.join(items)}\nfrom (\n{sql}\n) as failing"

    @cached_property
    def _known(self) -> Lineage:
        from icegate.lineage import Lineage

        manifest = self._task.manifest
        return Lineage(
            {**manifest.sources, **manifest.nodes},
            self._code,
            lambda source: self._relation.create_from(self._task.config, source).landing,
        )

    def _ways(self, node: Any) -> Iterator[str]:
        from icegate.lineage import ANY, Origin

        known = self._known
        for column in [*known.columns(node.unique_id), ANY]:
            to = Origin(node.unique_id, column)
            said, way = known.said(to), known.way(*to)
            if said is False and getattr(node, "language", "") == "python":  # its author knows
                continue
            if way:
                yield f"{column} comes from {' from '.join(known.shown(origin) for origin in way)}"
            elif said:
                yield f"{column} says of itself `pii: {said}`"

    def _code(self, node: Any) -> str:
        """Return a model's compiled SQL; one that this command doesn't run is compiled for it."""
        if not node.compiled_code:
            compiler, manifest = self._task.compiler, self._task.manifest
            node = compiler.compile_node(deepcopy(node), manifest, AS_FIRST_RUN, write=False)
        return self._final(node.compiled_code)

    def _final(self, sql: str) -> str:
        return final_names(sql, dict(self._relation.staged))
