"""What a job brings: the project, and the Python packages that it needs, without Spark's own."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from icegate.errors import ConfigError, IcegateError
from icegate.landing import sha256

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OF_DBT = ("target", "logs")  # what it writes, in the project's own folder
LEFT_OUT = ("__pycache__", "node_modules")
OF_SPARK = ("pyspark", "py4j")  # the job's Spark has its own
PLATFORMS = {"X86_64": "x86_64-manylinux_2_28", "ARM64": "aarch64-manylinux_2_28"}


class Python(NamedTuple):
    """The Python of a job: its version, such as 3.11, and the machine's kind by EMR's name."""

    version: str
    architecture: str

    def asks(self, requirement: Requirement, extra: str) -> bool:
        """Tell whether a requirement of a package, or of an extra of it, holds there."""
        machine = PLATFORMS[self.architecture].partition("-")[0]
        marks = {
            **{"python_version": self.version, "python_full_version": f"{self.version}.0"},
            **{"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
            **{"platform_machine": machine, "implementation_name": "cpython", "extra": extra},
        }
        return requirement.marker is None or requirement.marker.evaluate(marks)


def project_files(project_dir: Path, profiles: Path) -> dict[str, Path]:
    """Return the files of a dbt project by their names in a job, ``profiles.yml`` among them.

    Nothing hidden, no environment of Python, nothing that dbt writes. Raises ``ConfigError`` where
    packages are named and not there: a job may have no internet.
    """
    named = [n for n in ("packages.yml", "dependencies.yml") if (project_dir / n).is_file()]
    if named and not (project_dir / "dbt_packages").is_dir():
        raise ConfigError(
            "cannot pack the project",
            why=f"{named[0]} names packages, and there is no dbt_packages/",
            fix="`dbt deps`, then this again",
        )
    found = {str(path.relative_to(project_dir)): path for path in _walk(project_dir, OF_DBT)}
    return {**found, "profiles.yml": profiles}


def requirements(extra: Sequence[str], python: Python) -> list[str]:
    """Return what Icegate needs in a job, and ``extra``, in the versions that are installed here.

    Raises ``ConfigError`` for one of ``extra`` that isn't installed.
    """
    from packaging.requirements import Requirement

    found, done = set[str](), set[tuple[str, str]]()
    todo = [(Requirement(each), True) for each in ("icegate[s3]", *extra)]
    while todo:
        wanted, must = todo.pop()
        if wanted.name.lower() in OF_SPARK:
            continue
        try:
            package = distribution(wanted.name)
        except PackageNotFoundError as error:
            if not must:  # for another machine than this one: the job's own, by its newest version
                found.add(str(wanted).partition(";")[0].strip())
                continue
            raise ConfigError(
                f"cannot pack {wanted.name}",
                why="it isn't installed here, so nobody knows in which version it works",
                fix=f"`pip install {wanted.name}`, try the project with it, then this again",
            ) from error
        found.add(_pinned(package))
        new = {(wanted.name, name) for name in ("", *wanted.extras)} - done
        done |= new
        asked = [(Requirement(text), name) for text in package.requires or () for _, name in new]
        todo += [(each, False) for each, name in asked if python.asks(each, name)]
    return sorted(found, key=str.lower)


def digest(files: dict[str, Path], *also: str) -> str:
    """Return a name for what files say, and for some text."""
    seen = hashlib.sha256("\n".join(also).encode())
    for name, path in sorted(files.items()):
        seen.update(f"{name}\0{sha256(path)}".encode())
    return seen.hexdigest()[:12]


def environment_digest(needed: Sequence[str], python: Python) -> str:
    """Return a name for an environment: its packages, and the sources of those from a folder."""
    folders = [Path(unquote(urlsplit(n.partition(" @ ")[2]).path)) for n in needed if " @ " in n]
    sources = [folder / "src" if (folder / "src").is_dir() else folder for folder in folders]
    files = {str(path): path for source in sources for path in _walk(source)}
    return digest(files, *needed, *python)


def install(needed: Sequence[str], python: Python, folder: Path) -> None:
    """Install packages for a job's machine, which needn't be of this machine's kind."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        raise ConfigError(
            "cannot pack the environment",
            why="uv isn't installed, which installs packages for another machine",
            fix="`pip install 'icegate[submit]'`",
        )
    for_job = ["--python-version", python.version]
    for_job += ["--python-platform", PLATFORMS[python.architecture]]
    for each in needed:
        if " @ " in each:  # uv knows a checkout by its pyproject.toml alone
            for_job += ["--refresh-package", each.partition(" @ ")[0]]
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *for_job]
    done = subprocess.run(
        [*command, "--python", sys.executable, "-r", "-"],
        input="\n".join(needed),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise IcegateError(
            "cannot pack the environment",
            why=done.stderr.strip() or f"uv ended with {done.returncode}",
            fix="correct what uv says; what it looks for are wheels for the job's machine",
        )


def write_archive(files: dict[str, Path], path: Path) -> None:
    """Write files into a tar.gz, the same bytes each time."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, source in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = (
                source.stat().st_size,
                0o755 if os.access(source, os.X_OK) else 0o644,
            )
            with source.open("rb") as data:
                archive.addfile(info, data)


def below(folder: Path) -> dict[str, Path]:
    """Return all files below a folder, by their names in it."""
    return {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}


def _walk(folder: Path, left_out: Sequence[str] = ()) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        kept = [name for name in folders if _is_wanted(Path(at, name))]
        folders[:] = [n for n in kept if Path(at) != folder or n not in left_out]
        files = (Path(at, n) for n in names if n == ".dbtignore" or not n.startswith("."))
        yield from (path for path in files if path.is_file() and path.suffix != ".pyc")


def _is_wanted(folder: Path) -> bool:
    is_venv = (folder / "pyvenv.cfg").is_file()
    return not (folder.name.startswith(".") or folder.name in LEFT_OUT or is_venv)


def _pinned(package: Distribution) -> str:
    name = package.metadata["Name"]
    told = json.loads(package.read_text("direct_url.json") or "{}")
    if git := told.get("vcs_info"):
        return f"{name} @ {git['vcs']}+{told['url']}@{git['commit_id']}"
    if told:  # a checkout, or a wheel
        return f"{name} @ {told['url']}"
    return f"{name}=={package.version}"
