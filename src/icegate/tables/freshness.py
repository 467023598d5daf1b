"""When a source's rows last changed, from metadata or from the markers of its landing folder."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from icegate.errors import CatalogError
from icegate.landing import LandingTable, newest_marker
from icegate.tables.facts import Facts
from icegate.tables.metadata import row_count


def changed_at(
    name: str, landing: LandingTable | None, facts: Facts | None, warn: Callable[[str], None]
) -> datetime | None:
    """Return when a source's rows last changed, None for a table that never had any.

    Raises ``CatalogError`` when metadata can't tell: a wrong answer would look like a fresh one.
    """
    if landing is not None:
        newest = newest_marker(landing)
        if newest is None:
            raise _unknown(landing.name, "no day of its landing folder has a marker yet")
        return datetime.fromtimestamp(newest, timezone.utc)
    if facts is None:
        raise _unknown(name, "the catalog has no Iceberg table of this name", "build it, or ")
    if facts.kind == "view":
        raise _unknown(name, "it is a view, whose rows are those of other tables")
    if facts.changed_at is None and row_count(facts.summary or {})[0]:
        raise _unknown(
            name,
            "the snapshots that changed its rows have expired; only maintenance is left",
            "keep more snapshots (`history.expire.max-snapshot-age-ms`), or ",
        )
    if facts.changed_at is None:
        warn(f"source {name} has never had a row: dbt counts its age from the year 1")
    return facts.changed_at


def _unknown(name: str, why: str, instead: str = "") -> CatalogError:
    return CatalogError(
        f"cannot tell when {name} last changed",
        why=why,
        fix=f"{instead}give the source a `loaded_at_field` or a `loaded_at_query`",
    )
