"""What a run would cost, by a price file that people edit."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

import yaml
from _bench import refuse


@dataclass(frozen=True)
class Prices:
    """Prices of a run's CPU and of what it reads; 0 where that costs nothing."""

    currency: str
    cpu_hour: float
    gb_read: float

    def of(self, cpu_s: float, read_bytes: int) -> float:
        return self.cpu_hour * cpu_s / 3600 + self.gb_read * read_bytes / 1e9


def read_prices(path: Path) -> Prices:
    """Read a price file; anything in it that isn't a price ends the program."""
    names = [field.name for field in fields(Prices)]
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        _refuse(path, f"it can't be read: {error}", names)
    if not isinstance(found, dict):
        _refuse(path, "it isn't a list of `name: price`", names)
    for key in found:
        if key not in names:
            _refuse(path, f"`{key}` is no price that is known", names)
    for key in names:
        if key not in found:
            _refuse(path, f"`{key}` is missing", names)
        if key != "currency" and not _is_price(found[key]):
            _refuse(path, f"`{key}` is {found[key]!r}, and a price is a number from 0 up", names)
    return Prices(str(found["currency"]), float(found["cpu_hour"]), float(found["gb_read"]))


def _is_price(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


def _refuse(path: Path, why: str, names: list[str]) -> NoReturn:
    refuse(f"cannot use the prices of {path}", why, fix=f"give it {', '.join(names)}")
