"""Data tests of a dbt command: each is proved as cheaply as can be, else Spark runs its query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.types import SQLQueryStatus
from dbt_common.events.contextvars import get_node_info
from dbt_common.events.functions import fire_event

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.task import tell_at_end
from icegate.audits.tests import ON_SPARK, counted, is_question


@dataclass
class Proved(AdapterResponse):
    """The `adapter_response` of a test: how it was proved, and why cheaper proofs didn't do."""

    proof: str = ""
    tried: list[str] = field(default_factory=list)


class Audits:
    """The proofs of one dbt command."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self._proofs: list[str] = []
        self._one_at_a_time = threading.Lock()  # DuckDB takes all cores for one query

    def take(self, sql: str) -> bool:
        """Tell whether a query is to be proved: a data test's, where the target says so."""
        is_on = self.adapter.config.credentials.audits and self.adapter.embedded_lake
        return bool(is_on) and is_question(sql)

    def answer(self, sql: str, on_spark: Callable[[], Any]) -> tuple[Proved, Any]:
        """Return what dbt gets of a test's query: how it was answered, and its one row."""
        from dbt_common.clients.agate_helper import table_from_data_flat

        from icegate.audits.answer import Left

        began, build = time.perf_counter(), self.adapter.gate().build
        branch, staged = build.branch if build else None, dict(self.adapter.Relation.staged)
        with as_dbt_error(), self._one_at_a_time:
            found = self._prover.answer(sql, branch, staged)
        if isinstance(found, Left):
            told, table = on_spark()
            with self._one_at_a_time:
                self._prover.learn(found, table.rows[0][0])
            response = Proved(ON_SPARK, told.code, proof=ON_SPARK, tried=found.tried)
        else:
            row = dict(zip(found.columns, found.row, strict=True))
            table = table_from_data_flat([row], found.columns)
            response = Proved(found.proof, "OK", proof=found.proof, tried=found.tried)
            elapsed, node = time.perf_counter() - began, get_node_info()
            fire_event(SQLQueryStatus(status=found.proof, elapsed=elapsed, node_info=node))
        self._proofs.append(response.proof)
        return response, table

    def tell(self, phase: str) -> None:
        """Say after dbt's own last line how the tests were proved."""
        if phase == "on-run-end" and self._proofs:
            tell_at_end(f"tests: {counted(self._proofs, ' · ')}")
            self._prover.save()

    @cached_property
    def _prover(self) -> Any:
        from icegate.audits.answer import Prover

        return Prover(self.adapter.embedded_lake)
