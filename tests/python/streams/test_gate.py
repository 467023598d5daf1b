"""A stream behind the gate: what passes its tests is published every so often, the rest waits."""

from __future__ import annotations

from typing import Any

import pytest

from icegate.errors import ConfigError
from icegate.gate.build import is_alive
from streams.tills import Tills

pytestmark = pytest.mark.slow

MODEL = """
select cast(null as int) as id, cast(null as string) as kind, cast(null as string) as currency,
    cast(null as string) as source_topic, cast(null as int) as source_partition,
    cast(null as bigint) as source_offset, cast(null as timestamp) as source_time
where false
"""
COLUMNS = ("id int", "kind", "currency")
KINDS = {"accepted_values": {"arguments": {"values": ["sale", "refund"]}}}


@pytest.fixture
def gated(tills: Tills) -> Tills:
    """A stream whose table's tests are: a currency is there, else all waits; a kind is known."""
    config = {"materialized": "incremental", "quarantine": ["accepted_values"]}
    tills.model("sales", MODEL, **config)
    tills.model("report", "select id, currency from {{ ref('sales') }}")
    tills.tests(sales={"currency": ["not_null"], "kind": [KINDS]}, report={"id": ["not_null"]})
    tills.stream(tills.route("sales", *COLUMNS), publish={"minutes": 0.01})
    compiled = tills.dbt("compile")
    assert compiled.ok, compiled.text
    return tills


def sale(id: int, kind: str = "sale", currency: str | None = "EUR") -> dict[str, Any]:
    return {"id": id, "kind": kind, "currency": currency}


def held(tills: Tills) -> list[str]:
    return tills.told().get("held") or []


def ids(tills: Tills) -> list[int]:
    return tills.read("sales", "id") if "sales" in tills.tables() else []


def on_branch(tills: Tills) -> list[int]:
    return sorted(row[0] for row in tills.waiting("sales"))


def test_a_fault_in_the_middle_holds_back_until_it_is_mended(gated: Tills) -> None:
    with gated.running() as failed:
        gated.drop(sale(1), sale(2, kind="gift"), sale(3, kind="refund"))
        gated.wait(lambda: ids(gated) == [1, 3])
        gated.wait(lambda: gated.told().get("release") == 1)
        assert gated.errors() == [
            "it fails the test accepted_values_sales_kind__sale__refund: "
            "kind not in ('sale', 'refund')"
        ]
        gated.drop(sale(4), sale(5, currency=None))
        gated.wait(lambda: held(gated))
        assert "not_null_sales_currency" in held(gated)[0]
        gated.drop(sale(6))
        gated.wait(lambda: on_branch(gated) == [1, 3, 4, 5, 6])
        assert ids(gated) == [1, 3] and not failed
        (build,) = gated.builds("sales")
        assert is_alive(gated.lake, build)
        mended = f"delete from {{s}}.sales.branch_build_{build} where currency is null"
        gated.sql(mended)
        gated.wait(lambda: ids(gated) == [1, 3, 4, 6])
        gated.wait(lambda: gated.told().get("release") == 2 and not held(gated))
        gated.drop(sale(7))
        gated.wait(lambda: ids(gated) == [1, 3, 4, 6, 7])
        assert not failed
    assert gated.told()["state"] == "stopped" and gated.builds("sales") == []
    kinds = [(event.event, event.command) for event in gated.events()]
    assert ("published", "icegate stream") in kinds and ("held", "icegate stream") in kinds


def test_what_is_held_back_may_be_accepted_and_goes_on(gated: Tills) -> None:
    gated.drop(sale(1))
    gated.once()
    gated.drop(sale(2), sale(3, currency=None))
    gated.once()
    assert ids(gated) == [1] and on_branch(gated) == [1, 2, 3]
    (build,) = gated.builds("sales")
    shown = gated.icegate("status")
    assert build in shown.output and "not_null_sales_currency" in shown.output
    accept = ["--accept", "not_null_sales_currency", "--reason", "a till without one"]
    done = gated.icegate("release", "publish", build, *accept)
    assert done.exit_code == 0, done.output
    assert ids(gated) == [1, 2, 3] and gated.builds("sales") == []
    gated.drop(sale(4))
    gated.once()  # the next release has the same fault, which was accepted for the last one only
    assert ids(gated) == [1, 2, 3] and on_branch(gated) == [1, 2, 3, 4]
    gated.sql("delete from {s}.sales.branch_build_" + gated.builds("sales")[0] + " where id = 3")
    gated.once()
    assert ids(gated) == [1, 2, 4]


