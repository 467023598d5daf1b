"""The digest: what a release published and what it held back, for each who wants to know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from icegate.trust import words
from icegate.trust.answers import FAULTS, IN_SHORT, NO, OLD, UNCHECKED, YES, Answer, worst_first
from icegate.trust.facts import Reading
from icegate.trust.project import Exposure, Model
from icegate.trust.standing import Cause

TROUBLE = (NO, OLD, FAULTS)
SHOWN = 3  # causes, and dashboards
NAMED = ("untested", "blocked", "rolled_back", "held")  # causes whose words don't say which table
AT = re.compile(r"(?<!\w)@(?=\w)")  # begins a name that a chat would ring for; not in an address


@dataclass(frozen=True)
class Digest:
    """A message. ``body`` is HTML, in which all that comes from the project is escaped.

    ``state`` is what isn't as it should be, by unique id, without times: when it is the same,
    there is nothing new to tell. ``mood`` is success, warning or failure.
    """

    title: str
    body: str
    mood: str
    state: Mapping[str, str]

    @property
    def text(self) -> str:
        """The body as plain text."""
        from apprise.conversion import convert_between

        return str(convert_between("html", "text", self.body))


class Writer:
    """Writes digests of one look at a lake. ``page`` is the address of the report, if it has one.

    ``each_release`` makes each release news, also where all is as it was.
    """

    def __init__(self, reading: Reading, page: str = "", each_release: bool = False) -> None:
        self.project, self.past, self.now = reading.project, reading.past, reading.now
        self.answers, self.page, self.notices = reading.answers, page, reading.notices
        self.is_empty = not reading.looks and self.past.last is None  # nothing was built yet
        self.release = max((s.release or 0 for s in self.past.tables.values()), default=0)
        self.extra = {"release": str(self.release)} if each_release else {}

    def digest(self, channel: str = "", told: Mapping[str, str] | None = None) -> Digest:
        """Return what to tell everyone, or those of a channel; ``told`` is the last one's state."""
        tables = self._tables(channel)
        found = worst_first(map(self.answers.of_table, tables))
        behind = self._behind(channel, tables)
        state = {a.id: f"{a.answer}: {self._key(a)}" for a in found if a.answer != YES}
        state |= {m.id: f"{OLD}: {self._cause(self._held[m.id], dated=False)}" for m in behind}
        troubled = [a for a in found if a.answer in TROUBLE]
        ailing = {id for id, said in state.items() if not said.startswith(UNCHECKED)}
        were = {id for id, said in (told or {}).items()
                if id in self.project.models and not said.startswith(UNCHECKED)}  # fmt: skip
        back = [self.answers.of_table(self.project.models[id]) for id in sorted(were - ailing)]
        is_well_again = bool(were) and not ailing
        boards = self._boards(channel, {a.id for a in troubled})
        title = "all is well again" if is_well_again else _counts(found)
        body = self._render(
            is_well_again=is_well_again,
            since=max((a.since for a in back if a.since), default=None),
            back=_names(back),
            released=self._released(tables),
            lines=self._lines(troubled),
            behind=words.count(len(behind), "table") if behind else "",
            causes=self._causes(troubled, behind),
            boards=boards,
            owners=words.listed(_owners([*troubled, *map(self.answers.of_exposure, boards)])),
            unchecked=_names(a for a in found if a.answer == UNCHECKED),
            notice=" ".join(self.notices),
        )
        name = words.human(self.project.name).capitalize()
        release = f", release {self.release}" if self.release else ""
        mood = "failure" if any(a.answer == NO for a in troubled) else "warning"
        return Digest(
            f"{name}{release}: {title}", body, mood if ailing else "success", state | self.extra
        )

    @cached_property
    def _held(self) -> Mapping[str, Cause]:
        models = self.project.models.values()
        return {m.id: held for m in models if (held := self.past.held(m.table))}

    def _tables(self, channel: str) -> list[Model]:
        """Return what is told of: what people read; of a channel its tables and its dashboards'."""
        models, shown = self.project.models, self.project.shown
        of_boards = {p for e in shown if channel in ("", e.owner.channel) for p in e.parents}
        own = {m.id for m in models.values() if channel and m.owner.channel == channel}
        read = set() if channel else {m.id for m in self.project.read}
        found = (models[id] for id in of_boards | own | read if id in models)
        return sorted(found, key=lambda model: (words.title(model.table), model.table))

    def _behind(self, channel: str, tables: list[Model]) -> list[Model]:
        """Return what is held back and isn't one of the tables that are told of."""
        known = {model.id for model in tables}
        above = set().union(*(self.project.above(id) for id in known)) if channel else {*self._held}
        return [self.project.models[id] for id in sorted(self._held.keys() & above - known)]

    def _boards(self, channel: str, troubled: set[str]) -> list[Exposure]:
        """Return the dashboards that what is wrong touches."""
        return [
            exposure
            for exposure in self.project.shown
            if self.answers.of_exposure(exposure).answer in TROUBLE
            and troubled & self.project.above(exposure.id)
        ]

    def _cause(self, held: Cause, *, dated: bool = True) -> str:
        return self.answers.cause(replace(held, reach=""), dated=dated)

    def _key(self, answer: Answer) -> str:
        """Return why, without the times that it names."""
        held = self._held.get(answer.id)
        if held:
            return self._cause(held, dated=False)
        return "" if answer.answer in (OLD, UNCHECKED) else answer.why

    def _causes(self, troubled: list[Answer], behind: list[Model]) -> Mapping[str, str]:
        """Return the causes, the weightiest first, with the tables that each keeps from people."""
        found: dict[str, list[str]] = {}
        failed: set[str] = set()
        titles = {a.id: a.title for a in troubled}
        for id in (*titles, *(model.id for model in behind)):
            model, held = self.project.models[id], self._held.get(id)
            told = self._cause(held) if held else self.answers.of_table(model).why.rstrip(".")
            if held is None or held.root in NAMED:
                told = f"{words.title(model.table)}: {told[0].lower()}{told[1:]}"
            elif held.root == "failed_test":
                failed.add(told)
            found.setdefault(told, []).extend([titles[id]] if held and id in titles else [])
        ordered = sorted(found, key=lambda told: (told not in failed, -len(found[told])))
        return {f"{told[0].upper()}{told[1:]}": words.listed(found[told]) for told in ordered}

    def _lines(self, troubled: Iterable[Answer]) -> list[tuple[str, str, str]]:
        """Return what is wrong in a word, with which tables, and what people see of them."""
        found: dict[tuple[str, str], list[Answer]] = {}
        for answer in troubled:
            found.setdefault(self._sees(answer), []).append(answer)
        return [
            (what, _names(answers), sees.format(self._figures(answers)))
            for (what, sees), answers in found.items()
        ]

    def _sees(self, answer: Answer) -> tuple[str, str]:
        held = self._held.get(answer.id)
        if answer.answer == FAULTS:
            return "Published with known faults", "You see them with these faults"
        if answer.answer == NO:
            nothing = "Nothing of it has been published yet, so there is nothing to see"
            return ("Held back", nothing) if held else ("Not to be used", "")
        if held and held.root == "rolled_back":
            return "Taken back", "You see what the earlier release had"
        return "Held back" if held else "Late", "You still see {}"

    def _figures(self, answers: Iterable[Answer]) -> str:
        dates = {words.moment(a.data_of, self.now): a.data_of for a in answers if a.data_of}
        oldest = min(dates, key=lambda told: dates[told], default="earlier")
        what = "the figures" if len(dates) < 2 else "older figures, at the oldest those"
        return f"{what} of {oldest}"

    def _released(self, tables: Iterable[Model]) -> str:
        """Return what the last build or release did, in a sentence."""
        last = self.past.last
        if last is None:
            return ""
        at = words.moment(last.at.astimezone(self.now.tzinfo), self.now)
        if last.event == "rolled_back":
            return f"{last.who} went back to an earlier release ({at})."
        if last.event == "built":
            return f"Build {last.build} ({at}) waits for somebody to publish it."
        if not last.release:
            return f"The last build ({at}) published nothing."
        published = {name for name, s in self.past.tables.items() if s.release == last.release}
        names = [words.title(model.table) for model in tables if model.table in published]
        others = len(published) - len(names)
        more = f"{words.count(others, 'table')} behind them" if names else "no table of these"
        told = [words.listed(names), more if others or not names else ""]
        return f"Published ({at}): {', and '.join(filter(None, told))}."

    def _render(self, **given: Any) -> str:
        pages = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            finalize=_without_bells,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        given |= {"shown": SHOWN, "page": _link(self.page), "link": _link}
        given["since"] = words.moment(given["since"], self.now) if given["since"] else ""
        return pages.get_template("digest.html").render(given)


