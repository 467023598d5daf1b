"""Table properties are checked against the names that Iceberg's own jar knows."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.errors import PropertyError
from icegate.properties import check_properties, known_properties, profile_properties


def test_the_list_is_that_of_the_jar(spark: Any) -> None:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    constants = loader.loadClass("org.apache.iceberg.TableProperties").getFields()
    names = {
        field.get(None)
        for field in constants
        if field.getType().getName() == "java.lang.String"
        and not field.getName().endswith("_DEFAULT")
        and "." in str(field.get(None))
    }
    assert names - known_properties() == set()
    assert known_properties() - names == {"comment", "format-version"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("write.distribution.mode", "did you mean 'write.distribution-mode'"),
        ("commit.retry.num_retries", "did you mean 'commit.retry.num-retries'"),
        ("metadata.delete-after-commit.enabled", "write.metadata.delete-after-commit.enabled"),
        ("write.nonsense", "see docs"),
    ],
)
def test_an_unknown_name_is_refused(name: str, hint: str) -> None:
    with pytest.raises(PropertyError, match=hint):
        check_properties({name: "1"})


def test_known_names_column_names_and_own_labels_pass() -> None:
    given = {
        "write.wap.enabled": True,
        "write.metadata.metrics.column.id": "full",
        "owner.team": "sales",
    }
    assert check_properties(given)["write.wap.enabled"] == "true"


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(PropertyError, match="did you mean 'append_log'"):
        profile_properties("append_lgo", {"append_log": {}})


def test_a_models_typing_error_stops_it(project: DbtProject) -> None:
    project.write(
        "models/m.sql",
        """
        {{ config(materialized='table', tblproperties={'write.distribution.mode': 'none'}) }}
        select 1 as a
    """,
    )
    run = project.dbt("run")
    assert not run.ok and "did you mean 'write.distribution-mode'" in run.text
