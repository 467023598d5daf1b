"""The writes of one node in a build: alone on its table, and sure of what was committed."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from icegate.explain import whole_text
from icegate.gate import refs
from icegate.gate.build import Build, hold_table
from icegate.gate.store import read_tables
from icegate.settings import Lake

log = logging.getLogger(__name__)

# Iceberg doesn't know whether a commit that it sent was made: the reply got lost.
UNKNOWN = "CommitStateUnknownException"

WRITES = re.compile(r"\b(?:insert|merge|update|delete)\b", re.IGNORECASE)

_threads: dict[str, threading.Lock] = {}  # by table
_here = threading.local()  # what the node of this thread writes


@contextmanager
def writing(lake: Lake, build: Build, table: str) -> Iterator[None]:
    """Hold while this thread's node writes ``table``, `schema.name`.

    Processes of one named build wait here for each other, and threads of one process, as with the
    batches of a model: on one branch an overwrite would drop what another one appends, and another
    one's commit would pass for that whose reply was lost.
    """
    _here.writes = (lake, build, table)
    others = hold_table(lake, build.name, table) if build.named else nullcontext()
    try:
        with _threads.setdefault(table, threading.Lock()), others:
            yield
    finally:
        _here.writes = None


@contextmanager
def settled(sql: str) -> Iterator[None]:
    """Run a statement; where its reply is lost, look whether it was committed before it fails."""
    # Looking costs a read of the table's metadata, which a query needn't pay.
    if getattr(_here, "writes", None) is None or not WRITES.search(sql):
        yield
        return
    lake, build, table = _here.writes
    before = _head(lake, build, table)
    try:
        yield
    except Exception as error:
        if UNKNOWN not in whole_text(error):
            raise
        after = _head(lake, build, table)
        if after in (None, before):
            raise
        log.warning("commit=found table=%s snapshot=%s: its reply was lost", table, after)


def _head(lake: Lake, build: Build, table: str) -> Any:
    """Return the snapshot of this process on the build's branch of a table, None without one."""
    for found in read_tables(lake, [table]):
        head = refs.head(found.metadata, build.branch)
        summary = (refs.snapshot(found.metadata, head) or {}).get("summary", {})
        return head if summary.get(build.stamp[0]) == build.stamp[1] else None
    return None
