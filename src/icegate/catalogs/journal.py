"""Moves of many tables in a catalog that moves one at a time: written down first, then taken.

The tables of the last one's schema are moved after all others: they say that a release is whole.
A move that began is taken to its end, by its own process or by the next one that comes; where
somebody else changed a table in the middle of it, what was taken is taken back.
"""

from __future__ import annotations

import json
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from icegate import storage
from icegate.aws import AT_ONCE
from icegate.catalogs.entries import CatalogEntry, Moved, Step
from icegate.gate.steps import at_step
from icegate.locks import Lock, alone

if TYPE_CHECKING:
    from icegate.settings import Lake

log = logging.getLogger(__name__)

MOVE = "move tables"


class State(Enum):
    """How far a step is: not begun or half done, taken, or impossible by now."""

    AHEAD = "ahead"
    TAKEN = "taken"
    LOST = "lost"

    @classmethod
    def of(cls, is_ahead: bool) -> State:
        """Return the state of a step that isn't taken."""
        return cls.AHEAD if is_ahead else cls.LOST


class OneByOne(ABC):
    """A catalog whose tables move each by itself, if it's as one thinks it is."""

    lake: Lake

    @abstractmethod
    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that use the catalog."""

    @abstractmethod
    def state(self, step: Step) -> State:
        """Return how far a step is."""

    @abstractmethod
    def take(self, step: Step) -> None:
        """Take a step, if it isn't taken; raise ``Moved`` where someone came first."""

    @abstractmethod
    def back(self, step: Step) -> None:
        """Take a step back, unless it wasn't taken, or someone built on it."""

    def together(self, steps: Sequence[Step]) -> list[Step]:
        """Return those of the steps that the catalog takes in one."""
        return []

    def take_together(self, steps: Sequence[Step]) -> None:
        """Take these in one; raise ``Moved``, and then none of them is taken."""
        raise NotImplementedError

    def move(self, steps: Sequence[Step]) -> None:
        """Take all steps, or none: raise ``Moved``, naming who is in the way."""
        if not steps:
            return
        if len(steps) == 1 and steps[0].new_name is None:
            self._check(steps)
            at_step("moving")
            self.take(steps[0])
            return at_step("moved")
        with alone(self.lock("moves"), MOVE):
            self._settle()
            states = self._check(steps)
            written = self._write(steps)
            at_step("moving")
            self._go(written, steps, states)
        return at_step("moved")

    def took(self, steps: Sequence[Step]) -> bool:
        """Tell whether it took steps of which it said nothing, once all are at their end."""
        self.settle()
        moved = [step for step in steps if step.new_location] or steps
        return State.TAKEN in self._states(moved)

    def settle(self) -> None:
        """Bring to its end what a process began that was killed, or got no answer."""
        if self._left():
            with alone(self.lock("moves"), MOVE):
                self._settle()

    @property
    def _folder(self) -> str:
        return f"{self.lake.root}/.moves"

    def _left(self) -> list[str]:
        return [f"{self._folder}/{name}" for name in storage.listed(self._folder)]

    def _write(self, steps: Sequence[Step]) -> str:
        location = f"{self._folder}/{uuid.uuid4()}.json"
        told = [(*step[:4], step.new_name) for step in steps]
        storage.write(location, json.dumps(told).encode())
        return location

    def _settle(self) -> None:
        for location in self._left():
            with suppress(FileNotFoundError):
                told = json.loads(storage.read(location))
                steps = [
                    Step(schema, name, old, new, new_name=(to[0], to[1]) if to else None)
                    for schema, name, old, new, to in told
                ]
                log.warning("move=%s left=yes steps=%d", location, len(steps))
                with suppress(Moved):
                    self._go(location, steps, self._states(steps))

    def _check(self, steps: Sequence[Step]) -> list[State]:
        states = self._states(steps)
        for step, state in zip(steps, states, strict=True):
            if state is not State.AHEAD:
                raise Moved(step.full_name)
        return states

    def _go(self, written: str, steps: Sequence[Step], states: Sequence[State]) -> None:
        """Take what isn't taken; where something can't be any more, take all of it back.

        Names that go are last, and with them what gets the name of one that goes.
        """
        gone = [step for step in steps if step.new_location is None]
        names = {(step.namespace, step.name) for step in gone}
        known = [(s, state) for s, state in zip(steps, states, strict=True) if s.new_location]
        last = [s for s, _ in known if s.new_name in names]
        try:
            for step, state in known:
                if state is State.LOST:
                    raise Moved(step.full_name)
            ahead = [s for s, state in known if state is State.AHEAD and s not in last]
            self._take_all(ahead, known[-1][0].final_name[0] if known else "")
        except Moved as moved:
            log.warning("move=%s back=yes moved=%s", written, moved.table)
            for step, _ in reversed(known):
                self.back(step)
            storage.delete(written)
            raise
        for step in [*gone, *last]:
            with suppress(Moved):  # it stays where somebody wrote to it since
                self.take(step)
        storage.delete(written)

    def _take_all(self, steps: Sequence[Step], schema: str) -> None:
        """Take steps, those of a schema after all others."""
        last = [step for step in steps if step.final_name[0] == schema]
        together = self.together(steps)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in threads.map(
                self._take_one, [s for s in steps if s not in last and s not in together]
            ):
                pass
        if together:
            self.take_together(together)
            at_step("moved_one")
        for step in last:
            if step not in together:
                self._take_one(step)

    def _take_one(self, step: Step) -> None:
        self.take(step)
        at_step("moved_one")

    def _states(self, steps: Sequence[Step]) -> list[State]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return [*threads.map(self.state, steps)]

    def read(self, location: str) -> dict[str, Any]:
        """Return what a metadata file says; raises ``CatalogError``."""
        from icegate.catalog import read_metadata

        return read_metadata(CatalogEntry("", location.rpartition("/")[2], "table", location))
