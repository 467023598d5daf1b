"""`icegate init`: a new project folder that builds as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from icegate.cli.common import AsJson, Shown, present
from icegate.errors import ConfigError, IcegateError

SCAFFOLD = Path(__file__).parents[1] / "scaffold"
PLACEHOLDER = "my_lakehouse"  # a valid name, so that the scaffold is a project itself
TAKEN = ("dbt", "dbt_spark", "dbt_icegate")  # packages that every project has


def init(
    name: Annotated[str, typer.Argument(help="Letters, digits and underscores.")],
    as_json: AsJson = False,
) -> None:
    """Make a new project in the folder NAME that `dbt build` builds."""
    folder = Path(name).absolute()
    files = create_project(folder, name)
    lines = [f"made {name} with {len(files)} files"]
    lines.append(f"next: cd {name} && dbt build && icegate tables")
    present(Shown({"project": name, "folder": folder, "files": files}, lines), as_json)


def create_project(folder: Path, name: str) -> list[str]:
    """Copy the scaffold to ``folder`` under the project's name; return the files' names."""
    _check_name(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"cannot make a project in {folder}",
            why="it is there, and it isn't an empty folder",
            fix="choose another name, or move it away",
        )
    try:
        files = (path for path in sorted(SCAFFOLD.rglob("*")) if path.is_file())
        return [_copy(f, folder, name) for f in files if "__pycache__" not in f.parts]
    except OSError as error:
        raise IcegateError(
            f"cannot make a project in {folder}", why=str(error), fix="choose another folder"
        ) from error


def _check_name(name: str) -> None:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name not in TAKEN:
        return
    letters = re.sub(r"[^A-Za-z0-9]+", "_", Path(name).name).strip("_")
    fits = letters and not letters[0].isdigit() and letters not in TAKEN
    raise ConfigError(
        f"cannot call a project {name!r}",
        why="dbt has a package of that name"
        if name in TAKEN
        else "a name has letters, digits and underscores, and doesn't start with a digit",
        fix=f"try `icegate init {letters if fits else f'my_{letters or PLACEHOLDER[3:]}'}`",
    )


def _copy(file: Path, folder: Path, name: str) -> str:
    relative = file.relative_to(SCAFFOLD)
    # A file called .gitignore would hide parts of the scaffold from git and from builds.
    goal = folder / relative.with_name(relative.name.replace("dot_", ".", 1))
    goal.parent.mkdir(parents=True, exist_ok=True)
    goal.write_text(file.read_text().replace(PLACEHOLDER, name))
    return str(goal.relative_to(folder))
