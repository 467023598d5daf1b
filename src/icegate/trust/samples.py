"""Some of the rows that fail a test, read by DuckDB where they wait; personal data is masked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from icegate import pii
from icegate.anomalies.find import event_column
from icegate.audits.answer import Prover
from icegate.audits.rows import Rows
from icegate.audits.tree import column_names
from icegate.dialect import to_duckdb
from icegate.errors import GateError
from icegate.gate.refs import Metadata
from icegate.settings import Lake
from icegate.trust.project import Model, Project, Test

if TYPE_CHECKING:
    from icegate.audits.points import Point

SHOWN, COLUMNS = 5, 6
# The column of dbt's own tests that has the values which fail.
OF_VALUES = {
    "not_null": "{column}",
    "unique": "unique_field",
    "accepted_values": "value_field",
    "relationships": "from_field",
}
WIDTH = 80  # characters of a value
UNKNOWN = "unknown"  # kind of what may or may not be personal data


@dataclass(frozen=True)
class Sample:
    """A few failing rows; ``why_none`` says why there are none to see."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    why_none: str = ""


class Sampler:
    """Reads failing rows of tests at a build that waits, or at `main`."""

    def __init__(
        self, lake: Lake, project: Project, metadata: Mapping[str, Metadata] | None = None
    ) -> None:
        self.lake, self.project, self.metadata = lake, project, metadata or {}
        self._provers: dict[str, Prover] = {}

    def of(self, test: Test, build: str = "", most: int = SHOWN, columns: int = COLUMNS) -> Sample:
        """Return some rows that fail a test, as the build has them, and some of their columns."""
        if not test.sql:
            return Sample(why_none="dbt didn’t compile this test")
        try:
            tree, rows = self._run(self._whole_rows(test, columns) or test.sql, build, most)
        except GateError as error:  # what the build had is gone
            return Sample(why_none=error.why)
        except Exception:  # only Spark can tell, or DuckDB can't read so much
            return Sample(why_none="only Spark can read them")
        read = [self.project.models[id] for id in test.reads if id in self.project.models]
        names = [item.alias_or_name for item in tree.expressions]
        return masked_rows(names, rows, read, column_names(tree))

    def days(self, test: Test, build: str = "") -> tuple[date, date] | None:
        """Return the first and the last day of the rows that fail, where they can be told.

        By the column that the table is partitioned by, else the first that is named `…_at`.
        """
        model = self.project.models.get(test.attached or "")
        metadata = self.metadata.get(model.table.lower(), {}) if model else {}
        column = event_column(metadata) if metadata.get("schemas") else None
        sql = column and self._of_model(test, f"min(m.`{column}`) as a, max(m.`{column}`) as b")
        with suppress(Exception):  # then it isn't said
            if sql:
                first, last = self._run(sql, build)[1][0]
                return date(*first.timetuple()[:3]), date(*last.timetuple()[:3])
        return None

    def _run(self, sql: str, build: str, most: int = SHOWN) -> tuple[exp.Select, Any]:
        """Return the tree of a query and its first rows, or raise what says that only Spark can."""
        prover = self._prover(build)
        asked = prover._asked(sql, None, {})
        tree = asked.resolved
        names = column_names(tree)
        tables = {source.table.name: Rows(source, names) for source in asked.sources}
        return tree, prover.duckdb.run(to_duckdb(tree.limit(most), 0), tables)

    def _whole_rows(self, test: Test, columns: int) -> str:
        """Return the query of a model's rows whose value fails a test, of one that returns values.

        With the columns that name a row, and the first others: by the bare value nobody finds it.
        """
        model = self.project.models.get(test.attached or "")
        if model is None or not model.columns:
            return ""
        keys = [t.column for t in self.project.tests_of.get(model.id, []) if t.kind == "unique"]
        wanted = [*dict.fromkeys([*keys, test.column, *model.columns])][:columns]
        return self._of_model(test, ", ".join(f"m.`{name}`" for name in wanted))

    def _of_model(self, test: Test, wanted: str) -> str:
        """Return a query of the model's rows that fail a test of dbt's own; "" of another test."""
        model = self.project.models.get(test.attached or "")
        value = OF_VALUES.get(test.kind, "").format(column=test.column)
        if model is None or not value or not test.sql:
            return ""
        same = f"m.`{test.column}` <=> f.`{value}`"
        where = f" where {test.where}" if test.where else ""
        found = f"{model.table} m left semi join ({test.sql}) f on {same}"
        return f"select {wanted} from {found}{where}"

    def _prover(self, build: str) -> Prover:
        if build not in self._provers:
            points: Mapping[str, Point] = {}
            if build:
                from icegate.audits.points import points as points_of

                points = points_of(self.lake, build)
            self._provers[build] = Prover(self.lake, points, at_once=True)
        return self._provers[build]


def masked_rows(
    names: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    models: Iterable[Model],
    asked: Collection[str] | None = None,
) -> Sample:
    """Return rows of models with the values masked of columns that hold personal data.

    A column that no model has by this name is masked where the query, which names the columns
    ``asked``, reads personal data at all: `accepted_values` has it as `value_field`. Without
    ``asked`` they are whole rows, whose other columns nobody has described.
    """
    read = [*models]
    kinds = {name: kind for model in read for name, kind in pii.kinds(model.columns).items()}
    known = {name.lower() for model in read for name in model.columns}
    if asked is None:
        unknown = "text" if kinds else ""
    else:
        unknown = UNKNOWN if kinds.keys() & asked else ""
    masks = [kinds.get(n.lower(), "" if n.lower() in known else unknown) for n in names]
    return Sample(tuple(names), tuple(tuple(map(_shown, row, masks)) for row in rows))


def _shown(value: Any, kind: str) -> Any:
    """Return a value as people see it; a number of a query's own counts something."""
    if kind and not (kind == UNKNOWN and isinstance(value, int)):
        value = pii.masked(value, kind)
    text = value if isinstance(value, str) else None
    return f"{text[: WIDTH - 1]}…" if text is not None and len(text) > WIDTH else value
