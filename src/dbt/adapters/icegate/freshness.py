"""`dbt source freshness` without `loaded_at_field`: when rows last changed, from metadata."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import key_of
from icegate.landing import newest_marker
from icegate.tables.facts import Facts
from icegate.tables.metadata import row_count

logger = AdapterLogger("Icegate")


def changed_at(source: BaseRelation, facts: Facts | None) -> datetime | None:
    """Return when a source's rows last changed, None for a table that never had any.

    Raises when metadata can't tell, with the next step: a wrong answer would look like a fresh one.
    """
    landing = getattr(source, "landing", None)
    if landing is not None:
        newest = newest_marker(landing)
        if newest is None:
            raise _unknown(landing.name, "no day of its landing folder has a marker yet")
        return datetime.fromtimestamp(newest, timezone.utc)
    if facts is None:
        raise _unknown(source, "the catalog has no Iceberg table of this name", "build it, or ")
    if facts.kind == "view":
        raise _unknown(source, "it is a view, whose rows are those of other tables")
    if facts.changed_at is None and row_count(facts.summary or {})[0]:
        raise _unknown(
            source,
            "the snapshots that changed its rows have expired; only maintenance is left",
            "keep more snapshots (`history.expire.max-snapshot-age-ms`), or ",
        )
    if facts.changed_at is None:
        logger.warning(f"source {source} has never had a row: dbt counts its age from the year 1")
    return facts.changed_at


def _unknown(source: Any, why: str, instead: str = "") -> DbtRuntimeError:
    return DbtRuntimeError(
        f"cannot tell when {source} last changed\n  why: {why}\n"
        f"  fix: {instead}give the source a `loaded_at_field` or a `loaded_at_query`"
    )


def single(adapter: Any, source: BaseRelation, found: list[Facts]) -> Any:
    """Return dbt's answer for one source, or raise what to do."""
    with as_dbt_error():
        changed = changed_at(source, found[0] if found else None)
    return adapter._create_freshness_response(changed, datetime.now(timezone.utc))


def batch(adapter: Any, sources: list[BaseRelation], found: list[Facts]) -> dict[Any, Any]:
    """Return dbt's answers for those ``sources`` that have one; dbt asks the others singly."""
    by_key = {facts.key: [facts] for facts in found}
    answers = {}
    for source in sources:
        try:
            answers[source] = single(adapter, source, by_key.get(key_of(source), []))
        except DbtRuntimeError as error:
            logger.debug(str(error.msg))
    return answers
