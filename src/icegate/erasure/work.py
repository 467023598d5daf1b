"""Take rows out of Iceberg tables: on a branch, published for all tables at once, then expired."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from icegate.erasure.listed import Files
from icegate.erasure.manifests import Manifests
from icegate.erasure.search import BLANKS
from icegate.erasure.subject import Marks, Subject
from icegate.erasure.tables import WORK, Survey
from icegate.erasure.traces import forget_metadata
from icegate.errors import GateError, TableError
from icegate.gate import ledger, refs
from icegate.gate.build import writing_builds
from icegate.gate.candidates import Candidate
from icegate.gate.decision import Outcome
from icegate.gate.publish import ReleaseRows, in_a_gap
from icegate.gate.refs import MAIN, Metadata
from icegate.gate.releases import Edits, apply, event
from icegate.gate.store import StoredTable, edit, move, read_tables
from icegate.history.past import told_up_to
from icegate.history.steps import TAG as HISTORY
from icegate.history.steps import Bookmark, going_on, looked_at
from icegate.maintenance.action import quoted
from icegate.settings import Lake
from icegate.tables.metadata import columns
from icegate.tables.state import literal, quote

STAMP = "spark.sql.iceberg.snapshot-property.icegate.erasure"
# Only files that have a delete are rewritten, whatever their size.
REWRITE = {
    "delete-file-threshold": "1",
    "min-file-size-bytes": "0",
    "min-input-files": str(2**31 - 1),
    "remove-dangling-deletes": "true",
}
ATTEMPTS = 5  # to come between the commits of others


@dataclass(frozen=True)
class Work:
    """What one run does to tables."""

    lake: Lake
    subject: Subject
    session: Any  # a Spark in this process
    target: str

    def check_idle(self, found: Iterable[Survey]) -> None:
        """Raise ``GateError`` while a build writes a table that the work is about."""
        for survey in found:
            builds = writing_builds(self.lake, survey.table.metadata)
            if builds and survey.holds:
                raise GateError(
                    f"cannot erase {self.subject.shown}: nothing was changed",
                    why=f"build {', '.join(builds)} is writing {survey.name}",
                    fix="wait until it has ended",
                )

    def take_out(self, found: Sequence[Survey]) -> None:
        """Take rows out of `main` of tables, and publish that for all of them at once."""
        self.session.conf.set(STAMP, "true")
        try:
            for _ in range(ATTEMPTS):
                bases = {survey.name: self._on_branch(survey) for survey in found}
                if in_a_gap(self.lake, "publish the erasure", partial(self._publish, bases)):
                    return
        finally:
            self.session.conf.unset(STAMP)
        raise GateError(
            f"cannot erase {self.subject.shown}: readers have what they had",
            why=f"others wrote to one of its tables in each of {ATTEMPTS} attempts",
            fix="stop what writes there, and erase again",
        )

    def _on_branch(self, survey: Survey) -> int | None:
        """Delete a table's rows on a branch, and rewrite files that have rows a delete hides."""
        table, name = self._read(survey.name), quoted(survey.name)
        base = refs.head(table.metadata)
        edit(self.lake, survey.name, _begin)
        where = condition(survey.marks, self.subject, table.metadata, self.lake)
        self.session.sql(f"delete from {name}.branch_{WORK} where {where}").collect()
        if self._left(survey):
            options = ", ".join(literal(text) for pair in REWRITE.items() for text in pair)
            self.session.sql(
                f"call system.rewrite_data_files(table => {literal(name)},"
                f" branch => {literal(WORK)}, options => map({options}))"
            ).collect()
        left = self._left(survey)
        if left:
            edit(self.lake, survey.name, lambda old: refs.without_refs(old, [WORK]))
            raise TableError(
                f"cannot take {self.subject.shown} out of {survey.name}",
                why=f"{sorted(left)[0]} still has rows after a delete and a rewrite",
                fix="look whether its columns with a key are marked as what they hold",
            )
        return base

    def _left(self, survey: Survey) -> set[str]:
        table = self._read(survey.name)
        return (
            Files(table, survey.marks.keys).of(refs.head(table.metadata, WORK)) & survey.hits.keys()
        )

    def _publish(self, bases: dict[str, int | None]) -> bool:
        tables = {table.name: table for table in read_tables(self.lake, bases)}
        if any(refs.head(tables[name].metadata) != base for name, base in bases.items()):
            return False
        move(self.lake, [tables[name].write(_published(tables[name].metadata)) for name in bases])
        return True

    def clean(self, found: Survey, files: Collection[str], bounds: Collection[str]) -> None:
        """Write manifests of `main` again that name files that went, or have bounds like these."""

        def listed() -> tuple[Files, int | None]:
            table = self._read(found.name)
            return Files(table, found.marks.keys), refs.head(table.metadata)

        work = Manifests(self._java(found.name), self.session._jvm)
        work.write_data_again()
        now, head = listed()
        work.drop_deletes(now.dangling(head))
        now, head = listed()
        work.write_deletes_again(now.naming(files, bounds), now.deletes)

    def told_up_to(self, history: str) -> Bookmark | None:
        """Return the version of its source that the rows of a history tell of last."""
        return told_up_to(lambda sql: self.session.sql(sql).collect(), quoted(history))

    def go_on(self, histories: Mapping[str, str]) -> None:
        """Let histories, given with their sources, go on from what these are now.

        They had read all that was before, and nothing else has changed.
        """
        for history, source in histories.items():
            since, now = self.told_up_to(history), self._read(source).metadata
            head = refs.head(now)
            if since is not None and head is not None and head != since.snapshot_id:
                looked = looked_at(since, head, now)
                edit(self.lake, history, partial(going_on, mark=since, looked=looked))
                tag = f"{HISTORY}{history}"
                edit(self.lake, source, partial(refs.keep, tag=tag, snapshot_id=head))

    def release(self, found: Sequence[Survey], was: Mapping[str, int | None]) -> int | None:
        """Drop branches and tags, and make what `main` is now a release, where there are any.

        ``was`` is what it was when this run began: it may have gone on from one that was stopped.
        """
        going = {survey.name: survey.going for survey in found}

        def plan(tables: dict[str, StoredTable]) -> Edits:
            edited = {
                name: _without(tables[name].metadata, names)
                for name, names in going.items()
                if name in tables
            }
            number = ledger.last_release(self.lake)
            gated = [n for n in edited if refs.is_gated(edited[n]) and refs.head(edited[n])]
            if not (number and gated):
                return Edits(edited)
            number, build = number + 1, f"erasure_{number + 1}"
            moved = {}
            for name in gated:
                head = refs.head(edited[name])
                assert head is not None
                edited[name] = refs.release(edited[name], head, number)
                old = was[name] if was[name] != head else None
                moved[name] = Candidate(tables[name], old, head, old)
            rows = ReleaseRows(Outcome(build, number))
            for name, table in sorted(tables.items()):
                rows.add(name, edited.get(name, table.metadata), moved.get(name))
            detail = json.dumps({"published": gated})
            done = event("erased", build, self.target, "erase", release=number, detail=detail)
            done = replace(done, command="icegate erase", reason="someone was forgotten")
            return Edits(edited, [done], rows.found, result=number)

        made: int | None = apply(self.lake, plan)
        return made

    def expire(self, name: str, versions: Collection[int]) -> None:
        """Expire versions, with all files that only they have."""
        if versions:
            work = self._java(name).expireSnapshots().expireOlderThan(0)
            for version in sorted(versions):
                work = work.expireSnapshotId(version)
            work.commit()

    def sweep(self, found: Survey) -> None:
        """Delete earlier metadata that names a key, and empty folders of partitions that do."""
        forget_metadata(self.lake, found.table, found.old)
        for folder in found.folders:
            with suppress(OSError):  # it isn't empty, and the next look tells of it
                folder.rmdir()

    def drop(self, name: str) -> None:
        """Drop a table with its files."""
        self.session.sql(f"drop table if exists {quoted(name)} purge")

    def _java(self, name: str) -> Any:
        spark = self.session._jvm.org.apache.iceberg.spark.Spark3Util
        return spark.loadIcebergTable(self.session._jsparkSession, quoted(name))

    def _read(self, name: str) -> StoredTable:
        return next(read_tables(self.lake, [name]))


