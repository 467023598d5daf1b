"""What a stream's tables know of it: their columns, and which batch they had last.

A batch signs its snapshot with the stream, its checkpoint and its number. The newest is in a
property of the table as well, which no expiry takes away.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from icegate.errors import ConfigError
from icegate.gate.build import STAMP
from icegate.gate.refs import Metadata
from icegate.streams.config import Route, Stream
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERRORS = "icegate.stream_errors"
STREAM_STAMP, BATCH_STAMP = "icegate.stream", "icegate.batch"
_ERROR_COLUMNS = (
    "stream string, kind string, table_name string, topic string, partition int, offset bigint, "
    "time timestamp, key binary, raw binary, error string, batch bigint, at timestamp, "
    "replayed_at timestamp"
)
# Many small commits and few readers at once; a dbt model of the table's name may say otherwise.
_PROPERTIES = {
    "format-version": "2",
    "write.merge.mode": "merge-on-read",
    "write.merge.isolation-level": "snapshot",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


class Last(NamedTuple):
    """The newest batch of a stream that a table has, and of which checkpoint that is."""

    checkpoint: str
    batch: int


def sign(session: SparkSession, stream: str, checkpoint: str, batch: int) -> None:
    """Have what the session commits from now on signed as a batch's."""
    session.conf.set(f"{STAMP}{STREAM_STAMP}", stream)
    session.conf.set(f"{STAMP}{BATCH_STAMP}", f"{checkpoint}:{batch}")


def sign_nothing(session: SparkSession) -> None:
    """Have what the session commits from now on be no batch's."""
    for stamp in (STREAM_STAMP, BATCH_STAMP):
        session.conf.unset(f"{STAMP}{stamp}")


def last_batch(session: SparkSession, table: str, stream: str) -> Last | None:
    """Return the newest batch that a table has of a stream, None where it has none.

    The property comes after the snapshot: a process may have ended between the two.
    """
    signs = [
        row[0]
        for row in session.sql(
            f"select summary['{BATCH_STAMP}'] from {table}.snapshots "
            f"where summary['{STREAM_STAMP}'] = {literal(stream)} "
            f"and summary['{BATCH_STAMP}'] is not null order by committed_at desc limit 1"
        ).collect()
    ]
    key = _copy(stream)
    signs += [r.value for r in session.sql(f"show tblproperties {table}").collect() if r.key == key]
    found = [Last(sign.rpartition(":")[0], int(sign.rpartition(":")[2])) for sign in signs]
    # The snapshot tells which checkpoint is the newer one; of the same one the higher counts.
    return max((f for f in found if f.checkpoint == found[0].checkpoint), default=None)


def only_in(metadata: Metadata, snapshots: Collection[int]) -> list[str]:
    """Return the streams whose newest batch nothing but these snapshots of a table tells.

    Without them it would be written again, by a process that ended before it had its copy.
    """
    newest: dict[str, Metadata] = {}
    for found in sorted(metadata.get("snapshots") or [], key=lambda s: s["timestamp-ms"]):
        if found.get("summary", {}).get(BATCH_STAMP):
            newest[found["summary"][STREAM_STAMP]] = found
    properties = metadata.get("properties") or {}
    return [
        stream
        for stream, found in newest.items()
        if found["snapshot-id"] in snapshots
        and properties.get(_copy(stream)) != found["summary"][BATCH_STAMP]
    ]


def remember(session: SparkSession, table: str, stream: str, last: Last) -> None:
    """Copy which batch a table had last to where expiry doesn't come."""
    value = literal(f"{last.checkpoint}:{last.batch}")
    session.sql(f"alter table {table} set tblproperties ({literal(_copy(stream))} = {value})")


def _copy(stream: str) -> str:
    return f"{STREAM_STAMP}.{stream}"


def make_ready(session: SparkSession, stream: Stream) -> list[str]:
    """See that the tables of a stream are there and have its columns; return what was done.

    A column that the stream reads as a wider type than before is widened.
    Raises ``ConfigError`` where a column has another type than the stream gives it.
    """
    done = []
    session.sql(f"create namespace if not exists {ERRORS.partition('.')[0]}")
    session.sql(f"create table if not exists {ERRORS} ({_ERROR_COLUMNS}) using iceberg")
    for route in stream.routes:
        if not session.catalog.tableExists(route.table):
            _make(session, route, gated=stream.publish is not None)
            done.append(f"made table {route.table}")
            continue
        types = column_types(session, route.table)
        _check_types(route, types)
        for name, kind in route.types.items():
            known = types.get(name.lower())
            if known is None:
                session.sql(f"alter table {route.table} add column {quote(name)} {kind}")
                done.append(f"added column {name} to {route.table}")
            elif known != kind:
                session.sql(f"alter table {route.table} alter column {quote(name)} type {kind}")
                done.append(f"column {name} of {route.table} is {kind} now, and was {known}")
    return done


def column_types(session: SparkSession, table: str) -> dict[str, str]:
    """Return Spark's types of a table's columns, by name in lower case."""
    fields = session.table(table).schema.fields
    return {field.name.lower(): field.dataType.simpleString() for field in fields}


def _make(session: SparkSession, route: Route, gated: bool) -> None:
    listed = ", ".join(f"{quote(name)} {kind}" for name, kind in route.types.items())
    by = f"partitioned by ({', '.join(route.partition_by)})" if route.partition_by else ""
    given = _PROPERTIES | ({"write.wap.enabled": "true"} if gated else {})
    pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in given.items())
    session.sql(f"create namespace if not exists {route.table.partition('.')[0]}")
    sql = f"create table {route.table} ({listed}) using iceberg {by} tblproperties ({pairs})"
    session.sql(sql)


def _is_wider(kind: str, than: str) -> bool:
    """Tell whether Iceberg can make a column's type another one without touching its files."""
    new, old = (re.fullmatch(r"decimal\((\d+),(\d+)\)", each) for each in (kind, than))
    if new and old:
        return new[2] == old[2] and int(new[1]) > int(old[1])
    return (than, kind) in (("int", "bigint"), ("float", "double"))


def _check_types(route: Route, types: dict[str, str]) -> None:
    for name, kind in route.types.items():
        found = types.get(name.lower())
        if found not in (None, kind) and not _is_wider(kind, str(found)):
            raise ConfigError(
                f"cannot stream into {route.table}",
                why=f"its column {name} is {found}, and the stream reads it as {kind}",
                fix="give the column in the stream's file the type that the table has, or change "
                "the table",
            )
