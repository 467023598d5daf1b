"""Who is to be forgotten, and which columns tell whose a row is."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icegate import hash_key
from icegate.errors import ConfigError, did_you_mean
from icegate.gate import staging
from icegate.gate.quarantine import SUFFIX
from icegate.gate.store import StoredTable
from icegate.pii import masked, meta_of

KEY, TEXT, HASH = "subject_key", "subject_text", "keyed_hash"
BELOW = "/"  # `customer/order`: the key of something that a customer has
WRITTEN = ("model", "seed", "snapshot")
LETTERS = "0-9A-Za-z_-"  # of a key: `C-1` isn't in `C-12`
DISTINCTIVE = 6  # characters: a shorter key is found in text that has nothing to do with it


@dataclass
class Subject:
    """A subject: its ``kind`` and key, and the keys of what it has, by their kind."""

    kind: str
    key: str
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        self.keys[self.kind].add(self.key)

    @classmethod
    def of(cls, said: str, known: Iterable[str]) -> Subject:
        """Read `customer=C-17`; ``known`` are the kinds that columns are marked with."""
        kind, equals, key = said.partition("=")
        own = sorted({each for each in known if BELOW not in each})
        what = f"cannot tell whom {said!r} means"
        if not own:
            raise ConfigError(
                "cannot look for anyone",
                why=f"no column says whose key it is, by `meta: {{{KEY}: …}}`",
                fix="mark them, in models, snapshots and sources, and run `dbt parse`: "
                "docs/personal-data.md",
            )
        if not equals or not key.strip():
            raise ConfigError(
                what, why="it has no kind, or no key", fix=f"say {own[0]}=<key>, in quotes"
            )
        if kind not in own:
            raise ConfigError(
                what,
                why=f"no column is marked `{KEY}: {kind}`",
                fix=did_you_mean(kind, own, f"there are {', '.join(own)}"),
            )
        return cls(kind, key.strip())

    @property
    def shown(self) -> str:
        """What people may see of it, and what a certificate says."""
        return f"{self.kind} {masked(self.key, 'id')}"

    @property
    def digest(self) -> str:
        """The name of its journal: no secret, and no key either."""
        return hashlib.sha256(f"{self.kind}={self.key}".encode()).hexdigest()[:16]

    def wanted(self, mark: Mark, home: Path) -> set[str]:
        """Return the values that a column with this mark has in the subject's rows."""
        values = self.keys.get(mark.kind, set())
        if mark.scope is None:
            return values
        key = hash_key.read(home)
        return {_keyed_hash(key, mark.scope, value) for value in values}

    def words(self) -> re.Pattern[str]:
        """Return what finds any of its keys in text; by Java's rules, too."""
        every = sorted({value for values in self.keys.values() for value in values})
        return word(every)

    def own_word(self) -> re.Pattern[str]:
        """Return what finds its own key in text."""
        return word([self.key])

    def has(self, kind: str) -> bool:
        """Tell whether a kind is the subject's or of what it has."""
        return kind == self.kind or kind.startswith(self.kind + BELOW)


@dataclass(frozen=True)
class Mark:
    """What a column says: the ``kind`` of key that it holds; pseudonyms have a ``scope``."""

    kind: str
    scope: str | None = None


@dataclass(frozen=True)
class Marks:
    """The columns of a table by which its rows are someone's: keys, and text that may name one."""

    keys: Mapping[str, Mark]
    texts: tuple[str, ...] = ()

    def of(self, subject: Subject) -> Marks:
        """Return those that are about a subject."""
        keys = {name: mark for name, mark in self.keys.items() if subject.has(mark.kind)}
        return Marks(keys, self.texts)

    def __bool__(self) -> bool:
        return bool(self.keys or self.texts)

    @property
    def above(self) -> dict[str, str]:
        """The column that says who has what another one is the key of, by that one's name.

        Where it has a value, that decides: two may have claimed one order.
        """
        columns = {mark.kind: name for name, mark in self.keys.items()}
        parents = {name: mark.kind.rpartition(BELOW)[0] for name, mark in self.keys.items()}
        return {name: columns[kind] for name, kind in parents.items() if kind in columns}


