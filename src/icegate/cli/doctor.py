"""`icegate doctor`: look at everything that a build needs, and say how to repair what is wrong."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.filesize import decimal

from icegate.cli.common import Line, Opened, Shown, on_lake
from icegate.errors import CatalogError, IcegateError, some_of
from icegate.explain import explain

PYTHONS = ((3, 10), (3, 13))
LOW_DISK, NO_DISK = 1024**3, 200 * 1024**2
LOCK_WAIT_S = 2  # a commit takes milliseconds, and a person waits for the answer
STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
# What is known of format 3: docs/merge.md says from where.
NO_FORMAT_3 = (
    "Athena, EMR before 7.12 and Trino 476 can't read them, PyIceberg 0.12 can't write them"
)
INSTALL = "install this environment again: `pip install --upgrade icegate`"


class Finding(NamedTuple):
    """What one check found: ``status`` is ok, warn or fail; ``fix`` is empty when it is ok."""

    check: str
    status: str
    message: str
    fix: str = ""


Found = tuple[str, str] | tuple[str, str, str]  # a finding without the name of its check


Probe = Annotated[
    bool,
    typer.Option(help="Try what the target's catalog can do, on tables that go again."),
]


@on_lake
def doctor(at: Opened, probe: Probe = False) -> Shown:
    """Check all that a build needs; say how to repair it."""
    findings = examine(at)
    if probe:
        findings += _probed(at, findings)
    lines: list[str | Line] = []
    for found in findings:
        style = "" if found.status == "ok" else STYLES[found.status]
        lines.append(Line(f"{found.status.upper():<4}  {found.check:<8}  {found.message}", style))
        lines += [f"{'':<16}fix: {found.fix}"] if found.fix else []
    counts = {status: sum(found.status == status for found in findings) for status in STYLES}
    lines.append(", ".join(f"{count} {status}" for status, count in counts.items()))
    facts = {"ok": not counts["fail"], "findings": [found._asdict() for found in findings]}
    return Shown(facts, lines, code=int(counts["fail"] > 0))


def examine(at: Opened) -> list[Finding]:
    """Run all checks that make sense here; one that breaks is a finding, not a crash."""
    findings = [_isolated(name, check, at) for name, check in MACHINE_CHECKS.items()]
    if not (at.project / "dbt_project.yml").is_file():
        what = f"no dbt project in {at.project}: profile, catalog and packages weren't looked at"
        fix = "go to a project, or make one with `icegate init`"
        return [*findings, Finding("project", "warn", what, fix)]
    findings.append(_isolated("profile", _profile, at))
    if findings[-1].status != "fail":
        findings += [_isolated(name, check, at) for name, check in LAKE_CHECKS.items()]
    return [*findings, _isolated("packages", _packages, at)]


def _isolated(name: str, check: Callable[[Opened], Found], at: Opened) -> Finding:
    try:
        return Finding(name, *check(at))
    except IcegateError as error:
        return _refused(name, error)
    except ImportError as error:
        return Finding(name, "fail", f"cannot be looked at: {error}", INSTALL)
    except Exception as error:
        said = f"cannot be looked at: {type(error).__name__}: {error}"
        return Finding(name, "fail", said, "repair what the message names")


def _refused(name: str, error: IcegateError) -> Finding:
    message = f"{error.what}: {error.why}" if error.why else error.what
    return Finding(name, "fail", message, error.fix)


def _python(at: Opened) -> Found:
    version = sys.version_info
    said = f"{version.major}.{version.minor}.{version.micro} in {sys.prefix}"
    if PYTHONS[0] <= version[:2] <= PYTHONS[1]:
        return "ok", said
    return "fail", said, "use Python 3.10 to 3.13, as pyspark and dbt do"


def _versions(at: Opened) -> Found:
    """Compare what is installed with what this package asks for, in its own metadata."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    found, wrong = {}, []
    for need in map(Requirement, requires("icegate") or []):
        if need.marker and not need.marker.evaluate({"extra": ""}):
            continue
        if need.name == "pyspark" and _is_in_job(at):
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
        return "fail", "; ".join(wrong), INSTALL
    shown = ("dbt-core", "dbt-spark", "pyspark", "pyiceberg", "duckdb")
    return "ok", ", ".join(f"{name} {found.get(name, 'of the job')}" for name in shown)


def _is_in_job(at: Opened) -> bool:
    """Tell whether a job brings Spark and its jars; what is wrong with a profile is told later."""
    with suppress(Exception):
        return at.lake.is_submitted
    return False


def _mismatched(found: dict[str, str]) -> list[str]:
    """Return pairs that only work in one common version."""
    from icegate.settings import ICEBERGS

    wrong = []
    if found.get("pyspark") and found["pyspark"][:3] not in ICEBERGS:
        wrong.append(f"pyspark {found['pyspark']} isn't {' or '.join(ICEBERGS)}, as Iceberg's jars")
    for name in ("duckdb-extension-iceberg", "duckdb-extension-avro"):
        if name in found and found[name] != found.get("duckdb"):
            wrong.append(f"{name} {found[name]} isn't duckdb's {found.get('duckdb')}")
    return wrong


def _java(at: Opened) -> Found:
    from icegate.java import find_java

    java = find_java()
    return "ok", f"{java.version} of {java.source}: {java.home}"


def _profile(at: Opened) -> Found:
    said = f"target {at.target!r}, catalog {at.lake.catalog!r} in {at.lake.home}"
    from dbt.adapters.icegate.credentials import IcegateCredentials

    given = {key: value for key, value in at.keys.items() if key not in ("type", "threads")}
    try:
        IcegateCredentials.from_dict(given)
    except Exception as error:
        what = f"target {at.target!r}: {error}".replace("\n", " ")
        return "fail", what, "correct it in profiles.yml; docs/profiles.md lists every key"
    return "ok", said


