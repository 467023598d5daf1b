"""Forget a person: look, take out, look again, and certify what was found to be gone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icegate.catalog import catalog_of, keeps_files, list_relations
from icegate.erasure.landing import Landed, Landing
from icegate.erasure.subject import Known, Subject
from icegate.erasure.tables import Search, Survey
from icegate.erasure.texts import naming
from icegate.erasure.traces import is_young
from icegate.erasure.work import Work
from icegate.errors import ConfigError, GateError
from icegate.gate import refs
from icegate.gate.store import read_tables
from icegate.history.steps import TAG as HISTORY
from icegate.history.steps import goes_on, steps
from icegate.locks import held_alone
from icegate.maintenance.run import lease
from icegate.server_launch import write_private
from icegate.settings import Lake
from icegate.tables.metadata import moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FIXED = (
    "`gc.enabled` isn't true, so files with its rows would have to stay; on Nessie that's the "
    "default, as other branches and tags may have the same files"
)


@dataclass
class Found:
    """What of a subject there is: in tables, landing files, and files that name it."""

    tables: list[Survey]
    landed: list[Landed]
    texts: list[tuple[Path, bool]]  # and whether it's only output
    strays: list[Path]  # of tables that were dropped
    seconds: float = 0
    fixed: Collection[str] = ()  # tables whose files stay

    @property
    def held(self) -> list[Survey]:
        """The tables that hold something."""
        return [survey for survey in self.tables if survey.holds]

    @property
    def left(self) -> list[Path]:
        """The files that no table needs."""
        return [*self.strays, *(path for survey in self.tables for path in survey.leftovers)]

    def blocks(self) -> Iterator[tuple[str, str]]:
        """Yield what would still hold rows after an erasure, and why it stays."""
        for survey in self.tables:
            yield from ((survey.name, said) for said in survey.unreadable)
            if not survey.holds:
                continue
            if survey.name in self.fixed:
                yield survey.name, FIXED
            if survey.build:
                yield survey.name, f"build {survey.build} waits: publish or reject it"
            elif not (survey.marks or survey.is_failures):
                yield survey.name, "it holds the key, and no column says so: mark it, or drop it"
            yield from ((f"{survey.name} {ref.name}", ref.why) for ref in survey.kept)
        for path in self.left:
            if is_young(path):
                yield str(path), "no table refers to it, but it's young: erase again in an hour"
        yield from ((str(landed.path), landed.why) for landed in self.landed if landed.why)
        for path, is_output in self.texts:
            if not is_output:
                yield str(path), "it names the key, and it's the project's own: edit it"

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing is left, and nothing is there in which nobody can look."""
        found = self.held or self.landed or self.texts or self.strays
        return not (found or any(self.blocks()))


