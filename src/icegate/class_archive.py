"""Java's class archive: Spark's classes, loaded and checked once, for starts at half the CPU.

It lies beside the jars and holds for one Java, one pyspark and these jars. Java compares the class
path and the jars' times with it, and where they differ it loads classes as ever.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from icegate.java import find_java
from icegate.practice import practice_lake, practise
from icegate.settings import Lake, jars_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Fifty times Java's own thresholds for its slow compiler: a small run is over before most of that
# work pays, and waits for it on few cores. What is really hot passes them in no time.
PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=250000",
    "-XX:Tier4MinInvocationThreshold=30000",
    "-XX:Tier4CompileThreshold=750000",
    "-XX:Tier4BackEdgeThreshold=2000000",
)
# Java's own choice, G1, spends a tenth of a heavy query's time on keeping its pauses short.
COLLECTOR = "-XX:+UseParallelGC"

CONF = Path(__file__).parent / "conf"
# The class path begins with Spark's conf folder, and an archive can't be made over one with files.
CONF_DIR = CONF / "no-files"
EXIT_TIMEOUT_S = 120


def archive_file(lake: Lake) -> Path:
    """Return where the archive of this Java, this pyspark and these jars is, or would be."""
    java = find_java(shims=lake.home).home / "release"
    made = java.stat().st_mtime_ns if java.exists() else 0  # an update in place is another Java
    known = "\n".join([str(java), str(made), version("pyspark"), str(CONF_DIR), *jars_of(lake)])
    key = hashlib.sha256(known.encode()).hexdigest()[:12]
    return lake.ivy.resolve() / f"classes-{key}.jsa"


def java_options(lake: Lake, making: Path | None = None) -> str:
    """Return Java's options: compiler, collector, Spark's log, the class archive.

    ``making`` is where a new archive is written. A Spark conf folder of the user's own may choose
    log and collector.
    """
    options = list(PATIENT_COMPILER)
    if os.environ.get("SPARK_CONF_DIR", str(CONF_DIR)) == str(CONF_DIR):
        options += [] if _names_collector(lake) else [COLLECTOR]
        options.append(f"-Dlog4j2.configurationFile={(CONF / 'log4j2.properties').as_uri()}")
    archive = archive_file(lake)
    if making:
        options += [f"-XX:ArchiveClassesAtExit={making}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    elif archive.is_file():
        options += [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"]
    return " ".join(f'"{option}"' for option in options)  # a path may have a space in it


def _names_collector(lake: Lake) -> bool:
    """Tell whether somebody chose a garbage collector already; Java doesn't start with two."""
    variables = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")
    said = [lake.spark_conf.get("spark.driver.extraJavaOptions", "")]
    said += [os.environ.get(name, "") for name in variables]
    return re.search(r"-XX:\+Use\w+GC\b", " ".join(said)) is not None


def make_archive(lake: Lake) -> Path:
    """Make the archive, by one run of Spark on a lake that is thrown away."""
    archive = archive_file(lake)
    if archive.is_file():
        return archive
    made = archive.with_suffix(f".{os.getpid()}")
    with practice_lake(lake) as practice:
        # In a process of its own: Java writes the archive when it ends.
        code = "import sys; from icegate.class_archive import _practise; _practise(*sys.argv[1:])"
        command = [sys.executable, "-c", code, practice.model_dump_json(), str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and made.is_file():
            made.replace(archive)
        else:  # a start without it is slower, and nothing else
            made.unlink(missing_ok=True)
            log.warning("class_archive=missing why=%s", (done.stderr.splitlines() or ["?"])[-1])
    return archive


def _practise(lake_json: str, made: str) -> None:
    """Run what dbt runs, and wait until Java has written the archive and ended."""
    from icegate.session import start_session

    lake = Lake.model_validate_json(lake_json)
    making = {"spark.driver.defaultJavaOptions": java_options(lake, making=Path(made))}
    conf = {**lake.spark_conf, **making}
    session: SparkSession = start_session(lake.model_copy(update={"spark_conf": conf}))
    practise(session)
    java = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    session.stop()
    java.stdin.close()
    java.wait(EXIT_TIMEOUT_S)
