"""A round: a batch arrives, builds come to grief over it, and the next build has to end well."""

from __future__ import annotations

import time
from collections.abc import Iterator

from checks import content_faults, foreign_ids, row_faults, tie_faults
from gated_shop import FAULTS, SCHEMA, Row, Shop
from lakes import held_locks, read_pointers, read_table
from mishaps import MISHAPS, Stage, nothing
from watch_pyiceberg import TABLES

from icegate.catalog import list_relations
from icegate.gate import refs, staging
from icegate.gate.store import read_tables

GOOD = "none"
BAD_SHARE, FORM_SHARE = 0.4, 0.2


def play(stage: Stage, name: str, planted: str = "") -> str:
    """Play one round with a fault planted, or one of chance; tell what was played."""
    shop, started = stage.builder.shop, time.monotonic()
    is_bad, drawn = stage.random.random() < BAD_SHARE, stage.random.choice(FAULTS)
    planted = planted or (drawn if is_bad else GOOD)
    if stage.random.random() < FORM_SHARE:
        shop.change_form()
    shop.arrive(planted)
    undos, code = stage.undos, MISHAPS[name](stage)
    if code not in (None, int(planted != GOOD)):
        stage.faults.append(f"the build ended with {code}, and {planted} was planted")
    if stage.undos > undos:  # it took away what came later, and another writer's rows with it
        stage.foreign &= foreign_ids(seen(shop))
    if planted != GOOD or code != 0:
        shop.repair()
        if code := nothing(stage):
            stage.faults.append(f"the next build ended with {code}")
    try:
        stage.faults += [*left_behind(shop), *wrong(stage)]
    except FileNotFoundError as error:
        stage.faults.append(f"a file of a table is gone: {error}")
    return f"{time.monotonic() - started:6.1f} s  planted: {planted:9}  {name}"


def wrong(stage: Stage) -> Iterator[str]:
    """Yield what readers don't see of all that arrived, or see too much."""
    tables = seen(stage.builder.shop)
    yield from row_faults(tables)
    yield from tie_faults(tables)
    yield from content_faults(tables, *stage.builder.shop.expected())
    if lost := stage.foreign - foreign_ids(tables):
        yield f"rows of another writer are lost: {sorted(lost)}"


def seen(shop: Shop) -> dict[str, list[Row]]:
    """Return the rows of main as of one moment."""
    at = read_pointers(shop.lake.home)
    files = {name: at[f"{SCHEMA}.{name}"] for name in TABLES if f"{SCHEMA}.{name}" in at}
    found = {name: read_table(file) for name, file in files.items()}
    rows = {name: table.scan().to_arrow().to_pylist() for name, table in found.items()}
    return {name: rows.get(name, []) for name in TABLES}


def left_behind(shop: Shop) -> Iterator[str]:
    """Yield what a build that ended well may not leave: branches, staged tables, locks."""
    for table in read_tables(shop.lake):
        for build in refs.builds(table.metadata):
            yield f"{table.name} still has the branch of build {build}"
    for entry in list_relations(shop.lake, staging.NAMESPACE):
        yield f"{entry.full_name} is still there"
    for lock in held_locks(shop.lake.home):
        yield f"{lock} is still held"
