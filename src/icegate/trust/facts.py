"""The facts that the page, the app and the digest share: read once, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from icegate import pii
from icegate.anomalies.find import find
from icegate.anomalies.look import Finding
from icegate.catalog import list_relations
from icegate.files import StoredFiles
from icegate.gate import ledger
from icegate.gate.ledger_rows import ReleaseTable
from icegate.gate.refs import Metadata
from icegate.gate.store import StoredTable
from icegate.settings import Lake
from icegate.trust import words
from icegate.trust.answers import YES, Answer, Answers, worst_first
from icegate.trust.engineers import (
    EARLY,
    MISSING,
    Engineers,
    for_engineers,
    last_ran,
    result,
    table_of,
    tested_columns,
)
from icegate.trust.project import Model, Project, Test, read_project
from icegate.trust.samples import Sample, Sampler
from icegate.trust.standing import replay
from icegate.trust.tables import Look, Moved, look_at, moves, with_columns

FULL = 300  # tables that get a part of their own; of more, those with a finding or readers
TOO_YOUNG = "It compares with a week of days, and passes until it has them."
SAMPLED = 20  # failing tests whose rows are read

NOT_YET = "dbt has not run yet: there is nothing to tell."
STANDINS = (
    "This was built on stand-ins for the packages dbt_utils and elementary: "
    "elementary’s tests did not run."
)


@dataclass(frozen=True)
class TestFacts:
    """A test in plain words, and how it last ended: passed, failed, warned, not run …"""

    __test__ = False  # pytest takes every Test… for its own

    name: str
    says: str
    result: str
    blocks: bool
    failures: int | None = None
    fault: str = ""
    at: datetime | None = None
    proof: str = ""
    seconds: float | None = None
    sample: Sample | None = None
    command: str = ""


@dataclass(frozen=True)
class TableFacts:
    """A part of the page: one table."""

    answer: Answer
    look: Look
    promise: str
    tests: tuple[TestFacts, ...]
    moved: tuple[Moved, ...]
    description: str
    anomalies: tuple[Finding, ...]
    above: tuple[str, ...]  # tables and sources that it is made of, by name
    below: tuple[str, ...]  # tables and dashboards that are made of it
    path: str


@dataclass(frozen=True)
class Facts:
    """All that there is to tell."""

    made_at: datetime
    project: str
    target: str
    notices: tuple[str, ...] = ()
    last_release: int = 0
    last_build: str = ""
    last_built_at: datetime | None = None
    dashboards: tuple[Answer, ...] = ()
    read: tuple[Answer, ...] = ()  # the tables that people read
    tables: tuple[TableFacts, ...] = ()
    brief: tuple[Answer, ...] = ()  # tables without a part of their own
    engineers: Engineers | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever built."""
        return not (self.read or self.dashboards or self.tables)


def read_facts(lake: Lake, folder: Path, target: str, now: datetime) -> Facts:
    """Return the facts of a lake and the dbt project in a folder, with times in the zone of `now`.

    Raises ``ConfigError`` for artifacts of dbt that can't be read, ``CatalogError`` for a catalog.
    """
    return Reading(lake, read_project(folder), now).facts(target)


