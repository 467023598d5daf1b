"""Moves in a REST catalog, whose server is told what to change and writes metadata files itself.

So a table's file isn't the one that a step names: a property of the table says which step it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from icegate import storage
from icegate.catalogs import updates
from icegate.catalogs.entries import Moved, Step
from icegate.catalogs.http import Refused
from icegate.catalogs.journal import OneByOne, State
from icegate.catalogs.rest_client import (
    Client,
    Name,
    client_of,
    from_to,
    name_of,
    path_of,
    renames,
    schema_path,
    suppress_status,
)
from icegate.errors import CatalogError

MARK = "icegate.moved"  # a property: the file that the last move was written as
BACK = "back from "  # and before it, that the move was taken back
TOGETHER = "POST /v1/{prefix}/transactions/commit"
REGISTER = "POST /v1/{prefix}/namespaces/{namespace}/register"
RENAME = {kind: f"POST /v1/{{prefix}}/{kind}s/rename" for kind in ("table", "view")}
VIEWS = "POST /v1/{prefix}/namespaces/{namespace}/views"
BAD, MISSING, CONFLICT = 400, 404, 409


class Found(NamedTuple):
    """A table or view as the server has it."""

    kind: str
    location: str
    metadata: dict[str, Any]


class RestMoves(OneByOne):
    """Steps of a journal, as requests to a server."""

    @property
    def has_views(self) -> bool:
        """Tell whether the server has views."""
        return VIEWS in self._client.endpoints

    def state(self, step: Step) -> State:
        """Return how far a step is."""
        final = self._found(*step.final_name)
        at = final.location if final else None
        if step.new_location is None:
            return State.TAKEN if at is None else State.of(at == step.old_location)
        is_there = final is not None and at != step.old_location and self._has(final, step)
        if step.new_name is None:
            return State.TAKEN if is_there else State.of(at == step.old_location)
        before = self._found(step.namespace, step.name)
        if is_there:  # under both names where its process was killed in between
            return State.of(True) if before and self._has(before, step) else State.TAKEN
        ready = before and (before.location == step.old_location or self._has(before, step))
        # What has its name and is of another kind is to go, by a step of its own.
        free = before and (final is None or final.kind != before.kind)
        return State.of(bool(ready and free))

    def take(self, step: Step) -> None:
        """Take a step, if it isn't taken; raise ``Moved`` where someone came first."""
        found = self._found(step.namespace, step.name)
        if step.new_location is None:
            if found is None:
                return
            if found.location != step.old_location:
                raise Moved(step.full_name)
            with suppress_status(MISSING):
                self._client.send("DELETE", path_of(found.kind, step.namespace, step.name))
        elif step.old_location is None:
            self._register(step)
        else:
            if found is not None:
                self._commit(found, step)
            if step.new_name:
                self._rename(found, step, step.new_name)
            elif found is None:
                raise Moved(step.full_name)

    def together(self, steps: Sequence[Step]) -> list[Step]:
        """Return the tables that are there and stay where they are, if the server can."""
        if TOGETHER not in self._client.endpoints:
            return []
        return [
            step
            for step in steps
            if step.old_location and not step.new_name
            if "schemas" in (new := self._new(step)) and _kind(new) == "table"
        ]

    def take_together(self, steps: Sequence[Step]) -> None:
        """Change many tables in one commit; raise ``Moved``, and then none of them is changed."""
        changes = [{"identifier": name_of(s.namespace, s.name), **self._change(s)} for s in steps]
        try:
            self._client.send("POST", "transactions/commit", {"table-changes": changes})
        except Refused as refused:
            states = {step.full_name: self.state(step) for step in steps}
            moved = [name for name, state in states.items() if state is not State.TAKEN]
            if moved:
                lost = [name for name in moved if states[name] is State.LOST]
                self._check_conflict(refused)
                raise Moved((lost or moved)[0]) from refused
        self._forget(steps)

    def back(self, step: Step) -> None:
        """Take a step back, unless it wasn't taken, or someone built on it."""
        found = self._found(*step.final_name)
        if found is None or step.new_location is None or not self._is_top(found, step):
            return
        if step.old_location is None:
            self._client.send("DELETE", path_of(found.kind, *step.final_name))
            return
        with suppress_status(BAD, MISSING, CONFLICT):  # someone was faster: then it stays
            if step.new_name:
                old = (step.namespace, step.name)
                self._renamed(found.kind, step.final_name, old)
            before = self.read(step.old_location)
            # So that nobody who looks for the step in what the table had before finds it.
            known = {**(before.get("properties") or {}), MARK: f"{BACK}{_mark(step)}"}
            change = _change(found.kind, found.metadata, {**before, "properties": known})
            self._client.send("POST", path_of(found.kind, step.namespace, step.name), change)

    @property
    def _client(self) -> Client:
        return client_of(self.lake, str(self))

    def _found(self, schema: str, name: str) -> Found | None:
        """Return a table or view by its name, which only one of them has."""
        table = self._loaded("table", schema, name)
        return table or (self._loaded("view", schema, name) if self.has_views else None)

    def _loaded(self, kind: str, schema: str, name: str, short: bool = False) -> Found | None:
        few = {"snapshots": "refs"} if short and kind == "table" else {}
        with suppress_status(MISSING):
            told = self._client.send("GET", path_of(kind, schema, name), **few)
            return Found(kind, told["metadata-location"], told["metadata"])
        return None

    def _new(self, step: Step) -> dict[str, Any]:
        """Return what a step makes of a table or view."""
        return step.metadata or self.read(str(step.new_location))

    def _marked_new(self, step: Step) -> dict[str, Any]:
        new = self._new(step)
        return {**new, "properties": {**(new.get("properties") or {}), MARK: _mark(step)}}

    def _change(self, step: Step) -> dict[str, Any]:
        new = self._marked_new(step)
        return _change(_kind(new), self.read(str(step.old_location)), new)

    def _commit(self, found: Found, step: Step) -> None:
        """Change a table or view as a step says."""
        if found.location != step.old_location:
            if not self._has(found, step):
                raise Moved(step.full_name)
            return
        try:
            path = path_of(found.kind, step.namespace, step.name)
            self._client.send("POST", path, self._change(step))
        except Refused as refused:
            now = self._found(step.namespace, step.name)
            if now is None or not self._has(now, step):
                self._check_conflict(refused)
                raise Moved(step.full_name) from refused
        self._forget([step])

    def _renamed(self, kind: str, old: Name, new: Name) -> None:
        """Give a table or view another name; it has both for a moment where the server can't."""
        if RENAME[kind] in self._client.endpoints:
            self._client.send("POST", renames(kind), from_to(old, new))
            return
        known, there = self._loaded(kind, *old), self._loaded(kind, *new)
        if known is None:
            return
        if there is None:
            self._create(kind, new, known.metadata)
        elif _marked(there.metadata) != _marked(known.metadata):
            raise Moved(".".join(new))
        if (since := self._loaded(kind, *old)) and since.location != known.location:
            raise Moved(".".join(old))
        self._client.send("DELETE", path_of(kind, *old))

    def _create(self, kind: str, of: Name, metadata: dict[str, Any]) -> None:
        """Make a table or view that has what its metadata says."""
        schema, name = of
        new = {
            "name": name,
            "location": metadata["location"],
            "properties": metadata.get("properties") or {},
            "schema": updates.current_schema(metadata),
        }
        if kind == "view":
            new["view-version"] = updates.current_version(metadata)
            made = self._client.send("POST", f"{schema_path(schema)}/views", new)["metadata"]
            # What it takes of a version is its text.
            change = _change(kind, made, {**metadata, "view-uuid": made["view-uuid"]})
        else:
            told = updates.of_a_new_table(metadata)
            self._client.send(
                "POST", f"{schema_path(schema)}/tables", {**new, "stage-create": True}
            )
            change = {"requirements": [{"type": "assert-create"}], "updates": told}
        self._client.send("POST", path_of(kind, schema, name), change)

    def _register(self, step: Step) -> None:
        schema, name = step.final_name
        wanted = self._marked_new(step)
        as_file = REGISTER in self._client.endpoints and "versions" not in wanted
        try:
            if as_file:
                new = {"name": name, "metadata-location": step.new_location}
                self._client.send("POST", f"{schema_path(schema)}/register", new)
            else:
                self._create(_kind(wanted), step.final_name, wanted)
        except Refused as refused:
            if self.state(step) is not State.TAKEN:
                self._check_conflict(refused)
                raise Moved(step.full_name) from refused
        if not as_file:
            self._forget([step])

    def _rename(self, found: Found | None, step: Step, new: Name) -> None:
        try:
            if found is not None:
                self._renamed(found.kind, (step.namespace, step.name), new)
        except Refused as refused:
            self._check_conflict(refused)
        if self.state(step) is not State.TAKEN:
            raise Moved(step.full_name)

    def _has(self, found: Found, step: Step) -> bool:
        """Tell whether a table or view is what a step made of it, or came after that."""
        mark, old, new = _mark(step), step.old_location, step.new_location
        if new == found.location or _marked(found.metadata) == mark:
            return True
        files = [each["metadata-file"] for each in found.metadata.get("metadata-log") or []]
        if new in files:
            return True
        with suppress(ValueError, CatalogError):
            since = files[files.index(str(old)) + 1 :]
            marks = {_marked(self.read(file)) for file in since} | {_marked(found.metadata)}
            return mark in marks and f"{BACK}{mark}" not in marks
        return False

    def _is_top(self, found: Found, step: Step) -> bool:
        """Tell whether nobody changed what a step made."""
        if found.location == step.new_location:
            return True
        log = found.metadata.get("metadata-log") or [{"metadata-file": step.old_location}]
        of_step = _marked(found.metadata) == _mark(step)
        return of_step and log[-1]["metadata-file"] == step.old_location

    def _check_conflict(self, refused: Refused) -> None:
        """Raise what the server refuses where nobody is in the way."""
        if refused.status not in (MISSING, CONFLICT):
            raise refused

    def _forget(self, steps: Sequence[Step]) -> None:
        """Delete files that told what to change: the server has written its own."""
        for step in steps:
            with suppress(CatalogError, OSError):  # it stays as an orphan
                storage.delete(str(step.new_location))


def _change(kind: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a commit."""
    if kind == "view":
        required, changes = updates.view_requirements(old), updates.view_updates(old, new)
    else:
        changes = updates.table_updates(old, new)
        required = updates.table_requirements(old, changes)
    return {"requirements": required, "updates": changes}


def _kind(metadata: dict[str, Any]) -> str:
    return "view" if "versions" in metadata else "table"


def _mark(step: Step) -> str:
    return str(step.new_location).rpartition("/")[2]


def _marked(metadata: dict[str, Any]) -> str | None:
    return (metadata.get("properties") or {}).get(MARK)
