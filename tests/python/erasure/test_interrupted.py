"""An erasure that is stopped, or overtaken, ends as a whole when it's run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from erasure.forgetting import CUSTOMER, KEY, OTHERS, Forgetting
from icegate.erasure import work as module
from icegate.erasure.work import Work
from icegate.errors import GateError

pytestmark = pytest.mark.slow
STAGES = ("check_idle", "take_out", "_on_branch", "_publish", "clean", "go_on", "release", "expire",
          "sweep")  # fmt: skip


def stopped(monkeypatch: pytest.MonkeyPatch, stage: str) -> Callable[[], None]:
    """Let the work stop as by Ctrl-C when a stage has done its own; return what undoes that."""
    real: Any = getattr(Work, stage)

    def stop(*given: Any, **named: Any) -> None:
        real(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, stage, stop)
    return lambda: monkeypatch.setattr(Work, stage, real)


def test_stopped_anywhere(lake_to_clean: Forgetting, monkeypatch: pytest.MonkeyPatch) -> None:
    order: dict[str, Any] = {"order_id": {"subject_key": "customer/order"}}
    how: dict[str, Any] = {"mode": "merge-on-read", "by": "customer_id"}
    orders = "customer_id string, order_id string"
    lake_to_clean.table("s.bought", orders, {**CUSTOMER, **order}, **how)
    lake_to_clean.table("s.lines", "order_id string, n int", order)  # these expire last
    for number, stage in enumerate(STAGES):
        mine = f"O-{number}"
        lake_to_clean.sql(
            f"insert into s.bought values ('{KEY}', '{mine}'), ('{OTHERS[0]}', 'O-x')",
            f"insert into s.lines values ('{mine}', 1), ('O-x', 2)",
            f"delete from s.bought where order_id = '{mine}'",
        )
        again = stopped(monkeypatch, stage)
        with pytest.raises(KeyboardInterrupt):
            lake_to_clean.erase()
        again()
        _, found, _ = lake_to_clean.erase()
        assert found.is_clean, (stage, found.held)
        assert lake_to_clean.places() == lake_to_clean.places(mine) == [], stage
    assert lake_to_clean.rows("select * from s.bought") == [(OTHERS[0], "O-x")] * len(STAGES)
    assert lake_to_clean.rows("select * from s.lines") == [("O-x", 2)] * len(STAGES)
    assert not [*(lake_to_clean.lake.home / "erasures").glob("*.open.json")]


def test_overtaken(lake_to_clean: Forgetting, monkeypatch: pytest.MonkeyPatch) -> None:
    lake_to_clean.customers()
    real, left = module.in_a_gap, [1]

    def overtaken(lake: Any, what: str, run: Any) -> Any:
        if left[0]:
            left[0] -= 1
            lake_to_clean.sql(f"insert into s.customers values ('{KEY}', 'came meanwhile')")
        return real(lake, what, run)

    monkeypatch.setattr(module, "in_a_gap", overtaken)
    lake_to_clean.forget()
    assert len(lake_to_clean.rows("select * from s.customers")) == len(OTHERS)
    left[0] = 100
    lake_to_clean.sql(f"insert into s.customers values ('{KEY}', 'once more')")
    with pytest.raises(GateError) as error:
        lake_to_clean.erase()
    assert "readers have what they had" in str(error.value)
    assert lake_to_clean.refs("s.customers") == {"main", "icegate_erasure"}
    left[0] = 0
    lake_to_clean.forget()
