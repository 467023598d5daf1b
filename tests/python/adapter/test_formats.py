"""Models of another file_format are dbt-spark's business; an Iceberg catalog refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from conftest import DbtProject

pytestmark = pytest.mark.slow


@pytest.fixture
def with_spark_catalog(project: DbtProject, spark: object) -> DbtProject:
    """A project on Spark's own catalog, in memory, in the tests' session."""
    profile = project.folder / "profiles.yml"
    content = yaml.safe_load(profile.read_text())
    conf = {**project.lake.spark_conf, "spark.sql.defaultCatalog": "spark_catalog"}
    content["t"]["outputs"]["t"]["spark_conf"] = conf
    profile.write_text(yaml.safe_dump(content))
    return project


def test_an_iceberg_catalog_refuses_parquet_with_a_reason(project: DbtProject) -> None:
    for file_format in ("parquet", "delta"):
        project.write(
            "models/m.sql",
            f"{{{{ config(materialized='table', file_format='{file_format}') }}}} select 1 as a",
        )
        run = project.dbt("run")
        assert not run.ok and f"cannot build model m with file_format '{file_format}'" in run.text
        assert "why:" in run.text and "fix:" in run.text
    project.write(
        "models/m.py",
        """
        def model(dbt, session):
            dbt.config(file_format="parquet")
            return session.range(1)
    """,
    )
    (project.folder / "models" / "m.sql").unlink()
    run = project.dbt("run")
    assert not run.ok and "fix: remove file_format" in run.text


def test_parquet_is_passed_through_to_dbt_spark(with_spark_catalog: DbtProject) -> None:
    project = with_spark_catalog
    parquet = {"+file_format": "parquet"}
    project.configure(models=parquet, seeds=parquet)
    project.write("seeds/s.csv", "id,name\n1,Ada\n2,\n")
    project.write(
        "models/t.sql",
        "{{ config(materialized='table') }} select * from {{ ref('s') }}",
    )
    for name, strategy in (("a", "append"), ("o", "insert_overwrite")):
        project.write(
            f"models/{name}.sql",
            f"""
            {{{{ config(materialized='incremental', incremental_strategy='{strategy}',
                        partition_by='id') }}}}
            select 'x' as name, 1 as id
        """,
        )
    for _ in range(2):
        run = project.dbt("build")
        assert run.ok, run.text
    log = (project.folder / "logs" / "dbt.log").read_text()
    assert "file_format=parquet model=t: as in dbt-spark, without Iceberg's features" in log
    where = f"spark_catalog.{project.schema}"
    found = {
        table: project.rows(f"select count(*), count(name) from {where}.{table}")
        for table in ("s", "t", "a", "o")
    }
    assert found == {"s": [(2, 1)], "t": [(2, 1)], "a": [(2, 2)], "o": [(1, 1)]}
    described = project.rows(f"describe extended {where}.t")
    assert ("Provider", "parquet", "") in described
    assert Path(project.folder).is_dir()
