"""What dbt's artifacts say of a project: models, tests, exposures, and the last run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from icegate import pii
from icegate.errors import ConfigError
from icegate.nodes import keys_of, read_artifact

VERSIONS = {"manifest": "v12", "run-results": "v6"}  # the shapes that are read here
GRAIN = re.compile(r"one row per ([^.,;:]+)", re.IGNORECASE)
READ = ("gold", "marts", "mart")  # what the layer is called that people read
STANDINS = "macro.dbt_utils.standins_are_in_use"


@dataclass(frozen=True)
class Owner:
    """Who looks after something, as far as it's said."""

    name: str = ""
    email: str = ""
    channel: str = ""  # where to tell them: the name of a channel, never its URL


@dataclass(frozen=True)
class Test:
    """A data test: ``kind`` is the generic test's name, "" of a singular one."""

    __test__ = False  # pytest takes every Test… for its own

    id: str
    name: str
    kind: str
    column: str
    arguments: Mapping[str, Any]
    description: str
    severity: str
    attached: str | None
    reads: tuple[str, ...]
    meta: Mapping[str, Any]
    sql: str
    where: str
    of_kind: str = ""  # what the project says of all tests of this kind

    def judged(self, status: str) -> list[str]:
        """Return what a test of anomalies found, of a status: sentences, as its SQL has them."""
        return re.findall(rf"^-- {status}: (.*)$", self.sql, re.MULTILINE)


@dataclass(frozen=True)
class Model:
    """A model, seed or snapshot; ``table`` is `schema.name`."""

    id: str
    name: str
    table: str
    kind: str  # model, seed or snapshot
    description: str
    columns: Mapping[str, Mapping[str, Any]]
    parents: tuple[str, ...]
    fqn: tuple[str, ...]
    tags: tuple[str, ...]
    meta: Mapping[str, Any]
    owner: Owner
    path: str
    key: tuple[str, ...] = ()  # the columns that name a row, where that is known

    @property
    def noun(self) -> str:
        """What one row is, as the description's "One row per …" has it; "row" without one."""
        found = GRAIN.search(self.description)
        return found[1].strip().split(" and ")[0] if found and " and " not in found[1] else "row"

    @property
    def fresh_within_hours(self) -> float | None:
        """The promise: how old what readers see may be; None where none is made."""
        told = self.meta.get("fresh_within_hours")
        return float(told) if isinstance(told, int | float) else None


@dataclass(frozen=True)
class Exposure:
    """A dashboard, report or program that reads tables."""

    id: str
    name: str
    label: str
    kind: str
    description: str
    url: str
    owner: Owner
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Project:
    """A project as dbt last parsed it, and what its last run said of tests."""

    name: str
    models: Mapping[str, Model] = field(default_factory=dict)
    tests: Mapping[str, Test] = field(default_factory=dict)
    exposures: Mapping[str, Exposure] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # name by unique id
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)  # of the last one: which, at, invocation
    has_standins: bool = False
    was_parsed: bool = True  # else there is nothing to tell of it

    @cached_property
    def ran_at(self) -> datetime | None:
        """When dbt's last run ended, None where there was none."""
        told = self.run.get("generated_at")
        return datetime.fromisoformat(str(told).replace("Z", "+00:00")) if told else None

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """What reads a model or source, by unique id."""
        found: dict[str, list[str]] = {}
        nodes: list[Model | Exposure] = [*self.models.values(), *self.exposures.values()]
        for node in nodes:
            for parent in node.parents:
                found.setdefault(parent, []).append(node.id)
        return found

    @cached_property
    def tests_of(self) -> Mapping[str, list[Test]]:
        """Tests by the model that they're declared on, else by each that they read."""
        found: dict[str, list[Test]] = {}
        for test in sorted(self.tests.values(), key=lambda test: test.name):
            for id in [test.attached] if test.attached in self.models else test.reads:
                found.setdefault(str(id), []).append(test)
        return found

    @cached_property
    def read(self) -> list[Model]:
        """The models that people read: the gold layer; else what exposures or no model reads."""
        models = [m for m in self.models.values() if m.kind == "model"]
        gold = [m for m in models if {*m.fqn[1:-1], *m.tags} & {*READ}]
        shown = {parent for exposure in self.exposures.values() for parent in exposure.parents}
        ends = [m for m in models if m.id in shown or not self.children.get(m.id)]
        return sorted(gold or ends, key=lambda model: model.table)

    @property
    def shown(self) -> list[Exposure]:
        """The dashboards and other exposures, by what they're called."""
        return sorted(self.exposures.values(), key=lambda exposure: exposure.label)

    def above(self, id: str) -> set[str]:
        """Return all models and sources above a node."""
        found, waiting = set[str](), [id]
        while waiting:
            node = self.models.get(waiting[-1]) or self.exposures.get(waiting[-1])
            waiting.pop()
            new = {*(node.parents if node else ())} - found
            found |= new
            waiting += new
        return found