class Reading:
    """One look at a lake."""

    def __init__(self, lake: Lake, project: Project, now: datetime) -> None:
        self.lake, self.project, self.now = lake, project, now
        self.entries = {entry.full_name.lower(): entry for entry in list_relations(lake)}
        self.past = replay(ledger.read_events(lake))
        found = {
            name: look_at(self.entries[name])
            for name in (model.table.lower() for model in project.models.values())
            if name in self.entries
        }
        self.looks: dict[str, Look] = {name: look for name, (look, _) in found.items()}
        self.metadata: dict[str, Metadata] = {name: found for name, (_, found) in found.items()}
        self.sampler = Sampler(lake, project, self.metadata)
        self._days: dict[tuple[str, str], str] = {}
        self.answers = Answers(project, self.past, self.looks, now, self._when)
        self.files = StoredFiles()
        self.sampled = 0

    def facts(self, target: str) -> Facts:
        """Return all of them."""
        project, last = self.project, self.past.last
        first = {model.id for model in project.read}
        models = sorted(project.models.values(), key=lambda m: (m.id not in first, m.table))
        every = [self.answers.of_table(model) for model in models]
        full = self._full(every)
        released = self._released()
        tables = [self._table(project.models[a.id], a, released) for a in full]
        remarks = {table.answer.id: table.answer for table in tables}
        read = map(self.answers.of_table, project.read)
        return Facts(
            made_at=self.now,
            project=project.name,
            target=target,
            notices=self.notices,
            last_release=max((s.release or 0 for s in self.past.tables.values()), default=0),
            last_build=last.build if last else "",
            last_built_at=last.at.astimezone(self.now.tzinfo) if last else None,
            dashboards=worst_first(map(self.answers.of_exposure, project.shown)),
            read=worst_first(remarks.get(answer.id, answer) for answer in read),
            tables=tuple(tables),
            brief=tuple(answer for answer in every if answer not in full),
            engineers=(
                for_engineers(project, self.past, self.looks, self.entries, self.metadata, self.now)
                if project.was_parsed
                else None
            ),
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """What has to be said before all else."""
        if not self.project.was_parsed:
            return (NOT_YET,)
        return (STANDINS,) if self.project.has_standins or self.past.standins else ()

    def _full(self, every: list[Answer]) -> list[Answer]:
        if len(every) <= FULL:
            return every
        read = {model.id for model in self.project.read}
        first = [a for a in every if a.answer != YES] + [a for a in every if a.id in read]
        chosen = {a.id for a in first[:FULL]}
        return [answer for answer in every if answer.id in chosen]

    def _released(self) -> Mapping[str, list[ReleaseTable]]:
        found: dict[str, list[ReleaseTable]] = {}
        for row in ledger.read_release_tables(self.lake):
            found.setdefault(row.table_name.lower(), []).append(row)
        return found

    def _table(
        self, model: Model, answer: Answer, released: Mapping[str, list[ReleaseTable]]
    ) -> TableFacts:
        name = model.table.lower()
        look, metadata = self.looks.get(name, Look(model.table, error="it isn’t there")), {}
        if name in self.metadata and not look.error:
            metadata = self.metadata[name]
            look = with_columns(
                look,
                StoredTable(self.entries[name], metadata),
                model.columns,
                pii.kinds(model.columns),
                tested_columns(model, self.project),
            )
        tests = self.project.tests_of.get(model.id, [])
        anomalies = self._anomalies(model, metadata)
        unusual = [finding.sentence for finding in anomalies if finding.status == "unusual"]
        return TableFacts(
            answer=replace(answer, remark=(unusual or [""])[0]),
            look=look,
            promise=_promise(model),
            tests=tuple(sorted((self._told(test, model) for test in tests), key=_worst_first)),
            description=model.description,
            anomalies=tuple(anomalies),
            moved=tuple(moves(metadata, released.get(name, []))),
            above=tuple(self._names(model.parents)),
            below=tuple(self._names(self.project.children.get(model.id, []))),
            path=model.path,
        )

    def _when(self, test: Test, build: str) -> str:
        """Return of which days the rows are that fail; of the first tests, since it reads data."""
        known = (test.id, build)
        if known not in self._days:
            days = self.sampler.days(test, build) if len(self._days) < SAMPLED else None
            self._days[known] = words.days(*days, self.now) if days else ""
        return self._days[known]

    def _anomalies(self, model: Model, metadata: Metadata) -> list[Finding]:
        """Return what is out of the ordinary first; of columns only that."""
        if not metadata.get("snapshots"):
            return []
        personal = pii.kinds(model.columns)
        found = [
            finding
            for finding in find(metadata, self.files, table=model.table, now=self.now)
            if finding.kind != "bounds" or (finding.column or "").lower() not in personal
        ]
        shown = [f for f in found if f.status == "unusual" or f.column is None]
        return sorted(shown, key=lambda finding: finding.status != "unusual")

    def _names(self, ids: Iterable[str]) -> Iterable[str]:
        for id in ids:
            if id in self.project.models:
                yield self.project.models[id].table
            elif id in self.project.exposures:
                yield self.project.exposures[id].label
            elif id in self.project.sources:
                yield self.project.sources[id]

    def _told(self, test: Test, model: Model) -> TestFacts:
        ran = last_ran(test, self.project, self.past)
        ended, blocks = result(test, ran, self.past), test.severity == "error"
        if ran is None:
            return TestFacts(test.name, words.rule(test), ended, blocks)
        failed = ran.status != "pass" and bool(ran.failures)
        early = [*test.judged(EARLY), TOO_YOUNG] if ended == EARLY else []
        return TestFacts(
            test.name,
            words.rule(test),
            ended,
            blocks,
            ran.failures,
            words.fault(test, ran.failures, model) if failed else "".join(early[:1]),
            ran.at.astimezone(self.now.tzinfo),
            ran.proof,
            ran.seconds,
            self._sample(test, ran.build) if failed and not test.judged("unusual") else None,
            f"icegate audit {ran.build} --select {test.name}" if failed else "",
        )

    def _sample(self, test: Test, build: str) -> Sample | None:
        self.sampled += 1
        if self.sampled > SAMPLED:
            return Sample(why_none="there are too many failing tests to show rows of each")
        held = self.past.held(table_of(test, self.project))
        return self.sampler.of(test, build if held and held.build == build else "")


def _promise(model: Model) -> str:
    hours = model.fresh_within_hours or 0
    return f"no older than {words.count(int(hours), 'hour')}" if hours >= 1 else ""


def _worst_first(test: TestFacts) -> tuple[int, str]:
    order = ("failed", MISSING, "warned", EARLY, "passed")
    return order.index(test.result), test.says
