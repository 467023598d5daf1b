"""Sources that are files: how they are read, and which of them are ready and whole.

A day's folder is complete when it has a ``_SUCCESS`` marker, which holds the rows of each file, and
mostly its bytes and checksum:
``{"files": {"orders-00000.jsonl": {"rows": 1700, "bytes": 123456, "sha256": "9f86…"}}}``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from icegate.errors import LandingError

MARKER = "_SUCCESS"
SAMPLE_ROWS = 1_000
FORMATS = ("json", "parquet")
WILDCARDS = set("*?[]{}\\")
Promised = dict[str, dict[str, Any]]  # what a marker says, by file
TYPE_ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}


class LandingColumn(NamedTuple):
    """A declared column; an optional one may be absent from a whole file."""

    name: str
    data_type: str
    optional: bool


@dataclass(frozen=True)
class LandingTable:
    """One table of a source: files below ``folder`` that match ``pattern``."""

    name: str
    folder: Path
    pattern: str
    format: str
    columns: tuple[LandingColumn, ...]

    @property
    def path(self) -> str:
        """Where the files are, with wildcards."""
        return f"{self.folder}/{self.pattern}"

    def render(self) -> str:
        """Return a subquery over the files: declared columns, raw text, where each row is from."""
        path = self.path
        if self.format == "parquet":
            names = ", ".join(f"`{column.name}`" for column in self.columns)
            nulls = "cast(null as string) as _raw_text, cast(null as string) as _corrupt_record"
            return f"(select {names}, {nulls}, _metadata from parquet.`{path}`)"
        fields = ", ".join(f"`{column.name}` {column.data_type}" for column in self.columns)
        return (
            "(select record.*, value as _raw_text, _metadata from ("
            f"select from_json(value, '{fields}, _corrupt_record string') as record, "
            f"value, _metadata from text.`{path}` where trim(value) <> ''))"
        )


class NewFiles(NamedTuple):
    """Files that are whole and not loaded yet, and days that wait for their marker."""

    files: list[Path]
    waiting: list[str]


def landing_table(name: str, location: str, format: str, columns: Iterable[Any]) -> LandingTable:
    """Make a ``LandingTable`` from a dbt source; ``location`` is a path with wildcards in it.

    Its files are listed here and read by Spark: both have to write their paths in one way.
    """
    declared = tuple(
        LandingColumn(c.name, (c.data_type or "").lower(), bool((c.meta or {}).get("optional")))
        for c in columns
    )
    untyped = [column.name for column in declared if not column.data_type]
    if format not in FORMATS or not declared or untyped:
        why = f"format is {format!r}" if format not in FORMATS else f"no data_type: {untyped}"
        raise LandingError(
            f"cannot read source {name} from files",
            why=why if declared else "it has no columns",
            fix=f"give it `format: {' | '.join(FORMATS)}` and `columns:` with a data_type each",
        )
    parts = Path(os.path.abspath(location)).parts
    fixed = next((n for n, part in enumerate(parts) if set(part) & WILDCARDS), len(parts) - 1)
    return LandingTable(name, Path(*parts[:fixed]), "/".join(parts[fixed:]), format, declared)


def new_files(table: LandingTable, loaded: Collection[str]) -> NewFiles:
    """Find the files of ``table`` that are ready and not in ``loaded`` (``<day>/<file>`` each).

    Raises ``LandingError`` for the first file that contradicts its marker or its declaration.
    """
    found = sorted(path for path in table.folder.glob(table.pattern) if path.is_file())
    if not found:
        is_there = table.folder.is_dir()
        gone = f"nothing matches {table.path}" if is_there else f"no folder {table.folder}"
        raise LandingError(
            f"cannot read source {table.name}: {gone}",
            why="no file has landed yet" if is_there else "the landing folder is missing",
            fix="`make landing` makes sample data; ICEGATE_LANDING names another folder",
        )
    files, waiting = [], set()
    for day in sorted({path.parent for path in found}):
        fresh = [p for p in found if p.parent == day and file_key(p) not in loaded]
        if not (day / MARKER).is_file():
            waiting.update([str(day)] if fresh else [])
            continue
        promised = read_marker(table, day / MARKER)
        check_complete(table, day, promised)
        for path in fresh:
            check_file(table, path, promised)
        files += fresh
    return NewFiles(files, sorted(waiting))


def listing(table: LandingTable) -> str:
    """Return a hash of what has landed: names, sizes and times of the files and their markers."""
    found = [*table.folder.glob(table.pattern)]
    markers = (day / MARKER for day in {path.parent for path in found})
    listed = [(p, p.stat()) for p in (*found, *markers) if p.is_file()]
    told = sorted(f"{p} {stat.st_size} {stat.st_mtime_ns}" for p, stat in listed)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def newest_marker(table: LandingTable) -> float | None:
    """Return when the marker of ``table``'s newest whole day was written, in seconds."""
    days = {path.parent for path in table.folder.glob(table.pattern)}
    whole = sorted(day / MARKER for day in days if (day / MARKER).is_file())
    return whole[-1].stat().st_mtime if whole else None


