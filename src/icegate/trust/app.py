"""The app: releases, rows, tests and differences on one page, for looking only.

Streamlit runs this file at each visit, and a part of it at each choice. It is started by
`icegate app`. What comes from the project or its tables goes through ``plain``, or into elements
that know no Markdown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import streamlit as st

from icegate.cli.common import Opened
from icegate.cli.query import unique
from icegate.errors import IcegateError
from icegate.gate.refs import MAIN
from icegate.trust import rows, words
from icegate.trust.answers import FAULTS, NO, OLD, UNCHECKED, YES, Answer
from icegate.trust.browse import Browse, fingerprint
from icegate.trust.page import headline, local_now
from icegate.trust.project import Model
from icegate.trust.rows import Place, Rows
from icegate.trust.samples import Sample

ANSWERS = 30  # that have a line each; the worst come first
COLOURS = {YES: "green", OLD: "orange", FAULTS: "orange", UNCHECKED: "gray", NO: "red"}


def plain(text: Any) -> str:
    """Return Markdown that shows a text as it is; Streamlit itself shows HTML as text."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", str(text)).replace("\n", "  \n")


@contextmanager
def told() -> Iterator[None]:
    """Show an error for people as that: what, why and what to do."""
    try:
        yield
    except IcegateError as error:
        lines = [f"**{plain(error.what)}**", plain(error.why), plain(error.fix)]
        st.error("  \n".join(filter(None, lines)))


def grid(table: pa.Table, about: str) -> None:
    """Show rows in a grid, which takes no Markdown."""
    st.dataframe(table, hide_index=True, placeholder="no value", alt=about)


def listed(found: Sequence[Mapping[str, Any]], about: str, none: str) -> None:
    """Show lines of one form, or that there are none; columns without a value stay out."""
    if not found:
        st.text(none)
        return
    columns = {name: [line[name] for line in found] for name in found[0]}
    grid(arrow({n: c for n, c in columns.items() if any(v not in (None, "") for v in c)}), about)


def sampled(sample: Sample, about: str) -> None:
    """Show rows of a table, or why there are none to see."""
    if sample.why_none:
        st.text(f"No rows to show: {sample.why_none}.")
        return
    values = [*zip(*sample.rows, strict=True)] or [()] * len(sample.columns)
    grid(arrow(dict(zip(unique(sample.columns), values, strict=True))), about)


