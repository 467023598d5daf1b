"""The second level of the report: how tests were proved, what they cost, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from icegate.audits.tests import counted
from icegate.catalog import CatalogEntry
from icegate.gate.refs import Metadata
from icegate.gate.report import PASSED
from icegate.health.table import Health, look
from icegate.retries import APPENDED, BUSY, OVERLAP, REWRITTEN
from icegate.trust.project import Model, Project, Test
from icegate.trust.standing import Past, Ran, met_of
from icegate.trust.tables import Look
from icegate.trust.words import count

ENDED = {"pass": "passed", "warn": "warned", "fail": "failed"}
EARLY, MISSING = "not enough history", "not run"
ELEMENTARY_DAYS = 7
SHOWN = 200  # tests whose cost is listed
DAYS = 7  # of builds whose conflicts are told
# What keeps writers apart, by how they met.
APART = {
    OVERLAP: "they could be in any partition, so name this one’s by literals, in "
    "`incremental_predicates`",
    APPENDED: "rows came into the partitions that it reads, so set `isolation: snapshot`, if it "
    "needn’t see rows that are appended meanwhile",
    REWRITTEN: "the same files were changed, so compact closed partitions only, by `where`, and "
    "let merges of the same rows follow one another",
    BUSY: "the catalog had too many commits, so take a `table_profile` with more retries",
}


@dataclass(frozen=True)
class Finding:
    """Something for an engineer, about a test or a table, and the command to go on with."""

    about: str
    what: str
    command: str = ""


@dataclass(frozen=True)
class Cost:
    """What a test cost when it was last run, and how it was answered."""

    test: str
    table: str
    seconds: float
    proof: str


@dataclass(frozen=True)
class Stored:
    """Bytes of a table: what readers read, and what only older snapshots and branches need."""

    table: str
    bytes: int
    bytes_of_history: int


@dataclass(frozen=True)
class Engineers:
    """All of the second level."""

    proofs: str  # 130 by metadata, 5 by scan (spark)
    seconds: float  # of all tests of the last run
    costs: tuple[Cost, ...]  # the slowest first
    more: int  # tests that aren't among them
    writers: tuple[Finding, ...]  # tables whose writes met other writers in the last days
    flaky: tuple[Finding, ...]
    never_fail: tuple[Finding, ...]
    untested: tuple[Finding, ...]
    stored: tuple[Stored, ...]
    health: tuple[Health, ...]  # of tables below 100, the worst first; without partitions
    healthy: int  # how many tables have nothing to mend


def for_engineers(
    project: Project,
    past: Past,
    looks: Mapping[str, Look],
    entries: Mapping[str, CatalogEntry],
    metadata: Mapping[str, Metadata],
    now: datetime,
) -> Engineers:
    """Return the second level."""
    judged = [
        replace(look(entries[name], now, metadata=metadata[name]), partitions=())
        for name, seen in looks.items()
        if seen.kind == "table" and not seen.error
    ]
    worn = [each for each in judged if each.score != 100]
    costs = sorted(_costs(project, past), key=lambda cost: -cost.seconds)
    stored = (
        Stored(look.name, look.bytes, look.bytes_of_history)
        for look in looks.values()
        if look.kind == "table" and not look.error
    )
    return Engineers(
        proofs=counted(filter(None, (cost.proof for cost in costs)), ", "),
        seconds=round(sum(cost.seconds for cost in costs), 2),
        costs=tuple(costs[:SHOWN]),
        more=max(0, len(costs) - SHOWN),
        writers=tuple(_meetings(project, past, now)),
        flaky=tuple(_flaky(project, past)),
        never_fail=tuple(_never_fail(project, looks)),
        untested=tuple(_untested(project)),
        stored=tuple(sorted(stored, key=lambda s: -s.bytes - s.bytes_of_history)),
        health=tuple(sorted(worn, key=lambda each: (each.score or 0, each.name))),
        healthy=len(judged) - len(worn),
    )


def last_ran(test: Test, project: Project, past: Past) -> Ran | None:
    """Return how a test ended last: as the ledger has it, or dbt's last run if that is newer."""
    known = past.tests.get(test.id, [])
    result = project.results.get(test.id)
    at = project.ran_at
    if at is None or result is None or result["status"] == "skipped":
        return known[-1] if known else None
    if known and (known[-1].at >= at or past.knows(project.run.get("invocation_id"))):
        return known[-1]
    proof = (result.get("adapter_response") or {}).get("proof") or ""
    status, took = str(result["status"]).replace("runtime ", ""), result["execution_time"]
    return Ran(at, "", status, result.get("failures"), (), proof, round(took, 3))


