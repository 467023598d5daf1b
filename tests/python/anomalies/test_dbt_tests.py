"""The dbt tests of anomalies, through real builds behind the gate."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from typing import Any

import pytest
from audits.test_command import audit
from conftest import ROOT
from gate.conftest import gated as gated
from gate.gated import GatedProject

pytestmark = pytest.mark.slow

ROWS = "select id, {amount} as amount, current_timestamp() as ordered_at from range({rows})"


@pytest.fixture
def shop(gated: GatedProject) -> GatedProject:
    """A gated project with this repository's tests of anomalies, and a model to append to."""
    for name in ("volume_anomaly", "freshness_anomaly", "null_rate_anomaly", "schema_changed"):
        file = gated.folder / "macros" / f"{name}.sql"
        file.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / "generic" / f"{name}.sql", file)
    gated.retarget(audits=True)
    return gated


def load(shop: GatedProject, rows: int, amount: str = "id % 50", **config: Any) -> Any:
    """Build the model with so many more rows, and its tests."""
    config = {"materialized": "incremental", "incremental_strategy": "append", **config}
    shop.model("orders", ROWS.format(rows=rows, amount=amount), **config)
    shop.model("report", "select count(*) as orders from {{ ref('orders') }}")
    return shop.dbt("build")


def known(shop: GatedProject) -> None:
    """Give the model five loads, the first by a build, the others by another writer."""
    assert load(shop, 1000).ok
    now = datetime.now(timezone.utc)
    for rows in (1010, 990, 1005, 1000):
        new = ({"id": id, "amount": id % 50, "ordered_at": now} for id in range(rows))
        shop.append("orders", *new)


def place(shop: GatedProject, severity: str = "error", **tests: dict[str, Any]) -> None:
    config = {"severity": severity}
    placed = [{name: {"arguments": args, "config": config}} for name, args in tests.items()]
    shop.write_yaml("models/_models.yml", {"models": [{"name": "orders", "data_tests": placed}]})


def compiled(shop: GatedProject, test: str) -> str:
    manifest = json.loads((shop.folder / "target" / "manifest.json").read_text())
    return next(n["compiled_code"] for n in manifest["nodes"].values() if n["name"] == test)


def test_a_bad_batch_is_held_back(shop: GatedProject) -> None:
    place(shop, volume_anomaly={"min_history": 3}, null_rate_anomaly={"min_history": 3})
    known(shop)
    assert len(shop.seen("orders")) == 5005
    run = load(shop, 5200)
    assert run.status["volume_anomaly_orders_3"] == "fail", run.text
    assert run.status["report"] == "skipped"
    assert len(shop.seen("orders")) == 5005
    assert "select 'volume' as kind" in compiled(shop, "volume_anomaly_orders_3")
    assert "5,200 rows came on" in compiled(shop, "volume_anomaly_orders_3")
    run = load(shop, 1003)
    assert run.ok and len(shop.seen("orders")) == 6008, run.text
    run = load(shop, 1000, amount="case when id % 3 = 0 then null else id % 50 end")
    assert run.status["null_rate_anomaly_orders_3"] == "fail", run.text
    assert "33% of amount is missing" in compiled(shop, "null_rate_anomaly_orders_3")
    assert len(shop.seen("orders")) == 6008


def test_without_history_it_says_so(shop: GatedProject) -> None:
    place(shop, volume_anomaly={}, freshness_anomaly={}, null_rate_anomaly={}, schema_changed={})
    run = load(shop, 1000)
    assert run.ok, run.text
    log = (shop.folder / "logs" / "dbt.log").read_text()
    for test, kind in (("volume_anomaly_orders_", "how many rows are usual"),
                       ("freshness_anomaly_orders_", "how often new rows are usual"),
                       ("null_rate_anomaly_orders_", "how many values are usually missing"),
                       ("schema_changed_orders_", "whether the columns changed")):  # fmt: skip
        assert run.status[test] == "pass"
        assert f"-- not enough history: It's too early to say {kind}" in compiled(shop, test)
        assert f"not enough history: {shop.schema}.orders: It's too early to say {kind}" in log


