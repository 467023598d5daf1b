"""`icegate doctor`: look at everything that a build needs, and say how to repair what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from icegate.cli import output
from icegate.cli.common import AsJson, ProfilesDir, ProjectDir, Target, find_project, open_lake
from icegate.errors import IcegateError

if TYPE_CHECKING:
    from icegate.settings import Lake

PYTHONS = ((3, 10), (3, 13))
LOW_DISK, NO_DISK = 1024**3, 200 * 1024**2
LOCK_WAIT_S = 2  # a commit takes milliseconds, and a person waits for the answer
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class Finding(NamedTuple):
    """What one check found: ``status`` is ok, warn or fail; ``fix`` is empty when it is ok."""

    check: str
    status: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Place:
    """What the options name: a project, and the lake of its target unless that is wrong."""

    project: Path
    profiles_dir: Path | None
    target: str | None
    lake: Lake | None = None


def doctor(
    project_dir: ProjectDir = None,
    profiles_dir: ProfilesDir = None,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Check all that a build needs; say how to repair it."""
    findings = examine(Place(find_project(project_dir), profiles_dir, target))
    broken = any(finding.status == "fail" for finding in findings)
    if as_json:
        output.print_json({"ok": not broken, "findings": [f._asdict() for f in findings]})
    else:
        _print_people(findings)
    if broken:
        raise typer.Exit(1)


def examine(place: Place) -> list[Finding]:
    """Run all checks that make sense at ``place``; one that breaks is a finding, not a crash."""
    findings = [_isolated(name, check, place) for name, check in MACHINE_CHECKS.items()]
    if not (place.project / "dbt_project.yml").is_file():
        return [
            *findings,
            Finding(
                "project",
                "warn",
                f"no dbt project in {place.project}: profile, catalog and packages "
                "weren't looked at",
                "go to a project, or make one with `icegate init`",
            ),
        ]
    profile = _isolated("profile", _profile, place)
    findings.append(profile)
    if profile.status != "fail":
        lake = open_lake(place.project, place.profiles_dir, place.target)
        place = Place(place.project, place.profiles_dir, place.target, lake)
        findings += [_isolated(name, check, place) for name, check in LAKE_CHECKS.items()]
    return [*findings, _isolated("packages", _packages, place)]


def _isolated(name: str, check: Callable[[Place], Finding], place: Place) -> Finding:
    try:
        return check(place)
    except IcegateError as error:
        message = f"{error.what}: {error.why}" if error.why else error.what
        return Finding(name, "fail", message, error.fix)
    except ImportError as error:
        return Finding(
            name,
            "fail",
            f"cannot be looked at: {error}",
            "install this environment again: `pip install icegate`",
        )
    except Exception as error:
        return Finding(
            name,
            "fail",
            f"cannot be looked at: {type(error).__name__}: {error}",
            "repair what the message names",
        )


def _python(place: Place) -> Finding:
    version = sys.version_info
    said = f"{version.major}.{version.minor}.{version.micro} in {sys.prefix}"
    if PYTHONS[0] <= version[:2] <= PYTHONS[1]:
        return Finding("python", "ok", said)
    return Finding("python", "fail", said, "use Python 3.10 to 3.13, as pyspark and dbt do")


