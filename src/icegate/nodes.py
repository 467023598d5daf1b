"""What dbt's manifest tells of nodes: what they read, by which names, and with which macros."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from icegate.errors import ConfigError

SOURCES = ("*.sql", "*.py", "*.yml", "*.yaml", "*.csv")
WRITING_S = 3.0  # that dbt is given to write a file whole
WRITTEN = ("table", "incremental", "history", "seed", "snapshot", "view")


def manifest_path(project: Path) -> Path:
    """Return where dbt's last command wrote its manifest."""
    return project / os.environ.get("DBT_TARGET_PATH", "target") / "manifest.json"


def read_manifest(project: Path, wanted: str, folder: Path | None = None) -> dict[str, Any]:
    """Return the manifest that dbt's last command wrote, or one of a folder that is named.

    Raises ``ConfigError``.
    """
    path = folder / "manifest.json" if folder else manifest_path(project)
    try:
        found = read_artifact(path)
        if "nodes" not in found:
            raise ValueError("it has no nodes")
        return found
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot find {wanted}",
            why=f"{path} isn't there, or isn't whole: {error}",
            fix="make it anew: `dbt compile`, or `dbt parse` where no test is run, or any build",
        ) from error


def read_artifact(path: Path) -> dict[str, Any]:
    """Return what a file of dbt's says; one that isn't whole may be one that dbt is writing.

    dbt writes over the file, which streams and reports may read during a build. Raises
    ``OSError`` and ``ValueError``.
    """
    import tenacity  # most commands read no artifact

    patient = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(ValueError),
        stop=tenacity.stop_after_delay(WRITING_S),
        wait=tenacity.wait_fixed(0.1),
        reraise=True,
    )
    found: dict[str, Any] = patient(lambda: json.loads(path.read_text()))
    return found


def changed_since(project: Path) -> str:
    """Return a file of the project that is newer than its manifest, or nothing."""
    parsed_at = manifest_path(project).stat().st_mtime
    folders = [project / "models", project / "snapshots", project / "seeds"]
    files = [project / "dbt_project.yml"]
    files += [file for folder in folders for kind in SOURCES for file in folder.rglob(kind)]
    newer = (file for file in files if file.is_file() and file.stat().st_mtime > parsed_at)
    found = next(newer, None)
    return str(found.relative_to(project)) if found else ""


def keys_of(nodes: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the columns that name a row, by the id of its node in dbt's manifest, where known.

    They are its `unique_key`, else what a test says that is unique: one column first.
    """
    found: dict[str, list[str]] = {}
    for _, node in sorted(nodes.items()):
        told, of = node.get("test_metadata") or {}, node.get("attached_node")
        if not told or of not in nodes or node["config"].get("where"):
            continue
        declared = {name.lower() for name in nodes[of].get("columns") or {}}
        if told.get("name") == "unique" and str(node.get("column_name")).lower() in declared:
            found[of] = [node["column_name"]]
        elif told.get("name") == "unique_combination_of_columns":
            found.setdefault(of, [*told["kwargs"].get("combination_of_columns", [])])
    for id, node in nodes.items():
        key = (node.get("config") or {}).get("unique_key")
        if key:
            found[id] = [key] if isinstance(key, str) else [*key]
    return found


def gated_tables(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables that the gate holds, by the unique id of their node."""
    found = {}
    for id, node in nodes.items():
        config = node.config
        if getattr(config, "materialized", None) not in WRITTEN or config.get("gate") is False:
            continue
        if (config.get("file_format") or "iceberg") == "iceberg" and config.get("enabled", True):
            found[id] = f"{node.schema}.{node.alias}"
    ancestors = Ancestors(nodes)
    snapshots = [id for id in found if nodes[id].resource_type == "snapshot"]
    for id in snapshots:
        if not any(parent in found for parent in ancestors(id)):
            del found[id]
    return found


class Ancestors:
    """All nodes above one, each looked up once."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self.nodes = nodes
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, id: str) -> frozenset[str]:
        if id not in self._known:
            node = self.nodes.get(id)
            parents = node.depends_on_nodes if node else []
            self._known[id] = frozenset(parents).union(*(self(parent) for parent in parents))
        return self._known[id]


def tables_read(read: Iterable[str], nodes: Mapping[str, Any]) -> set[str]:
    """Return all that is read, and what views and ephemeral models among it read."""
    found = set()
    for id in read:
        node = nodes.get(id)
        kind = node.config.get("materialized") if node is not None else ""
        if node is not None and kind in ("view", "ephemeral"):
            found |= tables_read(node.depends_on_nodes, nodes)
        if kind != "ephemeral":
            found.add(id)
    return found


class Macros:
    """The macros of a project and its packages, other than those of dbt and its adapters."""

    def __init__(self, manifest: Any, own: Iterable[str]) -> None:
        self._all = manifest.macros
        self._theirs = {id for id, m in self._all.items() if m.package_name not in own}
        every = [*manifest.nodes.values(), *manifest.unit_tests.values()]
        named = self._below(id for node in every for id in node.depends_on.macros)
        # What no node names may be called by a hook or a materialization of any.
        self._of_all = self._theirs - named

    def of(self, node: Any) -> Iterator[str]:
        """Yield the text of each macro that a node may call."""
        for id in sorted(self._of_all | self._theirs & self._below(node.depends_on.macros)):
            yield str(self._all[id].macro_sql)

    def _below(self, ids: Iterable[str]) -> set[str]:
        found: set[str] = set()
        waiting = [*ids]
        while waiting:
            id = waiting.pop()
            if id not in found and id in self._all:
                found.add(id)
                waiting += self._all[id].depends_on.macros
        return found
