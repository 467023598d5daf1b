"""Each command as a user runs it: what it prints, its JSON, its exit code."""

from __future__ import annotations

import shutil
import subprocess
import sys

import duckdb
import pytest
from shop import lake_of, run_icegate

from icegate import duck
from icegate.cli.query import parse, run_on_duckdb
from icegate.errors import ConfigError, IcegateError


def test_tables_counts_what_main_has(icegate):
    listed = icegate("tables", "--json").json["tables"]
    counts = {f"{t['namespace']}.{t['name']}": (t["rows"], t["files"]) for t in listed}
    assert counts == {
        "gold.dim_customers": (2, 1),
        "gold.who_bought": (None, None),
        "silver.curated_orders": (3, 2),  # the branch `audit` has two rows more
        "silver.empty": (0, 0),
    }


def test_tables_prints_plain_lines_into_a_pipe(icegate):
    lines = icegate("tables").out.splitlines()
    assert lines[0].split() == ["table", "rows", "files", "bytes", "last", "change", "(UTC)"]
    assert len(lines) == 5
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("pattern", ["g*.dim_customers", "gold.dim_customers", "*.dim_*"])
def test_tables_picks_by_schema_name_or_pattern(icegate, pattern):
    assert [t["name"] for t in icegate("tables", pattern, "--json").json["tables"]] == [
        "dim_customers"
    ]


def test_tables_picks_a_whole_schema(icegate):
    assert len(icegate("tables", "silver", "--json").json["tables"]) == 2


def test_tables_of_a_moved_warehouse_still_lists_them(own_shop):
    lake = lake_of(own_shop)
    shutil.move(lake.warehouse, lake.warehouse.with_name("elsewhere"))
    ran = run_icegate(own_shop, "tables")
    assert ran.code == 1
    assert ran.out.count("isn't there") == 4
    assert "restore them" in ran.err
    assert run_icegate(own_shop, "tables", "--json").json["tables"][0]["error"]


def test_show_has_everything_that_metadata_knows(icegate):
    shown = icegate("show", "silver.curated_orders", "--json").json
    assert [c["name"] for c in shown["columns"]] == ["order_id", "total"]
    assert [c["type"] for c in shown["columns"]] == ["string", "bigint"]
    assert [r["name"] for r in shown["refs"]] == ["audit", "main", "released"]
    assert [s["added_rows"] for s in shown["snapshots"]] == [2, 1, 2]
    assert [s["refs"] for s in shown["snapshots"]] == [["audit"], ["main", "released"], []]
    assert len(shown["sample"]["rows"]) == 3
    assert "main, released" in icegate("show", "silver.curated_orders").out


def test_a_view_shows_its_sql_and_asks_for_spark(icegate):
    shown = icegate("show", "gold.who_bought", "--json").json
    assert shown["sql"] == {"spark": "select order_id from silver.curated_orders"}
    assert shown["changed_at"] == "2026-01-01T00:00:00Z"
    assert "select order_id from silver.curated_orders" in icegate("show", "gold.who_bought").out
    ran = icegate("sql", "select * from gold.who_bought")
    assert ran.code == 1
    assert "it is a view" in ran.err
    assert "--spark" in ran.err


def test_an_unknown_table_is_met_with_a_guess(icegate):
    for command in (
        ("show", "silver.curated_order"),
        ("sql", "select * from silver.curated_order"),
    ):
        ran = icegate(*command)
        assert ran.code == 2
        assert "did you mean silver.curated_orders?" in ran.err


def test_sql_reads_main_in_a_folder_with_a_space(icegate):
    ran = icegate(
        "sql",
        "select sum(o.total) as total from lake.silver.curated_orders as o "
        "join gold.dim_customers using (order_id)",
        "--json",
    )
    assert ran.json["rows"] == [{"total": 12}]
    assert ran.json["engine"] == "duckdb"


def test_sql_prints_csv_and_says_that_it_was_cut(icegate):
    query = "select order_id, null as nothing from silver.curated_orders order by order_id"
    ran = icegate("sql", query, "--csv", "--limit", "2")
    assert ran.out == "order_id,nothing\nA,\nB,\n"
    assert "only the first 2 rows" in ran.err


