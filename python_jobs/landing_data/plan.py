"""What is to be made, and numbers that depend on nothing but the seed and a row's index."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from icegate.errors import ConfigError

DAY = 86_400
EPOCH = date(1970, 1, 1)

Numbers = NDArray[numpy.int64]


@lru_cache(maxsize=4096)
def _salt(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Plan:
    """Sizes and days. Any row can be made alone, so that no other has to be kept in memory."""

    out: Path
    seed: int = 42
    start: date = date(2026, 1, 1)
    days: int = 3
    customers: int = 1_000
    products: int = 500
    orders: int = 5_000
    part_rows: int = 100_000

    def scaled(self, scale: int) -> Plan:
        """Return the plan for a shop with ``scale`` times the orders and customers."""
        plan = replace(
            self,
            orders=self.orders * scale,
            customers=self.customers * scale,
            products=self.products * math.isqrt(scale),
        )
        largest = max(plan.orders, plan.customers, plan.products)
        if largest >= 2**31:
            raise ConfigError(
                f"cannot make {largest:,} rows",
                why="a key has 8 hexadecimal digits, which is enough for 2,147,483,647",
                fix="take a smaller --scale",
            )
        return plan

    @cached_property
    def epoch(self) -> int:
        """Seconds from 1970 to the first day's midnight."""
        return (self.start - EPOCH).days * DAY

    @property
    def block_rows(self) -> int:
        """Rows in memory at once; more aren't faster."""
        return min(self.part_rows, 20_000)

    def folder(self, source: str, day: int) -> Path:
        """Return where ``source`` lands on ``day``, counted from 0."""
        return self.out / source / (self.start + timedelta(days=day)).isoformat()

    @property
    def orders_per_day(self) -> int:
        """New orders of each day but the first, which takes the remainder, too."""
        return self.orders // self.days

    def first_order(self, day: int) -> int:
        """Return the index of the first order that lands on ``day``."""
        return self.orders - (self.days - day) * self.orders_per_day if day else 0

    def roll(self, what: str, index: Numbers, sides: int) -> Numbers:
        """Throw a die for each index; the result is the same whenever and in whatever batch."""
        # splitmix64: plain integers, so the bytes stay the same with the next numpy.
        x: Any = index.astype(numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        x += numpy.uint64(_salt(f"{self.seed}/{what}"))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> numpy.uint64(shift))) * numpy.uint64(factor)
        x ^= x >> numpy.uint64(31)
        rolled: Numbers = (x % numpy.uint64(sides)).astype(numpy.int64)
        return rolled

    def key_number(self, what: str, index: Numbers) -> Numbers:
        """Return a 32-bit number for each index that no other index has."""
        # An odd factor and a shifted xor both can be undone, so no two indexes meet.
        x = (index * 2_654_435_761 + _salt(f"{self.seed}/{what}") % 2**32) % 2**32
        return x ^ (x >> 16)
