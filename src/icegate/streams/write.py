"""Write a stream's batches, each exactly once, whatever ends between two commits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icegate.gate.quarantine import Rule
from icegate.gate.store import read_tables
from icegate.merge.bounds import bounded, conditions, with_uuids
from icegate.merge.facts import batch_sql, read_batch
from icegate.retries import Meetings
from icegate.settings import Lake
from icegate.streams import places
from icegate.streams.config import PLACE, Route, Stream
from icegate.streams.parse import parsed, rows_of
from icegate.streams.places import ERRORS, Last
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COPY_S = 600
ROWS = "icegate_stream_rows"
SAME_PLACE = "old.source_topic = new.source_topic and old.source_partition = new.source_partition"
# A key that moved to another partition has offsets that can't be compared.
NEWER = (
    f"coalesce(case when {SAME_PLACE} then new.source_offset > old.source_offset "
    "else new.source_time >= old.source_time end, true)"
)


# A record's columns, and what they are called where errors are kept.
_KEPT = {
    **{name: name.removeprefix("source_") for name in PLACE},
    **{"_key": "key", "_value": "raw"},
}


@dataclass
class Written:
    """What a batch had: rows by table, records kept as errors, and those not read quickly."""

    rows: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    slow: int = 0

    @property
    def all(self) -> int:
        return self.errors + sum(self.rows.values())


class Writer:
    """Writes the batches of a stream with a checkpoint; ``waiting`` errors are to be replayed.

    ``rules`` are those on which a table's tests refuse a row: its record is kept as an error.
    """

    def __init__(
        self, lake: Lake, stream: Stream, checkpoint: str, rules: Mapping[str, Sequence[Rule]]
    ) -> None:
        self.lake, self.stream, self.checkpoint, self.rules = lake, stream, checkpoint, rules
        self.met = Meetings()
        self.waiting = 0
        self._last: dict[str, int] | None = None  # by table
        self._uncopied, self._copied_at = dict[str, int](), -math.inf
        self._session: Any = None  # of the batch: its writes are signed

    @property
    def tables(self) -> list[str]:
        """All that a batch may write to."""
        return [*(route.table for route in self.stream.routes), ERRORS]

    def batch(self, found: DataFrame, number: int) -> Written:
        """Write what isn't written yet of a batch of parsed records.

        Whatever fails, it can be given again.
        """
        session = self._session = found.sparkSession
        if self._last is None:
            self._last = self._look(session)
        places.sign(session, self.stream.name, self.checkpoint, number)
        fresh = not any(last >= number for last in self._last.values())
        only = self.stream.routes[0]
        if fresh and len(self.stream.routes) == 1 and not only.key:
            return self._in_one_pass(found, number)
        found = found.persist()
        try:
            return self._table_by_table(found, number)
        finally:
            found.unpersist()

    def _look(self, session: SparkSession) -> dict[str, int]:
        found = {t: places.last_batch(session, t, self.stream.name) for t in self.tables}
        count = session.sql(
            f"select count(*) from {ERRORS} where stream = {literal(self.stream.name)} "
            "and kind = 'error' and replayed_at is null"
        )
        self.waiting = int(count.first()[0])  # type: ignore[index]
        return {
            t: last.batch
            for t, last in found.items()
            if last and last.checkpoint == self.checkpoint
        }

    def _in_one_pass(self, found: DataFrame, number: int) -> Written:
        """Write rows and count them on the way; errors are rare, and read the batch again."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import col, count, count_if, lit

        seen = Observation()
        counts = count(lit(1)).alias("all"), count("_error").alias("bad")
        slow = count_if(~col("_is_quick")).alias("slow")
        counted = found.observe(seen, *counts, slow)
        route = self.stream.routes[0]
        rows = rows_of(counted, self.stream, 0)
        self._once(route.table, number, lambda: self._append(rows, 0), is_all=True)
        told = seen.get
        if told["bad"]:
            self._keep(found, number, told["bad"])
        return Written({route.table: told["all"] - told["bad"]}, told["bad"], told["slow"])

    def _table_by_table(self, found: DataFrame, number: int) -> Written:
        kinds = "_route", "_error is null as good", "coalesce(_deletes, false) as deletes"
        counted = found.selectExpr(*kinds, "not _is_quick as slow")
        counted = counted.groupBy("_route", "good", "deletes", "slow").count()
        counts = [(*row[:4], int(row[4])) for row in counted.collect()]
        done = Written(
            errors=sum(n for _, good, *_, n in counts if not good),
            slow=sum(n for *_, slow, n in counts if slow),
        )
        deletes = any(deletes for _, good, deletes, *_ in counts if good)
        # First of all: a replay that comes before the rest has to know of the deletes.
        if done.errors or (self.waiting and deletes):
            self._keep(found, number, done.errors)
        for n, route in enumerate(self.stream.routes):
            done.rows[route.table] = sum(c for at, good, *_, c in counts if good and at == n)
            if done.rows[route.table]:
                rows = rows_of(found, self.stream, n)
                write = self._merge if route.key else self._append
                self._once(route.table, number, lambda w=write, r=rows, n=n: w(r, n))  # type: ignore
        return done

    def _once(
        self, table: str, number: int, write: Callable[[], None], is_all: bool = False
    ) -> None:
        """Write a batch to a table that lacks it; where that ``is_all``, no copy need be made."""
        assert self._last is not None
        if self._last.get(table, -1) < number:
            write()
        # Also of one that was written before: its process may have ended before this line.
        self._last[table] = self._uncopied[table] = number
        if not is_all or time.monotonic() > self._copied_at + COPY_S:
            self.copy()

    def copy(self) -> None:
        """Copy which batch tables had last to where no expiry takes it away.

        A commit of its own: where Spark's note of a batch comes right after its only commit, it is
        made now and then, and at the end.
        """
        for table, number in self._uncopied.items():
            last = Last(self.checkpoint, number)
            places.remember(self._session, table, self.stream.name, last)
        self._uncopied.clear()
        self._copied_at = time.monotonic()

    def _append(self, rows: DataFrame, number: int, where: str = "") -> None:
        route = self.stream.routes[number]
        rows.createOrReplaceTempView(ROWS)
        names = ", ".join(quote(name) for name in route.types)
        sql = f"insert into {route.table} ({names}) select {names} from {ROWS} as new {where}"
        self.met.write(rows.sparkSession, sql)

    def _merge(self, rows: DataFrame, number: int) -> None:
        """Bring a table to what the newest record of each key says."""
        route, session = self.stream.routes[number], rows.sparkSession
        rows.createOrReplaceTempView(f"{ROWS}_all")
        session.sql(newest_sql(route, f"{ROWS}_all")).createOrReplaceTempView(ROWS)
        types = places.column_types(session, route.table)
        stored = next(iter(read_tables(self.lake, [route.table])), None)
        known = with_uuids(types, stored.metadata if stored else None)
        columns = bounded(
            route.key, known, {name.lower(): kind for name, kind in route.types.items()}, quote
        )
        keys = [quote(name) for name in route.key]
        row = session.sql(batch_sql(ROWS, keys, False, columns)).first()
        assert row is not None
        batch = read_batch(row, keys, False, columns)
        self.met.write(session, merge_sql(route, conditions(batch.bounds, "old.")))

    def _keep(self, found: DataFrame, number: int, bad: int) -> None:
        """Keep errors, and as long as any waits deletes too: a replay must not undo them."""
        tables = " ".join(
            f"when {n} then {literal(route.table)}" for n, route in enumerate(self.stream.routes)
        )
        rows = found.where("_error is not null or _deletes").selectExpr(
            f"{literal(self.stream.name)} as stream",
            "if(_error is null, 'delete', 'error') as kind",
            f"case _route {tables} end as table_name",
            *(f"{name} as {kept}" for name, kept in _KEPT.items()),
            "_error as error",
            f"{number}L as batch",
            "current_timestamp() as at",
            "cast(null as timestamp) as replayed_at",
        )

        def write() -> None:
            rows.createOrReplaceTempView(ROWS)
            self.met.write(rows.sparkSession, f"insert into {ERRORS} select * from {ROWS}")
            self.waiting += bad

        self._once(ERRORS, number, write)

    def replay(self, session: SparkSession) -> dict[str, int]:
        """Read kept errors again by the rules of today; return how many passed and how many wait.

        Rows that are in their table already don't come twice: this may be repeated.
        """
        places.sign_nothing(session)
        mine = f"old.stream = {literal(self.stream.name)} and old.replayed_at is null"
        renamed = ", ".join(f"{kept} as {name}" for name, kept in _KEPT.items())
        kept = session.sql(f"select {renamed} from {ERRORS} as old where {mine}")
        # A stream that was begun anew has kept them a second time.
        kept = kept.dropDuplicates(["source_topic", "source_partition", "source_offset"])
        # Its rows, not its plan: a view on a plan can't be merged into the table that it reads.
        found = parsed(kept, self.stream, self.rules).localCheckpoint()
        for n, route in enumerate(self.stream.routes):
            rows = rows_of(found, self.stream, n)
            if not rows.isEmpty():
                self._merge(rows, n) if route.key else self._append(rows, n, absent(route))
        found.createOrReplaceTempView(ROWS)
        return {"replayed": self._settle(session, mine), "waiting": self.waiting}

    def _settle(self, session: SparkSession, mine: str) -> int:
        counted = session.sql(
            "select count_if(new._error is null), count_if(new._error is not null) "
            f"from {ROWS} as new join {ERRORS} as old on {_SAME_RECORD} "
            f"where {mine} and old.kind = 'error'"
        ).first()
        assert counted is not None
        passed, self.waiting = int(counted[0]), int(counted[1])
        self.met.write(
            session,
            f"merge into {ERRORS} as old using (select * from {ROWS}) as new "
            f"on {_SAME_RECORD} and {mine} "
            "when matched and old.kind = 'error' and new._error is null "
            "then update set replayed_at = current_timestamp() "
            "when matched and old.kind = 'error' then update set error = new._error",
        )
        if not self.waiting:  # nothing is left that could undo a delete
            gone = f"stream = {literal(self.stream.name)} and kind = 'delete'"
            self.met.write(session, f"delete from {ERRORS} where {gone}")
        return passed


