"""The writes of one node in a build: alone on its table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from icegate.gate.build import Build, hold_table
from icegate.settings import Lake

_threads: dict[str, threading.Lock] = {}  # by table


@contextmanager
def writing(lake: Lake, build: Build, table: str) -> Iterator[None]:
    """Hold while this thread's node writes ``table``, `schema.name`.

    Processes of one named build wait here for each other, and threads of one process, as with the
    batches of a model: on one branch an overwrite would drop what another one appends, and of two
    writes at once nobody could tell whose commit it was when a reply is lost.
    """
    others = hold_table(lake, build.name, table) if build.named else nullcontext()
    with _threads.setdefault(table, threading.Lock()), others:
        yield
