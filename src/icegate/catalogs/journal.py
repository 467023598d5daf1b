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
from icegate.errors import CatalogError
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


class OneByOne(ABC):
    """A catalog whose pointers move each by itself, if it's where one thinks it is."""

    lake: Lake

    @abstractmethod
    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that use the catalog."""

    @abstractmethod
    def pointer(self, schema: str, name: str) -> str | None:
        """Return where the metadata of a table is, None when there's no such table."""

    @abstractmethod
    def put(self, schema: str, name: str, old: str | None, new: str, metadata: Any) -> None:
        """Move a pointer from ``old``, or make it; raise ``Moved`` unless it's ``new`` then."""

    @abstractmethod
    def remove(self, schema: str, name: str, old: str) -> None:
        """Take a table out of the catalog; raise ``Moved`` where it isn't at ``old``."""

    def move(self, steps: Sequence[Step]) -> None:
        """Take all steps, or none: raise ``Moved``, naming who is in the way."""
        if not steps:
            return
        if len(steps) == 1 and steps[0].new_name is None:
            self._check(steps)
            at_step("moving")
            self._take(steps[0])
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
        """Take what isn't taken; where something can't be any more, take all of it back."""
        kept = [step for step in steps if step.new_location]
        known = [(s, state) for s, state in zip(steps, states, strict=True) if s.new_location]
        try:
            for step, state in known:
                if state is State.LOST:
                    raise Moved(step.full_name)
            ahead = [step for step, state in known if state is State.AHEAD]
            last = [step for step in ahead if step.final_name[0] == kept[-1].final_name[0]]
            with ThreadPoolExecutor(AT_ONCE) as threads:
                for _ in threads.map(self._take_one, [s for s in ahead if s not in last]):
                    pass
            for step in last:
                self._take_one(step)
        except Moved as moved:
            log.warning("move=%s back=yes moved=%s", written, moved.table)
            self._back(kept)
            storage.delete(written)
            raise
        for step in steps:
            if step.new_location is None:  # it stays where somebody wrote to it since
                with suppress(Moved):
                    self._take(step)
        storage.delete(written)

    def _take_one(self, step: Step) -> None:
        self._take(step)
        at_step("moved_one")

    def _take(self, step: Step) -> None:
        if step.new_location is None:
            assert step.old_location is not None
            return self.remove(step.namespace, step.name, step.old_location)
        metadata = step.metadata or self._read(step.new_location)
        old = None if step.new_name else step.old_location
        self.put(*step.final_name, old, step.new_location, metadata)
        if step.new_name and step.old_location:
            self.remove(step.namespace, step.name, step.old_location)
        return None

    def _back(self, steps: Sequence[Step]) -> None:
        for step in reversed(steps):
            if self.pointer(*step.final_name) != step.new_location:
                continue  # it wasn't taken, or someone built on it: then all of that stays
            old, new = step.old_location, str(step.new_location)
            with suppress(Moved):
                if old and step.new_name:
                    self.put(step.namespace, step.name, None, old, self._read(old))
                if old is None or step.new_name:
                    self.remove(*step.final_name, new)
                else:
                    self.put(*step.final_name, old=new, new=old, metadata=self._read(old))

    def _states(self, steps: Sequence[Step]) -> list[State]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return [*threads.map(self._state, steps)]

    def _state(self, step: Step) -> State:
        old, new = step.old_location, step.new_location
        now = self.pointer(*step.final_name)
        if new is None:
            return State.TAKEN if now is None else State.AHEAD if now == old else State.LOST
        if step.new_name:
            before = self.pointer(step.namespace, step.name)
            if before == old and now in (None, new):
                return State.AHEAD
        elif now == old:
            return State.AHEAD
        taken = now is not None and (now == new or self._follows(now, new))
        return State.TAKEN if taken else State.LOST

    def _follows(self, now: str, earlier: str) -> bool:
        """Tell whether a table's metadata came after another file of it."""
        try:
            log = self._read(now).get("metadata-log") or []
        except CatalogError:
            return False
        return any(entry["metadata-file"] == earlier for entry in log)

    def _read(self, location: str) -> dict[str, Any]:
        from icegate.catalog import read_metadata

        return read_metadata(CatalogEntry("", location.rpartition("/")[2], "table", location))