def arrow(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return columns with the types that their values have, else as text."""
    return pa.table({name: _array(values) for name, values in columns.items()})


def _array(values: Sequence[Any]) -> pa.Array:
    try:
        found = pa.array(values)
        if not (pa.types.is_nested(found.type) or pa.types.is_null(found.type)):
            return found
    except (pa.ArrowException, OverflowError):
        pass  # it has masked values, or those of several types
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def answers(seen: Browse) -> None:
    """Say what can be used today."""
    facts = seen.facts
    st.header("Can I use it today?")
    for notice in facts.notices:
        st.info(plain(notice))
    found: list[Answer] = [*facts.dashboards, *facts.read]
    found.sort(key=lambda answer: answer.answer == YES)
    for answer in found[:ANSWERS]:
        who = f" Ask {plain(answer.owner.name)}." if answer.owner.name else ""
        since = f" Since {plain(seen.moment(answer.since))}." if answer.since else ""
        badge = f":{COLOURS[answer.answer]}-badge[{answer.said}]"
        st.markdown(f"{badge} **{plain(answer.title)}**: {plain(answer.why)}{since}{who}")
    if len(found) > ANSWERS:
        st.text(f"and {len(found) - ANSWERS:,} more, below under Rows")


def releases(seen: Browse) -> None:
    """Show releases beside the builds that wait."""
    st.header("Releases and open builds")
    left, right = st.columns(2)
    with left:
        st.subheader("Releases")
        listed(seen.releases(), "What became of builds", "Nothing was released yet.")
    with right:
        st.subheader("Open or held back")
        listed(seen.waiting(), "Builds that readers don't see all of", "Nothing is held back.")


@st.fragment
def tables(seen: Browse) -> None:
    """Show rows of a table on main and elsewhere, what differs, and what fails."""
    st.header("Rows")

    def name(model: Model) -> str:
        held = " · held back" if seen.held(model) else ""
        return f"{model.table}{held}"

    model = st.selectbox("Table", seen.tables(), format_func=name)
    if model is None:
        return
    answer = seen.answer(model)
    st.text(f"{words.title(model.table)}. {answer.said}: {answer.why}")
    place = st.selectbox("Beside main", seen.places(model), format_func=rows.said)
    with told(), st.spinner("Reading rows"):
        if seen.held(model):
            faults(seen, model)
        beside(seen, model, place)


def faults(seen: Browse, model: Model) -> None:
    """Show the rows that keep a table back."""
    st.subheader("Why it is held back")
    found = [*seen.faults(model)]
    if not found:
        st.text(f"{seen.answer(model).why} No check found rows that fail.")
    for fault in found:
        st.text(f"{fault.says} In {fault.table}, {rows.said(fault.place)}:")
        sampled(fault.sample, f"Rows of {fault.table} that fail")


def beside(seen: Browse, model: Model, place: Place | None) -> None:
    """Show rows of main and of a place side by side, and those that only one of them has."""
    sides: list[Place] = [MAIN] if place is None else [MAIN, place]
    for column, each in zip(st.columns(len(sides)), sides, strict=True):
        with column:
            st.subheader(plain(rows.said(each).capitalize()))
            counted(seen.rows(model, each), f"Rows of {model.table}, {rows.said(each)}")
    if place is not None:
        st.subheader("What differs")
        found = seen.differing(model, place)
        if found.total == 0:
            st.text(f"main and {rows.said(place)} have the same rows")
        else:
            counted(found, "Rows that only one side has", " on one side only")


def counted(found: Rows, about: str, where: str = "") -> None:
    """Show the first rows of a table, and how many there are."""
    if found.total is not None:
        shown, about_it = len(found.shown.rows), "about " if found.is_about else ""
        first = f", the first {shown:,} of them" if shown < found.total else ""
        keys = f"; rows belong together by {words.listed(found.key)}" if found.key else ""
        st.text(f"{about_it}{words.count(found.total, 'row')}{where}{first}{keys}")
    sampled(found.shown, about)


@st.fragment
def history(seen: Browse) -> None:
    """Show how a test ended in each build."""
    st.header("History of a test")
    test = st.selectbox("Test", seen.tests(), format_func=lambda test: test.name)
    if test is None:
        st.text("No test has run yet.")
        return
    st.text(words.rule(test))
    runs = seen.history(test)
    failing = {"build": [run["build"] or run["when"] for run in runs][::-1],
               "failing rows": [run["failing rows"] or 0 for run in runs][::-1]}  # fmt: skip
    if any(failing["failing rows"]):
        st.bar_chart(
            pa.table(failing), x="build", y="failing rows", sort=False, height=200,
            alt="Failing rows by build, the oldest first; the numbers are in the table below",
        )  # fmt: skip
    listed(runs, f"How {test.name} ended, the newest first", "It hasn’t run yet.")


@st.fragment
def difference(seen: Browse) -> None:
    """Show what lies between two releases, builds or main."""
    st.header("Difference of two releases")
    points = seen.points()
    left, right = st.columns(2)
    numbers = [at for at, point in enumerate(points) if isinstance(point, int)]
    waits = next((at for at, p in enumerate(points) if isinstance(p, str) and p != MAIN), None)
    before, after = (0, waits) if waits else (numbers[:2][-1], numbers[0]) if numbers else (0, 0)
    old = left.selectbox("From", points, index=before, format_func=rows.said)
    new = right.selectbox("To", points, index=after, format_func=rows.said)
    with told(), st.spinner("Comparing"):
        found = seen.diff(old or MAIN, new or MAIN)
        same = f"{rows.said(old or MAIN)} and {rows.said(new or MAIN)} have the same tables"
        listed(found, "Tables that differ, and by how much", same)


def visit(at: Opened) -> Browse:
    """Return what this visit sees: the lake as it was when the page was opened or reloaded."""
    if "seen" not in st.session_state:
        with st.spinner("Reading the lake"):
            st.session_state.seen = Browse(at, local_now())
    return st.session_state.seen


def _folder(variable: str) -> Path | None:
    told = os.environ.get(variable)
    return Path(told) if told else None


def main() -> None:
    """Show the page."""
    st.set_page_config(page_title="Icegate", layout="wide")
    at = Opened(_folder("DBT_PROJECT_DIR"), _folder("DBT_PROFILES_DIR"))
    left, right = st.columns([5, 1])
    with right:
        if st.button("Reload"):
            st.session_state.pop("seen", None)
    with told():
        seen = visit(at)
        with left:
            st.title(plain(words.human(seen.facts.project).capitalize()), anchor=False)
            st.text(f"{headline(seen.facts)} Target {seen.facts.target}.")
        if fingerprint(at) != seen.fingerprint:
            st.warning("Tables or dbt’s artifacts have changed since this was read: Reload.")
        answers(seen)
        releases(seen)
        tables(seen)
        history(seen)
        difference(seen)


if __name__ == "__main__":
    main()