def _jars(at: Opened) -> Found:
    from icegate.class_archive import archive_file
    from icegate.settings import jars_of
    from icegate.spark_conf import found_jars

    if at.lake.is_submitted:
        return "ok", "those of the job, which spark-submit names"
    names = ", ".join(jar.partition(":")[2].replace(":", " ") for jar in jars_of(at.lake))
    if not found_jars(at.lake):
        fix = "the first start of Spark downloads them; `python -m icegate.session` does now"
        return "warn", f"not in {at.lake.ivy} yet: {names}", fix
    if not archive_file(at.lake).is_file():
        why = f"{names}, without Java's class archive: each start of Spark costs twice the CPU"
        return "warn", why, "make it once: `python -m icegate.session`"
    return "ok", f"{names}, and Java's class archive"


def _home(at: Opened) -> Found:
    folder = _existing(at.lake.home)
    if os.access(folder, os.W_OK | os.X_OK):
        return "ok", f"{at.lake.home} can be written"
    fix = "give yourself the permission, or set `home:` of the target"
    return "fail", f"this user may not write to {folder}", fix


def _catalog(at: Opened) -> Found:
    from icegate.catalog import catalog_of, check_catalog, list_relations

    lake = at.lake.model_copy(update={"catalog_timeout_s": LOCK_WAIT_S})
    check_catalog(lake)
    kinds = [entry.kind for entry in list_relations(lake)]
    counted = f"{kinds.count('table')} tables, {kinds.count('view')} views, all files there"
    said = counted if kinds else "no tables yet: nothing was built"
    return "ok", f"{said}; in {catalog_of(lake)}, not locked"


def _gate(at: Opened) -> Found:
    """Say how a build publishes: what the catalog can do decides it."""
    if not at.lake.has_own_catalog:
        what = "this target's catalog isn't one that a release can be published in"
        fix = "leave another catalog out of the target; docs/targets.md"
        return ("warn" if at.keys.get("gate") else "ok"), f"off: {what}", fix
    from icegate.catalog import catalog_of

    how = f"a release {catalog_of(at.lake).publishes}"
    if at.keys.get("gate"):
        return "ok", how
    return "ok", f"off: what is built is seen at once. With `gate: true` {how}"


def _probed(at: Opened, found: list[Finding]) -> list[Finding]:
    """Try what the catalog can do, where a build could use it at all."""
    broken = [each.check for each in found if each.status == "fail"]
    if broken or "catalog" not in {each.check for each in found}:
        why = f"first repair {', '.join(broken)}" if broken else "there is no project"
        return [Finding("probe", "warn", f"not tried: {why}", "see above")]
    from icegate.catalogs.probe import probe

    try:
        can = probe(at.spark, at.lake)
    except IcegateError as error:
        return [_refused("probe", error)]
    except Exception as error:
        why = f"Spark can't use the catalog: {explain(error).splitlines()[0]}"
        return [Finding("probe", "fail", why, "correct what the target says of it")]
    return [Finding(each.name, "ok" if each.can else "warn", *each[2:]) for each in can]


def _format(at: Opened) -> Found:
    from icegate.gate.store import read_tables

    lake = at.lake.model_copy(update={"catalog_timeout_s": LOCK_WAIT_S})
    try:
        new = [table.name for table in read_tables(lake) if table.metadata["format-version"] > 2]
    except CatalogError:
        return "ok", "not looked at, since the catalog can't be read"
    if not new:
        return "ok", "no table is of Iceberg's format 3, which not all readers know"
    fix = "for such a reader take `format-version: 2`, drop the table once and build it again"
    return "warn", f"{some_of(new)}: of format 3. {NO_FORMAT_3}", fix


def _disk(at: Opened) -> Found:
    own = () if at.lake.bucket else (at.lake.warehouse,)
    places = {_existing(place) for place in (at.lake.home, *own)}
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in places)
    said = f"{decimal(free)} free for {folder}"
    if free >= LOW_DISK:
        return "ok", said
    return "warn" if free >= NO_DISK else "fail", said, "free at least 1 GiB there"


def _packages(at: Opened) -> Found:
    from icegate.packages import SWITCH, are_installed, locked_versions

    if not (at.project / "packages.yml").is_file():
        return "ok", "the project asks for none"
    if os.environ.get(SWITCH) == "1":
        what = f"stand-ins are chosen by {SWITCH}=1: their tests are fewer than the real ones"
        return "warn", what, f"run `dbt deps`, and unset {SWITCH}"
    if are_installed(at.project):
        locked = locked_versions(at.project)
        return "ok", f"real: {', '.join(f'{name} {locked[name]}' for name in locked)}"
    if (at.project / "standins").is_dir() and _takes_standins(at):
        fix = f"run `dbt deps`, or set {SWITCH}=1 for runs of dbt by hand"
        return "warn", "not installed: `make` builds with the stand-ins", fix
    return "fail", "not installed as package-lock.yml has them", "run `dbt deps`"


def _takes_standins(at: Opened) -> bool:
    from icegate.packages import LAPTOP
    from icegate.profiles import find_target

    with suppress(IcegateError):
        return find_target(at.project, at.profiles_dir, at.wanted)[0] in LAPTOP
    return True  # what is wrong with the target is said before


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


MACHINE_CHECKS = {"python": _python, "versions": _versions, "java": _java}
LAKE_CHECKS = {
    "jars": _jars,
    "home": _home,
    "catalog": _catalog,
    "gate": _gate,
    "format": _format,
    "disk": _disk,
}
