"""Sensors: readings of devices, and the climate of rooms in the late morning."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from landing_data import text
from landing_data.plan import DAY, Numbers, Plan

DEVICES = 20
SECONDS_BETWEEN = 300
READINGS_PER_DAY = DAY // SECONDS_BETWEEN
ROOMS = ["myroom", "living", "kitchen"]
ROOM_START, ROOM_MINUTES = 10 * 3600 + 5 * 60, 56  # 10:05 to 11:00


def readings(plan: Plan, day: int) -> Any:
    """Return the readings that arrive on ``day``: of 100, one arrives a day late."""
    each_day = DEVICES * READINGS_PER_DAY
    index = numpy.arange(max(0, day - 1) * each_day, (day + 1) * each_day)
    arrives = index // each_day + (plan.roll("reading late", index, 100) == 0)
    index = index[arrives == day]
    device, step = index % DEVICES, index // DEVICES
    second = plan.epoch + step * SECONDS_BETWEEN + plan.roll("reading second", index, 60)
    # A triangle over the day; sine differs between machines in its last bit.
    warmth = 600 - numpy.abs(step % READINGS_PER_DAY - 170) * 600 // 170
    temperature = 1500 + plan.roll("device warmth", device, 1400) + warmth
    humidity = 3000 + plan.roll("device damp", device, 3500)
    battery = 1500 + plan.roll("device battery", device, 8500) - step // 2 % 1500
    return pyarrow.table(
        {
            "device_id": text.join("DEV-", text.digits(device + 1, 4)),
            "reading_at": pyarrow.array(second * 1_000_000, pyarrow.timestamp("us", tz="UTC")),
            "temperature_c": (temperature + plan.roll("warmth", index, 100)) / 100,
            "humidity_pct": (humidity + plan.roll("damp", index, 500)) / 100,
            "battery_pct": battery / 100,
            "latitude": (3700 + plan.roll("latitude", device, 300)) / 100,
            "longitude": (-12200 + plan.roll("longitude", device, 300)) / 100,
        }
    )


def room_data(plan: Plan, day: int) -> Any:
    """Return JSON lines: every room, every minute."""
    index: Numbers = numpy.arange(len(ROOMS) * ROOM_MINUTES)
    room, minute = index % len(ROOMS), index // len(ROOMS)
    which = index + day * len(index)
    return text.join(
        text.record(
            measured_at=text.string(text.moment(plan.epoch + day * DAY + ROOM_START + 60 * minute)),
            current_temperature=text.hundredths(2400 + plan.roll("room warmth", which, 200)),
            current_humidity=text.hundredths(5000 + plan.roll("room damp", which, 400)),
            room_type=text.string(text.pick(ROOMS, room)),
        ),
        "\n",
    )
