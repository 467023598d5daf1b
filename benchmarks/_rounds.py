"""Run dbt several times in one process, on one warm Spark, and say what each step costs.

It takes a step as a line of JSON, and answers with one; it needs nothing but dbt and PySpark, so
that both sides can run it. CPU is that of this process and of all that it started, Java above all.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FIRST = "parse"


def tree_cpu(root: int | None = None) -> float:
    """Return the CPU seconds of a process, or of this one, and of those below it: Linux tells."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = stat.read_text().split(" ", 1)
        except OSError:  # it has ended
            continue
        told = rest.rpartition(")")[2].split()
        parents[int(pid)] = int(told[1])
        ticks[int(pid)] = sum(map(int, told[11:15]))
    family = {root or os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def run(runner: Any, step: dict[str, Any]) -> list[Any]:
    """Do one step; return the rows of a query."""
    if "dbt" in step:
        done = runner.invoke(["--quiet", *step["dbt"]])
        if not done.success:
            sys.exit(f"error: {step} failed: {done.exception or done.result.results[0].message}")
        return []
    from pyspark.sql import SparkSession

    rows = SparkSession.builder.getOrCreate().sql(step["sql"]).collect()
    return [[str(value) for value in row] for row in rows]


def main() -> None:
    from dbt.cli.main import dbtRunner

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what dbt prints is no answer
    # Parsed once: a batch's number is no reason to read the project again, on either side.
    runner = dbtRunner(manifest=dbtRunner().invoke(["--quiet", FIRST]).result)
    for line in sys.stdin:
        step = json.loads(line)
        cpu, wall = tree_cpu(), time.perf_counter()
        rows = run(runner, step)
        cost = {"cpu": tree_cpu() - cpu, "wall": time.perf_counter() - wall}
        print(json.dumps({**step, **cost, "rows": rows}), file=answers, flush=True)


if __name__ == "__main__":
    main()