_SAME_RECORD = " and ".join(
    f"old.{_KEPT[name]} = new.{name}"
    for name in ("source_topic", "source_partition", "source_offset")
)


def newest_sql(route: Route, view: str) -> str:
    """Return the query of the newest record of each key.

    In a partition that is the one with the highest offset, of several the one that was last.
    """
    keys = ", ".join(quote(name) for name in route.key)
    names = ", ".join([*(quote(name) for name in route.types), "_deletes"])
    places = f"{keys}, source_topic, source_partition"
    latest = "source_time desc, source_topic desc, source_partition desc"
    return (
        f"select {names} from ("
        f"select *, row_number() over (partition by {keys} order by {latest}) as _nth "
        f"from (select *, max(source_offset) over (partition by {places}) as _last from {view}) "
        "where source_offset = _last) where _nth = 1"
    )


def merge_sql(route: Route, bounds: list[str]) -> str:
    """Return the merge of the newest records; an older one than the table's row does nothing."""
    on = [f"old.{quote(name)} = new.{quote(name)}" for name in route.key]
    names = [quote(name) for name in route.types]
    sets = ", ".join(f"{name} = new.{name}" for name in names)
    return (
        f"merge into {route.table} as old using {ROWS} as new on {' and '.join([*on, *bounds])} "
        f"when matched and new._deletes and {NEWER} then delete "
        f"when matched and not new._deletes and {NEWER} then update set {sets} "
        f"when not matched and not new._deletes then insert ({', '.join(names)}) "
        f"values ({', '.join(f'new.{name}' for name in names)})"
    )


def absent(route: Route) -> str:
    """Return the condition for records that a table doesn't have yet."""
    same = f"{SAME_PLACE} and old.source_offset = new.source_offset"
    return f"left anti join {route.table} as old on {same}"
