"""Take a subject's lines out of landing files, so that no full refresh brings them back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from icegate.erasure.search import BLANKS, Unreadable, Wanted, as_text, mask_of
from icegate.erasure.subject import Known, Marks, Subject, below, marks_of
from icegate.landing import MARKER, LandingTable, landing_table, sha256
from icegate.pii import meta_of

BESIDE = ".erasing"  # ends the name of a file until it takes the place of another


@dataclass(frozen=True)
class Column:
    """A column of a source, as dbt's manifest has it."""

    name: str
    data_type: str
    meta: Mapping[str, Any]


@dataclass
class Landed:
    """A landing file with rows of a subject, and how many."""

    table: LandingTable
    marks: Marks
    path: Path
    rows: int = 0
    why: str = ""  # nobody can look into it


class Landing:
    """The sources of a project that are files."""

    def __init__(self, project: Path, known: Known, subject: Subject, home: Path) -> None:
        self.project, self.subject, self.home = project, subject, home
        self.tables: list[tuple[LandingTable, Marks]] = []
        for source in known.sources:
            meta, marks = meta_of(source), marks_of(source).of(subject)
            if "location" in meta and marks:
                columns = [Column(c["name"], c.get("data_type") or "", meta_of(c))
                           for c in source["columns"].values()]  # fmt: skip
                name = f"{source['source_name']}.{source['name']}"
                location = str(project / str(meta["location"]))
                found = landing_table(name, location, meta.get("format", "json"), columns)
                self.tables.append((found, marks))

    def finish(self) -> None:
        """Carry on what was stopped: a marker that waits says that its file is whole."""
        for folder in {table.folder for table, _ in self.tables}:
            for marker in sorted(folder.rglob(f"{MARKER}{BESIDE}")):
                _finish(marker)
            for half in sorted(folder.rglob(f"*{BESIDE}")):
                half.unlink()

    def gather(self) -> None:
        """Learn the keys of what the subject has."""
        for depth in (1, 2, 3):
            for table, marks in self.tables:
                pairs = [p for p in below(marks, self.subject) if p[2].count("/") == depth]
                for above, column, kind in pairs:
                    wanted = Wanted({above: self.subject.wanted(marks.keys[above], self.home)})
                    for path in self.files(table):
                        for record in _records(table, path, wanted, marks):
                            value = str(record.get(column) or "").strip()
                            self.subject.keys[kind].update([value] if value else [])

    def look(self) -> list[Landed]:
        """Return the files with rows of the subject, and those in which nobody can look."""
        found = []
        for table, marks in self.tables:
            wanted = self._wanted(marks)
            for path in self.files(table):
                landed = Landed(table, marks, path)
                try:
                    landed.rows = sum(1 for _ in _records(table, path, wanted, marks))
                except Unreadable as error:
                    landed.why = str(error)
                if landed.rows or landed.why:
                    found.append(landed)
        return found

    def take_out(self, landed: Landed) -> None:
        """Write a file without the subject's rows, with the marker of its day, and put it there.

        Stopped in between, ``finish`` does the rest.
        """
        path, beside = landed.path, landed.path.with_name(landed.path.name + BESIDE)
        write = _write_parquet if landed.table.format == "parquet" else _write_json
        rows = write(path, beside, self._wanted(landed.marks))
        marker = path.with_name(MARKER)
        waiting = path.with_name(MARKER + BESIDE)
        if marker.is_file():
            told = json.loads(marker.read_text())
            promised = (told.get("files") or {}).get(path.name)
            if promised is not None:
                new: dict[str, Any] = {"rows": rows}
                new |= {"bytes": beside.stat().st_size} if "bytes" in promised else {}
                new |= {"sha256": sha256(beside)} if "sha256" in promised else {}
                told["files"][path.name] = {**promised, **new}
                _write(waiting, json.dumps(told))
        os.replace(beside, path)
        _finish(waiting)

    def files(self, table: LandingTable) -> Iterator[Path]:
        """Yield the files of a source."""
        yield from sorted(p for p in table.folder.glob(table.pattern) if p.is_file())

    def _wanted(self, marks: Marks) -> Wanted:
        values = {n: self.subject.wanted(m, self.home) for n, m in marks.keys.items()}
        return Wanted(values, marks.above, marks.texts, self.subject.words())


def _finish(marker: Path) -> None:
    if not marker.is_file():
        return
    for beside in marker.parent.glob(f"*{BESIDE}"):
        if beside != marker:
            os.replace(beside, beside.with_name(beside.name.removesuffix(BESIDE)))
    os.replace(marker, marker.with_name(MARKER))


def _records(
    table: LandingTable, path: Path, wanted: Wanted, marks: Marks
) -> Iterator[Mapping[str, Any]]:
    """Yield the subject's rows of a file, as dicts; raise ``Unreadable``."""
    if table.format == "parquet":
        try:
            rows = pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"{path} can't be read: {error}") from error
        yield from rows.filter(_mask(rows, wanted)).to_pylist()
        return
    is_theirs = _of(wanted)
    with path.open("rb") as lines:
        for line in lines:
            if is_theirs(line):
                yield _parsed(line) or {}


def _of(wanted: Wanted) -> Callable[[bytes], bool]:
    """Return what tells whether a line is the subject's: of one that isn't JSON, by its words."""
    keys = {name: set(values) for name, values in wanted.values.items()}

    def is_theirs(line: bytes) -> bool:
        record = _parsed(line)
        if record is None:
            text = line.decode(errors="replace")
            return wanted.words is not None and wanted.words.search(text) is not None
        for name, values in keys.items():
            owner = record.get(wanted.above.get(name, ""))
            is_free = owner is None or not str(owner).strip(BLANKS)
            if is_free and str(record.get(name)).strip(BLANKS) in values:
                return True
        texts = (as_text(record[name]) for name in wanted.texts if record.get(name) is not None)
        return wanted.words is not None and any(wanted.words.search(text) for text in texts)

    return is_theirs


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _mask(rows: pa.Table, wanted: Wanted) -> Any:
    named = {name: rows[name].combine_chunks() for name in rows.column_names}
    return mask_of(named, wanted, rows.num_rows)


def _write_json(path: Path, beside: Path, wanted: Wanted) -> int:
    is_theirs, rows = _of(wanted), 0
    with path.open("rb") as lines, beside.open("wb") as kept:
        for line in lines:
            if not is_theirs(line):
                kept.write(line)
                rows += bool(line.strip())
        kept.flush()
        os.fsync(kept.fileno())
    return rows


def _write_parquet(path: Path, beside: Path, wanted: Wanted) -> int:
    rows = pq.ParquetFile(path).read()
    kept = rows.filter(pc.invert(_mask(rows, wanted)))
    pq.write_table(kept, beside)
    return int(kept.num_rows)


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    os.replace(beside, path)
