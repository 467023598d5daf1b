"""What a node is made of: a hash of each thing, so that a change of it can be named.

These are its inputs, SQL, code, configs, the variables and the environment that its code or its
macros name, and the versions of what runs it. Where one can't be known, the node has to run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import sqlglot

from icegate.dialect import SPARK, moving_read, table_names, volatile
from icegate.gate.staging import final_names
from icegate.hash_key import VIEW, fingerprint
from icegate.landing import LandingTable, listing
from icegate.nodes import Macros
from icegate.settings import Lake, engine_of
from icegate.unchanged.seen import Seen, hashed

PACKAGES = ("icegate", "dbt-core", "dbt-spark", "pyspark")
OWN = ("dbt", "dbt_spark", "dbt_icegate")  # packages of macros that are of these versions
# What may make the SQL of a first run differ from that of the next by more than `is_incremental`.
AT_COMPILE = re.compile(r"\b(run_query|statement|run_started_at|modules|invocation_id)\b")
NAMED = {w: re.compile(rf"(?<![\w.]){w}\(\s*(['\"])([^'\"]*)\1\s*[,)]") for w in ("var", "env_var")}
CALLED = {what: re.compile(rf"(?<![\w.]){what}\(") for what in ("var", "env_var")}


class Runs(Exception):
    """Why a node has to run."""


class Parts:
    """The parts of the nodes of a project.

    ``variables`` are those of the project and of the command line; ``landing`` returns the files
    that a source is read from, None for a table.
    """

    def __init__(
        self,
        lake: Lake,
        manifest: Any,
        variables: Mapping[str, Any],
        landing: Callable[[Any], LandingTable | None],
    ) -> None:
        self.lake, self.manifest = lake, manifest
        self.variables, self.landing = variables, landing

    def of(self, model: Mapping[str, Any], seen: Seen, *, anew: bool) -> dict[str, str]:
        """Return the parts of a node by name, or raise ``Runs``.

        The SQL of an incremental model that is made ``anew``, or whose table isn't there yet, is
        empty: the next one differs.
        """
        id, config = model["unique_id"], model["config"]
        node = self.manifest.nodes[id]
        sql = final_names(model.get("compiled_code") or "", seen.staged)
        texts = [*self._texts(id)]
        self._check(model, sql)
        is_excused = (
            config["materialized"] == "incremental"
            and (anew or not seen.state(_name(node)))
            and not any(AT_COMPILE.search(text) for text in texts)
        )
        is_shown = config.get("persist_docs") or config.get("contract", {}).get("enforced")
        shown = [model.get(key) for key in ("columns", "constraints", "description")]
        named_in = [*texts, json.dumps(config, default=str)]
        return {
            **{f"input {name}": state for name, state in self._inputs(id, seen)},
            "sql": "" if is_excused else hashed(sql),
            "code": hashed([node.checksum.checksum, texts]),
            "config": hashed([config, shown if is_shown else []]),
            "variables": hashed(self._variables(named_in)),
            "environment": hashed(self._environment(sql, named_in)),
            "versions": self._versions,
        }

    def _check(self, model: Mapping[str, Any], sql: str) -> None:
        """Raise ``Runs`` for what may make other rows of the same parts."""
        config = model["config"]
        if config.get("incremental_strategy") == "microbatch":
            raise Runs("its batches follow the clock")
        if model["resource_type"] == "seed":
            if self.manifest.nodes[model["unique_id"]].checksum.name == "path":
                raise Runs("its file is too large for dbt to tell whether it changed")
            return
        if model.get("language") == "python":
            if not config.get("deterministic"):
                raise Runs("it's a Python model without `deterministic: true`")
            return
        try:
            changing = None if config.get("deterministic") else volatile(sql)
            tree = sqlglot.parse_one(sql, dialect=SPARK)
        except sqlglot.errors.SqlglotError as error:
            raise Runs("its SQL isn't understood") from error
        moving = moving_read(tree)
        if moving:
            raise Runs(f"it reads {moving}, which may lead elsewhere")
        if changing:
            raise Runs(f"it calls {changing}, and has no `deterministic: true`")
        parents = [*self._parents(model["unique_id"])]
        known = {_name(self._node(parent)) for parent in parents} | {_name(model)}
        files = [f.path for f in map(self._files, parents) if f]
        known |= {f"{kind}.{path}" for path in files for kind in ("parquet", "text")}
        others = table_names(tree, self.lake.catalog) - known - {VIEW}
        if others:
            raise Runs(f"it reads {min(others)}, which is no ref or source of it")

    @cached_property
    def _versions(self) -> str:
        return hashed(engine_of(self.lake, PACKAGES))

    @cached_property
    def _macros(self) -> Macros:
        return Macros(self.manifest, OWN)

    def _texts(self, id: str) -> Iterator[str]:
        """Yield the code of a node and of the ephemeral models in it, and of all their macros."""
        node = self.manifest.nodes[id]
        yield node.raw_code
        yield from self._macros.of(node)
        for parent in self._read(id):
            if self._kind(parent) == "ephemeral":
                yield from self._texts(parent)

    def _inputs(self, id: str, seen: Seen) -> Iterator[tuple[str, str]]:
        """Yield name and state of all that a node reads, and of what views among it show."""
        for parent in self._read(id):
            kind = self._kind(parent)
            if kind in ("view", "ephemeral"):
                yield from self._inputs(parent, seen)
            if kind != "ephemeral":
                name, files = _name(self._node(parent)), self._files(parent)
                state = listing(files) if files else seen.state(name)
                if state is None:
                    raise Runs(f"nothing tells whether {name} has changed")
                yield name, state

    def _parents(self, id: str) -> Iterator[str]:
        for parent in self._read(id):
            yield parent
            if self._kind(parent) == "ephemeral":
                yield from self._parents(parent)

    def _read(self, id: str) -> list[str]:
        return list(getattr(self._node(id), "depends_on_nodes", ()))

    def _node(self, id: str) -> Any:
        return self.manifest.nodes.get(id) or self.manifest.sources[id]

    def _kind(self, id: str) -> str:
        return str(self._node(id).config.get("materialized") or "source")

    def _files(self, id: str) -> LandingTable | None:
        source = self.manifest.sources.get(id)
        return self.landing(source) if source is not None else None

    def _variables(self, texts: list[str]) -> Any:
        """Return the values of the variables that texts name, in any scope; of all if unknown."""
        names = _names("var", texts)
        if names is None:
            return self.variables
        scopes = [self.variables, *(v for v in self.variables.values() if isinstance(v, dict))]
        return {name: [scope.get(name) for scope in scopes] for name in names}

    def _environment(self, sql: str, texts: list[str]) -> dict[str, str | None]:
        names = _names("env_var", texts)
        if names is None:
            raise Runs("it reads a variable of the environment whose name isn't written out")
        key = {VIEW: fingerprint(self.lake.home)} if VIEW in sql else {}
        return {**key, **{name: os.environ.get(name) for name in names}}


def _names(what: str, texts: list[str]) -> list[str] | None:
    """Return the names that are given to `var` or `env_var`, None where one isn't a literal."""
    found = [name for text in texts for _, name in NAMED[what].findall(text)]
    calls = sum(len(CALLED[what].findall(text)) for text in texts)
    return sorted(set(found)) if len(found) == calls else None


def _name(node: Any) -> str:
    """Return `schema.table` of a node or source, whether dbt gives it as an object or as a dict."""
    if isinstance(node, Mapping):
        return f"{node['schema']}.{node['alias']}"
    return f"{node.schema}.{getattr(node, 'alias', None) or node.identifier}"
