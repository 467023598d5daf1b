"""Rows in quarantine: which of them still wait, and how they get back into their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icegate.catalog import CatalogEntry, list_relations, open_catalog, read_metadata
from icegate.errors import ConfigError
from icegate.gate import ledger
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.quarantine import FAILED, OWN, SUFFIX, Columns, Rule
from icegate.settings import Lake
from icegate.tables.merge_plan import as_list
from icegate.tables.metadata import columns as columns_of
from icegate.tables.state import literal, quote

MARKS = RETURNED, OUTDATED = "icegate_returned_by", "icegate_outdated_by"
RETRY = "ICEGATE_QUARANTINE_RETRY"  # in the environment: the table whose rows are offered again


def quarantines(lake: Lake) -> list[CatalogEntry]:
    """Return the tables that are a quarantine, whatever else has such a name."""
    named = [entry for entry in list_relations(lake) if entry.name.endswith(SUFFIX)]
    return [e for e in named if OWN.keys() <= {c["name"] for c in columns_of(read_metadata(e))}]


def published(releases: Iterable[ReleaseTable], table: str) -> list[str]:
    """Return the builds that moved ``main`` of a table; "" stands for writes without a gate."""
    return ["", *{row.build for row in releases if row.moved and row.table_name == table}]


def waiting(published: Iterable[str]) -> str:
    """Return the condition for rows in a quarantine `q` that nothing took the place of.

    What a build put aside that wasn't published, its model reads again.
    """
    builds = [*published]
    marks = (_unmarked(mark, builds) for mark in MARKS)
    return f"q.icegate_release in ({_listed(builds)}) and {' and '.join(marks)}"


def _unmarked(mark: str, builds: Iterable[str]) -> str:
    return f"coalesce(q.{mark} not in ({_listed(builds)}), true)"


def _listed(builds: Iterable[str]) -> str:
    return ", ".join(map(literal, builds))


def outdated(
    view: str, model: Mapping[str, Any], waits: str, release: str, is_incremental: bool
) -> str:
    """Return the condition for rows in a quarantine `q` that a write of ``view`` outdates, if any.

    ``waits`` is that for the rows that wait.
    """
    config = model["config"]
    if not is_incremental:  # all of the table is computed anew
        return waits
    if not (keys := as_list(config.get("unique_key"))):
        return ""
    equals = "<=>" if config.get("null_safe_keys") else "="
    same = " and ".join(f"v.{quote(key)} {equals} q.{quote(key)}" for key in keys)
    beside = f"q.icegate_release = {literal(release)} and size(v.{FAILED}) = 0"
    return f"exists (select 1 from {view} v where {same} and ({waits} or {beside}))"


def passing(rules: Iterable[Rule], now: Columns, columns: Columns) -> str:
    """Return the condition for rows in quarantine that a model's tests let pass by now."""
    reasons = [f"coalesce({rule.condition}, false)" for rule in rules]
    own = OWN.keys() | {name.lower() for name, _ in columns}
    # A value that its column can't have any more must not come back as a null.
    reasons += [f"{quote(name)} is not null" for name, _ in now if name.lower() not in own]
    return f"not ({' or '.join(reasons) or 'false'})"


def put_back(table: str, columns: Columns, build: str, published: Iterable[str]) -> str:
    """Return what adds the rows to a select that ``build`` marked as those that go back."""
    listed = ", ".join(quote(name) for name, _ in columns)
    where = f"q.{RETURNED} = {literal(build)} and {_unmarked(OUTDATED, [*published, build])}"
    return f"\nunion all select {listed} from {table} as q where {where}"


def check_retry(model: Mapping[str, Any], is_gated: bool) -> None:
    """Raise where rows can't be put back into a model without harm to other rows."""
    config = model["config"]
    strategy = str(config.get("incremental_strategy") or "append")
    if config.get("materialized") != "incremental":
        why, fix = "each build computes all of its rows anew", "build it again"
    elif strategy not in ("append", "merge"):
        why, fix = f"{strategy} replaces what lies beside them", "build those batches again"
    elif not config.get("unique_key"):
        # What lies above a model's own mark it reads again, and nothing would tell the two apart.
        why, fix = "without a `unique_key` they might come twice", "set it, or --full-refresh"
    elif not is_gated:
        why, fix = "readers would have them before a test has", "take `gate: false` away from it"
    else:
        return
    raise ConfigError(f"cannot put rows back into model {model['name']}", why=why, fix=fix)


def kept(lake: Lake, *entries: CatalogEntry) -> list[dict[str, Any]]:
    """Return what is in quarantines, of each by build, the oldest first; read without a JVM.

    ``waiting`` of the ``rows`` is how many `icegate quarantine retry` would look at.
    """
    releases = ledger.read_release_tables(lake)
    return [found for entry in entries for found in _kept(lake, entry, releases)]


def _kept(
    lake: Lake, entry: CatalogEntry, releases: Sequence[ReleaseTable]
) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = ("icegate_release", "icegate_test", "icegate_at", *MARKS)
    rows = open_catalog(lake).load_table(entry.full_name).scan(selected_fields=wanted).to_arrow()
    ended = pa.array(published(releases, entry.full_name.removesuffix(SUFFIX)))
    read, *marked = (pc.is_in(rows[c], value_set=ended) for c in ("icegate_release", *MARKS))
    found = (
        rows.append_column("waiting", pc.cast(pc.and_not(read, pc.or_(*marked)), "int64"))
        .group_by("icegate_release")
        .aggregate(
            [("icegate_at", "count"), ("waiting", "sum"), ("icegate_test", "distinct")]
            + [("icegate_at", "min")]
        )
    )
    names = ["build", "rows", "waiting", "tests", "since"]
    builds = found.rename_columns(names).sort_by("since").to_pylist()
    return [{"table": entry.full_name, **b, "tests": sorted(b["tests"])} for b in builds]


def drop(lake: Lake, entry: CatalogEntry, build: str | None) -> None:
    """Delete what a build put in quarantine, or without one the table."""
    catalog = open_catalog(lake)
    if build is None:
        catalog.purge_table(entry.full_name)
    else:
        catalog.load_table(entry.full_name).delete(f"icegate_release == '{build}'")
