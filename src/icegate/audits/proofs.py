"""How many failing rows tests had of which snapshots, as the ledger has it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from functools import cached_property

from icegate.audits.added import Known
from icegate.audits.source import Source
from icegate.errors import CatalogError
from icegate.gate import ledger
from icegate.gate.ledger_rows import Proof
from icegate.settings import Lake, engine_of

log = logging.getLogger(__name__)

ENGINES = ("icegate", "duckdb", "sqlglot", "pyiceberg")  # of another version nothing is believed


class Proofs:
    """The proofs of a lake; ``ICEGATE_FULL=1`` forgets them."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._found: dict[str, str] = {}

    def of(self, question: str) -> Iterator[tuple[int, Mapping[str, Known]]]:
        """Yield how many failing rows a query had, and what its tables were then.

        Of the last time, and of the last time without any: what failed may be gone by now.
        """
        for failures, tables in json.loads(self._known.get(self._hash(question), "[]")):
            yield failures, {table: Known(*known) for table, known in tables.items()}

    def keep(self, question: str, sources: Iterable[Source], failures: int) -> None:
        """Remember how many failing rows a query has."""
        asked = self._hash(question)
        now = [failures, {source.table.name.lower(): Known.of(source) for source in sources}]
        before = [proof for proof in json.loads(self._known.get(asked, "[]")) if proof[0] == 0]
        told = json.dumps([now, *before] if failures else [now], sort_keys=True)
        if self._known.get(asked) != told:
            self._known[asked] = self._found[asked] = told

    def save(self) -> None:
        """Write what was found to the ledger; where that can't be, the next audit costs more."""
        if not self._found:
            return
        now = datetime.now(timezone.utc)
        try:
            ledger.keep(self.lake, "proofs", [Proof(now, *f) for f in self._found.items()])
        except CatalogError as error:
            log.warning("the proofs of tests weren't kept: %s", error)
        self._found = {}

    @cached_property
    def _known(self) -> dict[str, str]:
        if os.environ.get("ICEGATE_FULL") == "1":
            return {}
        try:
            return {p.question: p.tables for p in ledger.read_kept(self.lake, "proofs")}
        except CatalogError as error:
            log.warning("the proofs of earlier tests can't be read: %s", error)
            return {}

    @cached_property
    def _settings(self) -> str:
        return engine_of(self.lake, ENGINES)

    def _hash(self, question: str) -> str:
        return hashlib.sha256(f"{self._settings}\n{question}".encode()).hexdigest()
