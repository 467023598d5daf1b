"""Rows that fail, where they are stored, shown or told: personal data in them is masked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, DbtProject

from gate.gated import GatedProject

pytestmark = pytest.mark.slow

HIDDEN = "•••"
SECRETS = ("jane@example.com", "Jane Doe", "CUST-000042", "Rome")
PEOPLE = """
{{ config(materialized='table') }}
select * from values
    ('CUST-000042', 'jane@example.com', 'Jane Doe', map('city', 'Rome'), cast(null as int)),
    ('CUST-000042', 'jane@example.com', '', map('city', 'Rome'), -1)
    as given(customer_id, email, name, address, amount)
"""
KINDS = {"customer_id": "id", "email": "email", "name": True, "address": "address"}


def column(name: str, *tests: Any) -> dict[str, Any]:
    meta = {"config": {"meta": {"pii": KINDS[name]}}} if name in KINDS else {}
    return {"name": name, "data_tests": list(tests), **meta}


def named(test: str, name: str, **more: Any) -> dict[str, Any]:
    return {test: {"name": name, **more}}


def add_overrides(project: DbtProject) -> None:
    wanted = project.folder / "macros"
    wanted.mkdir()
    shutil.copy(ROOT / "macros" / "overrides" / "icegate__get_create_sql.sql", wanted)


def test_stored_failures_are_masked_by_lineage(project: DbtProject) -> None:
    add_overrides(project)
    project.configure(data_tests={"+store_failures": True, "+schema": "failed"})
    project.write("models/people.sql", PEOPLE)
    project.write(
        "models/contacts.sql",
        "{{ config(materialized='view') }} "
        "select email as contact, amount from {{ ref('people') }}",
    )
    in_list = {"arguments": {"values": ["a", "b"]}}
    people = [
        column("customer_id"),
        column("email", named("unique", "doubled"), named("accepted_values", "listed", **in_list)),
        *map(column, ("name", "address")),
        column("amount", named("not_null", "whole_row")),
    ]
    contacts = column("amount", named("not_null", "of_view", config={"store_failures_as": "view"}))
    described = [
        {"name": "people", "columns": people},
        {"name": "contacts", "columns": [contacts]},
    ]
    project.write_yaml("models/m.yml", {"models": described})
    asked = {
        "aggregated": "select count(email) as n, min(email) as first, max(amount) as most",
        "joined_text": "select concat(name, ' of ', address['city']) as who, amount",
        "plain": "select amount, email is null as is_unknown",
        "without_name": "select upper(email)",
    }
    for name, select in asked.items():
        project.write(f"tests/{name}.sql", select + " from {{ ref('people') }}")
    assert project.dbt("run").ok
    run = project.dbt("test")
    assert set(run.status.values()) == {"fail"}, run.text

    def stored(test: str) -> list[tuple[Any, ...]]:
        return sorted(project.rows(f"select * from {{s}}_failed.{test}"), key=str)

    assert stored("doubled") == [(HIDDEN, 2)]
    assert stored("listed") == [(HIDDEN, 2)]
    assert stored("whole_row") == [(f"{HIDDEN}42", HIDDEN, HIDDEN, HIDDEN, None)]
    assert stored("of_view") == [(HIDDEN, None)]
    assert stored("aggregated") == [(2, HIDDEN, -1)]
    assert stored("joined_text") == [(HIDDEN, -1), (HIDDEN, None)]
    assert stored("plain") == [(-1, False), (None, False)]
    assert stored("without_name") == [(HIDDEN,), (HIDDEN,)]
    tables = project.spark.sql(f"show tables in {project.schema}_failed").collect()
    views = project.spark.sql(f"show views in {project.schema}_failed").collect()
    found = [row for row in (*tables, *views) if not row.isTemporary]  # of other tests
    names = {row[1] for row in found}
    assert len(names) == 8
    told = json.dumps([stored(name) for name in names], default=str)
    assert not [secret for secret in SECRETS if secret in told]


def test_a_table_without_personal_data_is_stored_as_it_is(project: DbtProject) -> None:
    add_overrides(project)
    project.write("models/plain.sql", PEOPLE)
    tests = named("not_null", "whole_row", config={"store_failures": True})
    columns = [{"name": "amount", "data_tests": [tests]}]
    project.write_yaml("models/m.yml", {"models": [{"name": "plain", "columns": columns}]})
    project.dbt("build")
    stored = project.rows("select * from {s}_dbt_test__audit.whole_row")
    assert stored == [("CUST-000042", "jane@example.com", "Jane Doe", {"city": "Rome"}, None)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_doubled_key_is_told_without_its_values(project: DbtProject, mode: str) -> None:
    project.write(
        "models/merged.sql",
        "{{ config(materialized='incremental', incremental_strategy='merge', "
        "unique_key=['customer_id', 'email', 'amount'], "
        f"tblproperties={{'write.merge.mode': '{mode}'}}) }}}}"
        "select customer_id, email, 1 as amount "
        "from values ('CUST-000042', 'jane@example.com') as given(customer_id, email) "
        "{% if is_incremental() %} cross join range(3) {% endif %}",
    )
    described = {"name": "merged", "columns": [column("customer_id"), column("email")]}
    project.write_yaml("models/m.yml", {"models": [described]})
    assert project.dbt("run").ok
    run = project.dbt("--log-level-file", "debug", "run")
    key = f'{{"customer_id":"{HIDDEN}42","email":"{HIDDEN}","amount":1}}'
    assert f"3 rows have the key {key}" in run.message["merged"]
    log = (project.folder / "logs" / "dbt.log").read_text()
    sql = project.folder / "models/merged.sql"
    assert key in log and sql.exists()
    assert '"customer_id":"CUST' not in log


def show(project: DbtProject, *args: str) -> Any:
    command = [sys.executable, "-c", "from icegate.cli.main import main; main()", "show", *args]
    ran = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True)
    return (json.loads(ran.stdout)["sample"] if "--json" in args else ran.stdout), ran.stderr


def test_show_masks_by_the_manifest_also_what_is_held_back_or_put_aside(
    gated: GatedProject,
) -> None:
    gated.write("models/people.sql", PEOPLE.replace("') }}", "', quarantine=['not_null'], "
                "quarantine_max_share=1) }}"))  # fmt: skip
    columns = [*map(column, ("customer_id", "email", "name", "address"))]
    described = {"name": "people", "columns": [*columns, column("amount", "not_null")]}
    gated.write_yaml("models/m.yml", {"models": [described]})
    gated.dbt("build")
    for table in ("people", "people__quarantine"):
        sample, told = show(gated, f"{gated.schema}.{table}", "--json")
        (row,) = sample["rows"]
        assert sample["masked"] == ["customer_id", "email", "name", "address"], told
        assert row["customer_id"] == f"{HIDDEN}42" and row["address"] == HIDDEN
        assert row["amount"] == (-1 if table == "people" else None)
        shown, told = show(gated, f"{gated.schema}.{table}")
        assert not [secret for secret in SECRETS if secret in shown]
        assert "masked: customer_id, email, name, address; `--unmasked` shows them" in told
        assert "jane@example.com" in show(gated, f"{gated.schema}.{table}", "--unmasked")[0]
    gated.write("tests/held.sql", "select 1 from {{ ref('fresh') }}")
    gated.write("models/fresh.sql", PEOPLE)
    gated.dbt("build", "--select", "fresh")
    (held,) = gated.staged()
    shown, _ = show(gated, f"icegate_staging.{held}")
    assert "sample rows" in shown and not [secret for secret in SECRETS if secret in shown]


def test_without_a_manifest_show_says_that_nothing_is_masked(gated: GatedProject) -> None:
    gated.values("plain", 1)
    gated.dbt("build")
    for path in Path(gated.folder).rglob("manifest.json"):
        path.unlink()
    shown, told = show(gated, f"{gated.schema}.plain")
    assert "sample rows" in shown and "nothing is masked" in told
