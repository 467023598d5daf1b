"""Quarantine in a dbt run: a model's select is computed, and what its tests refuse goes aside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from dbt.adapters.events.logging import AdapterLogger

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import embedded_metadata
from icegate.gate import ledger, quarantine, quarantined, refs
from icegate.gate.quarantine import FAILED, SUFFIX, Columns, Rule, Wanted
from icegate.gate.refs import MAIN
from icegate.tables.state import literal

logger = AdapterLogger("Icegate")


class Quarantine:
    """The quarantine of a model while its ``table`` is written, its rows held in ``view``."""

    def __init__(self, adapter: Any, model: dict[str, Any], table: Any, view: Any) -> None:
        self.adapter, self.model, self.table, self.view = adapter, model, table, view
        self.aside = table.incorporate(path={"identifier": f"{table.identifier}{SUFFIX}"})
        self.name = f"{table.schema}.{table.identifier}"
        self.is_retried = os.environ.get(quarantined.RETRY) == self.name

    @as_dbt_error()
    def split(self, sql: str, is_incremental: bool) -> str:
        """Return the select of the good rows; the others are in quarantine by then."""
        wanted = Wanted.of(self.model["name"], self.model["config"])
        rules = [*self._rules(wanted.types)]
        if self.is_retried:
            quarantined.check_retry(self.model, self.adapter.gate().holds(self.model))
            rules = rules or [Rule("", "", "false")]  # the test that took the rows away is gone
        if not rules:
            return sql
        if is_incremental:  # the select reads where the branch is, from here on
            self.adapter.gate().open_branch(self.model)
        held = quarantine.marked(sql, self.model["alias"], rules)
        self.adapter.batches().hold(self.view.identifier, held)
        tests = [*dict.fromkeys(rule.test for rule in rules)]
        counting = quarantine.counting(str(self.view), tests)
        counts = self.adapter.execute(counting, fetch=True)[1].rows[0]
        total, bad, *by_test = (int(count) for count in counts)
        columns = [column for column in self._columns(self.view) if column[0] != FAILED]
        release = self.adapter.gate().quarantined(f"{self.name}{SUFFIX}", bad)
        good = quarantine.good_rows(str(self.view), columns, bad, total)
        if release:
            self._put_aside(bad, columns, release, is_incremental)
            counted = dict(zip(tests, by_test, strict=True))
            wanted.check(bad, total, counted, str(self.aside), release)
            good += self._put_back(rules, columns, release, is_incremental)
        return good

    def _rules(self, types: list[str]) -> Iterator[Rule]:
        from dbt.clients.jinja import GENERIC_TEST_KWARGS_NAME, add_rendered_test_kwargs
        from dbt.context.providers import generate_runtime_model_context

        manifest = self.adapter.get_macro_resolver()
        for node in manifest.nodes.values():
            if getattr(node, "attached_node", None) != self.model["unique_id"]:
                continue
            kind = quarantine.kind_of(node.test_metadata.name, node.depends_on.macros)
            if kind in types and quarantine.fails_by_one_row(node.config.to_dict()):
                context = generate_runtime_model_context(node, self.adapter.config, manifest)
                add_rendered_test_kwargs(context, node)
                kwargs = context[GENERIC_TEST_KWARGS_NAME]
                yield from quarantine.rules_of(node.name, kind, kwargs, node.config.where)

    def _columns(self, relation: Any) -> Columns:
        return [(c.name, c.dtype) for c in self.adapter.get_columns_in_relation(relation)]

    def _put_aside(self, bad: int, columns: Columns, release: str, is_incremental: bool) -> None:
        name, build = str(self.aside), self.adapter.gate().build
        is_first = build is None or build.invocation_id.startswith(build.name)
        if is_first and not bad and not self.is_retried:
            return  # no earlier attempt's rows are there either
        now = self._columns(self.aside)
        if bad:
            logger.warning(f"quarantine={name} rows={bad} release={release}")
        if bad or (now and self.is_retried):
            for statement in quarantine.shaping(name, now, columns, release):
                self.adapter.execute(statement)
            now = self._columns(self.aside)
        if now:  # maybe no row but those of an earlier attempt, which go
            metadata = embedded_metadata(self.adapter, self.table) if is_incremental else None
            batch = quarantine.batch_of(self.model, metadata or {}, build.branch if build else MAIN)
            sql = quarantine.filling(name, now, str(self.view), columns, release, batch)
            self.adapter.batches().write(sql, None, self.model)

    def _put_back(
        self, rules: Sequence[Rule], columns: Columns, release: str, is_incremental: bool
    ) -> str:
        """Mark rows in quarantine that this write outdates; return what reads those to go back."""
        metadata = embedded_metadata(self.adapter, self.aside)
        if metadata is None or refs.head(metadata) is None:
            return ""
        releases = ledger.read_release_tables(self.adapter.embedded_lake)
        ended = quarantined.published(releases, self.name)
        waits = quarantined.waiting(ended)
        # Without a gate what is written is read at once, and a name isn't needed.
        build = release if self.adapter.gate().holds(self.model) else ""
        view = str(self.view)
        outdated = quarantined.outdated(view, self.model, waits, release, is_incremental)
        if outdated:
            self._mark(quarantined.OUTDATED, build, outdated)
        if not self.is_retried or not is_incremental:
            return ""
        waits = quarantined.waiting([*ended, build])
        passing = quarantined.passing(rules, self._columns(self.aside), columns)
        self._mark(quarantined.RETURNED, build, f"{waits} and {passing}")
        return quarantined.put_back(str(self.aside), columns, build, ended)

    def _mark(self, column: str, build: str, where: str) -> None:
        rows = f"{self.aside} as q"
        counting = f"select count(*) from {rows} where {where}"
        if int(self.adapter.execute(counting, fetch=True)[1].rows[0][0]):
            update = f"update {rows} set {column} = {literal(build)} where {where}"
            self.adapter.batches().write(update, None, self.model)
