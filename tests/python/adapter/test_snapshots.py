"""Snapshots: all that dbt's options promise, as one commit of the table each."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject
from incremental_models import MERGE_ON_READ, operations

pytestmark = pytest.mark.slow

CHECK = {"strategy": "check", "check_cols": ["name"], "unique_key": "id"}
STAMP = {"strategy": "timestamp", "updated_at": "seen", "unique_key": "id"}
FAR = "timestamp('9999-01-01')"
NAMES = {"dbt_valid_from": "since", "dbt_valid_to": "until", "dbt_scd_id": "version_id"}
OPTIONS: dict[str, dict[str, Any]] = {
    "check": CHECK,
    "check_all": {**CHECK, "check_cols": "all"},
    "stamp": STAMP,
    "invalidate": {**CHECK, "hard_deletes": "invalidate"},
    "new_record": {**STAMP, "hard_deletes": "new_record"},
    "two_keys": {**CHECK, "unique_key": ["id", "kind"], "hard_deletes": "invalidate"},
    "far": {**CHECK, "dbt_valid_to_current": FAR},
    "far_new_record": {**CHECK, "dbt_valid_to_current": FAR, "hard_deletes": "new_record"},
    "named": {**CHECK, "snapshot_meta_column_names": NAMES},
    "on_read": {**CHECK, "tblproperties": MERGE_ON_READ, "hard_deletes": "invalidate"},
}
ADA, ROB, BOB, CY, DI = ("Ada", True), ("Rob", True), ("Bob", False), ("Cy", True), ("Di", True)
KEPT = sorted([ADA, BOB, ROB, CY, DI])
CLOSED = sorted([ADA, BOB, ROB, ("Cy", False), DI])
RECORDED = sorted([*CLOSED, CY])  # and one more that says so
EXPECTED = {"invalidate": CLOSED, "two_keys": CLOSED, "on_read": CLOSED}
# A column that is new is a change of every row.
EXPECTED["check_all"] = sorted([("Ada", False), *KEPT])
EXPECTED.update(new_record=RECORDED, far_new_record=RECORDED)


def write_people(project: DbtProject, values: str, more: str = "") -> None:
    project.write(
        "models/people.sql",
        f"""
        {{{{ config(materialized='table') }}}}
        select id, name, kind, timestamp(seen) as seen {more}
        from values {values} as people(id, name, kind, seen)
    """,
    )


def test_options_of_snapshots(project: DbtProject) -> None:
    found = [
        {"name": name, "relation": "ref('people')", "config": config}
        for name, config in OPTIONS.items()
    ]
    project.write_yaml("snapshots/all.yml", {"snapshots": found})
    write_people(
        project,
        "(1, 'Ada', 'x', '2026-01-01'), (2, 'Bob', 'x', '2026-01-01'), "
        "(3, 'Cy', 'x', '2026-01-01')",
    )
    run = project.dbt("build", "--threads", "8")
    assert run.ok, run.text
    write_people(  # Bob changed, Cy went, Di came; a column was added
        project,
        "(1, 'Ada', 'x', '2026-01-01'), (2, 'Rob', 'x', '2026-01-02'), "
        "(4, 'Di', 'x', '2026-01-02')",
        more=", if(id = 4, 'new', null) as note",
    )
    for _ in range(2):  # the same rows again change nothing
        run = project.dbt("build", "--threads", "8")
        assert run.ok, run.text
    for name in OPTIONS:
        until = "until" if name == "named" else "dbt_valid_to"
        current = f"{until} = {FAR}" if name.startswith("far") else f"{until} is null"
        rows = project.rows(f"select name, {current} from {{s}}.{name} order by 1, 2")
        assert rows == EXPECTED.get(name, KEPT), name
        assert project.rows(f"select note from {{s}}.{name} where name = 'Di'") == [("new",)], name
        assert len(operations(project, name)) <= 3, name
    for name in ("new_record", "far_new_record"):
        deleted = project.rows(f"select id, name from {{s}}.{name} where dbt_is_deleted = 'True'")
        assert deleted == [(3, "Cy")], name