def test_by_default_it_only_warns_and_no_spark_is_asked(shop: GatedProject) -> None:
    tests = [{"volume_anomaly": {"arguments": {"min_history": 3}}}]
    described = {"models": [{"name": "orders", "data_tests": tests}]}
    shop.write_yaml("models/_models.yml", described)
    known(shop)
    run = load(shop, 9000)
    assert (run.ok, run.status["volume_anomaly_orders_3"]) == (True, "warn")
    assert len(shop.seen("orders")) == 14_005
    results = json.loads((shop.folder / "target" / "run_results.json").read_text())["results"]
    (told,) = [r for r in results if "volume_anomaly" in r["unique_id"]]
    assert told["adapter_response"]["proof"] == "scan (duckdb)"  # of a literal
    assert told["failures"] == 1
    run = load(shop, 1000)
    assert run.status["volume_anomaly_orders_3"] == "pass"  # not the answer of before


def test_columns_that_a_build_changes(shop: GatedProject) -> None:
    place(shop, schema_changed={}, volume_anomaly={"min_history": 3})
    known(shop)
    # Columns go from a table that is built beside, whose own history has just begun.
    sync = {"on_schema_change": "sync_all_columns", "allow_destructive": True}
    load(shop, 9000, amount="1 as code, id % 50", **sync)
    shop.write("models/orders.sql", (shop.folder / "models/orders.sql").read_text().replace(
        "id % 50 as amount,", ""))  # fmt: skip
    run = shop.dbt("build")
    assert run.status["schema_changed_orders_"] == "fail", run.text
    sql = compiled(shop, "schema_changed_orders_")
    assert "amount is gone" in sql, sql
    assert run.status["volume_anomaly_orders_3"] == "fail", run.text
    assert "9,000 rows came on" in compiled(shop, "volume_anomaly_orders_3")
    assert "amount" in shop.columns("orders") and len(shop.seen("orders")) == 5005


def test_a_rehearsal_is_not_judged(shop: GatedProject) -> None:
    place(shop, volume_anomaly={"min_history": 3})
    known(shop)
    run = shop.dbt("build", "--empty")
    assert run.ok, run.text
    assert "-- not judged" in compiled(shop, "volume_anomaly_orders_3")


def test_what_cannot_be_looked_at(shop: GatedProject) -> None:
    place(shop, null_rate_anomaly={"column_name": "amout"}, freshness_anomaly={"event_at": "id"})
    run = load(shop, 10)
    said = run.text
    assert "cannot test column 'amout' of" in said and "did you mean 'amount'" in said, said
    assert "its time columns are: ordered_at" in said
    run = load(shop, 10, materialized="view")
    assert "it is a view" in run.text, run.text
    test = {"volume_anomaly": {"config": {"where": "id > 3"}}}
    shop.write_yaml("models/_models.yml", {"models": [{"name": "orders", "data_tests": [test]}]})
    assert "`where` makes a query of it" in load(shop, 10).text


def test_a_table_that_is_not_there(shop: GatedProject) -> None:
    place(shop, volume_anomaly={"min_history": 3})
    shop.model("orders", ROWS.format(rows=3, amount="id"))
    assert shop.dbt("compile").ok  # as `dbt docs generate` does before the first build
    assert "-- not judged" in compiled(shop, "volume_anomaly_orders_3")
    assert shop.dbt("test").status == {"volume_anomaly_orders_3": "error"}


def test_the_command_looks_again(shop: GatedProject) -> None:
    place(shop, "warn", volume_anomaly={"min_history": 3})
    known(shop)
    assert load(shop, 1003).ok
    assert load(shop, 9000).ok

    def results(*args: str) -> list[str]:
        ran = audit(shop, *args, "--json", "--select", "volume_*")
        return [f"{t['result']} {t['failures']}" for t in json.loads(ran.stdout)["tests"]]

    assert results() == ["warn 1"]
    assert results("2") == ["pass 0"]  # the release before
    load(shop, 1000)
    assert results() == ["pass 0"]
    for id in range(1):
        shop.append("orders", {"id": id, "amount": 1, "ordered_at": None})
    assert results() == ["warn 1"]  # of what came after the build
