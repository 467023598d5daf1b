"""Files of one source and day: written aside and renamed; the marker comes last."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow
import pyarrow.parquet

from icegate.errors import ConfigError, LandingError
from icegate.landing import MARKER, sha256

Files = dict[str, dict[str, Any]]
Report = Callable[[Path, int], None]

OUR_FILE = re.compile(rf"[a-z_]+-\d{{5}}\.(jsonl|parquet)|{MARKER}|\..*")
DAY_FOLDER = re.compile(r"\d{4}-\d\d-\d\d")


class DayFolder:
    """A folder ``<source>/<day>`` that is being written."""

    def __init__(self, path: Path, part_rows: int, report: Report) -> None:
        self.path, self.part_rows, self.report = path, part_rows, report
        self.files: Files = {}
        path.mkdir(parents=True, exist_ok=True)
        # Without the marker nobody reads what is half old and half new.
        (path / MARKER).unlink(missing_ok=True)
        for old in path.iterdir():
            old.unlink()

    def add(self, table: str, blocks: Iterable[Any]) -> None:
        """Write blocks of rows (tables, or JSON lines) into files of at most ``part_rows``."""
        part: _Part | None = None
        number = 0
        for block in blocks:
            while len(block):
                part = part or _Part(self.path, f"{table}-{number:05d}", block)
                room = self.part_rows - part.rows
                part.write(block.slice(0, room))
                block = block.slice(room)
                if part.rows == self.part_rows:
                    self._finish(part)
                    part, number = None, number + 1
        if part:
            self._finish(part)

    def measure(self) -> None:
        """Take bytes and checksum of each file into what the marker will say."""
        for name, entry in self.files.items():
            path = self.path / name
            entry.update(bytes=path.stat().st_size, sha256=sha256(path))

    def mark(self) -> None:
        """Write the marker, if there is anything that it may say."""
        if self.files:
            aside = self.path / f".{MARKER}"
            aside.write_text(json.dumps({"files": self.files}, indent=1) + "\n", encoding="utf-8")
            os.replace(aside, self.path / MARKER)

    def _finish(self, part: _Part) -> None:
        part.finish()
        self.files[part.path.name] = {"rows": part.rows}
        self.report(part.path, part.rows)


class _Part:
    """One file, under a hidden name until it is whole."""

    def __init__(self, folder: Path, name: str, first: Any) -> None:
        self.is_parquet = isinstance(first, pyarrow.Table)
        self.path = folder / f"{name}.{'parquet' if self.is_parquet else 'jsonl'}"
        self.aside = folder / f".{self.path.name}"
        self.rows = 0
        self.sink: Any = (
            pyarrow.parquet.ParquetWriter(self.aside, first.schema)
            if self.is_parquet
            else self.aside.open("wb")
        )

    def write(self, block: Any) -> None:
        self.rows += len(block)
        self.sink.write(block if self.is_parquet else _bytes(block))

    def finish(self) -> None:
        self.sink.close()
        os.replace(self.aside, self.path)


def _bytes(lines: Any) -> memoryview:
    # Arrow keeps the texts of a column end to end, which is a file of lines already.
    _, ends, letters = lines.buffers()
    ends = memoryview(ends).cast("i")
    return memoryview(letters)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def check_target(out: Path, sources: Iterable[str]) -> None:
    """Refuse a folder that holds something else than landing data, or can't be written."""
    for source in (out / name for name in sources if (out / name).exists()):
        strangers = [p for p in source.glob("*") if not DAY_FOLDER.fullmatch(p.name)]
        strangers += [p for p in source.glob("*/*") if not OUR_FILE.fullmatch(p.name)]
        if strangers or not source.is_dir():
            raise _foreign(out, strangers[0] if strangers else source)
    if out.is_dir() and not any((out / name).exists() for name in sources):
        entries = [p for p in out.iterdir() if not p.name.startswith(".")]
        if entries:
            raise _foreign(out, entries[0])
    try:
        out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=out).close()
    except OSError as error:
        raise ConfigError(
            f"cannot write landing data to {out}",
            why=f"{error.strerror}: {error.filename}",
            fix="name a folder that you may write, with --out",
        ) from error


def _foreign(out: Path, entry: Path) -> LandingError:
    error = LandingError(
        f"cannot write landing data to {out}",
        why=f"it holds something else: {entry}",
        fix="name an empty folder, or one with landing data, with --out",
    )
    error.exit_code = 2
    return error
