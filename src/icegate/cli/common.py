"""What the commands share: dbt's options, the lake that they mean, and picking tables by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from icegate.cli import output
from icegate.errors import ConfigError
from icegate.gate.staging import NAMESPACE, staging_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
SERVED = ("connect", "thrift")  # methods with a server
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; its shape is in docs/cli.md.")]


@dataclass(frozen=True)
class Opened:
    """The options that all commands take, and what they mean: it's read when it is asked for."""

    project_dir: ProjectDir = None
    profiles_dir: ProfilesDir = None
    wanted: Target = None
    as_json: AsJson = False

    @cached_property
    def project(self) -> Path:
        """The project folder: the one named, else the nearest with a dbt_project.yml."""
        if self.project_dir is not None:
            return self.project_dir.absolute()
        here = Path.cwd()
        folders = (here, *here.parents)
        return next((folder for folder in folders if (folder / "dbt_project.yml").is_file()), here)

    @cached_property
    def _loaded(self) -> tuple[str, dict[str, Any]]:
        from icegate.profiles import load_target

        return load_target(self.project, self.profiles_dir, self.wanted)

    @property
    def written(self) -> dict[str, Any]:
        """What the profile says of the target, before variables are filled in."""
        from icegate.profiles import find_target

        return find_target(self.project, self.profiles_dir, self.wanted)[1]

    @property
    def target(self) -> str:
        """The name of the target."""
        return self._loaded[0]

    @property
    def keys(self) -> dict[str, Any]:
        """What the profile says of it."""
        return self._loaded[1]

    @cached_property
    def manifest(self) -> dict[str, Any] | None:
        """The manifest of dbt's last command, None where there is none."""
        from icegate.nodes import read_manifest

        try:
            return read_manifest(self.project, "what the project says of its tables")
        except ConfigError:
            return None

    @property
    def is_served(self) -> bool:
        """Tell whether the server of this home does the work of dbt."""
        elsewhere = self.keys.get("host") or self.keys.get("cluster")
        return self.keys.get("method") in SERVED and not elsewhere

    @cached_property
    def lake(self) -> Lake:
        """The lake that dbt would use."""
        from icegate.settings import lake_from_target

        method = self.keys.get("method", "session")
        own = self.keys.get("catalog_uri") or self.keys.get("catalog_type")
        local = method == "session" or self.is_served or (method in SERVED and own)
        if self.keys.get("type") != "icegate" or not local:
            raise ConfigError(
                f"cannot use target {self.target!r} here",
                why="its tables aren't in a catalog that this machine reads: only `type: icegate` "
                "with the method `session`, or `connect` and `thrift` without a `host` or with a "
                "`catalog_uri`, has one",
                fix="name another target with --target",
            )
        return lake_from_target(self.keys, self.project)

    @cached_property
    def spark(self) -> SparkSession:
        """Spark on that lake: it's started here, unless the server of this home has it."""
        from icegate.connect import local_endpoint
        from icegate.session import start_session

        return start_session(self.lake, local_endpoint(self.lake) if self.is_served else None)


class Line(NamedTuple):
    """A line that stands out in a terminal, by a style of rich."""

    text: str
    style: str


class Grid(NamedTuple):
    """Rows to print, and the keys of their columns, blank-separated; empty ones stay out.

    A list of columns is that of a query: printed as it is. ``right`` adds to what has numbers.
    """

    columns: str | list[str]
    rows: Sequence[dict[str, Any]]
    title: str = ""
    right: Sequence[str] = ()


class Shown(NamedTuple):
    """What a command found: as `--json` has it, and for people; and the exit code.

    ``notes`` are for people too, on the error output, so that what is piped stays clean.
    """

    facts: Any
    blocks: Sequence[str | Line | Grid]
    code: int = 0
    notes: Sequence[str] = ()


def on_lake(run: Callable[..., Shown]) -> Callable[..., None]:
    """Make a command of a function that takes ``Opened``: its options, and those of all others."""
    own = [*inspect.signature(run, eval_str=True).parameters.values()][1:]
    shared = [*inspect.signature(Opened, eval_str=True).parameters.values()]

    def command(**given: Any) -> None:
        at = Opened(*(given.pop(option.name) for option in shared))
        present(run(at, **given), at.as_json)

    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__name__, command.__doc__, command.__annotations__ = run.__name__, run.__doc__, {}
    return command


