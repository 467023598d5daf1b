"""A dbt project's target as its files say it: profiles, and variables in them, without dbt."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, TemplateError, UndefinedError

from icegate.errors import ConfigError
from icegate.settings import SECRETS


def load_target(
    project_dir: Path, profiles_dir: Path | None = None, target: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Read the name and the keys of a target as dbt would, without importing dbt (over a second).

    Raises ``ConfigError``.
    """
    wanted, keys = find_target(project_dir, profiles_dir, target)
    return wanted, {key: render(value, typed=key not in SECRETS) for key, value in keys.items()}


def find_target(
    project_dir: Path, profiles_dir: Path | None, target: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the name and the keys of a target as they are written.

    Raises ``ConfigError`` when a file, the profile or the target isn't there.
    """
    project = _read_yaml(project_dir / "dbt_project.yml", "a dbt project")
    name = str(project.get("profile", ""))
    path = find_profiles(project_dir, profiles_dir)
    profiles = _read_yaml(path, "profiles")
    if name not in profiles:
        known = ", ".join(key for key in profiles if key != "config")
        raise ConfigError(
            f"cannot find profile {name!r}",
            why=f"{path} has: {known}",
            fix="correct `profile:` in dbt_project.yml",
        )
    outputs = profiles[name].get("outputs") or {}
    wanted = (
        target or os.environ.get("DBT_TARGET") or render(profiles[name].get("target", "default"))
    )
    if wanted not in outputs:
        raise ConfigError(
            f"cannot find target {wanted!r}",
            why=f"profile {name!r} has: {', '.join(outputs)}",
            fix="name one of these with --target",
        )
    return wanted, outputs[wanted]


def find_profiles(project_dir: Path, profiles_dir: Path | None) -> Path:
    """Return where the profiles are that dbt would take; raises ``ConfigError`` without any."""
    chosen = profiles_dir or os.environ.get("DBT_PROFILES_DIR")
    folders = [Path(chosen)] if chosen else [project_dir, Path.home() / ".dbt"]
    path = next((f / "profiles.yml" for f in folders if (f / "profiles.yml").is_file()), None)
    if path is None:
        raise ConfigError(
            "cannot find profiles.yml",
            why=f"looked in {', '.join(str(f) for f in folders)}",
            fix="run this in the project folder, or name the folder with --profiles-dir",
        )
    return path


def read_rendered(path: Path, what: str, key: str | None = None, typed: bool = True) -> Any:
    """Read a YAML file, or only what is below one key of it, with ``env_var`` as in profiles.

    Where it isn't ``typed`` a variable's value stays the text that it is, as a password has to.
    """
    found = _read_yaml(path, what)
    return render(found if key is None else found.get(key), typed)


def read_keys(path: Path, what: str) -> list[str]:
    """Return the keys of a YAML file."""
    return [*_read_yaml(path, what)]


def _read_yaml(path: Path, what: str) -> dict[str, Any]:
    try:
        return yaml.safe_load(path.read_text()) or {}
    except FileNotFoundError as error:
        raise ConfigError(
            f"cannot find {what}: {path}",
            why="the file isn't there",
            fix="run this in the project folder, or name it with --project-dir",
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read {path}", why=str(error), fix="repair the YAML") from error


def _env_var(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise UndefinedError(f"environment variable {name} isn't set")
    return value


def render(value: Any, typed: bool = True, env_var: Callable[..., str] = _env_var) -> Any:
    """Render ``env_var`` in every string, and give numbers and booleans their type, as dbt does."""
    if isinstance(value, dict):
        return {key: render(inner, typed, env_var) for key, inner in value.items()}
    if isinstance(value, list):
        return [render(inner, typed, env_var) for inner in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    jinja = Environment()
    jinja.filters.update(as_number=float, as_bool=lambda text: text.lower() == "true")
    what = f"cannot render {value!r}"
    try:
        rendered = jinja.from_string(value).render(env_var=env_var)
        return yaml.safe_load(rendered) if typed else rendered
    except TemplateError as error:
        raise ConfigError(what, why=str(error), fix="set the variable") from error
    except yaml.YAMLError:  # which shows the value: it may be a password
        why = "what comes out can't be read as YAML"
        raise ConfigError(what, why=why, fix="correct the variable") from None