def _counts(found: Iterable[Answer]) -> str:
    """Return in a few words how many of the tables can be used."""
    answers = [answer.answer for answer in found]
    many = words.count(len(answers), "table")
    counts = {IN_SHORT[key]: answers.count(key) for key in TROUBLE if key in answers}
    if UNCHECKED in answers and not counts:
        counts = {"not checked": answers.count(UNCHECKED)}
    if counts:
        (said, number), *others = counts.items()
        first = f"{number} of {many} {'is' if number == 1 else 'are'} {said}"
        return ", ".join([first, *(f"{number} {said}" for said, number in others)])
    return f"all {many} can be used" if len(answers) != 1 else "it can be used"


def _names(answers: Iterable[Answer]) -> str:
    return words.listed([answer.title for answer in answers])


def _owners(answers: Iterable[Answer]) -> list[str]:
    return [*dict.fromkeys(filter(None, (a.owner.name or a.owner.email for a in answers)))]


def _link(url: str) -> str:
    """Return an address that a browser opens, else nothing."""
    return url if url.lower().startswith(("https://", "http://")) else ""


def _without_bells(value: Any) -> Any:
    """Return text in which no `@all` is left that a chat would ring for."""
    is_told = isinstance(value, str) and not isinstance(value, Markup)
    return AT.sub("@\u200b", value) if is_told else value
