"""What Spark's own event logs say of a run: what it scanned, and what it was set to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _bench import refuse

ABSENT = "(not set)"
# Iceberg's own metrics of a scan: the sizes of the files that it opens. What Spark says that tasks
# read lacks most of it: of 9.6 MB that one scan of local files read, it counted 0.09.
FILE_SIZES = ("TotalDataFileSize", "TotalDeleteFileSize")
_EACH_RUN = "each run of Spark has its own"
_SAME_JARS = "the same jars; every target of Icegate has them on Java's class path, uncopied"
_SHIPPED = "what every target of Icegate gets, and stock dbt-spark doesn't"
_GATE = "the gate itself, and who wrote a snapshot"
_OWN = "spark.sql.iceberg.snapshot-property.icegate"
# Settings that may differ, each with its reason. What isn't here, and differs, ends the program.
DECLARED = {
    "spark.app.id": _EACH_RUN,
    "spark.app.startTime": _EACH_RUN,
    "spark.app.submitTime": _EACH_RUN,
    "spark.driver.port": _EACH_RUN,
    "spark.app.name": "a name",
    "spark.ui.showConsoleProgress": "a bar in a terminal, and there is none",
    "spark.app.initial.jar.urls": _SAME_JARS,
    "spark.driver.extraClassPath": _SAME_JARS,
    "spark.jars": _SAME_JARS,
    "spark.jars.ivy": "where jars are got from, and none is",
    "spark.repl.local.jars": _SAME_JARS,
    "spark.driver.defaultJavaOptions": f"class archive, collector and compiler: {_SHIPPED}",
    "spark.hadoop.fs.file.impl": f"local files without a process for each mode: {_SHIPPED}",
    "spark.sql.codegen.cache.maxEntries": _SHIPPED,
    "spark.sql.ui.explainMode": _SHIPPED,
    "spark.sql.catalogImplementation": "dbt-spark asks for Hive, which holds no table here",
    f"{_OWN}.build": _GATE,
    f"{_OWN}.invocation": _GATE,
    f"{_OWN}.write": _GATE,
    "spark.wap.branch": _GATE,
}


@dataclass
class Events:
    """Of one side: bytes of scanned files, and each setting with all values that it had."""

    scanned: int = 0
    conf: dict[str, set[str]] = field(default_factory=dict)

    def add(self, other: Events) -> None:
        self.scanned += other.scanned
        for key, values in other.conf.items():
            self.conf.setdefault(key, set()).update(values)


def event_log(folder: Path) -> dict[str, str]:
    """Return the settings with which Spark writes its events into ``folder``, in plain JSON."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def take_events(folder: Path, project: Path) -> Events:
    """Read all logs in ``folder`` and empty it; the ``project``'s own path is no setting."""
    found = Events()
    for path in sorted(folder.glob("*")):
        sizes: dict[int, int] = {}  # by accumulator, whose number is one of this Spark
        scans: set[int] = set()
        with path.open(encoding="utf-8") as lines:
            for event in map(json.loads, _wanted(lines)):
                _take_conf(event, found, str(project))
                sizes.update(event.get("accumUpdates", []))
                scans.update(_scans(event.get("sparkPlanInfo", {})))
        found.scanned += sum(sizes.get(number, 0) for number in scans)
    shutil.rmtree(folder)
    folder.mkdir()
    return found


def _wanted(lines: Iterator[str]) -> Iterator[str]:
    kinds = ("EnvironmentUpdate", "SQLExecutionStart", "AdaptiveExecutionUpdate", "DriverAccum")
    return (line for line in lines if any(kind in line[:120] for kind in kinds))


def _scans(plan: dict[str, Any]) -> Iterator[int]:
    """Yield the accumulators of the sizes of files in a plan."""
    for metric in plan.get("metrics", []):
        if metric["metricType"].endswith(FILE_SIZES):
            yield metric["accumulatorId"]
    for child in plan.get("children", []):
        yield from _scans(child)


def _take_conf(event: dict[str, Any], found: Events, project: str) -> None:
    conf = event.get("modifiedConfigs", {}) | event.get("Spark Properties", {})
    java = event.get("JVM Information", {}).get("Java Version")
    for key, value in (conf | ({"java.version": java} if java else {})).items():
        found.conf.setdefault(key, set()).add(value.replace(project, "<project>"))


def refuse_different(ours: Events, peers: Events) -> None:
    """End the program when a setting differs that isn't declared to."""
    keys = sorted((ours.conf.keys() | peers.conf.keys()) - DECLARED.keys())
    said = [
        f"{key}: ours {_values(ours, key)}, dbt-spark {_values(peers, key)}"
        for key in keys
        # dbt-spark writes DYNAMIC where others write dynamic.
        if _values(ours, key).casefold() != _values(peers, key).casefold()
    ]
    if said:
        refuse(
            "cannot compare: Spark's settings of the two sides differ",
            why="\n       ".join(said),
            fix="set them alike on both sides, or declare them with a reason in "
            "benchmarks/_tpch_events.py",
        )


def _values(events: Events, key: str) -> str:
    return " then ".join(sorted(events.conf.get(key, {ABSENT})))
