"""A merge from its configs to its last statement: hold the batch, look, choose, say why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from icegate.errors import ConfigError, IcegateError
from icegate.merge import facts, plans, statements
from icegate.merge.bounds import MOST_VALUES, Bound, bounded, conditions
from icegate.merge.facts import Batch, Known, Touched
from icegate.merge.overwrite import Layout, Overwrite
from icegate.merge.plans import Choice, Plan
from icegate.tables.layout import Transform
from icegate.tables.merge_plan import DEST, MergePlan
from icegate.tables.state import quote

PREFIX = f"{DEST}."
MERGES = (Plan.COPY_ON_WRITE, Plan.MERGE_ON_READ)
NOTHING = "select 'no row to merge' as said"
UNEQUAL = ("map<", "variant", "interval", "geo", "collate")  # what `<=>` can't compare, or not all


class Engine(Protocol):
    """Where a merge runs."""

    has_session: bool  # which can hold rows
    has_branch: bool  # so that nobody reads the table between two statements

    @property
    def has_options(self) -> bool:
        """Tell whether SQL has `with (…)` behind a table, which Spark 3.5 hasn't."""

    def ask(self, sql: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query."""

    def hold(self, view: str, sql: str) -> None:
        """Compute a query once, and put a view over its rows."""

    def touched(self, bounds: Sequence[Bound]) -> Touched | None:
        """Return the files of the table within bounds, None where that isn't known."""

    def layout(self, fields: Sequence[Transform]) -> Layout:
        """Return where a table is that is partitioned by these fields."""

    def set_modes(self, modes: dict[str, str]) -> None:
        """See that the table has these properties."""

    def begin_halves(self) -> None:
        """Remember where the branch is before the first of two statements."""

    def write(self, sql: str) -> None:
        """Run a statement that changes rows."""

    def doubled(self, view: str) -> str:
        """Return which keys a view has twice, in words."""


class Merge:
    """One merge of the view ``source`` into ``target``; ``kinds`` are the types of both.

    ``told`` says after ``statement`` what was chosen and why, ``warning`` what looks wrong.
    """

    def __init__(
        self,
        merge: MergePlan,
        target: str,
        source: str,
        kinds: tuple[dict[str, str], dict[str, str]],
        properties: dict[str, str],
    ) -> None:
        self.merge, self.target, self.source, self.kinds = merge, target, source, kinds
        self.properties = properties
        self.plan = plans.read_plan(merge, properties)
        on_read = properties.get(plans.MODE) == plans.ON_READ
        self.merged = Plan.MERGE_ON_READ if on_read else Plan.COPY_ON_WRITE
        self.whole = Overwrite(merge, target, kinds)
        self.told = self.warning = ""
        if merge.skips:
            self._check_comparable()

    def statement(self, engine: Engine) -> str:
        """Run what comes before the last statement, and return that."""
        if self.plan is Plan.DELETE_AND_INSERT:
            plans.check_split(self.merge, engine.has_branch and engine.has_session)
        if self.plan is Plan.OVERWRITE_PARTITIONS:
            self.whole.check(engine)
        if not (engine.has_session and self.merge.keys):
            return self._unlooked(engine)
        held = f"{self.source}__held"
        engine.hold(held, statements.first_rows_sql(self.merge, self.source))
        batch = self._batch(engine, held)
        if not batch.rows and self.merge.delete_unmatched is None:
            return NOTHING
        touched = engine.touched(batch.bounds) if self.plan is not None else None
        choice = self._choice(engine, held, batch, touched)
        more = conditions(batch.bounds, PREFIX) if self.merge.delete_unmatched is None else []
        known = None
        if self.merge.skips and choice.plan not in (Plan.APPEND, Plan.MERGE_ON_READ):
            changed = f"{self.source}__changed"
            sql = statements.changed_rows_sql(self.merge, self.target, held, more)
            engine.hold(changed, sql)
            counted = "select count(*), coalesce(sum(dbt_known), 0), coalesce(max(dbt_known), 0)"
            rows, *of_table = map(int, engine.ask(f"{counted} from {changed}")[0])
            batch, known, held = replace(batch, rows=rows), Known(*of_table), changed
            if not rows:
                self._tell(choice, batch, touched)
                return NOTHING
        return self._write(engine, held, batch, more, (choice, touched, known))

    def _write(
        self,
        engine: Engine,
        held: str,
        batch: Batch,
        more: list[str],
        found: tuple[Choice, Touched | None, Known | None],
    ) -> str:
        choice, touched, known = found
        split = choice.plan in (Plan.DELETE_AND_INSERT, Plan.APPEND)
        if split and touched is not None and touched.files == touched.all_files:
            more = []  # they leave out no file, and each literal is code that Java compiles anew
        is_new = touched is not None and not touched.files
        trusts = self.merge.is_key_declared and choice.plan is not Plan.APPEND
        if choice.plan not in MERGES and not (is_new or trusts):
            known = known or self._known(engine, held, batch, more)
            choice = self._with_known(choice, known, engine.has_branch)
        self._tell(choice, batch, touched)
        if self.plan is not None:
            engine.set_modes(plans.mode_of(choice.plan))
        if choice.plan is Plan.DELETE_AND_INSERT:
            engine.begin_halves()
            delete = statements.delete_sql(self.merge, self.target, held, more, batch.rows)
            engine.write(delete)
        if choice.plan is Plan.OVERWRITE_PARTITIONS:
            if done := self.whole.run(engine, held, batch.rows):
                return done
            self.told += "; merged, since another writer changed these partitions meanwhile"
            engine.set_modes(plans.mode_of(self.merged))
        if choice.plan in (Plan.DELETE_AND_INSERT, Plan.APPEND):
            return statements.insert_sql(self.merge, self.target, held, batch.rows)
        return statements.merge_sql(self.merge, self.target, held, more)

    def _unlooked(self, engine: Engine) -> str:
        """Return the merge where no rows can be held, or rows can't meet."""
        sql = statements.one_row_per_key_sql(self.merge, self.source, self.target)
        if engine.has_session and self.merge.delete_unmatched is not None:
            engine.hold(f"{self.source}__held", sql)
            sql = f"select * from {self.source}__held"
        engine.set_modes(plans.mode_of(self.plan) if self.plan is not None else {})
        return statements.merge_sql(self.merge, self.target, f"({sql})")

    def _batch(self, engine: Engine, held: str) -> Batch:
        merge = self.merge
        names = [*merge.key_names, *(n for n in merge.fixed if n not in merge.key_names)]
        columns = bounded(names, *self.kinds, quote)
        about = merge.keys, merge.null_safe, columns
        batch = facts.read_batch(engine.ask(facts.batch_sql(held, *about))[0], *about)
        if batch.of_one_key > 1:
            what, fix = statements.doubled(merge, self.target)
            raise IcegateError(what, why=engine.doubled(held), fix=fix)
        if batch.without_key and not merge.null_safe:
            self.warning = (
                f"{batch.without_key} rows for {self.target} have no key: null in "
                f"{' or '.join(merge.key_names)}. They meet nothing, so each run adds its own; "
                "filter them out, or set null_safe_keys: true"
            )
        listed = {field.column for field in self.whole.fields}
        bounds = [
            self._listed(engine, held, bound) if bound.column.name.lower() in listed else bound
            for bound in batch.bounds
        ]
        return replace(batch, bounds=tuple(bounds))

    def _listed(self, engine: Engine, held: str, bound: Bound) -> Bound:
        """Return the bound of a column that the table is partitioned by, with its values if few."""
        found = [str(row[0]) for row in engine.ask(facts.values_sql(held, bound.column))]
        return replace(bound, values=tuple(found)) if len(found) <= MOST_VALUES else bound

    def _choice(self, engine: Engine, held: str, batch: Batch, touched: Touched | None) -> Choice:
        if self.plan is None:
            return Choice(self.merged, "")
        choice = Choice(self.plan, "merge_plan says so")
        if self.plan is Plan.AUTO:
            about = self.merge, batch, touched, self.properties, engine.has_branch
            choice = plans.choose(*about)
            if plans.may_overwrite(choice, batch, touched):
                choice = self._whole(engine, held, batch) or choice
        if self.plan is Plan.OVERWRITE_PARTITIONS and not self.whole.finds(engine, held):
            why = "the table has no rows yet, or the batch has those of too many partitions"
            choice = Choice(self.merged, why)
        return choice

    def _whole(self, engine: Engine, held: str, batch: Batch) -> Choice | None:
        """Return the choice to overwrite partitions of which many rows change; None if few do."""
        if self.whole.why_not() or not (engine.has_options and self.whole.finds(engine, held)):
            return None
        rows = self.whole.rows(engine)
        if not plans.is_much(batch, rows):
            return None
        why = f"many of the {rows} rows of their partitions change"
        return Choice(Plan.OVERWRITE_PARTITIONS, why)

    def _known(self, engine: Engine, held: str, batch: Batch, more: list[str]) -> Known:
        matches = statements.matching(self.merge, held, more, batch.rows)
        asked = facts.known_sql(self.target, matches, self.merge.keys)
        return Known(*map(int, engine.ask(asked)[0]))

    def _with_known(self, choice: Choice, known: Known, has_branch: bool) -> Choice:
        """Return what is right now that is known how many rows of the table the batch meets."""
        if choice.plan is Plan.APPEND:
            if known.rows and self.plan is Plan.APPEND:
                raise IcegateError(
                    f"cannot append to {self.target}: it has keys of the batch",
                    why=f"{known.rows} of its rows have one, and they would be there twice",
                    fix="take merge_plan: auto, which appends where no key is known",
                )
            return choice
        if not known.rows and has_branch:
            return Choice(Plan.APPEND, "no row of the table has a key of the batch")
        if known.of_one_key > 1:
            why = "the table itself has a key twice, and a merge updates both rows"
            is_split = choice.plan is Plan.DELETE_AND_INSERT
            return Choice(Plan.MERGE_ON_READ if is_split else self.merged, why)
        return choice

    def _tell(self, choice: Choice, batch: Batch, touched: Touched | None) -> None:
        if self.plan is None:
            return
        self.told = f"merge_plan={choice.plan.value} table={self.target} rows={batch.rows}"
        if touched is not None:
            self.told += (
                f" files={touched.files} of={touched.all_files}"
                f" their_rows={touched.rows} their_mb={touched.bytes / 1e6:.1f}"
            )
        self.told += f": {choice.why}"

    def _check_comparable(self) -> None:
        for name in self.merge.table:
            kind = self.kinds[0].get(name.lower(), "")
            if any(text in kind for text in UNEQUAL):
                raise ConfigError(
                    f"skip_unchanged_rows of model {self.merge.model} can't compare {name!r}",
                    why=f"rows of type {kind} can't be compared by SQL",
                    fix="take out skip_unchanged_rows, or leave the column out of the table",
                )