def marks_of(described: Mapping[str, Any]) -> Marks:
    """Return what the columns of a node or source in dbt's manifest say."""
    keys, texts = {}, []
    for name, column in described["columns"].items():
        meta = meta_of(column)
        if meta.get(KEY):
            scope = meta.get(HASH)
            keys[name] = Mark(str(meta[KEY]), None if scope is None else str(scope))
        if meta.get(TEXT):
            texts.append(name)
    return Marks(keys, tuple(texts))


class Known:
    """The marks of a project's tables, sources and tests, by dbt's manifest."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        nodes = [n for n in manifest["nodes"].values() if n["resource_type"] in WRITTEN]
        self.tables = {f"{n['schema']}.{n['alias']}".lower(): marks_of(n) for n in nodes}
        self._by_name = {str(n["alias"]).lower(): marks_of(n) for n in nodes}
        self.sources = [*manifest.get("sources", {}).values()]
        names = {n["unique_id"]: f"{n['schema']}.{n['alias']}" for n in nodes}
        self.histories = {  # with their sources
            names[n["unique_id"]]: names[parent]
            for n in nodes
            for parent in n["depends_on"].get("nodes", [])
            if n["config"].get("materialized") == "history" and parent in names
        }
        tests = (n for n in manifest["nodes"].values() if n["resource_type"] == "test")
        self._failures = {f"{n['schema']}.{n['alias']}".lower() for n in tests}

    @property
    def kinds(self) -> set[str]:
        """All kinds of keys that a column is marked with."""
        every = [*self.tables.values(), *map(marks_of, self.sources)]
        return {mark.kind for marks in every for mark in marks.keys.values()}

    def of(self, table: StoredTable) -> Marks:
        """Return the marks of a table.

        A quarantine has its model's columns; a table in staging those of what it's to become;
        one that no node writes, as in an environment, those of the node of its name.
        """
        name = table.name.lower().removesuffix(SUFFIX)
        if table.entry.namespace == staging.NAMESPACE:
            name = self._staged(table.entry.name.lower(), staging.build_of(table.entry).lower())
        alias = name.partition(".")[2]
        return self.tables.get(name) or self._by_name.get(alias) or Marks({})

    def _staged(self, name: str, build: str) -> str:
        for final in self.tables:
            if name in (staging.staging_name(one, build) for one in (final, final + SUFFIX)):
                return final
        return ""

    def is_failures(self, table: str) -> bool:
        """Tell whether a table holds rows that failed a test: the next run makes it anew."""
        return table.lower() in self._failures or "dbt_test__audit" in table.partition(".")[0]


def word(keys: Iterable[str]) -> re.Pattern[str]:
    """Return what finds keys in text as words of their own."""
    listed = "|".join(re.escape(key) for key in keys)
    return re.compile(rf"(?<![{LETTERS}])(?:{listed})(?![{LETTERS}])")


def is_distinctive(key: str) -> bool:
    """Tell whether text that has a key can hardly mean anything else."""
    return len(key) >= DISTINCTIVE


def below(marks: Marks, subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs of columns of which the first tells whose the second's keys are.

    As the two names, and the kind of the second: `customer_id`, `order_id`, `customer/order`.
    """
    for name, owner in marks.above.items():
        mark = marks.keys[name]
        if mark.scope is None and subject.has(mark.kind):
            yield owner, name, mark.kind


def _keyed_hash(key: str, scope: str, value: str) -> str:
    """Return what the macro `keyed_hash` computes."""
    inner = hashlib.sha256(f"{key}:{scope}:{value}".encode()).hexdigest()
    return hashlib.sha256((key + inner).encode()).hexdigest()