def file_uri(path: Path) -> str:
    """Return what Spark's ``_metadata.file_path`` says of a local file."""
    # Java escapes what may not stand in a URI's path and leaves other alphabets as they are.
    escaped = re.sub(
        r"[\x00-\x7f]+", lambda run: quote(run[0], safe="/~!@$&'()*+,;=:-._"), str(path)
    )
    return f"file:{escaped}"


def file_key(path: Path) -> str:
    """Return ``<day>/<file>``, by which a table remembers the file, wherever landing stands."""
    return "/".join(file_uri(path).split("/")[-2:])


def sha256(path: Path) -> str:
    """Return the checksum of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_marker(table: LandingTable, marker: Path) -> Promised:
    """Return what a day's marker promises of each file, or raise ``LandingError``."""
    try:
        files: Promised = json.loads(marker.read_text())["files"]
        if all(isinstance(entry["rows"], int) for entry in files.values()):
            return files
        why = "a file in it has no number of rows"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    raise LandingError(
        f"cannot read source {table.name}: bad marker {marker}",
        why=why,
        fix='let the sender write {"files": {"<name>": {"rows": …, "bytes": …}}} again',
    )


def check_complete(table: LandingTable, day: Path, promised: Collection[str]) -> None:
    """Raise ``LandingError`` for a promised file that isn't there."""
    pattern = Path(table.pattern).name
    gone = [n for n in promised if fnmatch(n, pattern) and not (day / n).is_file()]
    if gone:
        raise _refusal(table, day / gone[0], f"{MARKER} promises it, but it isn't there")


def check_file(table: LandingTable, path: Path, promised: Promised) -> None:
    """Raise ``LandingError`` for a file that contradicts its marker or its declared columns."""
    if path.name not in promised:
        raise _refusal(table, path, f"the day's {MARKER} doesn't name it")
    rows, size = promised[path.name]["rows"], promised[path.name].get("bytes")
    actual = path.stat().st_size
    if actual == 0 and (rows or table.format == "parquet"):
        raise _refusal(table, path, f"it is empty, and {MARKER} promises {rows} rows")
    if size is not None and actual != size:
        kind = "truncated" if actual < size else "longer than promised"
        raise _refusal(table, path, f"{kind}: {actual} bytes, and {MARKER} promises {size}")
    checksum = promised[path.name].get("sha256")
    if checksum is not None and sha256(path) != str(checksum).lower():
        raise _refusal(table, path, f"its SHA-256 isn't the one that {MARKER} promises")
    count = _check_parquet(table, path) if table.format == "parquet" else _check_json(table, path)
    if count != rows:
        raise _refusal(table, path, f"it has {count} rows, and {MARKER} promises {rows}")


def _check_parquet(table: LandingTable, path: Path) -> int:
    import pyarrow
    import pyarrow.parquet as parquet
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        footer = parquet.ParquetFile(path)
        found = {f.name: f.dataType.simpleString() for f in from_arrow_schema(footer.schema_arrow)}
    except (pyarrow.ArrowException, OSError) as error:
        raise _refusal(table, path, f"its footer can't be read ({error})") from error
    for column in table.columns:
        if column.name not in found:
            raise _refusal(table, path, f"column {column.name!r} is gone")
        wanted = _plain_type(column.data_type)
        if found[column.name] != wanted:
            raise _refusal(
                table, path, f"column {column.name!r} is {found[column.name]}, not {wanted}"
            )
    return int(footer.metadata.num_rows)


def _check_json(table: LandingTable, path: Path) -> int:
    """Count the lines; of the first ones, see that no column is gone or of another shape."""
    seen: set[str] = set()
    with path.open("rb") as lines:
        records = [_record(line) for line in islice((x for x in lines if x.strip()), SAMPLE_ROWS)]
        for record in filter(None, records):
            seen.update(record)
            for column in table.columns:
                _check_shape(table, path, column, record.get(column.name))
        rows = len(records) + sum(1 for line in lines if line.strip())
    for column in table.columns:
        if any(records) and column.name not in seen and not column.optional:
            raise _refusal(table, path, f"column {column.name!r} is gone")
    return rows


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError:
        return {}  # bronze keeps such a line with its reason
    return record if isinstance(record, dict) else {}


def _check_shape(table: LandingTable, path: Path, column: LandingColumn, value: Any) -> None:
    wanted = {"array": list, "map": dict, "struct": dict}.get(column.data_type.partition("<")[0])
    nested = isinstance(value, (list, dict))
    if value is not None and (nested if wanted is None else not isinstance(value, wanted)):
        found = type(value).__name__
        raise _refusal(table, path, f"column {column.name!r} is {found}, not {column.data_type}")


def _plain_type(data_type: str) -> str:
    compact = re.sub(r"\s+", "", data_type)
    return re.sub(r"\w+", lambda word: TYPE_ALIASES.get(word[0], word[0]), compact)


def _refusal(table: LandingTable, path: Path, why: str) -> LandingError:
    return LandingError(
        f"cannot load {path} into {table.name}; nothing of it was read",
        why=why,
        fix="have the sender deliver the day again, or move its folder out of the way",
    )
