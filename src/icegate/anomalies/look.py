"""One look at a table: what is known of it, and how the newest value of a series is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Literal

from icegate.anomalies import words
from icegate.anomalies.history import Point
from icegate.anomalies.scores import usual
from icegate.gate.refs import Metadata

Kind = Literal["volume", "cadence", "late data", "null rate", "bounds", "schema"]
Status = Literal["usual", "unusual", "not enough history"]
Series = list[tuple[Point, Any]]  # a number for each, None where it isn't known


@dataclass(frozen=True)
class Settings:
    """How much has to be known, and how far off is unusual; docs/anomalies.md has the reasons."""

    threshold: float = 3.5  # modified z-score
    min_history: int = 7  # values before the one that is judged; of its weekday, too
    window: int = 60  # the newest values, which are compared
    manifests: int = 30  # the newest changes, whose manifests are read
    column: str | None = None  # the only one to look at


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is known of one thing; None where it isn't, or for a side that doesn't matter.

    ``value``, ``low`` and ``high`` are in ``unit``: rows, hours, share (0 to 1), columns; days
    for the bounds of a time, counted from when its rows came, and nothing for those of a number.
    """

    kind: Kind
    table: str
    column: str | None = None
    status: Status
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    snapshot_id: int | None = None
    at: datetime | None = None
    sentence: str


@dataclass(frozen=True)
class Look:
    """What one look at a table has to go by."""

    table: str
    metadata: Metadata
    runs: list[Point]
    settings: Settings
    now: datetime

    def finding(self, kind: Kind, status: Status, sentence: str, **known: Any) -> Finding:
        """Return a finding about the newest change, or about the one at ``point``."""
        point = known.pop("point", None) or (self.runs[-1] if self.runs else None)
        known |= {"snapshot_id": point.snapshot_id, "at": point.at} if point else {}
        return Finding(kind=kind, table=self.table, status=status, sentence=sentence, **known)

    def too_little(self, kind: Kind, have: int | None, column: str | None = None) -> Finding:
        """Return that nothing can be said: too few earlier values, or (None) the newest lacks."""
        need = 1 if kind == "schema" else self.settings.min_history
        sentence = words.too_little(kind, have, need, column)
        return self.finding(kind, "not enough history", sentence, column=column)

    def judge(
        self, kind: Kind, series: Series, say: Callable[..., str], unit: str, **how: Any
    ) -> Finding:
        """Judge the last of a series by those before it; what isn't of a column, by its weekday.

        ``how``: the least width of what is usual (``share``, ``least``), ``sides``, ``column``.
        """
        column, sides = how.get("column"), how.get("sides", ("low", "high"))
        earlier = [(p, v) for p, v in series[:-1] if v is not None]
        last, value = series[-1] if series else (None, None)
        same, weekly = ([], False) if column else self._of_weekday(earlier, last)
        values = [v for _, v in (same if weekly else earlier)][-self.settings.window :]
        if len(values) < max(1, self.settings.min_history):
            return self.too_little(kind, len(values), column)
        if last is None or value is None:
            return self.too_little(kind, None, column)
        range_ = usual(values, self.settings.threshold, how["share"], how["least"])
        middle = median(values)
        room = range_["high"] / middle - 1 if middle > 0 else 0
        for _, seen in [] if weekly else same:  # may be the first of many like it
            range_["low"] = min(range_["low"], seen - room * abs(seen))
            range_["high"] = max(range_["high"], seen + room * abs(seen))
        low, high = (range_[side] if side in sides else None for side in ("low", "high"))
        fits = (low is None or value >= low) and (high is None or value <= high)
        more = {} if column else {"weekly": weekly}
        sentence = say(value=value, low=low, high=high, at=last.at, **more)
        known = {"value": float(value), "low": low, "high": high, "unit": unit, "column": column}
        return self.finding(kind, "usual" if fits else "unusual", sentence, point=last, **known)

    def _of_weekday(self, series: Series, last: Point | None) -> tuple[Series, bool]:
        """Return what is of other days of the same weekday, and whether that is enough."""
        if last is None:
            return [], False
        near = (last.at.weekday(), last.at.date())
        same = [(p, v) for p, v in series if p.at.weekday() == near[0] and p.at.date() != near[1]]
        return same, len({p.at.date() for p, _ in same}) >= self.settings.min_history