def condition(marks: Marks, subject: Subject, metadata: Metadata, lake: Lake) -> str:
    """Return the condition for a subject's rows, as ``search`` finds them."""
    kinds = {column["name"]: column["type"] for column in columns(metadata)}
    found = []
    for name, mark in marks.keys.items():
        values = sorted(subject.wanted(mark, lake.home))
        if name in kinds and values:
            is_theirs = f"{_trimmed(name)} in ({', '.join(map(literal, values))})"
            owner = marks.above.get(name)
            if owner is not None and owner in kinds:
                is_theirs += f" and coalesce({_trimmed(owner)}, '') = ''"
            found.append(f"coalesce({is_theirs}, false)")
    pattern = literal(subject.words().pattern)
    for name in marks.texts:
        if name in kinds:
            is_plain = kinds[name] in ("string", "binary")
            text = f"string({quote(name)})" if is_plain else f"to_json({quote(name)})"
            found.append(f"coalesce({text} rlike {pattern}, false)")
    return " or ".join(found) or "false"


def _trimmed(name: str) -> str:
    blanks = BLANKS.encode("unicode_escape").decode()
    return f"trim(both '{blanks}' from string({quote(name)}))"


def _begin(metadata: Metadata) -> Metadata:
    return refs.open_branch(refs.without_refs(metadata, [WORK]), WORK)


def _published(metadata: Metadata) -> Metadata:
    return refs.without_refs(refs.set_main(metadata, refs.head(metadata, WORK)), [WORK])


def _without(metadata: Metadata, names: Collection[str]) -> Metadata:
    """Return the metadata without refs of a survey, but for those that point elsewhere by now."""
    return refs.without_refs(metadata, [name for name in names if name != MAIN])
