"""Records as they came: of each column of a route the text that a record has, or the number."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icegate.streams import quick
from icegate.streams.config import Column, Route, Stream
from icegate.tables.state import literal, quote

# Without it a value of another form than its path needs would be null without a word.
PARTIAL = {"spark.sql.json.enablePartialResults": "false"}
TEXT = "cast(_value as string)"
# Whether the quick way could read a record: in `_all` is what the other one reads.
IS_QUICK = "(_all is null)"
# What the second has: a name that no record can know, as one may close the list by itself.
END = f"end_{uuid.uuid4().hex}"
IS_WHOLE = f"(get(_all, 0) is not null and get(_all, 1).{END} is not null)"
_STRICT = {"mode": "PERMISSIVE", "allowSingleQuotes": "false"}
# How Spark writes a number that had more digits than a double keeps.
_LONG_NUMBER = r"^-?[0-9.]+(E-?[0-9]+)?$"


@dataclass(frozen=True)
class Cell:
    """A column of a route, and the columns that it is made in.

    ``kind`` is what the quick way reads it as, None as text. `raw` has its text, but of a record
    that was read so `number` has it.
    """

    at: int
    route: Route
    name: str
    kind: str | None

    @property
    def column(self) -> Column:
        return self.route.columns[self.name]

    @property
    def paths(self) -> tuple[str, ...]:
        return self.route.paths_of(self.name)

    @property
    def raw(self) -> str:
        return quote(f"_raw_{self.at}.{self.name}")

    @property
    def number(self) -> str:
        return _quick(self.paths[0])

    @property
    def row(self) -> str:
        return quote(f"_row_{self.at}.{self.name}")


def cells_of(stream: Stream, quickly: bool = False) -> list[Cell]:
    typed = quick.typed(stream) if quickly else {}
    return [
        Cell(at, route, name, typed.get(route.paths_of(name)[0]))
        for at, route in enumerate(stream.routes)
        for name in route.columns
    ]


def steps(stream: Stream, cells: Sequence[Cell], quickly: bool) -> Iterator[list[str]]:
    """Yield the steps from `_value` to each cell's `raw` or `number`, and to what a path has."""
    paths = sorted({path for route in stream.routes for path in route.paths} - {"$"})
    typed = {cell.paths[0]: cell.kind for cell in cells if cell.kind}
    # As the first of two in a list: what follows the object would be passed over otherwise.
    whole = f"concat('[', {TEXT}, ', {{\"{END}\": \"\"}}]')"
    kind = f"array<{_schema([*paths, f'$.{END}'])}>"
    listed = f"coalesce({_from_json(whole, kind)}, cast(array() as {kind}))"
    if quickly:
        yield [f"case when {quick.IS_FLAT} then {TEXT} end as _flat"]
        yield _quickly(paths, cells, typed, listed)
    else:
        yield [f"{listed} as _all"]
    texts = {path: _inside("get(_all, 0)", path) for path in paths}
    if quickly:
        for path in set(paths) - {*typed}:
            texts[path] = f"case when {IS_QUICK} then {_quick(path)} else {texts[path]} end"
    yield [f"{text} as {text_at(path)}" for path, text in texts.items()]
    yield [f"{_raw(cell.column, cell.paths)} as {cell.raw}" for cell in cells]


def _quickly(
    paths: Sequence[str], cells: Sequence[Cell], typed: Mapping[str, str], listed: str
) -> list[str]:
    """Return what flat records have by type, and ``listed`` of all that can't be read so.

    In one step: Spark copies a row for each that has a `from_json`, and computes what is there
    twice once. `_flat` is a column of the step before, as what `from_json` reads isn't compiled.
    """
    schema = _schema([*paths, f"$.{quick.ODD}"], typed)
    read = _from_json("_flat", schema, columnNameOfCorruptRecord=quick.ODD)
    numbers = [(cell.column, _inside(read, cell.paths[0])) for cell in cells if cell.kind]
    odd = [quick.is_odd(column, number) for column, number in numbers]
    is_slow = [f"{read} is null", f"{read}.{quick.ODD} is not null", *filter(None, odd)]
    return [
        *(f"{_inside(read, path)} as {_quick(path)}" for path in paths),
        f"case when {' or '.join(is_slow)} then {listed} end as _all",
    ]


def _from_json(text: str, kind: str, **options: str) -> str:
    given = ", ".join(literal(each) for pair in (_STRICT | options).items() for each in pair)
    return f"from_json({text}, {literal(kind)}, map({given}))"


def _quick(path: str) -> str:
    return quote(f"_quick_{path}")


def _schema(paths: Iterable[str], types: Mapping[str, str] | None = None) -> str:
    """Return the type of a record as Spark writes it; text at the end of a path without a type."""
    tree: dict[str, Any] = {}
    for path in paths:
        *way, last = path.split(".")[1:]
        at = tree
        for part in way:
            at = at.setdefault(part, {})
        at[last] = (types or {}).get(path, "string")
    return _type(tree)


def _type(tree: dict[str, Any] | str) -> str:
    if isinstance(tree, str):
        return tree
    inside = ", ".join(f"{quote(name)}: {_type(inner)}" for name, inner in tree.items())
    return f"struct<{inside}>"


def _inside(record: str, path: str) -> str:
    return ".".join([record, *(quote(part) for part in path.split(".")[1:])])


def text_at(path: str) -> str:
    """Return the text that a record has at a path."""
    return TEXT if path == "$" else quote(f"_at_{path}")


def _exact(path: str) -> str:
    """Return the same, and of a long number all digits: JSON's own reader makes it a double."""
    raw = text_at(path)
    if path == "$":
        return raw
    inside = f"try_variant_get(try_parse_json({TEXT}), {literal(path)}, 'string')"
    is_long = f"octet_length({raw}) > 15 and {raw} rlike {literal(_LONG_NUMBER)}"
    return f"(case when {is_long} then coalesce({inside}, {raw}) else {raw} end)"


def _raw(column: Column, paths: Sequence[str]) -> str:
    exact = column.type.startswith(("decimal", "string"))
    texts = [_exact(path) if exact else text_at(path) for path in paths]
    return texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"