def result(test: Test, ran: Ran | None, past: Past) -> str:
    """Return how a test ended, in words; without enough history for an answer it's no pass."""
    if ran is None:
        return MISSING
    is_early = ran.status == "pass" and bool(test.judged(EARLY) or _is_young(test, ran, past))
    return EARLY if is_early else ENDED.get(ran.status, MISSING)


def _is_young(test: Test, ran: Ran, past: Past) -> bool:
    """Tell whether a test is one of elementary's, which pass as long as they have too few days."""
    if not (test.name.startswith("elementary_") and test.kind.endswith("anomalies")):
        return False
    first = past.tests.get(test.id, [ran])[0]
    return (ran.at - first.at).days < ELEMENTARY_DAYS


def _costs(project: Project, past: Past) -> Iterator[Cost]:
    for test in project.tests.values():
        ran = last_ran(test, project, past)
        if ran is not None and ran.seconds is not None:
            yield Cost(test.name, table_of(test, project), ran.seconds, ran.proof)


def table_of(test: Test, project: Project) -> str:
    """Return the table that a test is declared on, "" of a test of none."""
    model = project.models.get(test.attached or "")
    return model.table if model else ""


def _flaky(project: Project, past: Past) -> Iterator[Finding]:
    for id, runs in sorted(past.tests.items()):
        changed = [*_changes(runs)]
        if changed and id in project.tests:
            before, after = changed[-1]
            name = project.tests[id].name
            what = f"{before.status} in build {before.build}, {after.status} in {after.build}, "
            yield Finding(
                name, f"{what}of the same data", f"icegate audit --select {name} --explain"
            )


def _changes(runs: Sequence[Ran]) -> Iterator[tuple[Ran, Ran]]:
    """Yield runs after which the next one ended otherwise, though the test read the same."""
    for before, after in zip(runs, runs[1:], strict=False):
        same = before.data == after.data and None not in before.data and before.data
        if same and (before.status in PASSED) != (after.status in PASSED):
            yield before, after


def _never_fail(project: Project, looks: Mapping[str, Look]) -> Iterator[Finding]:
    for test in sorted(project.tests.values(), key=lambda test: test.name):
        model = project.models.get(test.attached or "")
        look = looks.get(model.table.lower()) if model else None
        why = _cannot_fail(test, model, look)
        if why and model:
            yield Finding(test.name, why, f"edit {model.path}")


def _cannot_fail(test: Test, model: Model | None, look: Look | None) -> str:
    if look is None or look.error:
        return ""
    required = {c.name.lower() for c in look.columns if c.required}
    if test.kind == "not_null" and test.column.lower() in required:
        return "the table itself refuses nulls in this column"
    kinds = {column.name.lower(): column.type for column in look.columns}
    values = {str(value).lower() for value in test.arguments.get("values") or ()}
    is_boolean = kinds.get(test.column.lower()) == "boolean"
    if test.kind == "accepted_values" and is_boolean and {"true", "false"} <= values:
        return "a boolean has no other value"
    if test.where.strip().lower() in ("false", "1=0", "1 = 0"):
        return "its `where` lets no row through"
    return ""


def _meetings(project: Project, past: Past, now: datetime) -> Iterator[Finding]:
    """Yield tables whose writes met other writers: in the ledger, else in dbt's last run."""
    was_gated = past.knows(project.run.get("invocation_id"))
    for id, model in sorted(project.models.items(), key=lambda item: item[1].table):
        met = [found for at, found in past.met.get(id, []) if now - at < timedelta(days=DAYS)]
        if not was_gated and id in project.results:
            told = met_of(project.results[id].get("adapter_response") or {})
            met += [told] if told else []
        if met:
            times, waited = sum(m.conflicts for m in met), max(m.waited_s for m in met)
            what = f"met other writers {count(times, 'time')} in {count(len(met), 'build')}, and "
            advice = APART.get(met[-1].how, "see docs/writers.md")
            what += f"waited up to {waited:g} s: {advice}"
            yield Finding(model.table, what, f"edit {model.path}")


def _untested(project: Project) -> Iterator[Finding]:
    for model in project.read:
        tested = {column.lower() for column in tested_columns(model, project)}
        bare = [name for name in model.columns if name.lower() not in tested]
        if bare:
            many = f"{len(bare)} of {len(model.columns)} columns have no test: "
            yield Finding(model.table, many + ", ".join(bare), f"edit {model.path}")


def tested_columns(model: Model, project: Project) -> set[str]:
    """Return the columns of a model that a test names."""
    return {name for test in project.tests_of.get(model.id, []) for name in _named(test)}


def _named(test: Test) -> Iterable[str]:
    yield from filter(None, [test.column])
    for key in ("combination_of_columns", "key", "compare", "quasi_identifiers"):
        given = test.arguments.get(key)
        yield from given if isinstance(given, list) else ()
