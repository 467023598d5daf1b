"""The state of an Iceberg table, from its metadata file or the statement `show create table`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from icegate.tables.metadata import by_id, columns

QUOTED = r"'(?:\\'|[^'])*'"
TOKEN = re.compile(rf"{QUOTED}|`(?:``|[^`])*`|[(),<>]|[^'`(),<>]+")
COLUMN = re.compile(
    r"(?P<name>`(?:``|[^`])+`|\S+)\s+(?P<type>.*?)(?P<not_null>\s+NOT NULL)?"
    rf"(?:\s+DEFAULT .*?)?(?:\s+COMMENT (?P<comment>{QUOTED}))?",
    re.DOTALL,
)
PROPERTY = re.compile(rf"({QUOTED}) = ({QUOTED})", re.DOTALL)


@dataclass(frozen=True)
class TableColumn:
    """A column with its type as Spark's DDL writes it."""

    name: str
    type: str
    nullable: bool = True
    comment: str = ""


@dataclass(frozen=True)
class TableState:
    """What a table is now, beside its rows."""

    provider: str
    columns: tuple[TableColumn, ...]
    partitions: tuple[str, ...]
    properties: dict[str, str]
    comment: str = ""

    def with_columns(self, added: dict[str, str]) -> TableState:
        """Return the state as it is with new columns, of name and type."""
        new = (TableColumn(name, kind) for name, kind in added.items())
        return replace(self, columns=(*self.columns, *new))


def parse_state(ddl: str) -> TableState:
    """Parse the text of `show create table`, whose form is the same from Spark 3.4 to 4.1."""
    inside, rest = _in_brackets(ddl)
    held = tuple(_column(text) for text in split_list(inside))
    provider = re.match(r"\s*USING (\w+)", rest)
    rest = rest[provider.end() :] if provider else rest
    partitions: list[str] = []
    if re.match(r"\s*PARTITIONED BY", rest):
        inside, rest = _in_brackets(rest)
        partitions = split_list(inside)
    comment = re.match(rf"\s*COMMENT ({QUOTED})", rest)
    rest = rest[comment.end() :] if comment else rest
    _, found, properties = rest.partition("\nTBLPROPERTIES (")
    return TableState(
        provider=provider[1].lower() if provider else "",
        columns=held,
        partitions=tuple(partitions),
        comment=_unquote(comment[1]) if comment else "",
        properties={_unquote(k): _unquote(v) for k, v in PROPERTY.findall(properties)},
    )


def split_list(text: str) -> list[str]:
    """Split at the commas that are in no quotes and no brackets."""
    parts, depth = [""], 0
    for token in TOKEN.findall(text):
        depth += (token in ("(", "<")) - (token in (")", ">"))
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


def literal(text: str) -> str:
    """Quote ``text`` for SQL: a quote or a backslash in it doesn't end the literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quote(name: str) -> str:
    """Quote a column's name for SQL."""
    return "`{}`".format(name.replace("`", "``"))


def unquote_name(name: str) -> str:
    """Return a column's name without the backticks around any of its parts."""
    return re.sub(r"`((?:``|[^`])+)`", lambda part: part[1].replace("``", "`"), name)


def _in_brackets(text: str) -> tuple[str, str]:
    """Return what is in the first pair of brackets, and what follows it."""
    depth = start = 0
    for token in TOKEN.finditer(text):
        if token[0] == "(":
            depth += 1
            start = start or token.end()
        elif token[0] == ")":
            depth -= 1
            if depth == 0:
                return text[start : token.start()], text[token.end() :]
    return "", text


def _column(text: str) -> TableColumn:
    found = COLUMN.fullmatch(text)
    if found is None:
        return TableColumn(text, "")
    comment = _unquote(found["comment"]) if found["comment"] else ""
    return TableColumn(unquote_name(found["name"]), found["type"], not found["not_null"], comment)


def _unquote(text: str) -> str:
    return text[1:-1].replace("\\'", "'")


def state_from_metadata(metadata: dict[str, Any]) -> TableState:
    """Return the state that a table's metadata file tells, as ``parse_state`` does of its DDL."""
    properties = {str(k): str(v) for k, v in (metadata.get("properties") or {}).items()}
    names = dict(_paths(by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])))
    spec = by_id(metadata["partition-specs"], "spec-id", metadata["default-spec-id"])
    order = by_id(metadata["sort-orders"], "order-id", metadata["default-sort-order-id"])
    sort = [
        f"{_term(part, names)} {part['direction']} {part['null-order'].replace('-', ' ')}"
        for part in order["fields"]
    ]
    return TableState(
        provider="iceberg",
        columns=tuple(
            TableColumn(c["name"], c["type"], not c["required"], c["comment"] or "")
            for c in columns(metadata)
        ),
        partitions=tuple(_term(part, names) for part in spec["fields"]),
        properties={
            **properties,
            "format-version": str(metadata["format-version"]),
            **({"sort-order": ", ".join(sort)} if sort else {}),
        },
        comment=properties.get("comment", ""),
    )


def _paths(struct: dict[str, Any], prefix: str = "") -> Iterator[tuple[int, str]]:
    """Yield the id of each field that can be partitioned by, and its name as SQL."""
    for part in struct["fields"]:
        path = prefix + quote(part["name"])
        yield part["id"], path
        if isinstance(part["type"], dict) and part["type"]["type"] == "struct":
            yield from _paths(part["type"], f"{path}.")


def _term(part: dict[str, Any], names: dict[int, str]) -> str:
    """Return a field of a spec or sort order as SQL: `bucket[8]` is `bucket(8, id)`."""
    name, _, width = part["transform"].rstrip("]").partition("[")
    column = names.get(part["source-id"], "")
    if name == "identity":
        return column
    return f"{name}({f'{width}, ' if width else ''}{column})"
