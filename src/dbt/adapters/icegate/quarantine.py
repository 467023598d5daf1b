"""Quarantine in a dbt run: a model's select is computed, and what its tests refuse goes aside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import embedded_metadata
from icegate.gate import quarantine, refs
from icegate.gate.quarantine import FAILED, SUFFIX, Columns, Rule, Wanted

logger = AdapterLogger("Icegate")


class Quarantine:
    """The quarantine of a model while its ``table`` is written, its rows held in ``view``."""

    def __init__(self, adapter: Any, model: dict[str, Any], table: Any, view: Any) -> None:
        self.adapter, self.model, self.table, self.view = adapter, model, table, view
        self.aside = table.incorporate(path={"identifier": f"{table.identifier}{SUFFIX}"})

    @as_dbt_error()
    def split(self, sql: str, is_incremental: bool) -> str:
        """Return the select of the good rows; the others are in quarantine by then."""
        wanted = Wanted.of(self.model["name"], self.model["config"])
        rules = [*self._rules(wanted)]
        if not rules:
            return sql
        held = quarantine.marked(sql, self.model["alias"], rules)
        self.adapter.batches().hold(self.view.identifier, held, None, self.model)
        tests = [*dict.fromkeys(rule.test for rule in rules)]
        counting = quarantine.counting(str(self.view), tests)
        counts = self.adapter.execute(counting, fetch=True)[1].rows[0]
        total, bad, *by_test = (int(count) for count in counts)
        columns = [column for column in self._columns(self.view) if column[0] != FAILED]
        release = self.adapter.gate().quarantined(f"{self.aside.schema}.{self.aside.name}", bad)
        if release:
            self._put_aside(bad, columns, release, is_incremental)
        if bad:
            logger.warning(f"quarantine={self.aside} rows={bad} of={total} release={release}")
        where = f"{self.aside} where icegate_release = '{release}'"
        wanted.check(bad, total, dict(zip(tests, by_test, strict=True)), where)
        return quarantine.good_rows(str(self.view), columns, bad, total)

    def _rules(self, wanted: Wanted) -> Iterator[Rule]:
        from dbt.clients.jinja import GENERIC_TEST_KWARGS_NAME, add_rendered_test_kwargs
        from dbt.context.providers import generate_runtime_model_context

        manifest = self.adapter.get_macro_resolver()
        for node in manifest.nodes.values() if wanted.types else ():
            if getattr(node, "attached_node", None) != self.model["unique_id"]:
                continue
            kind = quarantine.kind_of(node.test_metadata.name, node.depends_on.macros)
            if kind in wanted.types and quarantine.fails_by_one_row(node.config.to_dict()):
                context = generate_runtime_model_context(node, self.adapter.config, manifest)
                add_rendered_test_kwargs(context, node)
                kwargs = context[GENERIC_TEST_KWARGS_NAME]
                yield from quarantine.rules_of(node.name, kind, kwargs, node.config.where)

    def _columns(self, relation: Any) -> Columns:
        return [(c.name, c.dtype) for c in self.adapter.get_columns_in_relation(relation)]

    def _put_aside(self, bad: int, columns: Columns, release: str, is_incremental: bool) -> None:
        name, now = str(self.aside), self._columns(self.aside)
        if bad:
            for statement in quarantine.shaping(name, now, columns, release):
                self.adapter.execute(statement)
            now = self._columns(self.aside)
        if now:  # without bad rows there may be those of an earlier attempt
            batch = self._batch(is_incremental)
            sql = quarantine.filling(name, now, str(self.view), columns, release, batch)
            self.adapter.batches().write(sql, None, self.model)

    def _batch(self, is_incremental: bool) -> str:
        """Return what of its build a write repeats: a batch, or without one all.

        A batch that came through moved the table, and its bad rows won't be read again.
        """
        if self.model.get("batch"):
            return str(self.model["batch"]["id"])
        metadata = embedded_metadata(self.adapter, self.table) if is_incremental else None
        build = self.adapter.gate().build
        head = refs.head(metadata, build.branch) if metadata and build else None
        return str(head or refs.head(metadata or {}) or "")
