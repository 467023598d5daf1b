"""What the app shows of a lake at one moment, as plain rows: made without Streamlit or a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from icegate.catalog import list_relations
from icegate.cli.common import Opened
from icegate.cli.release import past
from icegate.gate import compare, refs
from icegate.gate.refs import MAIN
from icegate.gate.releases import OpenBuild, open_builds
from icegate.gate.staging import NAMESPACE, staging_name
from icegate.trust import rows, words
from icegate.trust.answers import Answer
from icegate.trust.engineers import ENDED, last_ran
from icegate.trust.facts import Reading
from icegate.trust.project import Model, Test, read_project
from icegate.trust.rows import Place, Rows
from icegate.trust.samples import Sample
from icegate.trust.standing import Cause

EVERY = 1_000  # columns of a row that fails
RELEASES = 50  # the newest, of which there is a line each
VERDICTS = {**ENDED, "error": "could not be run"}


@dataclass(frozen=True)
class Fault:
    """A test that failed, in words, and rows that fail it; ``table`` has them, at ``place``."""

    says: str
    table: str
    place: Place
    sample: Sample


def fingerprint(at: Opened) -> int:
    """Return what becomes another number when a table or dbt's artifacts change."""
    target = at.project / os.environ.get("DBT_TARGET_PATH", "target")
    files = [target / name for name in ("manifest.json", "run_results.json")]
    times = tuple(file.stat().st_mtime_ns for file in files if file.exists())
    return hash((times, *list_relations(at.lake)))


class Browse:
    """A lake as it was when this was made; rows are read when they are asked for."""

    def __init__(self, at: Opened, now: datetime) -> None:
        self.at, self.lake, self.now = at, at.lake, now
        self.fingerprint = fingerprint(at)
        self.project = read_project(at.project)
        self.reading = Reading(at.lake, self.project, now)
        self.past, self.facts = self.reading.past, self.reading.facts(at.target)
        self.open: list[OpenBuild] = open_builds(at.lake)
        self.ended = past(at)

    def moment(self, at: datetime | None) -> str:
        """Return a time as people say it here."""
        return words.moment(at.astimezone(self.now.tzinfo), self.now) if at else ""

    def releases(self) -> list[dict[str, Any]]:
        """Return what became of builds, the newest first, a line each."""
        held = [
            [*(found["table"] for found in event["held"]), *event["blocked"]]
            for event in self.ended[:RELEASES]
        ]
        return [
            {
                "release": event["release"],
                "when": self.moment(event["at"]),
                "who": event["who"],
                "moved": len(event["published"]),
                "held back": len(stays),
                "state": event["state"],
                "build": event["build"],
                "reason": event["reason"],
                "tables that moved": ", ".join(event["published"]),
                "tables held back": ", ".join(stays),
            }
            for event, stays in zip(self.ended, held, strict=False)
        ]

    def waiting(self) -> list[dict[str, Any]]:
        """Return the builds that readers don't see all of, a line each."""
        return [
            {
                "build": build.name,
                "state": build.state,
                "since": self.moment(build.written_at),
                "tables": ", ".join(build.tables),
            }
            for build in self.open
        ]

    def tables(self) -> list[Model]:
        """Return what can be looked at: what is held back first, then what people read."""
        read = {model.id for model in self.project.read}

        def rank(model: Model) -> tuple[bool, bool, bool, str]:
            held = self.held(model)
            is_cause = held is not None and held.node == model.id and held.root == "failed_test"
            return not is_cause, held is None, model.id not in read, model.table

        return sorted(self.project.models.values(), key=rank)

    def answer(self, model: Model) -> Answer:
        """Return whether people can use a table, and why."""
        return self.reading.answers.of_table(model)

    def held(self, model: Model) -> Cause | None:
        """Return why a table's newest rows aren't with its readers, if they aren't."""
        return self.past.held(model.table)

    def places(self, model: Model) -> list[Place]:
        """Return where else than on `main` a table can be read, the newest first."""
        found: list[Place] = []
        for build in self.open:
            beside = f"{NAMESPACE}.{staging_name(model.table, build.name)}"
            if build.state != "running" and {model.table, beside} & {*build.tables}:
                found.append(build.name)
        metadata = self.reading.metadata.get(model.table.lower(), {})
        return [*found, *reversed(refs.releases(metadata))]

    def rows(self, model: Model, place: Place) -> Rows:
        """Return the first rows of a table."""
        return rows.rows_at(self.lake, model, place)

    def differing(self, model: Model, place: Place) -> Rows:
        """Return the rows that `main` or a place has alone."""
        return rows.differing(self.lake, model, place)

    def faults(self, model: Model) -> Iterator[Fault]:
        """Yield the tests that keep a table back or fail on it, each with some failing rows."""
        cause = self.held(model)
        tests = {test.id: test for test in self.project.tests_of.get(model.id, [])}
        if cause is not None and cause.test in self.project.tests:
            tests = {cause.test: self.project.tests[cause.test], **tests}
        waiting = {build.name for build in self.open}
        for test in tests.values():
            ran = last_ran(test, self.project, self.past)
            if ran is None or ran.status not in ("fail", "warn") or not ran.failures:
                continue
            build = ran.build if ran.build in waiting else ""
            sample = self.reading.sampler.of(test, build, rows.FIRST, EVERY)
            blamed = self.project.models.get(test.attached or "")
            says = f"{words.fault(test, ran.failures, blamed)}."
            yield Fault(says, blamed.table if blamed else "", build or MAIN, sample)

    def tests(self) -> list[Test]:
        """Return the tests that ran, those that didn't pass last time first."""
        ran = {id: last_ran(t, self.project, self.past) for id, t in self.project.tests.items()}
        known = [self.project.tests[id] for id, last in ran.items() if last]
        return sorted(known, key=lambda t: (ran[t.id].status == "pass", t.name))  # type: ignore[union-attr]

    def history(self, test: Test) -> list[dict[str, Any]]:
        """Return how a test ended in each build, the newest first."""
        last = last_ran(test, self.project, self.past)
        runs = self.past.tests.get(test.id, [])
        runs = [*runs, last] if last and last not in runs else runs
        return [
            {
                "when": self.moment(ran.at),
                "build": ran.build,
                "verdict": VERDICTS.get(ran.status, ran.status),
                "failing rows": ran.failures,
                "seconds": ran.seconds,
                "how it was proved": ran.proof,
            }
            for ran in reversed(runs)
        ]

    def points(self) -> list[Place]:
        """Return what can be compared: `main`, builds that wait, releases; the newest first."""
        builds = [build.name for build in self.open if build.state != "running"]
        numbers = {event["release"] for event in self.ended if event["release"]}
        return [MAIN, *builds, *sorted(numbers, reverse=True)]

    def diff(self, before: Place, after: Place) -> list[dict[str, Any]]:
        """Return how tables differ between two points, for those that do.

        Raises ``GateError`` for what has expired, ``ConfigError`` for what isn't known any more.
        """
        found = compare.diff(self.lake, str(before), str(after))
        return [
            {
                "table": row["table"],
                "rows": row["rows"],
                "files added": row["files_added"],
                "files removed": row["files_removed"],
                "columns": ", ".join(
                    [f"+{name}" for name in row["columns_added"]]
                    + [f"-{name}" for name in row["columns_dropped"]]
                    + row["columns_renamed"]
                    + row["columns_retyped"]
                ),
            }
            for row in found
        ]
