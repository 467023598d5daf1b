"""What the commands share: dbt's options, the lake that they mean, and picking tables by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icegate.errors import ConfigError

if TYPE_CHECKING:
    from icegate.catalog import CatalogEntry
    from icegate.settings import Lake

ProjectDir = Annotated[
    Path | None,
    typer.Option(
        envvar="DBT_PROJECT_DIR",
        help="Folder with dbt_project.yml.",
        show_default="the working folder or one above it",
    ),
]
ProfilesDir = Annotated[
    Path | None,
    typer.Option(
        envvar="DBT_PROFILES_DIR",
        help="Folder with profiles.yml.",
        show_default="the project, then ~/.dbt",
    ),
]
Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Target of the profile.", show_default="the profile's own"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; its shape is in docs/cli.md.")]


def find_project(project_dir: Path | None) -> Path:
    """Return the project folder: the one named, else the nearest with a dbt_project.yml."""
    if project_dir is not None:
        return project_dir.absolute()
    here = Path.cwd()
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / "dbt_project.yml").is_file()), here)


def open_lake(project_dir: Path | None, profiles_dir: Path | None, target: str | None) -> Lake:
    """Return the lake that dbt would use for these options."""
    from icegate.settings import lake_from_target, load_target

    project = find_project(project_dir)
    name, keys = load_target(project, profiles_dir, target)
    method = keys.get("method", "session")
    local = method == "session" or (method == "connect" and not keys.get("host"))
    if keys.get("type") != "icegate" or not local:
        raise ConfigError(
            f"cannot use target {name!r} here",
            why="its tables aren't in a catalog on this machine: only `type: icegate` with the "
            "method `session`, or `connect` without a host, is",
            fix="name another target with --target",
        )
    return lake_from_target(keys, project)


def pick(entries: Sequence[CatalogEntry], patterns: Sequence[str]) -> list[CatalogEntry]:
    """Return the entries that a pattern names: `silver`, `silver.curated_orders`, `*.dim_*`."""
    if not patterns:
        return list(entries)
    for pattern in patterns:
        if not any(_matches(entry, pattern) for entry in entries):
            raise unknown_table(pattern, entries)
    return [e for e in entries if any(_matches(e, pattern) for pattern in patterns)]


def find_entry(entries: Sequence[CatalogEntry], name: str, catalog: str) -> CatalogEntry:
    """Return the entry with this name, its catalog named or not."""
    wanted = name.removeprefix(f"{catalog}.")
    for entry in entries:
        if entry.full_name == wanted:
            return entry
    raise unknown_table(name, entries)


def unknown_table(name: str, entries: Sequence[CatalogEntry]) -> ConfigError:
    """Make the error for a name that the catalog lacks."""
    known = [entry.full_name for entry in entries]
    lowered = name.lower()
    close = [full for full in known if full.partition(".")[2] == lowered.rpartition(".")[2]]
    close += difflib.get_close_matches(lowered, [*known, *{e.namespace for e in entries}], n=3)
    close = list(dict.fromkeys(close))[:3]
    return ConfigError(
        f"cannot find table {name!r}",
        why="the catalog has no such table"
        if known
        else "the catalog has no tables yet: nothing was built",
        fix=f"did you mean {' or '.join(close)}?"
        if close
        else ("`icegate tables` lists what is there" if known else "run `dbt build`"),
    )


def _matches(entry: CatalogEntry, pattern: str) -> bool:
    return fnmatchcase(entry.full_name, pattern) or fnmatchcase(entry.namespace, pattern)
