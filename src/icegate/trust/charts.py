"""Pictures as SVG, which say in words what they show: rows over time, and lineage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup, escape

from icegate.trust import words

WIDTH, HEIGHT, LEFT, BELOW = 640, 150, 64, 26
BOX, ROW, GAP, SHOWN = 210, 30, 80, 8


def rows_over_time(points: Sequence[tuple[datetime, int]], now: datetime) -> Markup:
    """Return a step line of a table's rows after each change; nothing for fewer than two."""
    if len(points) < 2:
        return Markup()
    first, last = points[0][0], max(points[-1][0], points[0][0])
    span = (last - first).total_seconds() or 1.0
    top = max(rows for _, rows in points) or 1
    places = [
        (
            LEFT + (at - first).total_seconds() / span * (WIDTH - LEFT - 8),
            8 + (1 - rows / top) * (HEIGHT - BELOW - 8),
        )
        for at, rows in points
    ]
    x, y = places[0]
    path = f"M{x:.1f},{y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_said(at, rows, now)}</title></circle>'
        for (x, y), (at, rows) in zip(places, points, strict=True)
    )
    base = HEIGHT - BELOW
    told = (
        f"Rows over time: {points[0][1]:,} after the change of {words.day(first, now)}, "
        f"{points[-1][1]:,} after that of {words.day(last, now)}, {top:,} at most."
    )
    ends = (
        f'<text x="{LEFT - 6}" y="12" text-anchor="end">{top:,}</text>'
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{_day(first)}</text>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{_day(last)}</text>'
    )
    return _svg(
        told,
        WIDTH,
        HEIGHT,
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 8}" y1="{base}" y2="{base}"/>'
        f'<path class="line" d="{path}"/>{dots}{ends}',
    )


def lineage(name: str, above: Sequence[str], below: Sequence[str]) -> Markup:
    """Return a picture of a table, what it is made of, and what is made of it."""
    sides = [words.cut(above, SHOWN), [name], words.cut(below, SHOWN)]
    rows = max(map(len, sides))
    height, width = rows * ROW + 10, 3 * BOX + 2 * GAP
    middle = height / 2
    drawn = []
    for column, names in enumerate(sides):
        x = column * (BOX + GAP)
        for place, text in enumerate(names):
            y = middle + (place - (len(names) - 1) / 2) * ROW
            kind = "self" if column == 1 else "other"
            drawn.append(
                f'<rect class="{kind}" x="{x + 1}" y="{y - 12:.1f}" width="{BOX - 2}" height="24" '
                f'rx="5"/><text x="{x + BOX / 2}" y="{y + 4:.1f}" text-anchor="middle">'
                f"{escape(_short(text))}<title>{escape(text)}</title></text>"
            )
            if column != 1:
                a, b = ((x + BOX, y), (BOX + GAP, middle)) if column == 0 else (
                    (2 * BOX + GAP, middle), (x, y))  # fmt: skip
                turn = (a[0] + b[0]) / 2
                drawn.append(
                    f'<path class="edge" d="M{a[0]},{a[1]:.1f}C{turn},{a[1]:.1f} {turn},{b[1]:.1f}'
                    f' {b[0]},{b[1]:.1f}"/>'
                )
    made, makes = words.listed(above) or "nothing", words.listed(below) or "nothing"
    told = f"{name} is made of {made}; of it is made {makes}."
    return _svg(told, width, height, "".join(drawn), "lineage")


def _svg(told: str, width: float, height: float, drawn: str, kind: str = "chart") -> Markup:
    """Return the picture; its size goes with the page's, the words are for who doesn't see it."""
    text = escape(told)
    return Markup(
        f'<svg class="{kind}" role="img" aria-label="{text}" viewBox="0 0 {width} {height:.0f}" '
        f'preserveAspectRatio="xMinYMid meet">{drawn}</svg>'
    )


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:29]}…"


def _day(at: datetime) -> str:
    return f"{at.day} {at:%b}"


def _said(at: datetime, rows: int, now: datetime) -> str:
    return f"{words.moment(at, now)}: {words.count(rows, 'row')}"
