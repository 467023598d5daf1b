"""No model that is tagged `public` is written with personal data that nothing has masked."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from icegate.errors import ConfigError
from icegate.gate.staging import final_names

if TYPE_CHECKING:
    from icegate.lineage import Lineage

TAG = "public"
SHOWN = 5  # columns in a message
# A model's SQL as of its first run, without a look at files or tables.
AS_FIRST_RUN = {"is_incremental": lambda: False, "not_yet_loaded": lambda *_: "true"}


def check_public(node: Any, task: Any, relation: Any) -> None:
    """Raise ``ConfigError`` where personal data reaches a public model through no masking macro.

    ``node`` is about to be written by dbt's ``task``; ``relation`` is the adapter's class.
    """
    if task is None or TAG not in (getattr(node, "tags", None) or ()):
        return
    from icegate.lineage import Lineage, name_of  # with sqlglot: a tenth of a second

    known = Lineage(
        {**task.manifest.sources, **task.manifest.nodes},
        lambda model: final_names(_code(model, task), dict(relation.staged)),
        lambda source: relation.create_from(task.config, source).landing,
    )
    ways = [*_ways(node, known)]
    if ways:
        more = f" … and {len(ways) - SHOWN} more" if len(ways) > SHOWN else ""
        raise ConfigError(
            f"cannot write {name_of(node)}: it is tagged `{TAG}`, and personal data reaches it",
            why="; ".join(ways[:SHOWN]) + more,
            fix="mask it by a macro of macros/anonymise, or leave it out; where a column on the "
            "way holds no personal data, say so there: `meta: {pii: false}`",
        )


def _ways(node: Any, known: Lineage) -> Iterator[str]:
    from icegate.lineage import ANY, Origin

    for column in [*known.columns(node.unique_id), ANY]:
        to = Origin(node.unique_id, column)
        said, way = known.said(to), known.way(*to)
        if said is False and node.language == "python":  # its author is the only one who can know
            continue
        if way:
            yield f"{column} comes from {' from '.join(known.shown(origin) for origin in way)}"
        elif said:
            yield f"{column} says of itself `pii: {said}`"


def _code(node: Any, task: Any) -> str:
    """Return a model's compiled SQL; one that this command doesn't run is compiled for it."""
    if not node.compiled_code:
        node = task.compiler.compile_node(deepcopy(node), task.manifest, AS_FIRST_RUN, write=False)
    return str(node.compiled_code)
