"""The predicate of a partition means its rows, and no others, whatever the table is split by."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from conftest import DbtProject

from icegate.catalog import list_relations, read_metadata
from icegate.health.table import look
from icegate.maintenance.predicate import partition_sql

pytestmark = pytest.mark.slow

ROWS = """
select
    id, cast(id as int) as number, id % 2 = 0 as flag, cast(id as decimal(9, 2)) / 4 as price,
    if(id % 5 = 0, null, concat('it''s \\\\', id % 3)) as name,
    date_add(date '1969-12-30', cast(id as int)) as day,
    timestamp '1969-12-31 22:30:00.5' + make_interval(0, 0, 0, 0, cast(id as int) * 7) as ts,
    cast(timestamp '1969-12-31 22:30:00.5' as timestamp_ntz)
        + make_interval(0, 0, 0, 0, cast(id as int) * 7) as ntz,
    named_struct('a b', id % 3) as inner
from range(23)
"""
SPLITS = (
    "id",
    "number",
    "flag",
    "price",
    "name",
    "day",
    "ts",
    "ntz",
    "inner.`a b`",
    "bucket(4, id)",
    "bucket(3, name)",
    "truncate(4, name)",
    "truncate(10, id)",
    "truncate(2, price)",
    "years(ts)",
    "months(day)",
    "days(ts)",
    "hours(ntz)",
    "days(day), bucket(2, name)",
)


@pytest.mark.parametrize("split", SPLITS)
def test_it_means_the_rows_of_a_partition(project: DbtProject, split: str) -> None:
    project.rows("create schema {s}")
    create = "create table {s}.t using iceberg partitioned by (" + split + ") as " + ROWS
    project.rows(create)
    (entry,) = list_relations(project.lake, project.schema)
    metadata, now = read_metadata(entry), datetime.now(timezone.utc)
    parts = [part.files for part in look(entry, now, by_partition=True).partitions if part.files]
    assert len(parts) > 1
    for part in parts:
        said = partition_sql(metadata, part)
        assert said, part.name
        files = project.rows("select count(distinct _file), count(*) from {s}.t where " + said)
        assert files == [(part.files, part.rows)], said


def test_it_works_in_a_call(project: DbtProject) -> None:
    project.rows("create schema {s}")
    project.rows("create table {s}.t using iceberg partitioned by (bucket(4, name)) as " + ROWS)
    project.rows("insert into {s}.t " + ROWS)
    (entry,) = list_relations(project.lake, project.schema)
    now = datetime.now(timezone.utc)
    parts = [part.files for part in look(entry, now, by_partition=True).partitions if part.files]
    said = partition_sql(read_metadata(entry), parts[0])
    options = "options => map('min-input-files', '2', 'rewrite-all', 'true')"
    call = f'''call system.rewrite_data_files(table => '{project.schema}.t', where => "{said}", '''
    ((rewritten, *_),) = project.rows(call + options + ")")
    assert rewritten == parts[0].files


def test_what_sql_cannot_say(project: DbtProject) -> None:
    project.rows("create schema {s}")
    project.rows("create table {s}.t (a double, b binary) using iceberg partitioned by (a)")
    project.rows("insert into {s}.t values (0.1, null), (1e0, null)")
    (entry,) = list_relations(project.lake, project.schema)
    found = look(entry, datetime.now(timezone.utc), by_partition=True).partitions
    assert [partition_sql(read_metadata(entry), part.files) for part in found if part.files] == [
        None,
        None,
    ]
