"""A chart of cost against size or days, both by factors of ten, as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

LEFT, RIGHT, TOP, BOTTOM, HIGH = 80, 660, 70, 400, 460
INK, GREY, GRID = "#1d232b", "#4a525c", "#dfe3e8"
# Colour and dashes: to be told apart without seeing colours, too.
LOOKS = [
    ("#c2362b", "none"), ("#2b6ca3", "7 4"), ("#7a4b9e", "2 4"), ("#1f7a4d", "none"),
    ("#a36a00", "10 4 2 4"),
]  # fmt: skip


@dataclass(frozen=True)
class Axes:
    """What is drawn upwards, in which unit, and what across, with its marks."""

    upwards: str = "CPU seconds of the whole command"
    unit: str = " s"
    across: str = "rows of the table"
    marks: tuple[float, ...] = ()  # else where the points are


@dataclass(frozen=True)
class Line:
    """One line: rows and seconds, or other pairs, both above zero."""

    name: str
    points: list[tuple[float, float]]


def draw(path: Path, title: str, lines: list[Line], axes: Axes = Axes()) -> None:
    """Write the chart."""
    rows, costs = zip(*(point for line in lines for point in line.points), strict=True)
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    first, last = math.log10(min(rows)), math.log10(max(rows))

    def x(number: float) -> float:
        return round(LEFT + (math.log10(number) - first) / (last - first) * (RIGHT - LEFT), 1)

    def y(cost: float) -> float:
        return round(BOTTOM - (math.log10(cost) - low) / (high - low) * (BOTTOM - TOP), 1)

    told = "; ".join(
        f"{line.name}: " + ", ".join(f"{cost:.1f}{axes.unit} at {n:,}" for n, cost in line.points)
        for line in lines
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {HIGH}" role="img" '
        'aria-labelledby="t d" font-family="system-ui, sans-serif">',
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(told)}</desc>',
        f'<rect width="960" height="{HIGH}" rx="10" fill="#ffffff"/>',
        _text(24, 34, title, size=18, weight=700),
        _text(24, 55, f"{axes.upwards}, by {axes.across}"),
        _text(LEFT, HIGH - 18, axes.across),
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<path d="M{LEFT} {at} H{RIGHT}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 8, at + 4, f"{10**power:g}", anchor="end"))
    parts += [
        _text(x(n), BOTTOM + 20, _short(n), anchor="middle")
        for n in axes.marks or sorted(set(rows))
    ]
    heights: list[float] = []
    for line, (colour, dashes) in sorted(
        zip(lines, LOOKS, strict=False), key=lambda both: y(both[0].points[-1][1])
    ):
        path_of = " ".join(f"{x(n)},{y(cost)}" for n, cost in line.points)
        parts.append(
            f'<polyline points="{path_of}" fill="none" stroke="{colour}" stroke-width="2.5" '
            f'stroke-dasharray="{dashes}"/>'
        )
        for n, cost in line.points:
            parts.append(f'<circle cx="{x(n)}" cy="{y(cost)}" r="4" fill="{colour}"/>')
        cost = line.points[-1][1]
        heights.append(max(y(cost) + 4, heights[-1] + 18 if heights else 0))
        parts.append(
            _text(RIGHT + 12, heights[-1], f"{line.name}: {cost:.1f}{axes.unit}", colour=colour)
        )
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _short(number: float) -> str:
    return f"{number / 1e6:g} million" if number >= 1e6 else f"{number:,.0f}"


def _text(
    x: float, y: float, text: str, *, size: int = 13, weight: int = 400, anchor: str = "start",
    colour: str = GREY,
) -> str:  # fmt: skip
    colour = INK if weight > 400 else colour
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