def test_sql_keeps_both_columns_of_one_name(icegate):
    ran = icegate("sql", "select 1 as a, 2 as a", "--json")
    assert ran.json["rows"] == [{"a": 1, "a_2": 2}]


@pytest.mark.parametrize("statement", [
    "insert into silver.empty select * from silver.curated_orders",
    "with a as (select 1) insert into silver.empty select * from a",
    "from silver.curated_orders insert into silver.empty select *",
    "drop table silver.empty",
    "alter table silver.empty create branch b",
    "call lake.system.expire_snapshots('silver.empty')",
    "set spark.sql.ansi.enabled = false",
    "select 1; drop table silver.empty",
    "execute immediate 'drop table silver.empty'",
    "select reflect('java.lang.System', 'exit', 0)",
    "select transform(order_id) using 'cat' from silver.empty",
    "",
])  # fmt: skip
def test_sql_refuses_all_that_does_not_only_read(statement):
    with pytest.raises(ConfigError, match="cannot run"):
        parse(statement)


def test_an_insert_is_refused_before_spark_is_started(icegate):
    for engine in ((), ("--spark",)):
        ran = icegate("sql", "insert into silver.empty values ('A', 1)", *engine)
        assert ran.code == 2
        assert ran.err.startswith("error: cannot run INSERT\n  why: ")
        assert ran.out == ""


@pytest.mark.parametrize("query", [
    "select * from silver.curated_orders.snapshots",
    "select * from silver.curated_orders version as of 1",
    "describe silver.curated_orders",
    "select pmod(total, 3) from silver.curated_orders",
    "select dayofweek(current_date())",
    "select no_such_column from silver.curated_orders",
])  # fmt: skip
def test_what_duckdb_cannot_answer_names_spark(shop, query):
    with pytest.raises(IcegateError, match="--spark"):
        run_on_duckdb(lake_of(shop), parse(query), 10)


@pytest.mark.parametrize("query", [
    "select * from csv.`/etc/hostname`",
    "select * from read_text('/etc/hostname')",
])  # fmt: skip
def test_sql_reads_no_other_files(shop, query):
    with pytest.raises(IcegateError):
        run_on_duckdb(lake_of(shop), parse(query), 10)


def test_duckdb_itself_is_shut_in(shop):
    lake = lake_of(shop)
    database = duck.open_duckdb(lake, [])
    duck.shut_in(database, lake, [])
    with pytest.raises(duckdb.PermissionException):
        database.execute("select * from read_text('/etc/hostname')")
    with pytest.raises(duckdb.Error, match="locked"):
        database.execute("set enable_external_access = true")


@pytest.mark.slow
def test_a_locked_catalog_is_reported_after_its_timeout(locked):
    ran = run_icegate(locked, "tables")
    assert ran.code == 1
    assert "another process has held its lock for over 1 s" in ran.err
    assert run_icegate(locked, "tables", "--json").json["error"]["fix"]


def test_no_project_and_wrong_names_are_usage_errors(tmp_path, icegate):
    assert run_icegate(tmp_path, "tables").code == 2
    assert "cannot find a dbt project" in run_icegate(tmp_path, "tables").err
    assert "cannot find target 'locl'" in icegate("tables", "--target", "locl").err
    assert "aren't in a catalog that this machine reads" in icegate("tables", "-t", "server").err
    assert icegate("tabels").code == 2


def test_a_project_is_found_from_a_folder_below_it(shop):
    (shop / "models").mkdir(exist_ok=True)
    assert run_icegate(shop / "models", "tables").code == 0


def test_light_commands_import_nothing_heavy():
    code = (
        "import sys; from icegate.cli.main import app\n"
        "import icegate.cli.tables, icegate.catalog\n"
        "heavy = {'pyspark', 'dbt.cli', 'pandas', 'duckdb', 'pyarrow', 'sqlglot', 'pyiceberg'}\n"
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
