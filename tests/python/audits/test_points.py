"""`icegate audit` of a build that isn't published, and of an earlier release."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import DbtProject

from audits.test_command import audit
from audits.test_in_dbt import Audited
from icegate.audits.points import at_points
from icegate.errors import ConfigError

pytestmark = pytest.mark.slow

MODEL = "{{ config(materialized='incremental') }}\nselect %s as id, %s as name"
COLUMNS = {"name": "name", "data_tests": ["not_null", "unique", "long_enough"]}
LONG_ENOUGH = """
{% test long_enough(model, column_name) %}
select * from {{ model }} where length({{ column_name }}) < 3
{% endtest %}
"""


@pytest.fixture
def gated(own_project: DbtProject) -> Audited:
    project = Audited(own_project.folder, own_project.lake, own_project.spark, gate=True)
    project.write("macros/long_enough.sql", LONG_ENOUGH)
    describe(project, "old")
    project.write("models/old.sql", MODEL % (1, "'anna'"))
    assert project.dbt("build").ok
    return project


def describe(project: DbtProject, *names: str) -> None:
    models = [{"name": name, "columns": [COLUMNS]} for name in names]
    project.write_yaml("models/m.yml", {"models": models})


def failures(project: DbtProject, *options: str) -> dict[str, tuple[Any, str]]:
    """Return of each test how many rows fail, and how that was found."""
    assert project.dbt("compile").ok
    told = json.loads(audit(project, "--json", *options).stdout)["tests"]
    return {test["test"]: (test["failures"], test["proof"]) for test in told}


def test_a_build_is_audited_on_its_branch(gated: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.write("models/old.sql", MODEL % (2, "cast(null as string)"))
    gated.write("models/new.sql", MODEL % (3, "'b'"))
    describe(gated, "old", "new")
    assert gated.dbt("run").ok
    monkeypatch.delenv("ICEGATE_RELEASE")
    assert failures(gated, "--select", "old") == {
        "not_null_old_name": (0, "metadata"),
        "unique_old_name": (0, "scan (duckdb)"),
        "long_enough_old_name": (0, "scan (spark)"),
    }
    assert failures(gated, "nightly") == {
        "not_null_old_name": (1, "added rows (1 of 2 files)"),
        "unique_old_name": (0, "added rows (0 of 2 files)"),
        "long_enough_old_name": (0, "scan (spark)"),
        "not_null_new_name": (0, "metadata"),
        "unique_new_name": (0, "scan (duckdb)"),
        "long_enough_new_name": (1, "scan (spark)"),
    }


def test_an_earlier_release_is_audited_as_it_was(gated: Audited) -> None:
    gated.write("models/old.sql", MODEL % (2, "'al'"))
    assert gated.dbt("run").ok
    assert failures(gated, "--select", "old")["long_enough_old_name"] == (1, "scan (spark)")
    assert failures(gated, "1", "--select", "old") == {
        "not_null_old_name": (0, "metadata"),
        "unique_old_name": (0, "added rows (0 of 1 files)"),
        "long_enough_old_name": (0, "scan (spark)"),
    }


def test_a_release_that_had_other_columns_is_sparks(gated: Audited) -> None:
    gated.spark.sql(f"alter table {gated.schema}.old add column more int")
    found = failures(gated, "1", "--select", "not_null_old_name")
    assert found == {"not_null_old_name": (0, "scan (spark)")}


def test_a_text_stays_what_it_is_to_spark(spark: Any) -> None:
    texts = r"""'it''s', "a""b", 'a' 'b', '\%', '\\d', r'\d', '\'', '''', 'o\pen', '\101'"""
    (there,) = spark.sql(at_points(f"select {texts}", {})).collect()
    assert tuple(there) == tuple(*spark.sql(f"select {texts}").collect())


def test_an_unknown_name_is_refused(gated: Audited) -> None:
    with pytest.raises(ConfigError, match="cannot find release or build 'nightli'"):
        audit(gated, "nightli")
