"""The page: one HTML file with all that it shows, and nothing that is loaded from elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from rich.filesize import decimal

from icegate.trust import charts, words
from icegate.trust.answers import IN_SHORT
from icegate.trust.engineers import Finding
from icegate.trust.facts import Facts

HERE = Path(__file__).parent


def render(facts: Facts) -> str:
    """Return the page; all that comes from the project or its tables is escaped."""
    found = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    now = facts.made_at
    found.globals |= {
        "moment": lambda at: words.moment(at.astimezone(now.tzinfo) if at else None, now),
        "number": words.number,
        "size": decimal,
        "signed": _signed,
        "share": _share,
        "end": _end,
        "anchor": anchor,
        "chart": lambda points: charts.rows_over_time(points, now),
        "lineage": charts.lineage,
    }
    return found.get_template("page.html").render(
        facts=facts,
        css=Markup((HERE / "page.css").read_text()),
        parts={table.answer.id for table in facts.tables},
        headline=headline(facts),
        held=_held(facts),
    )


def headline(facts: Facts) -> str:
    """Return one line that says when, which release, and how many can be used."""
    counts = Counter(answer.answer for answer in (*facts.dashboards, *facts.read))
    told = ", ".join(f"{counts[key]} {said}" for key, said in IN_SHORT.items() if counts[key])
    release = f", release {facts.last_release}" if facts.last_release else ""
    when = f"{facts.made_at:%A}, {words.number(facts.made_at)} {facts.made_at:%Z}"
    return f"{when}{release}. {told}." if told else f"{when}."


def anchor(id: str) -> str:
    """Return the name of a table's part in the page's address."""
    return re.sub(r"[^a-z0-9_-]+", "-", id.lower())


def _held(facts: Facts) -> list[Finding]:
    answers = [*facts.brief, *(table.answer for table in facts.tables)]
    return [Finding(a.name, a.why, a.next) for a in answers if a.next]


def _signed(rows: int | None) -> str:
    return "not known" if rows is None else f"{rows:+,}" if rows else "0"


def _end(value: Any) -> str:
    """Return an end of a column's range; of a time the day will do."""
    return "" if value is None else words.number(value.date() if hasattr(value, "date") else value)


def _share(rate: float | None) -> str:
    if rate is None:
        return ""
    return "none" if rate == 0 else f"{rate:.1%}" if rate >= 0.001 else "under 0.1%"


def local_now() -> datetime:
    """Return the time in the zone of this machine."""
    return datetime.now().astimezone()
