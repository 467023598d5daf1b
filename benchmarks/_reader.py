"""A reader in a process of its own: what two tables show on `main`, every 50 ms where it can."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from icegate.catalog import CatalogEntry, list_relations, read_metadata
from icegate.errors import CatalogError
from icegate.settings import Lake
from icegate.tables.metadata import view_version

EVERY_S = 0.05
# What a poll can find, worst first.
NONE, BAD, TORN, BEFORE, AFTER = SEEN = (
    "no table",
    "bad rows",
    "two tables that disagree",
    "right rows without the batch",
    "right rows with the batch",
)
# SQLMesh shows a table of its own schema through a view.
SHOWN = re.compile(r"`?(sqlmesh__\w+)`?\.`?(\w+)`?")


@dataclass(frozen=True)
class Poll:
    """One look at both tables, at one moment of the catalog."""

    at: float
    good: int = 0
    bad: int = 0  # orders that break a test
    amount: int = 0  # the sum of orders
    revenue: dict[str, int] = field(default_factory=dict)  # the row that was computed from orders
    snapshots: tuple[int | None, ...] = ()  # of orders and revenue; of none without both tables

    def seen(self, good_in_the_end: int) -> str:
        """Say in one of the words of `SEEN` what a reader got."""
        if not self.snapshots:
            return NONE
        if self.bad:
            return BAD
        if self.revenue != {"orders": self.good, "revenue": self.amount}:
            return TORN
        return AFTER if self.good == good_in_the_end else BEFORE


@contextmanager
def reading(lake: Lake) -> Iterator[list[Poll]]:
    """Poll for as long as the block runs; the list is filled at its end."""
    context = multiprocessing.get_context("spawn")
    wire, far_end = context.Pipe()
    reader = context.Process(target=_read_on, args=(far_end, lake), daemon=True)
    reader.start()
    far_end.close()  # so that a reader that broke down is noticed
    wire.recv()
    polls: list[Poll] = []
    yield polls
    wire.send("enough")
    polls += wire.recv()
    reader.join()


def _read_on(wire: Connection, lake: Lake) -> None:
    polls = [look(lake)]
    wire.send("ready")
    while not wire.poll(max(0.0, polls[-1].at + EVERY_S - time.time())):
        polls.append(look(lake))
    wire.send(polls)


def look(lake: Lake) -> Poll:
    """Read both tables as the catalog has them now: their pointers come from one query."""
    at = time.time()
    entries = {entry.full_name: entry for entry in list_relations(lake)}
    try:
        orders, revenue = (_open(entries, f"bench.{name}") for name in ("orders", "revenue"))
        amount = orders.scan().to_arrow()["amount"]
        counted = revenue.scan().to_arrow().to_pylist()
    except (KeyError, FileNotFoundError, CatalogError):  # not there yet, or dropped meanwhile
        return Poll(at)
    good = pc.sum(pc.fill_null(pc.greater_equal(amount, 0), False)).as_py() or 0
    return Poll(
        at,
        good,
        bad=len(amount) - good,
        amount=pc.sum(amount).as_py() or 0,
        revenue=counted[0] if counted else {},
        snapshots=tuple(table.metadata.current_snapshot_id for table in (orders, revenue)),
    )


def _open(entries: dict[str, CatalogEntry], name: str) -> StaticTable:
    """Open a table, or the one behind the view of that name."""
    entry = entries[name]
    if entry.kind == "view":
        (text,) = view_version(read_metadata(entry))["representations"]
        entry = entries[".".join(SHOWN.search(text["sql"]).groups())]
    return StaticTable.from_metadata(entry.metadata_location)
