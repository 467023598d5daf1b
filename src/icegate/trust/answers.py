"""Can I use it today? One answer for each table and dashboard, with one sentence that says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from icegate.trust import words
from icegate.trust.engineers import EARLY, MISSING, last_ran, result
from icegate.trust.project import Exposure, Model, Owner, Project, Test
from icegate.trust.standing import Cause, Past, Standing
from icegate.trust.tables import Look

YES, OLD, FAULTS, UNCHECKED, NO = "yes", "old", "faults", "unchecked", "no"
WORST_FIRST = (NO, UNCHECKED, FAULTS, OLD, YES)
SAID = {
    YES: "Yes",
    OLD: "Yes, but old",
    FAULTS: "Yes, but with known faults",
    UNCHECKED: "Nobody knows",
    NO: "No",
}
# Of several tables together, as in `5 can be used, 9 old`.
IN_SHORT = {
    YES: "can be used",
    OLD: "old",
    FAULTS: "with known faults",
    UNCHECKED: "not known",
    NO: "not to be used",
}


@dataclass(frozen=True)
class Answer:
    """Whether people can use a table or dashboard: one of ``SAID``, since when, and why.

    ``data_of`` is when what they see was published, or last changed where nothing is gated.
    """

    id: str
    name: str  # schema.name of a table, the name of an exposure
    title: str
    kind: str  # table, or dbt's type of exposure
    answer: str
    why: str
    since: datetime | None
    data_of: datetime | None
    owner: Owner
    description: str = ""
    url: str = ""
    dashboards: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()  # of an exposure: what it reads
    remark: str = ""  # what is out of the ordinary about rows that passed
    next: str = ""  # the command to go on with, for engineers

    @property
    def said(self) -> str:
        """The answer in words."""
        return SAID[self.answer]


class Answers:
    """Answers for a project at a time, ``now``, in whose zone all times are told.

    ``when`` returns of which days the rows are that fail a test in a build, `of yesterday`.
    """

    def __init__(
        self,
        project: Project,
        past: Past,
        looks: Mapping[str, Look],
        now: datetime,
        when: Callable[[Test, str], str] = lambda test, build: "",
    ) -> None:
        self.project, self.past, self.looks, self.now, self.when = project, past, looks, now, when
        self._known: dict[str, Answer] = {}

    def of_table(self, model: Model) -> Answer:
        """Return the answer for a table or view."""
        if model.id not in self._known:
            verdict, why, since = self._table(model)
            self._known[model.id] = Answer(
                model.id,
                model.table,
                words.title(model.table),
                "table",
                verdict,
                _sentence(why),
                self._local(since),
                self._data_of(model),
                model.owner,
                words.first_sentence(model.description),
                dashboards=tuple(e.label for e in self.exposures_of(model.id)),
                next=self._next(model),
            )
        return self._known[model.id]

    def of_exposure(self, exposure: Exposure) -> Answer:
        """Return the answer for a dashboard: that of the worst of its tables."""
        models = [self.project.models[id] for id in exposure.parents if id in self.project.models]
        answers = worst_first(map(self.of_table, models))
        worst = answers[0] if answers else None
        why = "It reads nothing that this project makes" if worst is None else worst.why
        dates = [a.data_of for a in answers if a.data_of]
        if worst and worst.answer == YES and dates:
            at = words.moment(min(dates), self.now)
            why = f"All that it reads passed its checks. Figures of {at}"
        elif worst and len(models) > 1 and not self.past.held(worst.name):
            why = f"“{worst.title}”: {worst.why[0].lower()}{worst.why[1:]}"
        return Answer(
            exposure.id,
            exposure.name,
            exposure.label,
            exposure.kind,
            worst.answer if worst else UNCHECKED,
            _sentence(why),
            max((a.since for a in answers if a.since and a.answer == answers[0].answer),
                default=None),
            min(dates, default=None),
            exposure.owner,
            words.first_sentence(exposure.description),
            exposure.url,
            tables=tuple(model.table for model in models),
        )  # fmt: skip

    def exposures_of(self, id: str) -> list[Exposure]:
        """Return the exposures that read a model, straight or by others."""
        found = [e for e in self.project.exposures.values() if id in self.project.above(e.id)]
        return sorted(found, key=lambda exposure: exposure.label)

    def _table(self, model: Model) -> tuple[str, str, datetime | None]:
        """Return the answer, why, and since when."""
        look = self.looks.get(model.table.lower())
        standing = self.past.tables.get(model.table, Standing())
        if look is None and standing.held:
            not_yet = "nothing of it has been published yet"
            return NO, f"{self.cause(standing.held)}; {not_yet}", standing.held.since
        if look is None:
            return NO, "It hasn’t been built yet", None
        if look.error:
            return NO, f"It can’t be read: {look.error}", None
        if look.kind == "view":
            return self._view(model)
        failing = self._failing_now(model)
        if failing:
            return NO, failing, self.project.ran_at
        ran_well = self._ran_well(model)
        if standing.held and not (ran_well and standing.told_at and ran_well > standing.told_at):
            figures = f"you still see the figures of {words.moment(self._data_of(model), self.now)}"
            see = "that is what you see" if standing.held.root == "rolled_back" else figures
            return OLD, f"{self.cause(standing.held, model)}; {see}", standing.held.since
        late = self._late(model, look)
        if late:
            return OLD, late[0], late[1]
        since = ran_well if standing.held else standing.sound_since or ran_well
        if standing.accepted:
            return FAULTS, self._accepted(standing), since
        tests = self.project.tests_of.get(model.id, [])
        if not tests or standing.untested:
            return UNCHECKED, "Nothing checks it" if not tests else "Its checks weren’t run", since
        at = max(filter(None, [standing.checked_at, ran_well]), default=None)
        if at is None:
            return UNCHECKED, "Its checks weren’t run yet", None
        empty = ". It has no rows" if look.rows == 0 else ""
        return YES, f"{self._checks(tests, at)}{empty}", since

    def _accepted(self, standing: Standing) -> str:
        tests = [self.project.tests[id] for id in standing.accepted if id in self.project.tests]
        names = [f"“{words.rule(test).rstrip('.')}”" for test in tests]
        why = f" (“{standing.accepted_why}”)" if standing.accepted_why else ""
        in_spite_of = words.listed(names) or "a check that failed"
        return f"{standing.accepted_by} published it in spite of {in_spite_of}{why}"

    def _checks(self, tests: Collection[Test], at: datetime) -> str:
        """Return how many tests passed when, and how many didn't quite."""
        project, past = self.project, self.past
        ended = Counter(result(t, last_ran(t, project, past), past) for t in tests)
        more = {"warned": "warned", EARLY: "can’t tell yet", MISSING: "weren’t run"}
        passed = f"{words.count(ended['passed'], 'check')} passed"
        when = words.moment(self._local(at), self.now)
        parts = [f"{ended[how]} {said}" for how, said in more.items() if ended[how]]
        return "; ".join([f"{passed} {when}", *parts])

    def _view(self, model: Model) -> tuple[str, str, datetime | None]:
        below = [self.of_table(self.project.models[id]) for id in model.parents
                 if id in self.project.models]  # fmt: skip
        worst = min(below, key=lambda a: WORST_FIRST.index(a.answer), default=None)
        if worst is None:
            return UNCHECKED, "Nothing checks what it reads", None
        told = worst.why if worst.answer != YES else f"“{worst.title}”: {worst.why}"
        return worst.answer, told, worst.since

    def cause(self, cause: Cause, model: Model | None = None, *, dated: bool = True) -> str:
        """Return why a table's newest rows aren't with readers, without a full stop."""
        blamed = self.project.models.get(cause.node)
        other = blamed is not None and (model is None or blamed.id != model.id)
        name = f"“{words.title(blamed.table)}”" if blamed else "a table that it reads"
        test = self.project.tests.get(cause.test)
        if cause.root == "failed_test":
            if test is None:
                return f"A check of {name} failed"
            when = self.when(test, cause.build) if dated else ""
            told = words.fault(test, cause.failures, blamed, when)
            if other and cause.reach in ("tied", "scope"):
                return f"It is published together with {name}, where {told}"
            is_clear = not other or (blamed is not None and blamed.noun != "row")
            return told if is_clear else f"{told}, in {name}"
        return {
            "errored_test": f"A check of {name} couldn’t be run",
            "not_run_test": f"A check of {name} wasn’t run",
            "not_built": f"{name} couldn’t be built"
            if other
            else "Its newest rows couldn’t be built",
            "untested": "No check has looked at its newest rows",
        }.get(cause.root) or (cause.text or "Its newest rows are held back")

    def _late(self, model: Model, look: Look) -> tuple[str, datetime] | None:
        """Return that a promise of freshness is broken, and since when."""
        promised = model.fresh_within_hours
        if promised is None or look.changed_at is None:
            return None
        due = look.changed_at + timedelta(hours=promised)
        if due >= self.now:
            return None
        at = words.moment(self._local(look.changed_at), self.now)
        hours = words.age(timedelta(hours=promised))
        return f"It last changed {at}, and is promised to be no older than {hours}", due

    def _failing_now(self, model: Model) -> str:
        """Return what is wrong with the rows that readers have, by dbt's last run."""
        if self._is_told(model):
            return ""
        for test in self.project.tests_of.get(model.id, []):
            result = self.project.results.get(test.id)
            if result and result["status"] == "fail" and test.severity == "error":
                return words.fault(test, result.get("failures"), model)
        return ""

    def _ran_well(self, model: Model) -> datetime | None:
        """Return when dbt's last run ended, if all that it has of a model is good.

        The ledger has nothing of a build that changed nothing.
        """
        if self._is_told(model):
            return None
        tests = [test.id for test in self.project.tests_of.get(model.id, [])]
        results = self.project.results
        found = [results[id] for id in [model.id, *tests] if id in results]
        has_run = any(id in results for id in tests)
        good = all(result["status"] in ("success", "pass", "warn") for result in found)
        return self.project.ran_at if has_run and good else None

    def _is_told(self, model: Model) -> bool:
        """Tell whether the ledger has what dbt's last run found of a model: not of its main."""
        was_build = self.past.knows(self.project.run.get("invocation_id"))
        return was_build and model.table in self.past.tables

    def _data_of(self, model: Model) -> datetime | None:
        standing = self.past.tables.get(model.table, Standing())
        look = self.looks.get(model.table.lower(), Look(model.table))
        return self._local(standing.published_at or look.changed_at)

    def _next(self, model: Model) -> str:
        held = self.past.held(model.table)
        if held is None:
            return ""
        if held.query:
            return f'icegate sql "{held.query}"'
        return "dbt retry" if held.root == "not_built" else "icegate status"

    def _local(self, at: datetime | None) -> datetime | None:
        return at.astimezone(self.now.tzinfo) if at else None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def worst_first(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """Return answers with the worst first, else as they come."""
    return tuple(sorted(answers, key=lambda answer: WORST_FIRST.index(answer.answer)))
