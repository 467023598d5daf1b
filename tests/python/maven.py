"""Servers in Java that tests run, from Maven Central by the Ivy that Spark brings along."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pyspark

from icegate.errors import JarsError
from icegate.java import find_java
from icegate.locks import FileLock, alone

CACHE = Path(__file__).resolve().parents[2] / ".icegate"
NO_NETWORK = re.compile(r"Server access error|Host \S+ not found")
SPARK_JARS = Path(pyspark.__file__).parent / "jars"  # with Ivy, Py4J, and Hadoop's way to files


def jars_of(name: str, organisation: str, module: str, version: str) -> list[Path]:
    """Return a module's jars and those of what it needs, which Ivy gets once.

    Raises ``JarsError`` without a network.
    """
    folder = CACHE / name / version
    with alone(FileLock(CACHE / name / "jars.lock"), f"get the jars of {name}"):
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            _get_jars(name, [organisation, module, version], partial)
            partial.rename(folder)
    return sorted(folder.glob("*.jar"))


def jar_of(name: str, organisation: str, module: str, version: str, classifier: str) -> Path:
    """Return one jar of a module, by its classifier, without what it needs."""
    folder = CACHE / name
    jar = folder / f"{module}-{version}-{classifier}.jar"
    with alone(FileLock(folder / "jars.lock"), f"get the jar of {name}"):
        if not jar.is_file():
            wanted = folder / "ivy.xml"
            wanted.write_text(
                '<ivy-module version="2.0" xmlns:maven="http://ant.apache.org/ivy/maven">'
                '<info organisation="icegate" module="one-jar"/>'
                '<dependencies defaultconf="default->master(default)">'
                f'<dependency org="{organisation}" name="{module}" rev="{version}">'
                f'<artifact name="{module}" type="jar" maven:classifier="{classifier}"/>'
                "</dependency></dependencies></ivy-module>"
            )
            pattern = f"{folder}/partial/[artifact]-[revision]-[classifier].[ext]"
            _ivy(name, ["-ivy", wanted, "-confs", "default", "-retrieve", pattern])
            (folder / "partial" / jar.name).rename(jar)
    return jar


def class_path_of(name: str, wanted: Path) -> list[str]:
    """Return the paths of all jars that a file of Ivy names, and of what they need."""
    listed = CACHE / name / "class_path"
    listed.parent.mkdir(parents=True, exist_ok=True)
    with alone(FileLock(CACHE / name / "jars.lock"), f"get the jars of {name}"):
        _ivy(name, ["-ivy", wanted, "-cachepath", listed])
        return listed.read_text().strip().split(os.pathsep)


def _get_jars(name: str, dependency: list[str], folder: Path) -> None:
    wanted = ["-dependency", *dependency, "-confs", "default", "-types", "jar", "bundle"]
    _ivy(name, [*wanted, "-retrieve", f"{folder}/[artifact]-[revision].[ext]"])


def _ivy(name: str, wanted: list[str | Path]) -> None:
    java, ivy = find_java().home / "bin" / "java", next(SPARK_JARS.glob("ivy-*.jar"))
    command = [java, "-cp", ivy, "org.apache.ivy.Main", "-cache", CACHE / name / "ivy", *wanted]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode and NO_NETWORK.search(said.stdout):
        raise JarsError(
            f"cannot get the jars of {name}",
            why="they aren't here, and Maven Central can't be reached",
            fix="connect to the internet once and run this again",
        )
    if said.returncode:
        raise RuntimeError(f"cannot get the jars of {name}: {said.stdout[-2000:]}")