@dataclass
class Erasure:
    """One subject's erasure in a lake; ``say`` is told of each step."""

    lake: Lake
    project: Path
    manifest: Mapping[str, Any]
    subject: Subject
    target: str
    drop: Sequence[str] = ()
    say: Callable[[str], None] = lambda line: None
    removed: set[str] = field(default_factory=set)
    histories: dict[str, str] = field(default_factory=dict)  # that go on from what is left

    def __post_init__(self) -> None:
        self.known = Known(self.manifest)
        self.landing = Landing(self.project, self.known, self.subject, self.lake.home)
        self._journal = self.lake.home / "erasures" / f"{self.subject.digest}.open.json"
        if self._journal.is_file():  # of one that was stopped, or couldn't be certified
            held = json.loads(self._journal.read_text())
            self.removed.update(held["removed"])
            self.histories.update(held["histories"])
            for kind, keys in held["keys"].items():
                self.subject.keys[kind].update(keys)

    @property
    def search(self) -> Search:
        """What looks through tables."""
        return Search(self.lake, self.subject, self.known, self.drop, self.removed)

    def look(self) -> Found:
        """Return what there is of the subject; nothing is changed.

        Raises ``ConfigError`` for a lake in a bucket.
        """
        if self.lake.bucket:
            raise ConfigError(
                f"cannot look for a person in {self.lake.bucket}",
                why="each file is read from a disk that this machine sees, and a bucket may have "
                "deleted versions of them, too: nothing there could be certified",
                fix="delete the rows by a model, expire snapshots, and delete old versions of "
                "objects; docs/targets.md",
            )
        began, search = time.monotonic(), self.search
        tables = search.tables()
        search.gather(tables)
        self.landing.gather()
        entries = list_relations(self.lake)
        found = [search.survey(table, entries) for table in tables]
        texts = [*naming(self.project, self.subject)]
        strays = [*search.strays(tables)]
        fixed = {t.name for t in tables if keeps_files(self.lake, t.metadata)}
        seconds = time.monotonic() - began
        return Found(found, self.landing.look(), texts, strays, seconds, fixed)

    def erase(self, start: Callable[[], SparkSession]) -> tuple[Found, Found, dict[str, Any]]:
        """Erase, and look again; return what was found before and after, and what it cost.

        Run again after it was stopped, it does the rest. Raises ``GateError`` with nothing
        changed while a build writes one of the tables.
        """
        with held_alone(catalog_of(self.lake).lock("erasure"), "erase"), lease(self.lake):
            self.landing.finish()
            before = self.look()
            cost: dict[str, Any] = {"release": None, "tables": {}}
            ours = [s for s in before.held if s.marks and not s.build]
            failures = [s for s in before.held if s.is_failures and not s.marks]
            if fixed := [s.name for s in ours if s.name in before.fixed]:
                raise GateError(
                    f"cannot erase from {', '.join(fixed)}: nothing was changed",
                    why=FIXED,
                    fix="once no other branch or tag needs them: `alter table … set tblproperties "
                    "('gc.enabled' = 'true')` on each, then erase again",
                )
            if ours or failures:
                work = Work(self.lake, self.subject, start(), self.target)
                work.check_idle(before.tables)
                self._tables(work, ours, cost)
                for survey in failures:
                    self.say(f"{survey.name}: dropped; the next run of its test makes it anew")
                    work.drop(survey.name)
            self._files(before)
            after = self.look()
            if after.is_clean:
                self._journal.unlink(missing_ok=True)
            return before, after, cost

    def _tables(self, work: Work, ours: Sequence[Survey], cost: dict[str, Any]) -> None:
        self.histories |= self._histories(work, {survey.name for survey in ours})
        self.removed.update(path for survey in ours for path in survey.hits)
        self._write_journal()
        live = [survey for survey in ours if survey.live]
        if live:
            self.say(f"take rows out of {', '.join(s.name for s in live)}")
            work.take_out(live)
        now = [self.search.again(survey) for survey in ours]
        for survey in now:
            if refs.head(survey.table.metadata) in survey.versions:
                work.clean(survey, *self.search.in_manifests(survey))
        work.go_on(self.histories)
        now = [self.search.again(survey) for survey in ours]
        was = {survey.name: refs.head(survey.table.metadata) for survey in ours}
        cost["release"] = work.release(now, was)
        for survey in map(self.search.again, now):
            versions = survey.expires - {refs.head(survey.table.metadata)}
            cost["tables"][survey.name] = _cost(survey, versions, now)
            self.say(f"{survey.name}: expire {len(versions)} versions")
            work.expire(survey.name, versions)
            work.sweep(self.search.again(survey))

    def _histories(self, work: Work, names: set[str]) -> dict[str, str]:
        """Return the histories that have read all of a table that is about to change, with it.

        Raises ``GateError`` for one that hasn't: it never could.
        """
        found = {}
        for history, source in self.known.histories.items():
            tables = {t.name: t for t in read_tables(self.lake, [history, source])}
            mark = work.told_up_to(history) if source in names and len(tables) == 2 else None
            if (
                history in self.histories
                or mark is None
                or any(fnmatchcase(f"{HISTORY}{history}", one) for one in self.drop)
            ):
                continue
            since = goes_on(tables[history].metadata, mark, tables[source].metadata)
            if steps(source, tables[source].metadata, "", since):
                raise GateError(
                    f"cannot erase {self.subject.shown}: nothing was changed",
                    why=f"{history} hasn't read the newest versions of {source}, which go",
                    fix=f"`dbt build --select {history.partition('.')[2]}`, and erase again; or "
                    f"let it have a gap: `--drop {HISTORY}{history}`",
                )
            found[history] = source
        return found

    def _files(self, found: Found) -> None:
        for landed in found.landed:
            if landed.rows:
                self.say(f"{landed.path}: take out {landed.rows} rows")
                self.landing.take_out(landed)
        for path, is_output in found.texts:
            if is_output:
                self.say(f"{path}: deleted")
                path.unlink(missing_ok=True)
        for path in found.left:
            if not is_young(path):
                self.say(f"{path}: deleted")
                path.unlink(missing_ok=True)

    def _write_journal(self) -> None:
        """Keep what can't be found out again once rows are gone; only this user can read it."""
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        held = {"removed": sorted(self.removed), "histories": self.histories}
        keys = {kind: sorted(values) for kind, values in self.subject.keys.items()}
        self._journal.unlink(missing_ok=True)
        write_private(self._journal, json.dumps({**held, "keys": keys}))


def _cost(survey: Survey, versions: set[int], now: Sequence[Survey]) -> dict[str, Any]:
    """Return what a table loses of its history."""
    before = next(each for each in now if each.name == survey.name)
    metadata = survey.table.metadata
    kept = [s for s in metadata.get("snapshots") or [] if s["snapshot-id"] not in versions]
    oldest = min((s["timestamp-ms"] for s in kept), default=None)
    return {
        "versions": len(versions),
        "of": len(metadata.get("snapshots") or []),
        "tags": sorted(before.going),
        "oldest_left": moment(oldest),
    }


def certificate(
    erasure: Erasure, before: Found, after: Found, cost: Mapping[str, Any], reference: str
) -> dict[str, Any]:
    """Return what was looked at, found and done, without the subject's key."""
    return {
        "subject": erasure.subject.shown,
        "reference": reference or None,
        "at": datetime.now(timezone.utc),
        "target": erasure.target,
        "certified": after.is_clean,
        "looked_at": {
            "tables": len(after.tables),
            "branches_and_tags": sum(len(s.table.metadata.get("refs") or {}) for s in after.tables),
            "versions": sum(len(s.table.metadata.get("snapshots") or []) for s in after.tables),
            "files": sum(s.files for s in after.tables),
            "bytes": sum(s.bytes for s in after.tables),
            "seconds": round(after.seconds, 1),
        },
        "tables_without_a_mark": sorted(s.name for s in after.tables if not s.marks),
        "found": {s.name: s.rows for s in before.held},
        "landing_files": [str(landed.path) for landed in before.landed],
        "other_files": [str(path) for path, _ in before.texts],
        "cost": dict(cost),
        "in_the_way": [{"what": what, "why": why} for what, why in after.blocks()],
        "not_looked_at": NOT_SEEN,
    }


NOT_SEEN = [
    "backups, snapshots of the file system, replicas",
    "topics that streams read",
    "tables of other catalogs, and what people copied",
]
