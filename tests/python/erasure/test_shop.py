"""A person is forgotten in a project behind the gate, and all goes on without them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from typer.testing import CliRunner

from erasure.forgetting import CUSTOMER, KEY, OTHERS, reasons
from erasure.shopping import ORDER, Shop, customers
from icegate.cli.main import app
from icegate.errors import ConfigError, GateError
from icegate.gate import refs
from icegate.gate.build import hold_alive
from icegate.gate.ledger import read_release_tables
from icegate.gate.releases import reject
from icegate.gate.rollback import rollback
from icegate.gate.store import edit

# Each builds real tables and their versions, some seconds a test.
pytestmark = pytest.mark.slow


def test_releases_landing_files_and_builds_after(shop: Shop) -> None:
    shop.build()
    shop.land("2026-01-02", customers(KEY, "C-000019"), [("O-17-2", KEY), ("O-19-1", "C-000019")])
    shop.build()
    assert {"release_1", "release_2"} <= shop.refs(f"{shop.schema}.customers")
    was = shop.head(f"{shop.schema}.customers")
    before = shop.forget()
    assert {held.name.partition(".")[2] for held in before.held} == {
        "raw_customers",
        "customers",
        "raw_orders",
        "orders",
    }
    assert sorted(landed.rows for landed in before.landed) == [1, 1, 1, 1]
    assert shop.places("O-17-1") == shop.places("O-17-2") == []
    event = shop.project.events()[-1]
    assert (event.event, event.release, event.reason) == ("erased", 3, "someone was forgotten")
    rows = {row.table_name: row for row in read_release_tables(shop.lake) if row.release == 3}
    row = rows[f"{shop.schema}.customers"]
    assert (row.moved, row.previous_snapshot_id, row.snapshot_id) == (
        True,
        was,
        shop.head(f"{shop.schema}.customers"),
    )
    left = [(key, f"{key} by name", None) for key in (*OTHERS, "C-000019")]
    assert shop.project.seen("customers") == sorted(left)
    with pytest.raises(GateError, match="release 2"):
        rollback(shop.lake, 2, [], "t", dry_run=False)
    assert shop.project.seen("customers") == sorted(left)
    # Neither the next day, nor all days anew, bring anyone back.
    shop.land("2026-01-03", customers("C-000020"), [("O-20-1", "C-000020")])
    shop.build()
    shop.build("--full-refresh")
    assert len(shop.project.seen("customers")) == len(left) + 1
    assert [row[0] for row in shop.project.seen("orders")] == ["O-18-1", "O-19-1", "O-20-1"]
    assert shop.places() == []
    _, after, _ = shop.erase()
    assert after.is_clean, reasons(after)


def test_builds_that_wait_are_in_the_way(shop: Shop) -> None:
    shop.build()
    shop.project.model("people", "select customer_id, 1 as n from {{ ref('raw_customers') }}")
    wrong = {"data_tests": ["not_null"]}
    allowed = {"accepted_values": {"arguments": {"values": ["2"]}}}
    shop.mark(
        raw_customers=CUSTOMER,
        customers={**CUSTOMER, "note": wrong},
        orders={**ORDER, **CUSTOMER},
        raw_orders={**ORDER, **CUSTOMER},
        people={**CUSTOMER, "n": {"data_tests": [allowed]}},
    )
    shop.land("2026-01-02", customers(KEY), [])
    assert not shop.project.dbt("build").ok
    shop.read_manifest()
    held = next(
        name
        for name in shop.refs(f"{shop.schema}.customers")
        if name.startswith(refs.BRANCH_PREFIX)
    )
    build = held.removeprefix(refs.BRANCH_PREFIX)
    for dry in (shop.erasure().look(), *shop.erase()[:2]):
        said = reasons(dry)
        assert any(f"{shop.schema}.customers {held}: build {build} waits" in r for r in said), said
        assert any("people__" in r and f"build {build} waits" in r for r in said)
    assert KEY not in {row[0] for row in shop.project.seen("customers")}
    reject(shop.lake, build, "t", "to forget someone")
    # A table that readers never got left its files.
    _, after, _ = shop.erase()
    assert all("/people/" in r and "erase again in an hour" in r for r in reasons(after))
    for path in after.strays:
        os.utime(path, (0, 0))
    _, after, _ = shop.erase()
    assert after.is_clean, reasons(after)
    assert shop.places() == []


def test_nothing_is_changed_while_a_build_writes_nor_by_a_dry_run(shop: Shop) -> None:
    shop.build()
    edit(
        shop.lake,
        f"{shop.schema}.orders",
        lambda old: refs.open_branch(old, refs.branch_of("running")),
    )
    before = shop.files()
    found = shop.erasure().look()
    assert {held.name.partition(".")[2]: held.rows for held in found.held} == {
        "raw_customers": 1,
        "customers": 1,
        "raw_orders": 1,
        "orders": 1,
    }
    assert {held.name: len(held.expires) for held in found.held if "raw" not in held.name} == {
        f"{shop.schema}.customers": 1,
        f"{shop.schema}.orders": 0,  # the branch needs it
    }
    with hold_alive(shop.lake, "running"), pytest.raises(GateError) as error:
        shop.erase()
    assert "build running is writing" in str(error.value)
    assert shop.files() == before


def test_a_table_of_another_program(shop: Shop) -> None:
    """No column of it is marked: only who looks everywhere finds a key, and a person decides."""
    shop.build()
    shop.sql(f"create table s.export using iceberg as select '{KEY}' as a, map(1, 'x') as b")
    _, after, _ = shop.erase()
    assert reasons(after) == [
        "s.export: it holds the key, and no column says so: mark it, or drop it"
    ]
    assert shop.rows("select a from s.export") == [(KEY,)]
    shop.sql("drop table s.export purge")
    _, after, _ = shop.erase()
    assert after.is_clean
    assert shop.places() == []


def test_tags_that_someone_keeps(shop: Shop) -> None:
    shop.build()
    name = f"{shop.schema}.customers"
    shop.sql(f"alter table {name} create tag month_end_1", f"alter table {name} create tag audit")
    _, after, cost = shop.erase("month_end_*")
    assert reasons(after) == [f"{name} audit: a tag that someone keeps: `--drop audit` lets it go"]
    assert cost["tables"][name]["tags"] == ["month_end_1", "release_1"]
    assert shop.rows(f"select count(*) from {name} version as of 'audit'") == [(3,)]
    assert len(shop.project.seen("customers")) == len(OTHERS)
    _, after, _ = shop.erase("audit")
    assert after.is_clean
    assert shop.places() == []


def test_rows_in_quarantine_and_rows_that_failed_tests(shop: Shop) -> None:
    config = {"quarantine": True, "quarantine_max_share": 0.5}
    sql = "select * except (loaded_from) from {{ ref('raw_customers') }}"
    shop.project.model("customers", sql, **config)
    shop.project.configure(data_tests={"+schema": "failed"})
    seen = {"not_null": {"config": {"store_failures": True, "severity": "warn"}}}
    shop.mark(
        raw_customers={**CUSTOMER, "name": {"data_tests": [seen]}},
        customers={**CUSTOMER, "name": {"data_tests": ["not_null"]}},
        raw_orders={**ORDER, **CUSTOMER},
        orders={**ORDER, **CUSTOMER},
    )
    nameless = {"customer_id": KEY, "name": None, "note": None}
    shop.land("2026-01-02", [nameless, {**nameless, "customer_id": OTHERS[0]}], [])
    shop.build()
    aside, failed = f"{shop.schema}.customers__quarantine", f"{shop.schema}_failed"
    assert len(shop.rows(f"select * from {aside}")) == 2
    (failures,) = (name for name in shop.tables() if name.startswith(failed))
    before = shop.forget()
    assert {aside, failures} < {held.name for held in before.held}
    assert shop.rows(f"select customer_id from {aside}") == [(OTHERS[0],)]
    assert failures not in shop.tables()
    shop.build()
    assert len(shop.rows(f"select * from {failures}")) == 1


HISTORY = "select customer_id, name from {{ ref('customers') }}"


def test_a_history_goes_on(shop: Shop) -> None:
    shop.project.model("past", HISTORY, materialized="history", unique_key="customer_id")
    shop.mark(raw_customers=CUSTOMER, customers=CUSTOMER, past=CUSTOMER, raw_orders=ORDER)
    shop.project.model("orders", "select 1 as n")
    shop.build()
    shop.land("2026-01-02", customers("C-000019"), [])
    shop.build()
    shop.land("2026-01-03", customers("C-000020"), [])
    shop.build("--exclude", "past")
    before = shop.files()
    with pytest.raises(GateError) as error:
        shop.erase()
    assert f"{shop.schema}.past hasn't read the newest versions" in str(error.value)
    assert shop.files() == before
    shop.build("--select", "past")
    told = "select customer_id, is_current, change from {s}.past order by customer_id, valid_from"
    was = [row for row in shop.project.rows(told) if row[0] != KEY]
    shop.forget()
    assert shop.project.rows(told) == was
    shop.land("2026-01-04", customers("C-000021"), [])
    assert "steps=1" in shop.build().told
    assert [row for row in shop.project.rows(told) if row not in was] == [
        ("C-000021", True, "insert")
    ]
    _, after, _ = shop.erase()
    assert after.is_clean, reasons(after)


def test_as_a_person_runs_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    where = ["--project-dir", str(shop.folder), "--profiles-dir", str(shop.folder)]

    def erase(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["erase", *where, *arguments])

    shop.build()
    asked = ("--subject", f"customer={KEY}")
    before = shop.files()
    dry = erase(*asked)
    assert dry.exit_code == 0, dry.output
    assert shop.files() == before
    for said in ("this is what `--yes` takes out", f"{shop.schema}.customers", "release_1",
                 "orders-0.parquet", "not looked at: backups"):  # fmt: skip
        assert said in dry.output, dry.output
    assert KEY not in dry.output
    done = erase(*asked, "--yes", "--reference", "ticket 7", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (kept,) = (shop.lake.home / "erasures").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    assert KEY not in kept.read_text()
    found = json.loads(kept.read_text())
    assert (found["certified"], found["reference"], found["in_the_way"]) == (True, "ticket 7", [])
    assert found["found"] == told["found"] == {
        f"{shop.schema}.{name}": 1
        for name in ("customers", "orders", "raw_customers", "raw_orders")
    }  # fmt: skip
    assert found["cost"]["release"] == 2
    again = erase(*asked, "--yes")
    assert again.exit_code == 0, again.output
    assert "certified: " in again.output and "what it cost" not in again.output
    shop.sql(f"create table s.export using iceberg as select '{KEY}' as a")
    blocked = erase(*asked, "--yes")
    assert blocked.exit_code == 1
    assert "not certified" in blocked.output and "no column says so" in blocked.output
    assert isinstance(erase("--subject", "nobody").exception, ConfigError)
