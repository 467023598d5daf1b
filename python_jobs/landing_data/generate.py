"""Makes all days of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from icegate.errors import ConfigError, LandingError
from landing_data import commerce, sensors
from landing_data.faults import Fault, orders_needed
from landing_data.files import DayFolder, Report, check_target
from landing_data.plan import Plan

SOURCES = ("shop", "sensors")


def generate(plan: Plan, faults: Sequence[Fault], report: Report) -> list[dict[str, Any]]:
    """Write the landing files; return what was planted in the last day, and where it shows."""
    _check(plan, faults)
    planted: list[dict[str, Any]] = []
    try:
        for day in range(plan.days):
            for source in SOURCES:
                folder = DayFolder(plan.folder(source, day), plan.part_rows, report)
                for table, blocks in _tables(plan, source, day):
                    folder.add(table, blocks)
                here = [f for f in faults if f.source == source and day == plan.days - 1]
                planted += _close(folder, plan, here)
    except OSError as error:
        raise LandingError(
            f"cannot write landing data to {plan.out}",
            why=str(error),
            fix="make room or get the right to write, and start again; no half day has a marker",
        ) from error
    return planted


def _tables(plan: Plan, source: str, day: int) -> Iterable[tuple[str, Iterable[Any]]]:
    if source == "sensors":
        return [
            ("readings", [sensors.readings(plan, day)]),
            ("room_data", [sensors.room_data(plan, day)]),
        ]
    return [
        ("customers", commerce.customers(plan, day)),
        ("products", commerce.products(plan, day)),
        ("orders", commerce.orders(plan, day)),
    ]


def _close(folder: DayFolder, plan: Plan, faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """Plant what the sender does wrong, measure, plant what goes wrong on the way, and mark."""
    where = {f.name: f.plant(folder, plan) for f in faults if not f.on_the_way}
    folder.measure()
    where |= {f.name: f.plant(folder, plan) for f in faults if f.on_the_way}
    folder.mark()
    place = f"{folder.path.parent.name}/{folder.path.name}"
    return [
        {
            "fault": fault.name,
            "where": f"{place}: {where[fault.name]}",
            "caught_by": fault.caught_by,
            "shows": fault.shows,
        }
        for fault in faults
    ]


def _check(plan: Plan, faults: Sequence[Fault]) -> None:
    if not date(1970, 1, 1) <= plan.start <= date(2200, 1, 1):
        raise ConfigError(
            f"cannot start on {plan.start}",
            why="orders reach back 90 days, and computers count time from 1970",
            fix="take a --start between 1970-01-01 and 2200-01-01",
        )
    last_day = plan.orders - plan.first_order(plan.days - 1)
    needed = orders_needed(faults)
    if last_day < needed:
        raise ConfigError(
            f"cannot plant the faults in {last_day} orders",
            why=f"the last day needs {needed} of them",
            fix="raise --orders",
        )
    check_target(plan.out, SOURCES)
