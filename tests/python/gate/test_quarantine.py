"""Rows that fail a model's own tests go into quarantine, and the rest is published."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from conftest import ROOT
from typer.testing import CliRunner

from gate.gated import NOT_NULL, GatedProject
from icegate.catalog import list_relations, open_catalog
from icegate.cli.main import app
from icegate.errors import ConfigError
from icegate.gate.quarantine import Wanted, fails_by_one_row, rules_of, shaping
from icegate.gate.quarantined import check_retry

ASIDE = "orders__quarantine"
TWENTY = (*range(1, 20), None)


def aside(project: GatedProject, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the rows in quarantine as another reader sees them, sorted."""
    found = open_catalog(project.lake).load_table(f"{project.schema}.{ASIDE}")
    rows = found.scan().to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)


def ungated(project: GatedProject) -> None:
    project.retarget(gate=False)


@pytest.mark.slow
def test_rows_that_fail_go_aside_and_the_rest_is_published(gated: GatedProject) -> None:
    gated.values("orders", *TWENTY, quarantine=["not_null"])
    gated.model("report", "select id, amount from {{ ref('orders') }}")
    gated.tests(orders=NOT_NULL)
    run = gated.dbt("build")
    assert run.ok, run.text
    assert run.status["not_null_orders_amount"] == "pass"
    assert sorted(gated.seen("orders")) == sorted(gated.seen("report"))
    assert sorted(gated.seen("orders")) == [(n, n) for n in range(1, 20)]
    own = ("icegate_test", "icegate_reason", "icegate_batch", "icegate_release")
    build = gated.events()[-1].build
    assert aside(gated, "id", *own) == [(20, "not_null_orders_amount", "amount is null", "", build)]
    assert f"1 row quarantined in {gated.schema}.{ASIDE}" in run.notes
    assert not gated.is_wap(ASIDE) and gated.builds(ASIDE) == []