def _versions(place: Place) -> Finding:
    """Compare what is installed with what this package asks for, in its own metadata."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    wanted = [Requirement(line) for line in requires("icegate") or []]
    found, wrong = {}, []
    for need in wanted:
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            found[need.name] = version(need.name)
        except PackageNotFoundError:
            wrong.append(f"{need.name} is missing")
            continue
        if found[need.name] not in need.specifier:
            wrong.append(f"{need.name} {found[need.name]} isn't {need.specifier}")
    wrong += _mismatched(found)
    if wrong:
        return Finding(
            "versions",
            "fail",
            "; ".join(wrong),
            "install this environment again: `pip install --upgrade icegate`",
        )
    shown = ("dbt-core", "dbt-spark", "pyspark", "pyiceberg", "duckdb")
    return Finding("versions", "ok", ", ".join(f"{name} {found[name]}" for name in shown))


def _mismatched(found: dict[str, str]) -> list[str]:
    """Return pairs that only work in one common version."""
    from icegate.settings import SPARK_SCALA

    wrong = []
    spark = SPARK_SCALA.partition("_")[0]
    if found.get("pyspark") and not found["pyspark"].startswith(f"{spark}."):
        wrong.append(f"pyspark {found['pyspark']} isn't the {spark} of Iceberg's jar")
    for name in ("duckdb-extension-iceberg", "duckdb-extension-avro"):
        if name in found and found[name] != found.get("duckdb"):
            wrong.append(f"{name} {found[name]} isn't duckdb's {found.get('duckdb')}")
    return wrong


def _java(place: Place) -> Finding:
    from icegate.java import find_java

    java = find_java()
    return Finding("java", "ok", f"{java.version} of {java.source}: {java.home}")


def _profile(place: Place) -> Finding:
    from icegate.settings import load_target

    name, keys = load_target(place.project, place.profiles_dir, place.target)
    lake = open_lake(place.project, place.profiles_dir, place.target)
    from dbt.adapters.icegate.credentials import IcegateCredentials

    given = {key: value for key, value in keys.items() if key not in ("type", "threads")}
    try:
        IcegateCredentials.from_dict(given)
    except Exception as error:
        return Finding(
            "profile",
            "fail",
            f"target {name!r}: {error}".replace("\n", " "),
            "correct it in profiles.yml; docs/profiles.md lists every key",
        )
    return Finding("profile", "ok", f"target {name!r}, catalog {lake.catalog!r} in {lake.home}")


def _jars(place: Place) -> Finding:
    from icegate.class_archive import archive_file
    from icegate.session import found_jars
    from icegate.settings import JARS

    lake = _lake(place)
    names = ", ".join(jar.partition(":")[2].replace(":", " ") for jar in JARS)
    if found_jars(lake) and archive_file(lake).is_file():
        return Finding("jars", "ok", f"{names}, and Java's class archive")
    if found_jars(lake):
        why = f"{names}, without Java's class archive: each start of Spark costs twice the CPU"
        return Finding("jars", "warn", why, "make it once: `python -m icegate.session`")
    return Finding(
        "jars",
        "warn",
        f"not in {lake.ivy} yet: {names}",
        "the first start of Spark downloads them; `python -m icegate.session` does now",
    )


def _home(place: Place) -> Finding:
    lake = _lake(place)
    folder = _existing(lake.home)
    if os.access(folder, os.W_OK | os.X_OK):
        return Finding("home", "ok", f"{lake.home} can be written")
    return Finding(
        "home",
        "fail",
        f"this user may not write to {folder}",
        "give yourself the permission, or set `home:` of the target",
    )


def _catalog(place: Place) -> Finding:
    from icegate.catalog import check_catalog, list_relations

    lake = _lake(place).model_copy(update={"catalog_timeout_s": LOCK_WAIT_S})
    check_catalog(lake)
    kinds = [entry.kind for entry in list_relations(lake)]
    if not kinds:
        return Finding("catalog", "ok", "no tables yet: nothing was built")
    said = (
        f"{kinds.count('table')} tables, {kinds.count('view')} views, not locked, all files there"
    )
    return Finding("catalog", "ok", said)


def _disk(place: Place) -> Finding:
    lake = _lake(place)
    places = {_existing(lake.home), _existing(lake.warehouse)}
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in places)
    said = f"{output.size(free)} free for {folder}"
    status = "ok" if free >= LOW_DISK else "warn" if free >= NO_DISK else "fail"
    return Finding("disk", status, said, "" if status == "ok" else "free at least 1 GiB there")


def _packages(place: Place) -> Finding:
    from icegate.packages import SWITCH, are_installed, locked_versions

    if not (place.project / "packages.yml").is_file():
        return Finding("packages", "ok", "the project asks for none")
    if os.environ.get(SWITCH) == "1":
        return Finding(
            "packages",
            "warn",
            f"stand-ins are chosen by {SWITCH}=1: their tests are fewer than the real ones",
            f"run `dbt deps`, and unset {SWITCH}",
        )
    if are_installed(place.project):
        locked = locked_versions(place.project)
        return Finding(
            "packages", "ok", "real: " + ", ".join(f"{k} {v}" for k, v in locked.items())
        )
    if (place.project / "standins").is_dir():
        return Finding(
            "packages",
            "warn",
            "not installed: `make` builds with the stand-ins",
            f"run `dbt deps`, or set {SWITCH}=1 for runs of dbt by hand",
        )
    return Finding(
        "packages", "fail", "not installed as package-lock.yml has them", "run `dbt deps`"
    )


def _lake(place: Place) -> Lake:
    if place.lake is None:
        raise IcegateError("cannot be looked at without a target")
    return place.lake


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _print_people(findings: list[Finding]) -> None:
    for finding in findings:
        line = f"{finding.status.upper():<4}  {finding.check:<8}  {finding.message}"
        output.print_line(line, style="" if finding.status == "ok" else STYLES[finding.status])
        if finding.fix:
            output.print_line(f"{'':<16}fix: {finding.fix}")
    counts = [f"{sum(f.status == s for f in findings)} {s}" for s in STYLES]
    output.print_line(", ".join(counts))


MACHINE_CHECKS = {"python": _python, "versions": _versions, "java": _java}
LAKE_CHECKS = {"jars": _jars, "home": _home, "catalog": _catalog, "disk": _disk}
