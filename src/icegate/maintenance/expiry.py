"""Expire snapshots by Iceberg's library itself, in the process that Spark runs in.

The procedure commits the same, and then finds the files that nothing needs by jobs of Spark: for a
thousand snapshots ten times the work. That is for what one process can't hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icegate.maintenance.action import Expiry, quoted
from icegate.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FILES = 500_000  # of which the paths, of some hundred bytes each, are held in memory


def fits(session: SparkSession | None, expiry: Expiry) -> bool:
    """Tell whether a session's own process can expire: over Connect there is none."""
    return session is not None and not is_remote(session) and expiry.removed <= MOST_FILES


def expire(session: Any, table: str, expiry: Expiry) -> None:
    """Expire snapshots of `schema.table`, and delete the files that only they had."""
    spark = session._jvm.org.apache.iceberg.spark.Spark3Util
    found = spark.loadIcebergTable(session._jsparkSession, quoted(table))
    work = found.expireSnapshots().expireOlderThan(expiry.older_than_ms)
    work.retainLast(expiry.retain_last).commit()
