"""What stock dbt-spark refuses or breaks on an Iceberg table; each test runs on it too."""

from __future__ import annotations

from conftest import DbtProject
from test_silent_corruptions import either  # noqa: F401  (a fixture)


def test_a_view_becomes_a_table(either: DbtProject) -> None:  # noqa: F811
    either.write("models/m.sql", "select 1 as a")
    assert either.dbt("run").ok
    either.write("models/m.sql", "{{ config(materialized='table') }} select 2 as a")
    assert either.dbt("run").ok
    assert either.rows("select a from {s}.m") == [(2,)]


def test_a_column_is_really_dropped(either: DbtProject) -> None:  # noqa: F811
    sync = "on_schema_change='sync_all_columns', allow_destructive=true"
    config = f"{{{{ config(materialized='incremental', {sync}) }}}}"
    either.write("models/m.sql", f"{config} select 1 as a, 2 as b")
    assert either.dbt("run").ok
    either.write("models/m.sql", f"{config} select 3 as a")
    assert either.dbt("run").ok
    assert sorted(either.rows("select * from {s}.m")) == [(1,), (3,)]


def test_an_apostrophe_in_a_seed_is_text(either: DbtProject) -> None:  # noqa: F811
    either.write("seeds/people.csv", "id,name\n1,O'Neil\n")
    assert either.dbt("seed").ok
    assert either.rows("select name from {s}.people") == [("O'Neil",)]


def test_a_full_refresh_keeps_the_history(either: DbtProject) -> None:  # noqa: F811
    either.write("models/m.sql", "{{ config(materialized='incremental') }} select 1 as a")
    assert either.dbt("run").ok
    [(before,)] = either.rows("select snapshot_id from {s}.m.snapshots")
    assert either.dbt("run", "--full-refresh").ok
    assert either.rows(f"select a from {{s}}.m version as of {before}") == [(1,)]


def test_a_schema_with_tables_is_dropped(either: DbtProject) -> None:  # noqa: F811
    either.write("models/m.sql", "{{ config(materialized='table') }} select 1 as a")
    either.write(
        "macros/drop_it.sql",
        """
        {% macro drop_it() %}
            {% do adapter.drop_schema(api.Relation.create(schema=target.schema)) %}
        {% endmacro %}
    """,
    )
    either.configure(models={"+file_format": "iceberg"}, **{"on-run-end": ["{{ drop_it() }}"]})
    assert either.dbt("run").ok
    assert either.rows("show namespaces like '{s}'") == []
