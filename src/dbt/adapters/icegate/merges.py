"""Where a merge runs: what `icegate.merge` asks and does, on this adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icegate.gate import refs
from icegate.gate.store import edit, read_tables
from icegate.merge.bounds import Bound
from icegate.merge.facts import Touched, touched, touched_sql
from icegate.merge.overwrite import Layout, layout_of, layout_sql
from icegate.tables.state import literal

if TYPE_CHECKING:
    from dbt.adapters.icegate.batches import Batches


class MergeEngine:
    """One model's table and the batch for it."""

    def __init__(self, batches: Batches, model: dict[str, Any], target: Any, batch: Any) -> None:
        self.batches, self.adapter = batches, batches.adapter
        self.model, self.target, self.batch = model, target, batch
        gate = self.adapter.gate()
        self.has_session = batches.session() is not None
        self.has_branch = gate.holds(model) and not gate.is_staged(model)
        self.branch: str = gate.build.branch if self.has_branch else ""
        self.name = f"{target.stored.schema}.{target.stored.identifier}"

    @property
    def has_options(self) -> bool:
        session = self.batches.session()
        return session is None or not session.version.startswith("3.")

    def ask(self, sql: str) -> Sequence[Sequence[Any]]:
        return list(self.adapter.execute(sql, fetch=True)[1].rows)

    def hold(self, view: str, sql: str) -> None:
        self.batches.hold(view, sql)

    def touched(self, bounds: Sequence[Bound]) -> Touched | None:
        if self.adapter.embedded_lake is None:
            return Touched(*map(int, self.ask(touched_sql(str(self.target), bounds))[0]))
        found = read_tables(self.adapter.embedded_lake, [self.name])
        return next((touched(table, self.branch, bounds) for table in found), None)

    def layout(self, fields: Sequence[Any]) -> Layout:
        if self.adapter.embedded_lake is None:
            return Layout(*self.ask(layout_sql(str(self.target), fields))[0])
        found = read_tables(self.adapter.embedded_lake, [self.name])
        return next((layout_of(t, self.branch, fields) for t in found), Layout(None, False))

    def set_modes(self, modes: dict[str, str]) -> None:
        has = self.adapter.tables().state(self.target).properties if modes else {}
        if any(has.get(name) != mode for name, mode in modes.items()):
            pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in modes.items())
            self.adapter.execute(f"alter table {self.target} set tblproperties ({pairs})")

    def begin_halves(self) -> None:
        lake, branch = self.adapter.embedded_lake, self.branch
        edit(lake, self.name, lambda old: refs.begin_halves(old, branch))

    def write(self, sql: str) -> None:
        self.batches.write(sql, self.batch, self.model)

    def doubled(self, view: str) -> str:
        return self.batches.doubled_keys(view, self.model)
