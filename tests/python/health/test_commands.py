"""The command beside a reason mends it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from conftest import ROOT, DbtProject

from health.tables import names
from icegate.catalog import list_relations
from icegate.health.table import Health, look

pytestmark = pytest.mark.slow

DELETES = "'write.delete.mode' = 'merge-on-read', 'read.split.open-file-cost' = '2000'"
SMALL = "'write.target-file-size-bytes' = '20000', 'read.split.open-file-cost' = '2000'"
OLD = "'history.expire.max-snapshot-age-ms' = '1', 'history.expire.min-snapshots-to-keep' = '1'"


def few_deleted(project: DbtProject) -> None:
    """A file of its right size, of which too little is deleted for a plain compaction."""
    project.rows("insert into {s}.sick select /*+ coalesce(1) */ id, 1, uuid() from range(20000)")
    ((size,),) = project.rows("select file_size_in_bytes from {s}.sick.files")
    target = f"'write.target-file-size-bytes' = '{size}'"
    project.rows(f"alter table {{s}}.sick set tblproperties ({target})")
    project.rows("delete from {s}.sick where id % 10 = 0")


def many_files(project: DbtProject) -> None:
    for start in range(30):
        project.rows(f"insert into {{s}}.sick select id, {start}, 'a' from range(100)")


def old_partitions(project: DbtProject) -> None:
    for part in range(13):
        rows = f"select /*+ coalesce(1) */ id, {part}, uuid() from range(3000)"
        project.rows(f"insert into {{s}}.sick {rows}")
    ((size,),) = project.rows("select max(file_size_in_bytes) from {s}.sick.files")
    target = f"'write.target-file-size-bytes' = '{size}'"
    project.rows(f"alter table {{s}}.sick set tblproperties ({target})")
    project.rows("alter table {s}.sick add partition field part")


SICK: dict[str, tuple[str, Callable[[DbtProject], None]]] = {
    "delete files": (DELETES, few_deleted),
    "count(*)": (DELETES, few_deleted),
    "small files": (SMALL, many_files),
    "manifests": (SMALL, many_files),
    "snapshots": (f"{SMALL}, {OLD}", many_files),
    "old partitions": (SMALL, old_partitions),
}


@pytest.mark.parametrize("reason", SICK)
def test_the_printed_command_mends_it(own_project: DbtProject, reason: str) -> None:
    properties, make_sick = SICK[reason]
    shutil.copytree(ROOT / "macros" / "iceberg", own_project.folder / "macros")
    own_project.rows("create schema {s}")
    own_project.rows(
        "create table {s}.sick (id bigint, part bigint, name string) using iceberg"
        f" tblproperties ({properties})"
    )
    make_sick(own_project)
    rows = own_project.rows("select count(*), sum(id) from {s}.sick")
    before = health(own_project)
    (found,) = [each for each in before.reasons if each.name == reason]
    program, *command = shlex.split(found.command)
    assert program == "dbt"
    assert own_project.dbt(*command).ok
    after = health(own_project)
    assert reason not in names(after), after.reasons
    assert own_project.rows("select count(*), sum(id) from {s}.sick") == rows


def health(project: DbtProject) -> Health:
    (entry,) = list_relations(project.lake, project.schema)
    return look(entry, datetime.now(timezone.utc), by_partition=True)
