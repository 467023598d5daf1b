"""Findings as the SQL of a dbt test: literal rows, so that no engine reads a table for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from icegate.anomalies.files import SECONDS, fields
from icegate.anomalies.find import OF_FILES, find
from icegate.anomalies.look import Finding, Settings
from icegate.catalog import list_relations, read_metadata
from icegate.errors import ConfigError, did_you_mean
from icegate.gate.refs import MAIN, Metadata, head
from icegate.gate.staging import NAMESPACE
from icegate.settings import Lake
from icegate.tables.state import literal

if TYPE_CHECKING:
    from icegate.audits.points import Point

COLUMNS = ("kind", "column_name", "sentence", "snapshot_id")
OURS = re.compile(r"-- anomalies (\{.*\})\n.*?\n-- end of anomalies", re.DOTALL)


def as_sql(
    lake: Lake | None,
    table: Any,
    gate: Any,
    asked: Mapping[str, Any],
    tell: Callable[[str], None],
) -> str:
    """Return SQL with a row for each unusual finding of a table, as a build has it on its ``gate``.

    ``asked`` has `kinds`, and settings. What can't be judged yet is told, and a comment in the SQL.
    """
    if isinstance(table, str):
        raise _wrong(table, "`where` makes a query of it")
    name = f"{table.schema}.{table.identifier}"
    if table.landing:
        raise _wrong(name, "it is read from files")
    asked = {"table": name, **asked}
    if lake is None:
        why = "It can't be said on this target, whose tables' metadata isn't in its own catalog."
        return _rendered(asked, [_row(kind, "", why, "") for kind in asked["kinds"]], [])
    if gate.rehearsal:
        return _rendered(asked, [], [f"not judged: with {gate.rehearsal} not all rows are built"])
    metadata = _metadata(lake, name, table.staged.get(name, ""))
    if metadata is None:  # `dbt compile` comes before the first build; a test of it fails on Spark
        return _rendered(
            asked, [], ["not judged, since the table isn't there yet"], f"from {table}"
        )
    found = _find(metadata, gate.build.branch if gate.build else None, asked)
    for finding in found:
        if finding.status == "not enough history":
            tell(f"not enough history: {name}: {finding.sentence}")
    return _sql(found, asked)


def asked_again(
    sql: str, lake: Lake, points: Mapping[str, Point], branch: str | None = None
) -> str:
    """Return a test's SQL with the findings of now, of a branch, or of a build or a release."""

    def again(match: re.Match[str]) -> str:
        asked = json.loads(match[1])
        metadata = _metadata(lake, asked["table"], "", points.get(asked["table"]))
        return match[0] if metadata is None else _sql(_find(metadata, branch, asked), asked)

    return OURS.sub(again, sql)


def _find(metadata: Metadata, branch: str | None, asked: Mapping[str, Any]) -> list[Finding]:
    ref = branch if branch and head(metadata, branch) else MAIN
    name, kinds = asked["table"], set(asked["kinds"])
    settings = Settings(**{k: v for k, v in asked.items() if k not in ("table", "kinds")})
    columns = {field["name"]: field["type"] for field in fields(metadata)}
    times = {column: kind for column, kind in columns.items() if kind in SECONDS}
    fit = times if "late data" in kinds else columns
    if settings.column is not None and settings.column not in fit:
        raise ConfigError(
            f"cannot test column {settings.column!r} of {name}",
            why=f"its {'time' if fit is times else 'plain'} columns are: {', '.join(fit)}",
            fix=did_you_mean(settings.column, fit, "name one of these"),
        )
    from icegate.files import StoredFiles  # with PyIceberg, which dbt's start can do without

    files = StoredFiles() if kinds & OF_FILES else None
    return find(metadata, files, settings, table=name, ref=ref, kinds=kinds)


def _metadata(lake: Lake, name: str, staged: str, point: Point | None = None) -> Metadata | None:
    """Return a table's metadata, None of one that isn't there.

    What a build has beside a table, or as a release had it, has the snapshots of before, too.
    """
    names = (name.lower(), f"{NAMESPACE}.{staged}".lower())
    entries = {e.full_name.lower(): e for e in list_relations(lake)}
    known = [entries[each] for each in names if each in entries]
    found = [read_metadata(entry) for entry in known if entry.kind == "table"]
    if known and not found:
        raise _wrong(name, "it is a view")
    if point is not None:
        then = {MAIN: {"snapshot-id": point.source.snapshot_id}}
        found.append({**point.source.table.metadata, "refs": then})
    if len(found) < 2:
        return found[0] if found else None
    both = {}
    for key in ("snapshots", "snapshot-log"):
        before, now = (metadata.get(key) or [] for metadata in found)
        both[key] = [*(entry for entry in before if entry not in now), *now]
    return {**found[-1], **both}


def _wrong(name: str, why: str) -> ConfigError:
    fix = "place the test on a whole Iceberg table"
    return ConfigError(f"cannot look for anomalies in {name}", why=why, fix=fix)


def _sql(found: Collection[Finding], asked: Mapping[str, Any]) -> str:
    unusual = [f for f in found if f.status == "unusual"]
    rows = [_row(f.kind, f.column or "", f.sentence, f.snapshot_id) for f in unusual]
    return _rendered(asked, rows, [f"{f.status}: {f.sentence}" for f in found])


def _row(*values: Any) -> str:
    # Text only: what has a cast or a null, Spark would be asked.
    texts = (literal(str(value)) for value in values)
    return ", ".join(f"{text} as {name}" for text, name in zip(texts, COLUMNS, strict=True))


def _rendered(
    asked: Mapping[str, Any], rows: Collection[str], notes: Collection[str], source: str = ""
) -> str:
    told = "".join(f"-- {' '.join(note.split())}\n" for note in notes)
    none = " ".join(filter(None, (f"select {_row(*[''] * len(COLUMNS))}", source, "where false")))
    selects = "\nunion all\n".join(f"select {row}" for row in rows) or none
    return f"-- anomalies {json.dumps(asked)}\n{told}{selects}\n-- end of anomalies"
