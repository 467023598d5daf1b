"""The dbt packages of a project: what is pinned, what is installed, and stand-ins for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from icegate.errors import PackagesError

LAPTOP = ("local", "connect", "thrift", "pr")  # targets that build this repository on one machine
SWITCH = "ICEGATE_STANDINS"
LOCK = "package-lock.yml"


def check_installed(project_dir: Path, install_path: str, target: str) -> None:
    """Raise ``PackagesError`` in a project with stand-ins when neither they nor packages are in.

    dbt would stop as well, but name one of the two ways out.
    """
    wanted = _read_mapping(project_dir / "packages.yml").get("packages") or []
    found = versions_below(project_dir / install_path)
    if (project_dir / "standins").is_dir() and len(found) < len(wanted):
        why = f"packages.yml names {len(wanted)}, and {install_path} has {len(found)}"
        raise no_packages(target, why)


def locked_versions(project_dir: Path) -> dict[str, str]:
    """Return the version of each package that ``package-lock.yml`` pins, by the package's name."""
    packages = _read_mapping(project_dir / LOCK).get("packages") or []
    return {
        package.get("name") or package["package"].rpartition("/")[2]: str(package["version"])
        for package in packages
        if "version" in package
    }


def are_installed(project_dir: Path) -> bool:
    """Tell whether ``dbt_packages`` holds what ``package-lock.yml`` pins.

    A package's own version field isn't always raised with a release, so the lock file that came
    with the installation counts as well.
    """
    folder, locked = project_dir / "dbt_packages", locked_versions(project_dir)
    found = versions_below(folder)
    complete = bool(locked) and locked.keys() <= found.keys()
    return complete and (
        locked_versions(folder) == locked or all(found[name] == locked[name] for name in locked)
    )


def no_packages(target: str, problem: str) -> PackagesError:
    """Return the error that names every way out of having no packages."""
    ways = "run `dbt deps` with access to dbt's hub"
    if target in LAPTOP:
        ways += f", or set {SWITCH}=1 to build without it on this repository's stand-ins"
    else:
        ways += f"; target {target!r} never takes stand-ins"
    return PackagesError("dbt packages aren't installed", why=problem, fix=ways)


def versions_below(folder: Path) -> dict[str, str]:
    """Return the version of each package that has a folder in ``folder``, by its name."""
    projects = [_read_mapping(path) for path in sorted(folder.glob("*/dbt_project.yml"))]
    return {str(project.get("name")): str(project.get("version")) for project in projects}


def standins_in(config: Any) -> tuple[str, ...]:
    """Return the packages, each as `name version`, that a dbt run config takes stand-ins for."""
    path = getattr(config, "packages_install_path", "")
    if path != "standins":
        return ()
    found = versions_below(Path(config.project_root) / path)
    return tuple(f"{name} {version}" for name, version in found.items())


def _read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML mapping; a file that is missing or half-written counts as empty."""
    try:
        read = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}
