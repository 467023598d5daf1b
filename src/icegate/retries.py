"""Writes that meet other writers: what an error means, and which statement may be run again.

Iceberg itself repeats a commit that met another one (`commit.retry.*` of a table). What comes back
is worse: another writer changed what this one had read, or nobody knows what became of a commit.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from icegate.explain import CONFLICTING, DENIED, whole_text

if TYPE_CHECKING:
    from tenacity import RetryCallState

log = logging.getLogger(__name__)

CONFLICT, LOST, OTHER = "conflict", "lost", "other"
CLASSES = re.compile(
    r"\borg\.apache\.iceberg\.exceptions\.(?:ValidationException|CommitFailedException)\b"
)
INVALID = "org.apache.iceberg.exceptions.ValidationException"
# The second is all that a JDBC catalog says of a database that failed while it committed.
UNKNOWN = re.compile(
    r"\bCommitStateUnknownException\b|\borg\.apache\.iceberg\.jdbc\.UncheckedSQLException\b"
)

ATTEMPTS = 8
LONGEST_S = 20  # a wait is of up to 1, 2, 4 … seconds, by chance, so that nobody meets again

# How writers meet, by Iceberg's message, and what keeps them apart.
OVERLAP, APPENDED, REWRITTEN, BUSY = "overlap", "appended", "rewritten", "busy"
HOW = (
    (OVERLAP, r"records matching (?:true|\[\])[:,]"),
    (APPENDED, r"Found conflicting files"),
    (
        REWRITTEN,
        r"conflicting delete|replaced data file|[Mm]issing .*files|concurrently"
        r"|current snapshot changed",
    ),
)

SAID = (CONFLICTING, r"Cannot determine history", *(pattern for _, pattern in HOW))

_NAME = r"((?:`[^`]+`|[\w-]+)(?:\.(?:`[^`]+`|[\w-]+))*)"
# One commit, or work that may stop anywhere: where it met a conflict it did nothing.
_WRITE = re.compile(
    r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:(?:with|from)\b.*?\b)??"
    r"(?:insert\s+(?:into|overwrite)(?:\s+table)?\s|merge\s+(?:with\s+schema\s+evolution\s+)?into\s"
    r"|update\s|delete\s+from\s|call\s+[\w.`]*\brewrite_\w+\s*\((?:[^)]*?\btable\s*=>)?\s*['\"])"
    rf"\s*{_NAME}",
    re.IGNORECASE | re.DOTALL,
)

FROM_SNAPSHOT = "validate-from-snapshot-id"  # an option: run again as it is, it fails again

KEY = "icegate.write"  # in each snapshot's summary: <process>.<number of the write>
_STAMP = f"spark.sql.iceberg.snapshot-property.{KEY}"
_PROCESS = uuid.uuid4().hex[:12]
_numbers = itertools.count(1)
_lock = threading.Lock()
_running: dict[str, set[int]] = {}  # by table, writes of this process
_last: dict[str, int] = {}

Done = TypeVar("Done")


def kind_of(error: BaseException) -> str:
    """Tell what an error means for a write: a CONFLICT, a LOST reply, or something OTHER.

    By the names of Java's classes: Connect and Thrift give them as text. Who has no right meets
    no other writer, whatever the error is called.
    """
    whole = whole_text(error)
    if UNKNOWN.search(whole):
        return LOST
    found = CLASSES.search(whole)
    # A table that can't be is no valid one either.
    met = found and (found[0] != INVALID or any(re.search(how, whole) for how in SAID))
    return CONFLICT if met and not re.search(DENIED, whole) else OTHER


def target(sql: str) -> str:
    """Return the table whose rows or files a statement changes, as written there, or nothing.

    Failed by a conflict, such a statement has changed nothing.
    """
    found = _WRITE.match(sql)
    return found[1] if found else ""


@dataclass(frozen=True)
class Met:
    """How often writes of a table met others, and the most seconds that one waited for them."""

    conflicts: int = 0
    waited_s: float = 0.0
    how: str = ""  # the last time: OVERLAP, APPENDED, REWRITTEN or BUSY


class Meetings(dict[str, Met]):
    """What the writes of a run met, by `schema.table` in lower case."""

    def again(
        self,
        run: Callable[[], Done],
        table: str,
        sleep: Callable[[float], Any] = time.sleep,
        tell: Callable[[str], Any] = log.info,
    ) -> Done:
        """Return what ``run`` does; run it again, up to ATTEMPTS times, when it meets a conflict.

        It has to read anew what it writes, and to do nothing where it fails. Other errors, and the
        last conflict, are raised as they are.
        """
        import tenacity  # reports know what was met, and needn't wait for this

        def after(state: RetryCallState) -> None:
            self._count(table, whole_text(state.outcome.exception()))  # type: ignore

        def before_sleep(state: RetryCallState) -> None:
            with _lock:
                met = self.of(table)
                waited = max(met.waited_s, round(state.idle_for, 1))
                self[_key(table)] = replace(met, waited_s=waited)
            told = f"attempt={state.attempt_number} wait_s={state.upcoming_sleep:.1f}"
            tell(f"conflict table={table} how={met.how} {told}")

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(lambda error: kind_of(error) == CONFLICT),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_random_exponential(max=LONGEST_S),
            after=after,
            before_sleep=before_sleep,
            sleep=sleep,
            reraise=True,
        )(run)

    def write(self, session: Any, sql: str) -> None:
        """Run a statement of a job that changes a table; see ``again`` and ``settled``."""

        def run() -> None:
            with settled(session, sql):
                session.sql(sql)

        self.again(run, target(sql))

    def note(self, results: Iterable[Any]) -> None:
        """Put what the writes of dbt's nodes met into their results, also of those that failed."""
        for result in results:
            met = self.of(getattr(result.node, "relation_name", None) or "")
            if met.conflicts:
                result.adapter_response = {**(result.adapter_response or {}), **asdict(met)}

    def of(self, table: str) -> Met:
        """Return what writes of a table met."""
        return self.get(_key(table), Met())

    def _count(self, table: str, said: str) -> None:
        how = next((name for name, pattern in HOW if re.search(pattern, said)), BUSY)
        with _lock:
            met = self.of(table)
            self[_key(table)] = replace(met, conflicts=met.conflicts + 1, how=how)


