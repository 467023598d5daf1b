"""A picture of what readers saw: a lane for each side, its builds below, seconds to the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from _reader import AFTER, BAD, BEFORE, NONE, TORN

LEFT, RIGHT, TOP, STEP, HIGH = 158, 972, 78, 76, 32
TITLE = "What readers of main see when a batch has rows that fail a test"
DARK, GREY = "#1d232b", "#4a525c"
DASHED = f'stroke="{GREY}" stroke-width="1.5" stroke-dasharray="4 3"'
BUILD = 'rx="3" fill="#eceef1" stroke="#8a8f98"'
# Fill, what is drawn over it, colour of text: to be told apart without seeing colours, too.
LOOKS = {
    NONE: ("#ffffff", "none", DARK),
    BAD: ("#c2362b", "url(#stripes)", "#ffffff"),
    TORN: ("#f7c662", "url(#dots)", DARK),
    BEFORE: ("#dbe7f5", "none", DARK),
    AFTER: ("#2b6ca3", "none", "#ffffff"),
}
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 {height}" role="img" \
aria-labelledby="t d" font-family="system-ui, sans-serif">
<title id="t">{title}</title>
<desc id="d">{told}</desc>
<defs>
<pattern id="stripes" width="9" height="9" patternUnits="userSpaceOnUse" \
patternTransform="rotate(45)"><path d="M0 0 v9" stroke="#8f1d14" stroke-width="6"/></pattern>
<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">\
<circle cx="3" cy="3" r="1.5" fill="#1d232b"/></pattern>
</defs>
<rect width="1000" height="{height}" rx="10" fill="#ffffff"/>"""


@dataclass(frozen=True)
class Lane:
    """One side: its name and a line below, from when to when its reader got what, its builds."""

    name: str
    more: str
    spans: list[tuple[float, float, str]]
    builds: list[tuple[float, float]]


def draw(path: Path, lanes: list[Lane], note: str) -> None:
    """Write the picture; ``note`` is the line at its end."""
    first = min(lane.spans[0][0] for lane in lanes)
    last = max(lane.spans[-1][1] for lane in lanes)

    def x(second: float) -> float:
        return round(LEFT + (second - first) / (last - first) * (RIGHT - LEFT), 1)

    bottom = TOP + STEP * len(lanes)
    told = "Seconds since the bad batch came. " + " ".join(map(_told, lanes))
    parts = [HEAD.format(height=bottom + 82, title=TITLE, told=escape(told))]
    parts.append(_text(28, 34, TITLE, size=19, weight=700))
    parts.append(_text(x(0), TOP - 14, "a batch with bad rows comes, and is built"))
    again = x(lanes[0].builds[1][0])
    if again - x(0) > 260:  # else there is no place for it
        parts.append(_text(again, TOP - 14, "the batch comes again, right"))
    for number, lane in enumerate(lanes):
        parts += _lane(lane, TOP + number * STEP, x)
    for second in range(0, int(last) + 1, 10):
        parts.append(f'<path d="M{x(second)} {bottom} v5" stroke="{GREY}"/>')
        parts.append(_text(x(second), bottom + 18, f"{second} s", anchor="middle"))
    parts += _legend(lanes, bottom + 32)
    parts.append(_text(28, bottom + 70, note))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _told(lane: Lane) -> str:
    spans = (f"from {start:.0f} to {end:.0f} s {seen}" for start, end, seen in lane.spans)
    return f"{lane.name}, {lane.more}: {', '.join(spans)}."


def _lane(lane: Lane, y: int, x: Callable[[float], float]) -> Iterator[str]:
    yield _text(28, y + 15, lane.name, size=15, weight=700)
    yield _text(28, y + 31, lane.more)
    for start, end, seen in lane.spans:
        width = round(x(end) - x(start), 1)
        yield _box(x(start), y, width, HIGH, seen)
        said = f"{seen}: {end - start:.0f} s" if seen == BAD else seen
        if len(said) * 8 < width:
            yield _text(
                x(start) + width / 2, y + 21, said, anchor="middle", size=14, weight=600, on=seen
            )
    for (start, end), said in zip(lane.builds, ("tests fail", "repair"), strict=True):
        yield f'<path d="M{x(start)} {y - 10} v{HIGH + 30}" {DASHED}/>'
        width = round(x(end) - x(start), 1)
        yield f'<rect x="{x(start)}" y="{y + HIGH + 4}" width="{width}" height="17" {BUILD}/>'
        if len(said) * 7 < width:
            yield _text(x(start) + width / 2, y + HIGH + 17, said, anchor="middle")


def _legend(lanes: list[Lane], y: int) -> Iterator[str]:
    at = 28.0
    shown = {seen for lane in lanes for _, _, seen in lane.spans}
    for seen in LOOKS:
        if seen in shown:
            yield _box(at, y, 22, 14, seen)
            yield _text(at + 28, y + 12, seen)
            at += 56 + 6.4 * len(seen)
    yield f'<rect x="{at}" y="{y + 1}" width="22" height="12" {BUILD}/>'
    yield _text(at + 28, y + 12, "a build")


def _box(x: float, y: int, width: float, height: int, seen: str) -> str:
    fill, over, _ = LOOKS[seen]
    place = f'<rect x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'{place} fill="{fill}"/>{place} fill="{over}" stroke="{DARK}" stroke-width="0.8"/>'


def _text(
    x: float,
    y: int,
    said: str,
    anchor: str = "start",
    size: int = 12,
    weight: int = 400,
    on: str = "",
) -> str:
    fill, _, colour = LOOKS.get(on, ("none", "", GREY if weight == 400 else DARK))
    return (
        f'<text x="{x:g}" y="{y}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
        f' fill="{colour}" stroke="{fill}" stroke-width="5" paint-order="stroke">'
        f"{escape(said)}</text>"
    )
