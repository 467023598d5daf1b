"""A test's verdict, proved as cheaply as can be; what is left Spark runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from icegate.anomalies.as_test import asked_again
from icegate.audits.answer import Left, Prover
from icegate.audits.tests import ON_SPARK, DataTest, not_compiled
from icegate.explain import explain


@dataclass
class Result:
    """What became of a test: pass, warn, fail or error, and how that was found."""

    result: str = "error"
    failures: int | None = None
    proof: str = ""
    seconds: float = 0
    tried: list[str] = field(default_factory=list)  # why cheaper proofs didn't do
    error: str = ""


def ask(
    test: DataTest, prover: Prover, on_spark: Callable[[str], Any], branch: str | None = None
) -> Result:
    """Ask a test's question; ``on_spark`` runs a query and returns its first row.

    ``branch`` is where the writes of a running build go. What goes wrong is in the result.
    """
    began, told = time.monotonic(), Result()
    try:
        if not test.sql:
            raise not_compiled(test)
        sql = asked_again(test.sql, prover.lake, prover.points, branch)
        found = prover.answer(sql, branch)
        if isinstance(found, Left):
            told.tried, told.proof = found.tried, ON_SPARK
            row = on_spark(sql)
            prover.learn(found, row[0])
        else:
            _, row, told.proof, told.tried = found
        told.result, told.failures = test.verdict(row)
    except Exception as error:
        told.error = explain(error)
    told.seconds = round(time.monotonic() - began, 3)
    return told
