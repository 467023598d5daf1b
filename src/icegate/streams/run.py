"""Run a stream: start its query, watch it, stop it between two batches."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate.errors import GateError, IcegateError
from icegate.explain import explain
from icegate.gate.quarantine import Rule
from icegate.gate.store import read_tables
from icegate.gate.summary import describe
from icegate.session import start_session, stop_session
from icegate.settings import Lake
from icegate.streams import places, quick, source
from icegate.streams.checkpoint import Checkpoint, files
from icegate.streams.config import Stream
from icegate.streams.control import POLL_S, Control, signals
from icegate.streams.faults import goes_on, is_away, told
from icegate.streams.parse import parsed
from icegate.streams.publish import Gate, read_models
from icegate.streams.read import PARTIAL
from icegate.streams.write import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

MANY = 1000  # records of a batch: of fewer the time doesn't matter


class _Stopping(Exception):
    """A batch was to begin after the stop, or is another query's."""


class Run:
    """One run of a stream in this process."""

    def __init__(self, lake: Lake, stream: Stream, project: Path, target: str) -> None:
        self.lake, self.stream, self.project, self.target = lake, stream, project, target
        self.control = Control(lake, stream.name)
        self.checkpoint = Checkpoint(self.control.folder)
        self.rows: dict[str, int] = {}
        self.stopping = False
        self._quickly, self._anew = quick.fits(stream), False
        self._alive_at = time.monotonic()  # when the source answered last
        self._in_batch = threading.Lock()
        self._failed: BaseException | None = None
        self._gate: Gate | None = None
        self._writer: Writer | None = None

    def start(self, once: bool, forget: bool = False) -> None:
        """Run until it's stopped, or with ``once`` until all is read that is there now."""
        with self._running(forget) as session:
            self._retrying(session, once)
            if self._writer:
                self._writer.copy()
            self.control.tell(state="done" if once and not self.stopping else "stopped")

    def replay(self) -> dict[str, int]:
        """Read kept errors again, in a process of its own while the stream doesn't run."""
        with self._running() as session:
            found = self._replay(session)
            if self._gate:
                self._publish(session)
            self.control.tell(state="stopped")
            return found

    @contextmanager
    def _running(self, forget: bool = False) -> Iterator[SparkSession]:
        with self.control.running(), signals(self._stop):
            self.control.tell(state="starting", error="")
            try:
                yield self._ready(forget)
            except BaseException as error:
                said = error if isinstance(error, IcegateError) else told(self.stream, error)
                self.control.tell(state="failed", error=str(said))
                raise said from error
            finally:
                if self._gate:
                    self._gate.close()
                stop_session()

    def _ready(self, forget: bool) -> SparkSession:
        stream = self.stream
        session = start_session(source.with_jars(self.lake, self.project, stream))
        for name, value in (PARTIAL | source.REDACTED | files(session.version)).items():
            session.conf.set(name, value)
        models = read_models(stream, self.project) if stream.publish else None
        for done in places.make_ready(session, stream):
            log.info("stream=%s %s", stream.name, done)
        tables = [*(route.table for route in stream.routes), places.ERRORS]
        uuids = {t.name: t.metadata["table-uuid"] for t in read_tables(self.lake, tables)}
        had = {t: last for t in tables if (last := places.last_batch(session, t, stream.name))}
        if forget:
            self.checkpoint.forget(had)
        self.checkpoint.check(stream, uuids, had)
        self.checkpoint.remember(stream, uuids)
        if models:
            self._gate = Gate(self.lake, stream, self.project, self.target, models)
            self._gate.enter(session)
        return session

    def _retrying(self, session: SparkSession, once: bool) -> None:
        """Run the query, and again while only the broker is away."""
        import tenacity

        def wait(state: tenacity.RetryCallState) -> None:
            assert state.outcome is not None and state.next_action is not None
            error = state.outcome.exception()
            assert error is not None
            if not is_away(error):
                return
            why = explain(error).splitlines()[0]
            log.warning(
                "stream=%s broker=away again_in_s=%.0f %s",
                self.stream.name,
                state.next_action.sleep,
                why,
            )
            self.control.tell(state="waiting for the broker", error=why)

        patient = tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda e: goes_on(e) and not self.stopping),
            stop=lambda state: time.monotonic() - self._alive_at > self.stream.give_up_minutes * 60,
            wait=tenacity.wait_exponential(max=30),
            before_sleep=wait,
            sleep=self._sleep,
            reraise=True,
        )
        patient(self._query, session, once)

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._is_stopped():
            time.sleep(POLL_S)

    def _query(self, session: SparkSession, once: bool) -> None:
        if self._is_stopped():
            return
        self._failed, self._anew = None, False
        records = source.read_records(session, self.stream, self.project)
        # Here and not in each batch: Spark takes the long text of it apart once.
        found = parsed(records, self.stream, self._rules, self._quickly)
        writer = found.writeStream.queryName(self.stream.name)
        # No URI: Spark would take its `%20` for a part of the name.
        writer = writer.option("checkpointLocation", f"file:{self.checkpoint.folder}")
        # With a number of records the source itself waits; Spark only has to ask it often.
        pause = min(1, self.stream.batch.seconds) if self.stream.batch.records else None
        every = pause or self.stream.batch.seconds
        trigger: Any = {"availableNow": True} if once else {"processingTime": f"{every} seconds"}
        query = writer.foreachBatch(self._batch).trigger(**trigger).start()
        self.control.tell(state="running", error="")
        try:
            again = self._watch(session, query)
        finally:
            query.stop()
        if again:
            self._query(session, once)

    def _watch(self, session: SparkSession, query: Any) -> bool:
        """Return when the query is over, and whether another one goes on with its next batch."""
        published, seen = time.monotonic(), ""
        while True:
            try:
                ended = query.awaitTermination(POLL_S)
            except Exception as error:  # it has that of the batch as text only
                if self._failed or not (self.stopping or self._anew):
                    raise self._failed or error from error
                if not self.stopping:
                    return True
                ended = True  # the batch that was to begin is the next start's
            progress = query.lastProgress
            if progress and progress["timestamp"] != seen:
                seen, self._alive_at = progress["timestamp"], time.monotonic()
                self.control.tell(behind=_behind(progress))
            ends = ended or self._is_stopped()
            publishes = self._gate and (ends or time.monotonic() - published > self._every_s)
            replays = self.control.is_asked("replay")
            if ends or publishes or replays:
                with self._in_batch:  # the batch in hand comes to its end
                    if self._failed:  # readers get no part of a batch
                        continue
                    if replays:
                        self._replay_as_asked(session)
                    if publishes:
                        self._publish(session)
                        published = time.monotonic()
                    if ends:
                        return False

    @property
    def _every_s(self) -> float:
        return self.stream.publish.minutes * 60 if self.stream.publish else math.inf

    def _replay_as_asked(self, session: SparkSession) -> None:
        try:
            self.control.tell(replay=self._replay(session))
        except Exception as error:  # the stream itself goes on
            self.control.tell(replay={"error": explain(error)})
        self.control.done("replay")

    def _is_stopped(self) -> bool:
        self.stopping = self.stopping or self.control.is_asked("stop")
        return self.stopping

    def _stop(self) -> None:
        self.stopping = True

    def _batch(self, found: DataFrame, number: int) -> None:
        with self._in_batch:
            if self.stopping or self._anew:
                raise _Stopping
            try:
                self._write(found, number)
            except BaseException as error:
                self._failed, self._writer = error, None  # who knows what was committed
                raise

    def _write(self, found: DataFrame, number: int) -> None:
        began = time.monotonic()
        session = found.sparkSession
        # Spark switches it off for queries with a state; a batch has none.
        session.conf.set("spark.sql.adaptive.enabled", "true")
        if self._gate:
            self._gate.enter(session)
        written = self._the_writer().batch(found, number)
        if self._quickly and written.slow > max(MANY, written.all / 2):
            self._quickly, self._anew = False, True  # tried in vain, it only takes longer
            why = "most records are nested, or have their numbers in quotes"
            log.info("stream=%s reads=text: %s", self.stream.name, why)
        for table, rows in written.rows.items():
            self.rows[table] = self.rows.get(table, 0) + rows
        told = " ".join(f"{table}={rows}" for table, rows in written.rows.items())
        log.info(
            "stream=%s batch=%d seconds=%.1f errors=%d %s",
            self.stream.name,
            number,
            time.monotonic() - began,
            written.errors,
            told,
        )
        self.control.tell(
            state="running", batch=number, rows=self.rows, errors_waiting=self._the_writer().waiting
        )

    @property
    def _rules(self) -> Mapping[str, Sequence[Rule]]:
        return self._gate.models.rules if self._gate else {}

    def _the_writer(self) -> Writer:
        if self._writer is None or self._writer.checkpoint != self.checkpoint.id:
            self._writer = Writer(self.lake, self.stream, self.checkpoint.id, self._rules)
        return self._writer

    def _replay(self, session: SparkSession) -> dict[str, int]:
        if self._gate:
            self._gate.enter(session)
        found = self._the_writer().replay(session)
        self.control.tell(errors_waiting=found["waiting"])
        log.info("stream=%s replayed=%d waiting=%d", self.stream.name, *found.values())
        return found

    def _publish(self, session: SparkSession) -> None:
        assert self._gate is not None
        try:
            outcome = self._gate.publish(session)
        except GateError as error:  # dbt is at work, or others left no gap: the next time is soon
            log.warning("stream=%s %s", self.stream.name, error)
            return self.control.tell(held=[str(error)])
        if outcome is None:
            return
        log.info("stream=%s %s", self.stream.name, describe(outcome).strip())
        held = [f"{h.verdict.table}: {h.verdict.by}" for h in outcome.held]
        held += [f"{table}: {why}" for table, why in outcome.blocked.items()]
        told = {"release": outcome.release} if outcome.release else {}
        self.control.tell(held=held, build=outcome.build, **told)


def _behind(progress: Any) -> int | None:
    """Return how many records wait in the partition that has most of them, where that's known."""
    told = ((each["metrics"] or {}).get("maxOffsetsBehindLatest") for each in progress["sources"])
    return max((int(behind) for behind in told if behind), default=None)
