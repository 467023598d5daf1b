"""What must hold in everything that a reader sees; pure functions that return what doesn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gated_shop import HIGH, LOW, Row

Tables = Mapping[str, list[Row]]


def row_faults(tables: Tables) -> Iterator[str]:
    """Yield the rows of each table that fail a test of the project."""
    for name, rows in tables.items():
        for row in rows:
            amount = row["amount"]
            if amount is None or (name != "totals" and not LOW <= amount <= HIGH):
                yield f"{name} has a row with amount {amount}: {row}"
        twice = [id for id, n in Counter(row.get("id") for row in rows).items() if n > 1]
        if name != "totals" and (twice or any(row["id"] is None for row in rows)):
            yield f"{name} has ids that are null or there twice: {twice}"


def tie_faults(tables: Tables) -> Iterator[str]:
    """Yield what doesn't fit between tables that were read as of one moment or release."""
    orders, lines, totals = (tables[name] for name in ("orders", "lines", "totals"))
    ids = {row["id"] for row in orders}
    orphans = [row for row in lines if row["order_id"] not in ids]
    if orphans:
        yield f"lines of no order: {orphans}"
    batches = {name: max_batch(rows) for name, rows in tables.items()}
    if len(set(batches.values())) > 1:
        yield f"tables of different batches: {batches}"
    own = [row for row in orders if row["batch"] > 0]
    said = [(row["orders"], row["amount"]) for row in totals]
    is_same = said == [(len(own), sum(row["amount"] or 0 for row in own))]
    if (said or own) and not is_same:
        yield f"totals say {said} of {len(own)} orders"


def max_batch(rows: Iterable[Row]) -> int:
    """Return the newest batch in a table; what another writer appended has batch 0."""
    return max((row["batch"] or 0 for row in rows), default=0)


def content_faults(tables: Tables, orders: list[Row], lines: list[Row]) -> Iterator[str]:
    """Yield rows of builds that are missing or too many, once everything is published."""
    for name, wanted in (("orders", orders), ("lines", lines)):
        seen = Counter(_key(row) for row in tables[name] if row["batch"] > 0)
        missing = Counter(map(_key, wanted))
        lost, extra = missing - seen, seen - missing
        if lost or extra:
            yield f"{name}: lost {sorted(lost.elements())}, too many {sorted(extra.elements())}"


def _key(row: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(row.items()))


def foreign_ids(tables: Tables) -> set[str]:
    """Return the ids of the rows that another writer appended."""
    return {row["id"] for rows in tables.values() for row in rows if row["batch"] == 0}


def order_faults(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables that went back in time, between two looks: metadata by name."""
    for name, old in before.items():
        if name not in after:
            yield f"{name} is gone"
            continue
        head, was = _head(after[name]), _head(old)
        if was and (not head or head["sequence-number"] < was["sequence-number"]):
            yield f"{name} went back from snapshot {was} to {head}"


def _head(metadata: Any) -> dict[str, Any] | None:
    current = metadata.get("current-snapshot-id")
    found = (s for s in metadata.get("snapshots", []) if s["snapshot-id"] == current)
    return next(found, None)
