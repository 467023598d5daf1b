"""Moves one by one in a catalog of pointers: what a table has is the file that was written."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Any

from icegate.catalogs.entries import Moved, Step
from icegate.catalogs.journal import OneByOne, State
from icegate.errors import CatalogError


class Pointers(OneByOne):
    """A catalog whose pointers move each by itself, if it's where one thinks it is."""

    @abstractmethod
    def pointer(self, schema: str, name: str) -> str | None:
        """Return where the metadata of a table is, None when there's no such table."""

    @abstractmethod
    def put(self, schema: str, name: str, old: str | None, new: str, metadata: Any) -> None:
        """Move a pointer from ``old``, or make it; raise ``Moved`` unless it's ``new`` then."""

    @abstractmethod
    def remove(self, schema: str, name: str, old: str) -> None:
        """Take a table out of the catalog; raise ``Moved`` where it isn't at ``old``."""

    def take(self, step: Step) -> None:
        """Take a step; a table that gets another name has both for a moment."""
        if step.new_location is None:
            assert step.old_location is not None
            return self.remove(step.namespace, step.name, step.old_location)
        metadata = step.metadata or self.read(step.new_location)
        old = None if step.new_name else step.old_location
        self.put(*step.final_name, old, step.new_location, metadata)
        if step.new_name and step.old_location:
            self.remove(step.namespace, step.name, step.old_location)
        return None

    def back(self, step: Step) -> None:
        """Take a step back, unless it wasn't taken, or someone built on it."""
        if self.pointer(*step.final_name) != step.new_location:
            return
        old, new = step.old_location, str(step.new_location)
        with suppress(Moved):
            if old and step.new_name:
                self.put(step.namespace, step.name, None, old, self.read(old))
            if old is None or step.new_name:
                self.remove(*step.final_name, new)
            else:
                self.put(*step.final_name, old=new, new=old, metadata=self.read(old))

    def state(self, step: Step) -> State:
        """Return how far a step is."""
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
            log = self.read(now).get("metadata-log") or []
        except CatalogError:
            return False
        return any(entry["metadata-file"] == earlier for entry in log)
