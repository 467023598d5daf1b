"""Where the rows of a subject lie in Iceberg tables: in which files, and of which versions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from icegate.catalog import CatalogEntry, list_relations, local_path
from icegate.erasure import traces
from icegate.erasure.listed import CUT, Files, is_vectors
from icegate.erasure.search import Unreadable, Wanted, rows_with, values_beside
from icegate.erasure.subject import Known, Marks, Subject, below, is_distinctive, word
from icegate.errors import CatalogError
from icegate.gate import refs, staging
from icegate.gate.candidates import OWN
from icegate.gate.refs import MAIN, Metadata
from icegate.gate.store import StoredTable, read_tables
from icegate.health.unreferenced import unreferenced
from icegate.history.steps import TAG as HISTORY
from icegate.maintenance.run import BRANCH as MAINTENANCE
from icegate.settings import Lake
from icegate.streams.places import ERRORS

WORK = "icegate_erasure"  # the branch on which rows are taken out
PARQUET = "parquet"
NONE = Marks({})
TRACES = (".avro", ".json", ".puffin")  # metadata, which may have bounds and names of partitions


class Ref(NamedTuple):
    """A branch or tag on a version that has rows of the subject; ``why`` it stays, if it does."""

    name: str
    why: str = ""


@dataclass
class Survey:
    """What of a subject is in a table. Files are those of all versions, whatever deletes them."""

    table: StoredTable
    marks: Marks
    files: int = 0
    bytes: int = 0
    hits: dict[str, int] = field(default_factory=dict)  # rows by file
    versions: set[int] = field(default_factory=set)  # snapshots that need those files
    live: set[str] = field(default_factory=set)  # those of the files that main has
    refs: list[Ref] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)  # files that nothing refers to
    old: list[str] = field(default_factory=list)  # earlier metadata that names a key
    folders: list[Path] = field(default_factory=list)  # that have a key as their name
    is_failures: bool = False
    build: str = ""  # that holds the table in staging

    @property
    def name(self) -> str:
        """`schema.table`."""
        return self.table.name

    @property
    def holds(self) -> bool:
        """Tell whether anything of the subject is in it."""
        return bool(self.hits or self.versions or self.leftovers or self.old or self.folders)

    @property
    def rows(self) -> int:
        """How many rows of its files are the subject's, rows of old versions included."""
        return sum(self.hits.values())

    @property
    def kept(self) -> list[Ref]:
        """The branches and tags that hold rows and stay."""
        return [ref for ref in self.refs if ref.why]

    @property
    def going(self) -> set[str]:
        """The branches and tags that go."""
        return {ref.name for ref in self.refs if not ref.why and ref.name != MAIN}

    @property
    def expires(self) -> set[int]:
        """The versions that go: all that hold rows, but those of branches and tags that stay."""
        now = self.table.metadata.get("refs") or {}
        known = {snapshot["snapshot-id"] for snapshot in self.table.metadata.get("snapshots") or []}
        return (self.versions & known) - {now[ref.name]["snapshot-id"] for ref in self.kept}


