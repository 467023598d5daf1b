"""`dbt source freshness` without `loaded_at_field`: when rows last changed, from metadata."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import key_of
from icegate.tables.facts import Facts
from icegate.tables.freshness import changed_at

logger = AdapterLogger("Icegate")


def single(adapter: Any, source: BaseRelation, found: list[Facts]) -> Any:
    """Return dbt's answer for one source, or raise what to do."""
    with as_dbt_error():
        landing = getattr(source, "landing", None)
        changed = changed_at(str(source), landing, found[0] if found else None, logger.warning)
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
