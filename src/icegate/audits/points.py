"""What tests read of a build or a release, in the place of what readers see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from icegate.audits.source import Source
from icegate.dialect import SPARK, name_in
from icegate.errors import GateError
from icegate.gate import ledger, refs
from icegate.gate.candidates import candidates, read_lake
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.publish import reports_of
from icegate.gate.releases import check_idle, find
from icegate.gate.report import merge
from icegate.gate.store import StoredTable
from icegate.settings import Lake


class Point(NamedTuple):
    """A table at a point, under its final name, and by which name Spark reads it there.

    ``is_like_now`` tells whether it had the columns that it has now.
    """

    source: Source
    on_spark: str
    is_like_now: bool = True


def points(lake: Lake, name: str) -> dict[str, Point]:
    """Return the tables that a build wrote, or those of a release, by `schema.table`.

    Raises ``ConfigError`` for a name that isn't known, ``GateError`` while the build runs.
    """
    found, tables = find(lake, name), read_lake(lake)
    if found.release is not None:
        rows = ledger.read_release_tables(lake, found.release)
        of_release = {r.table_name: r for r in rows if r.table_name in tables}
        return {n: _in_release(tables[n], row) for n, row in of_release.items()}
    if found.waits:
        check_idle(found.waits, f"audit build {found.build}")
    report, branch = merge(reports_of(found.events)), refs.branch_of(found.build)
    wrote = candidates(lake, found.build, tables, report).items()
    return {
        final: Point(
            Source(
                StoredTable(candidate.table.entry.renamed(final), candidate.table.metadata),
                candidate.head,
            ),
            candidate.table.name if candidate.staged else f"{final}.branch_{branch}",
        )
        for final, candidate in wrote
    }


def _in_release(table: StoredTable, row: ReleaseTable) -> Point:
    if row.snapshot_id is not None and refs.snapshot(table.metadata, row.snapshot_id) is None:
        raise GateError(
            f"cannot audit release {row.release}",
            why=f"snapshot {row.snapshot_id} of {table.name} has expired, or it was made anew",
            fix="audit a later release, or keep more of them before they expire",
        )
    is_like_now = row.schema_id == table.metadata["current-schema-id"]
    selector = f"{table.name}.snapshot_id_{row.snapshot_id}"
    return Point(Source(table, row.snapshot_id), selector, is_like_now)


def at_points(sql: str, chosen: Mapping[str, Point]) -> str:
    """Return a query that reads tables at their points, for Spark; the others as they are."""
    tree = sqlglot.parse_one(sql, dialect=SPARK)
    by_name = {name.lower(): point for name, point in chosen.items()}
    for table in list(tree.find_all(exp.Table)):
        point = by_name.get(name_in(table))
        if point is not None:
            there = exp.to_table(point.on_spark, dialect=SPARK)
            table.replace(exp.alias_(there, table.alias_or_name, table=True))
    return tree.sql(dialect=SPARK)