@dataclass(frozen=True)
class Search:
    """One look for a subject: ``removed`` are files that an earlier part of the work took away."""

    lake: Lake
    subject: Subject
    known: Known
    drop: Collection[str] = ()  # patterns of tags and branches that may go
    removed: Collection[str] = ()

    def tables(self) -> list[StoredTable]:
        """Return all tables of the catalog; raise ``CatalogError`` for one that can't be read."""
        found = {table.name: table for table in read_tables(self.lake)}
        for entry in list_relations(self.lake):
            if entry.kind == "table" and entry.full_name not in found:
                raise CatalogError(
                    f"cannot look for {self.subject.shown} in {entry.full_name}",
                    why="its metadata can't be read, so nobody knows which files are its own",
                    fix="`icegate doctor` says more; restore it, or drop it",
                )
        return [*found.values()]

    def gather(self, tables: Iterable[StoredTable]) -> None:
        """Learn the keys of what the subject has, from the rows that have both keys."""
        tables = [*tables]
        for depth in (1, 2, 3):
            for table in tables:
                for above, column, kind in below(self.known.of(table), self.subject):
                    if kind.count("/") == depth:
                        self.subject.keys[kind].update(self._beside(table, above, column))

    def _beside(self, table: StoredTable, above: str, column: str) -> Iterator[str]:
        mark = self.known.of(table).keys[above]
        wanted = Wanted({above: self.subject.wanted(mark, self.lake.home)})
        ids = _ids(table.metadata)
        for path in Files(table).paths:
            try:
                yield from values_beside(local_path(path), ids, wanted, column)
            except Unreadable:  # which the survey tells
                continue

    def survey(self, table: StoredTable, others: list[CatalogEntry]) -> Survey:
        """Look through one table; ``others`` are all entries of the catalog."""
        marks = self._marks(table)
        found = Survey(table, marks, is_failures=self.known.is_failures(table.name))
        if table.entry.namespace == staging.NAMESPACE:
            found.build = staging.build_of(table.entry)
        wanted, ids, listed = self.wanted(marks), _ids(table.metadata), Files(table, marks.keys)
        words = self._clear(wanted)
        for path, size in listed.paths.items():
            found.files, found.bytes = found.files + 1, found.bytes + size
            if is_vectors(path):
                if words and traces.names(local_path(path), words):
                    found.hits[path] = 0
            elif rows := self._rows(found, path, ids, wanted):
                found.hits[path] = rows
        self._place(found, listed, wanted)
        if not found.build and table.entry.namespace not in OWN:
            left = unreferenced(table.entry, others, datetime.now(timezone.utc), 0).paths
            for each in map(Path, left):
                try:
                    if self._has_key(each, ids, wanted, words):
                        found.leftovers.append(each)
                except Unreadable as error:
                    found.unreadable.append(str(error))
        if words and traces.says_so(table.metadata, words):
            found.unreadable.append("a property, comment or default names the key: change that")
        return found

    def _marks(self, table: StoredTable) -> Marks:
        if table.name == ERRORS:  # no node describes it, and a short key is in many a record
            return Marks({}, ("key", "raw", "error")) if is_distinctive(self.subject.key) else NONE
        return self.known.of(table).of(self.subject)

    def strays(self, tables: Iterable[StoredTable]) -> Iterator[Path]:
        """Yield the files with a key that dropped tables left in the warehouse."""
        wanted, own = self.wanted(NONE), set()
        words = self._clear(wanted)
        for table in tables:
            with suppress(CatalogError):  # not on this machine
                own.add(local_path(table.metadata["location"]).resolve())
        for path in traces.strays(self.lake.warehouse, own):
            with suppress(Unreadable):  # of what nobody can read, nobody gets a key
                if self._has_key(path, {}, wanted, words):
                    yield path

    def again(self, found: Survey) -> Survey:
        """Return what is of a survey's files now, by metadata, without a look into them."""
        (table,) = read_tables(self.lake, [found.name])
        now = replace(found, table=table)
        self._place(now, Files(table, now.marks.keys), self.wanted(now.marks))
        return now

    def in_manifests(self, found: Survey) -> tuple[set[str], set[str]]:
        """Return what manifests may say of a survey's rows: files, and bounds of columns."""
        wanted = self.wanted(found.marks).values.values()
        return {*self.removed, *found.hits}, {value[:CUT] for each in wanted for value in each}

    def _place(self, found: Survey, listed: Files, wanted: Wanted) -> None:
        metadata = found.table.metadata
        found.versions = listed.with_any(*self.in_manifests(found))
        found.live = listed.of(refs.head(metadata)) & found.hits.keys()
        found.refs = [*self._refs(metadata, found.versions)]
        if words := self._clear(wanted):
            with suppress(CatalogError):  # not on this machine, as the survey tells of files
                found.old = traces.old_metadata(metadata, words)
                found.folders = [*traces.folders(local_path(metadata["location"]), words)]

    def _clear(self, wanted: Wanted) -> re.Pattern[str] | None:
        """Return what finds keys in metadata and names: those that hardly mean anything else."""
        every = {*self.subject.keys[self.subject.kind]}.union(*wanted.values.values())
        clear = {each for value in every if is_distinctive(value) for each in (value, value[:CUT])}
        return word(sorted(clear)) if clear else None

    def wanted(self, marks: Marks) -> Wanted:
        """Return what to look for in a table's files."""
        if marks.keys or marks.texts:
            values = {n: self.subject.wanted(m, self.lake.home) for n, m in marks.keys.items()}
            words = self.subject.words() if marks.texts else None
            return Wanted(values, marks.above, marks.texts, words)
        is_clear = is_distinctive(self.subject.key)
        return Wanted({}, words=self.subject.own_word() if is_clear else None, anywhere=is_clear)

    def _rows(self, found: Survey, path: str, ids: Mapping[int, str], wanted: Wanted) -> int:
        if not (wanted.values or wanted.words):
            return 0
        try:
            if not path.endswith(PARQUET):
                raise Unreadable(f"{path} is no Parquet file")
            return rows_with(local_path(path), ids, wanted)
        except Unreadable as error:
            found.unreadable.append(str(error))
        except CatalogError:  # not on this machine
            found.unreadable.append(
                f"{path}: who keeps old versions of objects there can't be told"
            )
        return 0

    def _refs(self, metadata: Metadata, versions: Collection[int]) -> Iterator[Ref]:
        for name, ref in (metadata.get("refs") or {}).items():
            if ref["snapshot-id"] not in versions:
                continue
            own = name in (MAIN, WORK, MAINTENANCE) or name.startswith(HISTORY)
            if name.startswith(refs.BRANCH_PREFIX) and ref["type"] == "branch":
                build = name.removeprefix(refs.BRANCH_PREFIX)
                yield Ref(name, f"build {build} waits: publish it and erase again, or "
                          f"`icegate release reject {build}`")  # fmt: skip
            elif own or _is_release(name) or any(fnmatchcase(name, one) for one in self.drop):
                yield Ref(name)
            else:
                yield Ref(name, f"a {ref['type']} that someone keeps: `--drop {name}` lets it go")

    @staticmethod
    def _has_key(
        path: Path, ids: Mapping[int, str], wanted: Wanted, words: re.Pattern[str] | None
    ) -> bool:
        """Tell whether a file that no table needs has what is wanted; raise ``Unreadable``."""
        if path.suffix == f".{PARQUET}":
            return bool((wanted.values or wanted.words) and rows_with(path, ids, wanted))
        return bool(words and path.suffix in TRACES and traces.names(path, words))


def _ids(metadata: Metadata) -> dict[int, str]:
    """Return what each field is called now; one that was dropped as it was called last."""
    newest = sorted(
        metadata["schemas"], key=lambda s: s["schema-id"] == metadata.get("current-schema-id")
    )
    return {field["id"]: field["name"] for schema in newest for field in schema["fields"]}


def _is_release(name: str) -> bool:
    return name.removeprefix(refs.TAG_PREFIX).isdecimal() and name.startswith(refs.TAG_PREFIX)