def read_project(folder: Path) -> Project:
    """Return the project of the last parse, an empty one where dbt has never run.

    Raises ``ConfigError`` for artifacts that can't be read, or of a version not known here.
    """
    target = folder / os.environ.get("DBT_TARGET_PATH", "target")
    manifest = _artifact(target / "manifest.json", "manifest")
    if manifest is None:
        return Project(folder.name, was_parsed=False)
    ran = _artifact(target / "run_results.json", "run-results") or {"results": []}
    nodes, groups = manifest["nodes"], manifest.get("groups") or {}
    kept = {id: n for id, n in nodes.items() if n["resource_type"] in ("model", "seed", "snapshot")}
    ephemeral = {id for id, n in kept.items() if n["config"].get("materialized") == "ephemeral"}
    owners = {group["name"]: group.get("owner") for group in groups.values()}
    own, keys, read = manifest["metadata"]["project_name"], keys_of(nodes), manifest["sources"]
    models = {
        id: _model({**n, "key": keys.get(id, ())}, owners, {**kept, **read}, ephemeral)
        for id, n in kept.items()
        if id not in ephemeral and n["package_name"] == own
    }
    tests = (n for n in nodes.values() if n["resource_type"] == "test")
    return Project(
        name=own,
        models=models,
        tests={n["unique_id"]: _test(n, models, manifest["macros"]) for n in tests},
        exposures={id: _exposure(e) for id, e in manifest["exposures"].items()},
        sources={id: f"{s['source_name']}.{s['name']}" for id, s in manifest["sources"].items()},
        results={result["unique_id"]: result for result in ran["results"]},
        run={"which": ran["args"].get("which"), **ran["metadata"]} if ran["results"] else {},
        has_standins=STANDINS in manifest["macros"],
    )


def _artifact(path: Path, kind: str) -> dict[str, Any] | None:
    fix = "make it anew: `dbt parse`, or any build"
    try:
        found = read_artifact(path)
        told = str(found["metadata"]["dbt_schema_version"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"it isn't whole: {type(error).__name__}: {error}"
        raise ConfigError(f"cannot read {path}", why=why, fix=fix) from error
    if not told.endswith(f"/{kind}/{VERSIONS[kind]}.json"):
        why = f"it has the shape {told}, and {kind}/{VERSIONS[kind]} is what this version reads"
        raise ConfigError(f"cannot read {path}", why=why, fix=f"{fix}, with dbt-core 1.11")
    return found


def _model(
    node: dict[str, Any], owners: Mapping[str, Any], nodes: Mapping[str, Any], ephemeral: set[str]
) -> Model:
    meta = pii.meta_of(node)
    group = node["config"].get("group") or node.get("group") or ""
    return Model(
        id=node["unique_id"],
        name=node["name"],
        table=f"{node['schema']}.{node['alias']}",
        kind=node["resource_type"],
        description=" ".join((node.get("description") or "").split()),
        columns=node.get("columns") or {},
        parents=tuple(_parents(node, nodes, ephemeral)),
        fqn=tuple(node["fqn"]),
        tags=tuple(node.get("tags") or ()),
        meta=meta,
        owner=_owner(meta.get("owner") or owners.get(group), meta),
        path=node["original_file_path"],
        key=tuple(node["key"]),
    )


def _parents(node: dict[str, Any], nodes: Mapping[str, Any], ephemeral: set[str]) -> list[str]:
    """Return what a model reads: of what is ephemeral, what that reads."""
    found: dict[str, None] = {}
    for parent in (node.get("depends_on") or {}).get("nodes") or []:
        above = _parents(nodes[parent], nodes, ephemeral) if parent in ephemeral else [parent]
        found |= dict.fromkeys(above)
    return [*found]


def _owner(told: Any, meta: Mapping[str, Any]) -> Owner:
    owner = told if isinstance(told, dict) else {"name": str(told or "")}
    email = owner.get("email") or ""
    channel = meta.get("channel") or owner.get("channel") or ""
    address = email if isinstance(email, str) else email[0]
    return Owner(owner.get("name") or "", address, str(channel))


def _test(node: dict[str, Any], models: Mapping[str, Model], macros: Mapping[str, Any]) -> Test:
    told, config = node.get("test_metadata") or {}, node["config"]
    macro = macros.get(f"macro.{node['package_name']}.test_{told.get('name')}") or {}
    arguments = {k: v for k, v in (told.get("kwargs") or {}).items() if k != "model"}
    model = models.get(node.get("attached_node") or "")
    arguments = _without_values(arguments, pii.kinds(model.columns) if model else {})
    return Test(
        id=node["unique_id"],
        name=node["name"],
        kind=told.get("name") or "",
        column=str(node.get("column_name") or arguments.pop("column_name", "") or ""),
        arguments=arguments,
        description=" ".join((node.get("description") or "").split()),
        severity=str(config.get("severity") or "error").lower(),
        attached=node.get("attached_node"),
        reads=tuple((node.get("depends_on") or {}).get("nodes") or ()),
        meta=pii.meta_of(node),
        sql=node.get("compiled_code") or "",
        where=config.get("where") or "",
        of_kind=" ".join((macro.get("description") or "").split()),
    )


def _without_values(arguments: dict[str, Any], personal: Mapping[str, str]) -> dict[str, Any]:
    """Hide arguments that may be somebody's data: values of a personal column, and SQL on one."""
    sql = str(arguments.get("expression") or "").lower()
    hidden = {"expression"} if {*re.findall(r"\w+", sql)} & personal.keys() else set()
    if str(arguments.get("column_name") or "").lower() in personal:
        hidden |= {"expression", "min_value", "max_value", "values"} & arguments.keys()
    masks = {name: [pii.HIDDEN] if name == "values" else pii.HIDDEN for name in hidden}
    return arguments | masks


def _exposure(node: dict[str, Any]) -> Exposure:
    return Exposure(
        id=node["unique_id"],
        name=node["name"],
        label=node.get("label") or node["name"].replace("_", " "),
        kind=node["type"],
        description=node.get("description") or "",
        url=node.get("url") or "",
        owner=_owner(node.get("owner"), pii.meta_of(node)),
        parents=tuple(node["depends_on"]["nodes"]),
    )
