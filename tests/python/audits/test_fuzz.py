"""Audits and stock SQL on Spark agree on all that hypothesis can think of."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from audits.cases import Table
from icegate.audits import scan
from icegate.audits.answer import Answer, Prover
from icegate.settings import Lake

# `make fuzz-audits` sets 5,000.
CASES = int(os.environ.get("ICEGATE_FUZZ_CASES", "300"))
TESTS, TIMES = 8, 4  # of the tables of one example, which change in between
proofs: Counter[str] = Counter()


@pytest.mark.long
@settings(
    max_examples=CASES // TESTS // TIMES + 1,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # the seed alone makes it again; a smaller case would take hours
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=True))
def test_an_audit_says_what_spark_says(lake: Lake, spark: Any, random: Random) -> None:
    schema = f"f_{uuid.uuid4().hex[:8]}"
    spark.sql(f"create namespace {schema}")
    scan.WORTH_SORTING = 0
    tables = [Table(random, spark, f"{schema}.t{number}") for number in range(3)]
    prover = Prover(lake)
    tests = [random.choice(tables).test_of(random.choice(tables)) for _ in range(TESTS)]
    for _ in range(TIMES):
        for sql in tests:
            told = said(spark, sql)
            found = prover.answer(sql)
            proof = found.proof if isinstance(found, Answer) else "scan (spark)"
            proofs[proof.partition(" (")[0] if "rows" in proof else proof] += 1
            note(f"{proof} of {sql}")
            if isinstance(found, Answer):
                assert found.row == told, (proof, sql)
            elif told is not None:
                prover.learn(found, told[0])
            again = prover.answer(sql)
            if isinstance(again, Answer):
                assert again.row == told, (proof, again.proof, sql)
        for table in tables:
            table.change()
    for table in tables:
        spark.sql(f"drop table {table.name}")


def said(spark: Any, sql: str) -> tuple[Any, ...] | None:
    """Return what stock SQL says, None where Spark refuses it: then no audit may answer."""
    try:
        return tuple(spark.sql(sql).collect()[0])
    except PySparkException:
        return None


@pytest.mark.long
def test_the_cheap_proofs_were_tried() -> None:
    print(f"fuzz-audits: {proofs.total()} cases: {dict(proofs)}")
    assert proofs["metadata"] > CASES // 10
    # What is proved on added rows DuckDB would have scanned otherwise.
    assert proofs["scan (duckdb)"] + proofs["added rows"] > CASES // 20
    assert proofs["added rows"] > CASES // 100