def group(name: str, help: str) -> typer.Typer:
    """Make a command that has commands of its own."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, rich_markup_mode=None)


def present(shown: Shown, as_json: bool) -> None:
    """Print what a command found, and end with its exit code."""
    if as_json:
        output.print_json(shown.facts)
    else:
        for block in shown.blocks:
            _print(block)
        for note in shown.notes:
            output.note(note)
    if shown.code:
        raise typer.Exit(shown.code)


def _print(block: str | Line | Grid) -> None:
    if isinstance(block, str):
        output.print_line(block)
    elif isinstance(block, Line):
        output.print_line(*block)
    elif block.rows or isinstance(block.columns, list):
        names, rows = cells_of(block)
        output.print_rows(names, rows, right=block.right, title=block.title)


def cells_of(grid: Grid) -> tuple[list[str], list[Sequence[Any]]]:
    """Return the names of the columns that are shown, and the rows."""
    if isinstance(grid.columns, list):
        return grid.columns, [[*row.values()] for row in grid.rows]
    cells = {key: [_cell(row[key]) for row in grid.rows] for key in grid.columns.split()}
    keys = [key for key, column in cells.items() if any(cell != "" for cell in column)]
    rows: list[Sequence[Any]] = [*zip(*(cells[key] for key in keys), strict=True)]
    return [key.replace("_", " ") for key in keys], rows


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:%F %T}Z" if isinstance(value, datetime) else value


def pick(entries: Sequence[CatalogEntry], patterns: Sequence[str]) -> list[CatalogEntry]:
    """Return the entries that a pattern names: `silver`, `silver.curated_orders`, `*.dim_*`."""
    if not patterns:
        return list(entries)
    for pattern in patterns:
        if not any(_matches(entry, pattern) for entry in entries):
            raise unknown_table(pattern, entries)
    return [e for e in entries if any(_matches(e, pattern) for pattern in patterns)]


def pick_tables(entries: Sequence[CatalogEntry], patterns: Sequence[str]) -> list[CatalogEntry]:
    """Return the tables that a pattern names, or all but the gate's own."""
    from icegate.gate.candidates import OWN

    chosen = pick(entries, patterns)
    return [e for e in chosen if e.kind == "table" and (patterns or e.namespace not in OWN)]


def find_entry(entries: Sequence[CatalogEntry], name: str, catalog: str) -> CatalogEntry:
    """Return the entry with this name, its catalog named or not."""
    wanted = name.removeprefix(f"{catalog}.")
    for entry in entries:
        if entry.full_name == wanted:
            return entry
    raise unknown_table(name, entries)


def personal(at: Opened, table: str) -> tuple[dict[str, str], list[str]]:
    """Return the kind of personal data in columns of `schema.table`, and what to say of it."""
    from icegate.pii import of_table

    if at.manifest is None:
        return {}, ["nothing is masked: what is personal data isn't known before `dbt parse`"]
    return of_table(at.manifest, table), []


def unknown_table(name: str, entries: Sequence[CatalogEntry]) -> ConfigError:
    """Make the error for a name that the catalog lacks."""
    what = f"cannot find table {name!r}"
    if not entries:
        why = "the catalog has no tables yet: nothing was built"
        return ConfigError(what, why=why, fix="run `dbt build`")
    beside = staging_name(".".join(name.split(".")[-2:]), "")
    held = [e.full_name for e in entries if e.namespace == NAMESPACE and e.name.startswith(beside)]
    if held:
        why = "it has no release yet: what was built of it is held back, or still being built"
        return ConfigError(what, why=why, fix=f"`icegate status` says why; it's in {held[-1]}")
    known = [*(entry.full_name for entry in entries), *{entry.namespace for entry in entries}]
    close = " or ".join(difflib.get_close_matches(name.lower(), known))
    fix = f"did you mean {close}?" if close else "`icegate tables` lists what is there"
    return ConfigError(what, why="the catalog has no such table", fix=fix)


def _matches(entry: CatalogEntry, pattern: str) -> bool:
    return fnmatchcase(entry.full_name, pattern) or fnmatchcase(entry.namespace, pattern)
