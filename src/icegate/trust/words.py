"""Plain English: numbers, days and sizes as people write them, and what a test says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from icegate.trust.project import Model, Test

SHOWN = 3  # values of a list before "and 4 more"
UNITS = ("usd", "eur", "gbp", "pct", "kg", "c", "km", "m", "s", "h")
PREFIXES = re.compile(r"^(raw|curated|stg|int|dim|fct|agg|mart)_")
REF = re.compile(r"""(?:ref|source)\(\s*['"](\w+)['"](?:\s*,\s*['"](\w+)['"])?\s*\)""")


def count(number: int, noun: str) -> str:
    """Return `1 order` or `1,234 orders`."""
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun that is named in a description's grain."""
    head, of, rest = noun.partition(" of ")
    if of:
        return f"{plural(head)}{of}{rest}"
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return f"{noun}es"
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def a(noun: str) -> str:
    """Return a noun with its article."""
    return f"an {noun}" if noun[:1] in "aeio" else f"a {noun}"


def human(name: str) -> str:
    """Return the name of a column as people say it: `net_amount_usd` is `net amount (USD)`."""
    *words, last = re.split(r"_+", name.strip("_").lower())
    if words and last in UNITS:
        return f"{' '.join(words)} ({'%' if last == 'pct' else last.upper()})"
    return " ".join([*words, last])


def title(table: str) -> str:
    """Return the name of a table as people say it: `gold.fct_orders` is `Orders`."""
    name = PREFIXES.sub("", table.rpartition(".")[2])
    return human(name).capitalize()


def cut(names: Sequence[str], most: int) -> list[str]:
    """Return names, with `and 4 more` for those after ``most``, where that's more than one."""
    rest = len(names) - most
    return [*names] if rest <= 1 else [*names[:most], f"and {rest} more"]


def listed(values: Sequence[Any], last: str = "and") -> str:
    """Return `a, b and c`, or `a, b, c and 4 more`."""
    names = [str(value) for value in values]
    if len(names) > SHOWN + 1:
        return f"{', '.join(names[:SHOWN])} {last} {len(names) - SHOWN} more"
    *first, end = names or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def first_sentence(text: str) -> str:
    """Return what a description says first; its grain is for engineers."""
    first = re.split(r"(?<=[.;])\s", text.strip(), maxsplit=1)[0].rstrip(";")
    return "" if first.lower().startswith("one row per") else _ended(first.replace("`", ""))


def _ended(text: str) -> str:
    return text if not text or text[-1] in ".!?" else f"{text}."


def day(at: datetime | date | None, now: datetime) -> str:
    """Return a day as people say it on the day ``now``: `today`, `Tuesday`, `3 March 2026`."""
    if at is None:
        return "never"
    when, today = (at.date() if isinstance(at, datetime) else at), now.date()
    ago = (today - when).days
    if ago in (0, 1):
        return ("today", "yesterday")[ago]
    if 1 < ago < 7:
        return f"{when:%A}"
    return f"{when.day} {when:%B}" + ("" if when.year == today.year else f" {when.year}")


def days(first: date, last: date, now: datetime) -> str:
    """Return of which days something is: `of yesterday`, `of 3 March to yesterday`."""
    to = "" if first == last else f" to {day(last, now)}"
    return f"of {day(first, now)}{to}"


def moment(at: datetime | None, now: datetime) -> str:
    """Return a day and the time of it."""
    return f"{day(at, now)}, {at:%H:%M}" if at else "never"


def age(span: timedelta) -> str:
    """Return how long something is: `40 minutes`, `26 hours`, `3 days`."""
    minutes = max(0, round(span.total_seconds() / 60))
    if minutes < 90:
        return count(minutes, "minute")
    return (
        count(round(minutes / 60), "hour")
        if minutes < 48 * 60
        else count(round(minutes / 1440), "day")
    )


def number(value: Any) -> str:
    """Return a value of a column's range."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    if isinstance(value, datetime):
        return f"{value.day} {value:%B %Y}, {value:%H:%M}"
    if isinstance(value, date):
        return f"{value.day} {value:%B %Y}"
    return str(value)


def rule(test: Test) -> str:
    """Return what must hold: the test's description, else a sentence by its kind."""
    if test.description:
        return test.description
    column, given = human(test.column), test.arguments
    told = {
        "not_null": f"Every row has a value for {column}.",
        "unique": f"No two rows have the same {column}.",
        "accepted_values": f"Each {column} is one of {listed(given.get('values') or [], 'or')}.",
        "relationships": f"Each {column} is known in {_named(given.get('to'))}.",
        "accepted_range": f"Each {column} is {_range(given)}.",
        "unique_combination_of_columns": "No two rows have the same "
        f"{listed([human(name) for name in given.get('combination_of_columns') or []])}.",
        "expression_is_true": f"For every row: {given.get('expression')}.",
        "no_lost_keys": f"Every {column} of {_named(given.get('upstream'))} is here.",
        "is_empty": "Nothing ends up here.",
        "volume_anomalies": "About as many rows arrive as on other days.",
        "freshness_anomalies": "Rows arrive as often as on other days.",
        "event_freshness_anomalies": "Rows arrive as soon after their event as on other days.",
        "dimension_anomalies": "Each group of rows has its usual share.",
        "column_anomalies": f"The values of {column} are as on other days.",
        "schema_changes": "No column is new, gone, or of another type.",
    }.get(test.kind)
    if test.of_kind and not told:
        return first_sentence(test.of_kind)
    return told or f"{human(re.sub(r'^assert_', '', test.kind or test.name)).capitalize()}."


def fault(test: Test, failures: int | None, model: Model | None, when: str = "") -> str:
    """Return what is wrong, as the beginning of a sentence: `3 orders have no customer id`.

    ``when`` is of which days the rows are, `of yesterday`. A test's `meta.failing` says it in the
    author's words: `have a negative amount`.
    """
    if judged := test.judged("unusual"):
        return judged[0].rstrip(".")
    noun, many = (model.noun if model else "row"), failures or 0
    rows, column = f"{count(many, noun)} {when}".strip(), human(test.column)
    one = many == 1
    if test.meta.get("failing"):
        return f"{rows} {test.meta['failing']}"
    has = "has" if one else "have"
    told = {
        "not_null": f"{rows} {has} no {column}",
        "unique": f"{count(many, f'value of {column}')} {'occurs' if one else 'occur'} twice"
        " or more",
        "accepted_values": f"{count(many, f'value of {column}')} {'is' if one else 'are'} none of "
        f"{listed(test.arguments.get('values') or [], 'and')}",
        "relationships": f"{rows} {has} {a(column)} that "
        f"isn’t in {_named(test.arguments.get('to'))}",
        "accepted_range": f"{rows} {has} {a(column)} that isn’t {_range(test.arguments)}",
        "no_lost_keys": f"{count(many, noun)} of {_named(test.arguments.get('upstream'))} "
        f"{'is' if one else 'are'} missing",
    }.get(test.kind)
    if told and not test.description:
        return told
    return f"{rows} {'breaks' if one else 'break'} the rule “{rule(test).rstrip('.')}”"


def _named(told: Any) -> str:
    """Return the table that a test's argument names, `ref('dim_customers')`, as people say it."""
    found = REF.search(str(told))
    return f"“{title(found[2] or found[1])}”" if found else str(told)


def _range(given: Any) -> str:
    low, high = given.get("min_value"), given.get("max_value")
    if low is not None and high is not None:
        return f"between {low} and {high}"
    return f"{low} or more" if low is not None else f"{high} or less"