@contextmanager
def settled(session: Any, sql: str) -> Iterator[None]:
    """Run a statement; where its reply is lost, look whether it was committed before it fails.

    Each write has a number in its snapshot. Threads share a session's settings, so that a snapshot
    may have the number of a later write, but never that of an earlier one.
    """
    table = target(sql)
    if not table:
        yield
        return
    with _lock:
        number, others = next(_numbers), _running.setdefault(_key(table), set())
        is_alone, _last[_key(table)] = not others, number
        others.add(number)
    session.conf.set(_STAMP, f"{_PROCESS}.{number}")
    try:
        yield
    except Exception as error:
        # Of two writes of this process at once it couldn't be told which one was committed.
        is_known = is_alone and _last[_key(table)] == number
        if kind_of(error) != LOST or not (is_known and _is_committed(session, table, number)):
            raise
        log.warning(
            "commit=found table=%s write=%s.%s: its reply was lost", table, _PROCESS, number
        )
    finally:
        with _lock:
            others.discard(number)


def _is_committed(session: Any, table: str, number: int) -> bool:
    with suppress(Exception):  # then nothing is known, and the first error tells why
        session.sql(f"refresh table {table}")  # a catalog may keep what it has read
        newest = session.sql(
            f"select max(bigint(split_part(summary['{KEY}'], '.', 2))) from {table}.snapshots "
            f"where summary['{KEY}'] like '{_PROCESS}.%'"
        ).first()[0]
        return bool(newest is not None and newest >= number)
    return False


def _key(table: str) -> str:
    return ".".join(table.replace("`", "").lower().split(".")[-2:])