def test_a_rejected_build_is_gone_and_the_stream_goes_on(gated: Tills) -> None:
    gated.drop(sale(1))
    gated.once()
    gated.drop(sale(2, currency=None))
    gated.once()
    (build,) = gated.builds("sales")
    done = gated.icegate("release", "reject", build, "--reason", "a till's fault")
    assert done.exit_code == 0, done.output
    assert ids(gated) == [1] and gated.builds("sales") == []
    gated.drop(sale(3))
    gated.once()
    assert ids(gated) == [1, 3]


def test_the_same_branch_goes_on_after_a_crash(gated: Tills) -> None:
    gated.drop(sale(1))
    gated.once()
    at_once = {"minutes": 1e-6}  # also between the crash and its end
    gated.stream(gated.route("sales", *COLUMNS), publish=at_once)
    for n, told in enumerate((False, True), 2):
        gated.drop(sale(n))
        gated.cut_short(gated.table("sales"), told)
        (build,) = gated.builds("sales")
        assert ids(gated) == [*range(1, n)] and on_branch(gated) == [*range(1, n + 1)]
        assert not is_alive(gated.lake, build)
        gated.once()
        assert ids(gated) == [*range(1, n + 1)] and gated.events()[-1].build == build


def test_builds_and_maintenance_are_in_nobodys_way(gated: Tills) -> None:
    gated.drop(sale(1))
    gated.once()
    built = gated.dbt("build")
    assert built.ok, built.text
    assert gated.read("report", "id") == [1]
    gated.drop(sale(2, currency=None))
    with gated.running() as failed:
        gated.wait(lambda: held(gated))
        gated.drop(sale(3))
        gated.wait(lambda: on_branch(gated) == [1, 2, 3])
        built = gated.dbt("build")
        assert built.ok, built.text
        assert gated.read("report", "id") == [1] and ids(gated) == [1]
        done = gated.icegate("maintain")
        assert done.exit_code == 0, done.output
        gated.drop(sale(4))
        gated.wait(lambda: on_branch(gated) == [1, 2, 3, 4])
        (build,) = gated.builds("sales")
        gated.sql(f"delete from {{s}}.sales.branch_build_{build} where currency is null")
        gated.wait(lambda: ids(gated) == [1, 3, 4])
        assert not failed
    assert gated.dbt("build").ok and gated.read("report", "id") == [1, 3, 4]


def test_what_dbt_does_meanwhile_leaves_a_stream_its_tests(gated: Tills) -> None:
    with gated.running() as failed:
        assert gated.dbt("parse").ok  # as at the begin of each command: no query in its manifest
        gated.drop(sale(1))
        gated.wait(lambda: ids(gated) == [1])
        gated.tests(sales={"currency": [{"not_null": {"config": {"where": "id > 2"}}}]})
        assert gated.dbt("parse").ok
        gated.drop(sale(2, currency=None))
        gated.wait(lambda: any("dbt hasn't compiled it" in why for why in held(gated)))
        assert ids(gated) == [1]
        assert gated.dbt("compile").ok
        gated.wait(lambda: ids(gated) == [1, 2])
        gated.drop(sale(3, currency=None))
        gated.wait(lambda: any("not_null_sales_currency" in why for why in held(gated)))
        assert ids(gated) == [1, 2] and not failed


def test_replayed_records_go_through_the_gate(gated: Tills) -> None:
    gated.drop(sale(1), sale(2, kind="gift"))
    gated.once()
    assert ids(gated) == [1]
    kinds = {"accepted_values": {"arguments": {"values": ["sale", "refund", "gift"]}}}
    gated.tests(sales={"currency": ["not_null"], "kind": [kinds]})
    assert gated.dbt("compile").ok
    assert gated.new_run().replay() == {"replayed": 1, "waiting": 0}
    assert ids(gated) == [1, 2] and gated.errors() == []


def test_a_table_that_no_model_makes_is_refused(gated: Tills) -> None:
    gated.stream(gated.route("visits", "id int"), publish={"minutes": 1})
    gated.drop({"id": 1})
    with pytest.raises(ConfigError, match=r"cannot publish t_\w+\.visits by its tests") as caught:
        gated.once()
    assert "no model of this name" in str(caught.value)
    assert gated.tables() == set()
