"""Environments: schemas of one pull request, `pr_12_silver` and the like, beside production's.

The catalog itself says which they are: the schema of an environment's name has a property.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from icegate import objects
from icegate.catalog import (
    CatalogEntry,
    catalog_of,
    list_namespaces,
    list_relations,
    local_path,
    read_metadata,
)
from icegate.errors import CatalogError, ConfigError, StorageError, did_you_mean
from icegate.gate import refs
from icegate.gate.candidates import OWN
from icegate.gate.store import drop_namespace, dropped, make_namespace, move
from icegate.settings import Lake
from icegate.tables.metadata import moment

VARIABLE = "ICEGATE_ENV"  # what a target takes its schema from
MARK = "icegate.environment"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LONGEST = 40


@dataclass(frozen=True)
class Environment:
    """An environment, its schemas, and what is in them."""

    name: str
    created_at: datetime
    schemas: list[str]
    entries: list[CatalogEntry]

    @property
    def used_at(self) -> datetime:
        """When something was last written in it."""
        written = (moment(_read(entry).get("last-updated-ms")) for entry in self.entries)
        return max([self.created_at, *filter(None, written)])


def state_of(lake: Lake, name: str) -> Path:
    """Return the folder that dbt gets as `--state`: production's manifest as of the creation."""
    return lake.home / "environments" / name


def environments(lake: Lake) -> dict[str, Environment]:
    """Return the environments by name."""
    marked = catalog_of(lake).marked(MARK)
    made = {name: datetime.fromisoformat(at) for name, at in marked.items()}
    schemas, entries = list_namespaces(lake), list_relations(lake)
    return {
        name: Environment(
            name,
            at,
            [schema for schema in schemas if _is_of(schema, name)],
            [entry for entry in entries if _is_of(entry.namespace, name)],
        )
        for name, at in made.items()
    }


def find(lake: Lake, name: str) -> Environment:
    """Return an environment; raise ``ConfigError`` for what is none, such as production."""
    known = environments(lake)
    if name not in known:
        raise ConfigError(
            f"cannot find environment {name!r}",
            why="`icegate env create` has made none of this name, so no schema is one's",
            fix=did_you_mean(name, known, "`icegate env list` has those that there are"),
        )
    return known[name]


def create(lake: Lake, name: str, manifest: Mapping[str, Any]) -> Path:
    """Make an environment, or bring the state of one up to date; return the state's folder.

    Raises ``ConfigError`` for a name whose schemas may be someone else's.
    """
    _check(lake, name, manifest)
    make_namespace(lake, name)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    catalog_of(lake).mark(name, MARK, now)
    folder = state_of(lake, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _check(lake: Lake, name: str, manifest: Mapping[str, Any]) -> None:
    what, known = f"cannot create environment {name!r}", environments(lake)
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise ConfigError(
            what,
            why=f"schemas begin with it: a letter, then letters, digits and single _, all in "
            f"lower case, {LONGEST} at most",
            fix="take a name like pr_12",
        )
    if not list_relations(lake):
        raise ConfigError(
            what, why="the catalog has no tables: there is no production", fix="build it first"
        )
    theirs = {*_production(manifest), *OWN, *(list_namespaces(lake) if name not in known else ())}
    taken = [schema for schema in sorted(theirs) if _is_of(schema, name)]
    taken += [other for other in known if other != name and _is_of(name, other)]
    if taken:
        raise ConfigError(
            what,
            why=f"{name} and all that begins with {name}_ is dropped with it, and that overlaps "
            f"with {', '.join(taken)}",
            fix="take another name; of a manifest that isn't production's name another --state",
        )


def drop(lake: Lake, environment: Environment) -> list[str]:
    """Drop an environment's schemas with all that is in them; return the folders that stay.

    A folder stays where a table of another schema has files: one that was renamed.
    """
    released = [
        entry.full_name
        for entry in environment.entries
        if entry.kind == "table" and refs.is_gated(_read(entry))
    ]
    if released:
        raise ConfigError(
            f"cannot drop environment {environment.name!r}",
            why=f"{', '.join(released)} came through the gate, so it's production's",
            fix="move it to a schema that doesn't begin so, or drop it yourself",
        )
    move(lake, [dropped(entry) for entry in environment.entries])
    for schema in environment.schemas:
        drop_namespace(lake, schema)
    shutil.rmtree(state_of(lake, environment.name), ignore_errors=True)
    used = {entry.metadata_location for entry in list_relations(lake)}
    if lake.bucket:
        return [*_delete_below(lake.bucket, environment.schemas, used)]
    folders = [lake.warehouse / schema for schema in environment.schemas]
    kept = [folder for folder in folders if _is_used(folder, used)]
    for folder in set(folders) - set(kept):
        shutil.rmtree(folder, ignore_errors=True)
    return [str(folder) for folder in kept]


def _delete_below(bucket: str, schemas: Collection[str], used: Collection[str]) -> Iterator[str]:
    for schema in schemas:
        folder = f"{bucket}/{schema}/"
        if any(location.startswith(folder) for location in used):
            yield folder
        else:
            objects.delete_below(folder)


def _read(entry: CatalogEntry) -> dict[str, Any]:
    try:
        return read_metadata(entry)
    except StorageError:  # it may be production's: nobody knows now
        raise
    except CatalogError:  # its files are gone: it can be dropped all the same
        return {}


def _is_of(schema: str, name: str) -> bool:
    return schema == name or schema.startswith(f"{name}_")


def _is_used(folder: Path, locations: Collection[str]) -> bool:
    return any(
        local_path(location).is_relative_to(folder)
        for location in locations
        if location.partition(":")[0] in ("file", location)
    )


def _production(manifest: Mapping[str, Any]) -> set[str]:
    nodes = manifest["nodes"].values()
    return {node["schema"] for node in nodes if node["resource_type"] in _WITH_TABLES}


_WITH_TABLES = ("model", "seed", "snapshot")