@pytest.mark.slow
def test_too_many_hold_the_model_back_and_the_rows_stay(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.values("orders", 1, quarantine=True)
    gated.tests(orders=NOT_NULL)
    assert gated.dbt("build").ok
    assert ASIDE not in gated.tables()  # nothing to keep
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.values("orders", *range(1, 9), None, None, quarantine=True)
    for _ in range(2):  # again, and no row is there twice
        run = gated.dbt("build")
        assert run.status["orders"] == "error", run.text
        assert run.message["orders"].split("\n")[1:4] == [
            "  model orders is held back: 2 of its 10 rows fail its tests",
            "    why: quarantine_max_share is 0.1; not_null_orders_amount: 2",
            f"    fix: look at them: `select * from {gated.schema}.{ASIDE} where icegate_release ="
            " 'nightly'`; repair their source or the model, or allow for more",
        ]
        assert aside(gated, "id", "icegate_release") == [(10, "nightly"), (9, "nightly")]
    assert gated.seen("orders") == [(1, 1)]
    gated.values("orders", *range(1, 9), None, 10, quarantine=True, quarantine_max_rows=0)
    assert "quarantine_max_rows is 0" in gated.dbt("build").message["orders"]
    assert aside(gated, "id") == [(9,)]
    gated.values("orders", *range(1, 11), quarantine=True)
    assert gated.dbt("build").ok and aside(gated, "id") == []


@pytest.mark.slow
def test_each_batch_of_one_build_keeps_its_rows(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    select = "select * from {{ ref('raw') }}"
    newer = "{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}"
    config = {"materialized": "incremental", "quarantine": "not_null", "quarantine_max_share": 0.6}
    gated.model("orders", f"{select} {newer}", **config)
    gated.tests(orders=NOT_NULL)
    days: tuple[int | None, ...] = ()
    for day, last in enumerate((1, 3, 5)):
        days = (*days, None, last)
        gated.values("raw", *days, gate=False)
        assert gated.dbt("build").ok
        assert [id for (id,) in aside(gated, "id")] == [1, 3, 5][: day + 1]
    assert gated.waiting("orders") == [(2, 1), (4, 3), (6, 5)]
    gated.values("raw", *days, None, gate=False)  # this batch is too bad, and comes again
    for _ in range(2):
        assert not gated.dbt("build").ok
        assert [id for (id,) in aside(gated, "id")] == [1, 3, 5, 7]


def retry(project: GatedProject) -> str:
    """Run `icegate quarantine retry` as its user does, and return what it says."""
    command = [sys.executable, "-m", "icegate.cli.main", "quarantine", "retry"]
    where = ["--project-dir", str(project.folder), "--profiles-dir", str(project.folder)]
    table = f"{project.schema}.orders"
    done = subprocess.run([*command, table, *where], capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.long
def test_rows_that_pass_by_now_go_back_once(gated: GatedProject) -> None:
    """A key's newer row stays, whatever was put aside before it; what still fails stays aside."""
    config = {
        "materialized": "incremental",
        "incremental_strategy": "merge",
        "unique_key": "id",
        "quarantine": True,
        "quarantine_max_share": 1,
    }
    allowed = {"accepted_values": {"arguments": {"values": [1, 2], "quote": False}}}
    gated.tests(orders={"amount": ["not_null", allowed]})
    gated.model("report", "select count(*) as orders from {{ ref('orders') }}")

    def day(*rows: str) -> None:
        select = f"select * from values {', '.join(rows)} as t(id, amount)"
        gated.model("orders", select, **config)

    day("(1, 1)", "(2, 9)", "(3, 9)", "(4, null)")
    assert gated.dbt("build").ok
    day("(2, 2)", "(5, 9)")  # 2 is right again, and newer than what was put aside
    assert gated.dbt("build").ok
    assert gated.seen("orders") == [(1, 1), (2, 2)]
    day("(1, 2)")
    said = retry(gated)
    assert f"0 of 3 rows no longer wait in {gated.schema}.{ASIDE}" in said, said
    assert gated.seen("orders") == [(1, 2), (2, 2)]
    allowed["accepted_values"]["arguments"]["values"] = [1, 2, 9]
    gated.tests(orders={"amount": ["not_null", allowed]})
    too_many = "select count(*) from {{ ref('orders') }} having count(*) > 3"
    singular = gated.write("tests/assert_few_orders.sql", too_many)
    said = retry(gated)
    assert "1 held back" in said and "0 of 3 rows no longer wait" in said, said
    assert gated.seen("orders") == [(1, 2), (2, 2)]
    singular.unlink()
    said = retry(gated)
    assert "2 of 3 rows no longer wait" in said, said
    assert gated.seen("orders") == [(1, 2), (2, 2), (3, 9), (5, 9)]
    assert gated.seen("report") == [(4,)]
    assert aside(gated, "id") == [(2,), (3,), (4,), (5,)]
    day("(3, 1)")
    assert "0 of 1 rows no longer wait" in retry(gated)
    assert gated.seen("orders") == [(1, 2), (2, 2), (3, 1), (5, 9)]


@pytest.mark.long
def test_an_append_gets_each_row_back_once(gated: GatedProject) -> None:
    """What is above the model's own mark it reads again by itself: 4 and 5, but not 2."""
    config = {
        "materialized": "incremental",
        "unique_key": "id",
        "quarantine": True,
        "quarantine_max_share": 1,
    }
    rows = "(1, 1), (2, 9), (3, 1), (4, null), (5, 9)"
    select = f"select * from values {rows} as t(id, amount)"
    new = "{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}"
    gated.model("orders", f"{select} {new}", **config)
    allowed = {"accepted_values": {"arguments": {"values": [1], "quote": False}}}
    gated.tests(orders={"amount": ["not_null", allowed]})
    assert gated.dbt("build").ok
    gated.tests(orders={"amount": ["not_null"]})
    for done in ("2 of 3", "0 of 1"):
        assert f"{done} rows no longer wait" in retry(gated)
        assert gated.seen("orders") == [(1, 1), (2, 9), (3, 1), (5, 9)]


BATCHES = {
    "materialized": "incremental",
    "incremental_strategy": "microbatch",
    "event_time": "at",
    "begin": "2026-01-01",
    "batch_size": "day",
    "quarantine": ["not_null"],
    "quarantine_max_share": 0.5,
}
DAYS = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04")
EVENTS = ", ".join(
    f"(timestamp '2026-01-0{day} 0{hour}:00', {hour or 'null'})"
    for day in (1, 2, 3)
    for hour in (0, 1)
)


@pytest.mark.slow
@pytest.mark.long
def test_microbatches_side_by_side_keep_their_own_rows(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    gated.model("events", f"select * from values {EVENTS} as t(at, amount)", event_time="at")
    config = ", ".join(f"{key}={value!r}" for key, value in BATCHES.items())
    gated.write(  # in Python, since that reads all days in each batch
        "models/orders.py",
        f"def model(dbt, spark):\n    dbt.config({config})\n    return dbt.ref('events')\n",
    )
    gated.tests(orders=NOT_NULL)
    for _ in range(2):
        run = gated.dbt("build", *DAYS)
        assert run.ok, run.text
        assert [(at.day, of[:8]) for at, of in aside(gated, "at", "icegate_batch")] == [
            (day, f"2026010{day}") for day in (1, 2, 3)
        ]
        assert len(gated.waiting("orders")) == 3


PYTHON = """
def model(dbt, session):
    dbt.config(materialized="table", quarantine=True, quarantine_max_share=1)
    return session.sql("select id, if(id = 2, null, id) as amount from range(4)")
"""


@pytest.mark.slow
def test_without_the_gate_a_python_model_with_a_schema(gated: GatedProject) -> None:
    ungated(gated)
    gated.write("models/orders.py", PYTHON)
    columns = [
        {"name": "id", "data_type": "bigint"},
        {
            "name": "amount",
            "data_type": "bigint",
            "constraints": [{"type": "not_null"}],
            "data_tests": ["not_null"],
        },
    ]
    entry = {"name": "orders", "config": {"enforce_schema": True}, "columns": columns}
    gated.write_yaml("models/_models.yml", {"models": [entry]})
    run = gated.dbt("build")
    assert run.ok, run.text
    assert gated.seen("orders") == [(0, 0), (1, 1), (3, 3)]
    assert [len(release) for (release,) in aside(gated, "icegate_release")] == [8]


@pytest.mark.slow
@pytest.mark.long
def test_the_quarantine_follows_its_models_columns(gated: GatedProject) -> None:
    ungated(gated)
    gated.tests(orders={"amount": ["not_null"]})
    for columns in (
        "1 as id, cast(null as int) as amount",
        "'two' as id, cast(null as int) as amount, named_struct('a', 1) as more",
        "'three' as id, cast(null as int) as amount, named_struct('a', 1, 'b', 2) as more",
        "cast(null as int) as amount",
    ):
        gated.model("orders", f"select {columns}", quarantine=True, quarantine_max_share=1)
        assert gated.dbt("build").ok
    rows = gated.rows("select icegate_at, * from {s}.orders__quarantine order by 1")
    fields = gated.spark.table(f"{gated.schema}.{ASIDE}").columns
    first, second, third, fourth = (dict(zip(fields, row[1:], strict=True)) for row in rows)
    ints = next(name for name in fields if name.startswith("id_until_"))
    short = next(name for name in fields if name.startswith("more_until_"))
    assert (first[ints], second["id"], third["id"], fourth["id"]) == (1, "two", "three", None)
    assert second[short].asDict() == {"a": 1} and third["more"].asDict() == {"a": 1, "b": 2}


OTHER = "<> 3 + 0 * coalesce(orders.id, 0)"
CASES = {
    "status": [
        {"accepted_values": {"arguments": {"values": ["new", "paid"]}}},
        {"not_null": {"config": {"where": "id < 3"}}},
    ],
    "size": [
        {"accepted_values": {"name": "sizes", "arguments": {"values": [1, 2], "quote": False}}},
        {"dbt_utils.accepted_range": {"name": "at_least", "arguments": {"min_value": 1}}},
        {
            "dbt_utils.accepted_range": {
                "name": "between",
                "arguments": {
                    "min_value": "{{ var('least') }}",
                    "max_value": "id",
                    "inclusive": False,
                },
            }
        },
        {"dbt_utils.expression_is_true": {"name": "column", "arguments": {"expression": OTHER}}},
    ],
    "id": [{"not_null": {"config": {"severity": "warn"}}}],
}
OF_TABLE = {
    "dbt_utils.expression_is_true": {
        "name": "table",
        "arguments": {"expression": "10 / (size - 2) > id"},
        "config": {"where": "size <> 2"},
    }
}
VALUES = "accepted_values_orders_status__new__paid"
REASONS = {
    VALUES: {"status not in ('new', 'paid')"},
    "not_null_orders_status": {"status is null"},
    "sizes": {"size not in (1, 2)"},
    "at_least": {"not size >= 1"},
    "between": {"not size > 0", "not size < id"},
    "column": {f"not(size {OTHER})"},
    "table": {"not(10 / (size - 2) > id)"},
}
ROWS = """
select id, status, size from values
    (1, 'new', 1), (2, null, 0), (3, 'PAID', 2), (4, 'paid', null), (null, 'new', 3), (6, '', -1),
    (null, 'new', 1)
    as t(id, status, size)
"""


@pytest.mark.slow
def test_it_takes_the_rows_that_the_stock_tests_return(gated: GatedProject) -> None:
    ungated(gated)
    installed = gated.write("dbt_packages/dbt_utils/dbt_project.yml", "name: dbt_utils").parent
    for name in ("accepted_range", "expression_is_true"):
        source = ROOT / "standins" / "dbt_utils" / "macros" / f"test_{name}.sql"
        gated.write(f"{installed}/macros/{source.name}", source.read_text())
    tests = {"data_tests": {"+store_failures": True, "+schema": "failed"}}
    gated.configure(vars={"least": 0}, **tests)
    columns = [{"name": name, "data_tests": listed} for name, listed in CASES.items()]
    entry = {"name": "orders", "columns": columns, "data_tests": [OF_TABLE]}
    gated.write_yaml("models/_models.yml", {"models": [entry]})
    gated.model("orders", ROWS)
    run = gated.dbt("build")
    failed = {name for name, status in run.status.items() if status == "fail"}
    assert failed == REASONS.keys(), run.status
    stock = {
        name: {row.asDict().get("value_field", row.asDict().get("id")) for row in rows}
        for name in failed
        for rows in [gated.spark.table(f"{gated.schema}_failed.{name}").collect()]
    }
    gated.model("orders", ROWS, quarantine=True, quarantine_max_share=1)
    run = gated.dbt("build")
    assert {*run.status.values()} == {"success", "pass", "warn"}, run.status  # none is left to fail
    assert gated.seen("orders") == [(4, "paid", None), (None, "new", 1)]
    ours: dict[str, set[Any]] = {name: set() for name in failed}
    for id, status, size, text in aside(gated, "id", "status", "size", "icegate_reason"):
        values = {VALUES: status, "sizes": size}  # whose test returns values instead of rows
        for name, reasons in REASONS.items():
            ours[name] |= {values.get(name, id)} if {*text.split("; ")} & reasons else set()
    assert ours == stock


def conditions(kind: str, where: str = "", **kwargs: Any) -> list[str]:
    return [rule.condition for rule in rules_of("t", kind, {"column_name": "a", **kwargs}, where)]


def test_conditions_are_those_of_the_tests_own_sql() -> None:
    assert conditions("not_null") == ["a is null"]
    assert conditions("not_null", where="b > 1") == ["if((b > 1), (a is null), false)"]
    assert conditions("accepted_values", values=["x", 1]) == ["a not in ('x', '1')"]
    assert conditions("accepted_values", values=[1], quote=False) == ["a not in (1)"]
    assert conditions("accepted_range", min_value=0) == ["not a >= 0"]
    assert conditions("accepted_range", min_value=0, max_value="b", inclusive=False) == [
        "not a > 0",
        "not a < b",
    ]
    assert conditions("expression_is_true", expression="> b") == ["not(a > b)"]


def test_a_test_that_lets_rows_pass_keeps_them() -> None:
    usual = {"severity": "ERROR", "error_if": "!= 0", "warn_if": "!= 0", "fail_calc": "count(*)"}
    assert fails_by_one_row(usual)
    for other in ({"severity": "warn"}, {"error_if": ">10"}, {"fail_calc": "sum(n)"}):
        assert not fails_by_one_row({**usual, **other})


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"quarantine": ["not_nul"]}, "did you mean 'not_null'?"),
        ({"quarantine": ["unique"]}, "they judge each row on its own"),
        ({"quarantine": True, "quarantine_max_share": 10}, "from 0 to 1"),
        ({"quarantine": True, "quarantine_max_rows": "few"}, "cannot use quarantine_max_rows"),
    ],
)
def test_a_config_that_cannot_be_right(config: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("?", r"\?")):
        Wanted.of("orders", config)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"materialized": "table"}, "each build computes all of its rows anew"),
        ({"materialized": "incremental", "incremental_strategy": "insert_overwrite"}, "beside"),
        ({"materialized": "incremental"}, "might come twice"),
        ({"materialized": "incremental", "unique_key": "id"}, "before a test has"),
    ],
)
def test_rows_that_cannot_go_back(config: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_retry({"name": "orders", "config": config}, is_gated=False)


def test_a_table_that_is_no_quarantine_stays_as_it_is() -> None:
    with pytest.raises(ConfigError, match="another table"):
        shaping("s.orders__quarantine", [("id", "int")], [("id", "int")], "nightly")
    with pytest.raises(ConfigError, match="has a column icegate_at"):
        shaping("s.orders__quarantine", [], [("ICEGATE_AT", "int")], "nightly")


@pytest.mark.slow
def test_a_person_lists_and_drops(gated: GatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    def icegate(*args: str) -> str:
        where = ["--project-dir", str(gated.folder), "--profiles-dir", str(gated.folder)]
        done = CliRunner().invoke(app, ["quarantine", *args, *where])
        return f"{done.stdout}{done.exception if done.exit_code else ''}"

    assert icegate("list") == "nothing is in quarantine\n"
    gated.values("orders", *TWENTY, quarantine=True)
    gated.tests(orders=NOT_NULL)
    for name in ("one", "two"):
        monkeypatch.setenv("ICEGATE_RELEASE", name)
        assert gated.dbt("build").ok
    table, header = f"{gated.schema}.{ASIDE}", "build  rows  waiting  tests"
    # Neither is published, and so their models will read these rows again.
    listed = icegate("list", f"{gated.schema}.orders")
    assert header in listed and listed.count(f"{table}  ") == 2
    assert "one       1        0  not_null_orders_amount" in listed
    assert f"did you mean {table}?" in icegate("list", "orders")
    assert f"did you mean {table}?" in icegate("drop", "orders", "--yes")
    named = f"{gated.schema}.orders"
    assert "--yes is missing" in icegate("drop", named)
    assert "of the builds one, two" in icegate("drop", named, "--build", "three", "--yes")
    assert icegate("drop", named, "--build", "one", "--yes") == f"dropped 1 rows from {table}\n"
    assert aside(gated, "icegate_release") == [("two",)]
    assert icegate("drop", named, "--yes") == f"dropped 1 rows from {table}\n"
    assert ASIDE not in {entry.name for entry in list_relations(gated.lake)}
