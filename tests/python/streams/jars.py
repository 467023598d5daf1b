"""Kafka's server and what it depends on, from Maven Central by the Ivy that Spark brings along."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyspark

from icegate.errors import JarsError
from icegate.java import find_java
from icegate.locks import FileLock, alone

KAFKA_VERSION = "4.1.2"
CACHE = Path(__file__).resolve().parents[3] / ".icegate" / "kafka"
JARS = CACHE / KAFKA_VERSION
NO_NETWORK = re.compile(r"Server access error|Host \S+ not found")
SPARK_JARS = Path(pyspark.__file__).parent / "jars"  # with Ivy and Py4J


def kafka_jars() -> list[Path]:
    """Return the broker's jars, which Ivy gets once; raise ``JarsError`` without a network."""
    with alone(FileLock(CACHE / "jars.lock"), "get the jars of Kafka"):
        if not JARS.is_dir():
            partial = JARS.with_suffix(".partial")
            _get_jars(partial)
            partial.rename(JARS)
    return sorted(JARS.glob("*.jar"))


def _get_jars(folder: Path) -> None:
    java, ivy = find_java().home / "bin" / "java", next(SPARK_JARS.glob("ivy-*.jar"))
    command = [java, "-cp", ivy, "org.apache.ivy.Main", "-cache", CACHE / "ivy"]
    command += ["-dependency", "org.apache.kafka", "kafka_2.13", KAFKA_VERSION]
    command += ["-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    if said.returncode and NO_NETWORK.search(said.stdout):
        raise JarsError(
            "cannot get the jars of Kafka",
            why="they aren't here, and Maven Central can't be reached",
            fix="connect to the internet once and run this again",
        )
    if said.returncode:
        raise RuntimeError(f"cannot get the jars of Kafka: {said.stdout[-2000:]}")
