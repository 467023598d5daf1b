"""Nessie: tables and views of a branch of its, each commit of which may move many of them.

By its API of version 2; Spark's own `NessieCatalog` reads and writes the same pointers.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from icegate.catalogs.entries import CatalogEntry, Moved, Step
from icegate.catalogs.http import Refused, ask
from icegate.catalogs.lease import beside_tables
from icegate.errors import CatalogError
from icegate.gate.steps import at_step
from icegate.locks import Lock
from icegate.storage import shown

if TYPE_CHECKING:
    from icegate.catalogs.tables import Tables
    from icegate.settings import Lake

TABLE, VIEW, SCHEMA = "ICEBERG_TABLE", "ICEBERG_VIEW", "NAMESPACE"
KINDS = {TABLE: "table", VIEW: "view"}
LOOKED_AT = 1000  # commits, for one whose answer was lost
CONFLICT = 409

Content = dict[str, Any]
Key = tuple[str, ...]


class Nessie:
    """A branch of a Nessie server."""

    comes_late = True  # a request may be on its way when who sent it gives up
    has_views = at_once = True
    keeps_files = True  # other branches and tags of the server may have them, too
    publishes = "moves all its tables in one commit of Nessie, views too"

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._uri = str(lake.catalog_uri).rstrip("/")
        self._ref = lake.catalog_ref

    def __str__(self) -> str:
        return f"{self._uri}, branch {self._ref}"

    @property
    def anew(self) -> str:
        """What a person does to begin without the tables that there are."""
        return (
            f"take a new branch as `catalog_ref:`, delete {shown(self.lake.root)}, and build again"
        )

    def conf(self) -> dict[str, str]:
        """Return what Spark's catalog is set to."""
        return {"type": "nessie", "uri": self._uri, "ref": self._ref}

    def secrets(self) -> dict[str, str]:
        """Return the token, which the arguments of a process would show to everyone."""
        if self._token is None:
            return {}
        return {"authentication.type": "BEARER", "authentication.token": self._token}

    def lock(self, name: str) -> Lock:
        """Return a lock between all processes that see the tables: Nessie itself has none."""
        return beside_tables(self.lake, f"{self._ref.replace('/', '__')}/{name}")

    def check(self) -> None:
        """Raise unless the server answers and has the branch."""
        if (known := self._ask("config")["maxSupportedApiVersion"]) < 2:
            raise CatalogError(
                f"cannot use the catalog {self}",
                why=f"the server knows its API up to version {known}, and not 2",
                fix="update Nessie",
            )
        self._head()

    def relations(self, schema: str | None) -> list[CatalogEntry]:
        """Return tables and views, of all schemas or of one in any case."""
        return [
            CatalogEntry(".".join(key[:-1]), key[-1], kind, content["metadataLocation"])
            for key, content in self._entries()
            if (kind := KINDS.get(content["type"])) is not None
            and (schema is None or ".".join(key[:-1]).lower() == schema.lower())
        ]

    def schemas(self) -> set[str]:
        """Return all schemas, those without a table too."""
        return {".".join(key) for key, content in self._entries() if content["type"] == SCHEMA}

    def marked(self, key: str) -> dict[str, str]:
        """Return the value of a property by the schemas that have it."""
        found = {".".join(name): c.get("properties") or {} for name, c in self._entries()}
        return {name: found[name][key] for name in sorted(found) if key in found[name]}

    def mark(self, schema: str, key: str, value: str) -> None:
        """Give a schema a property, unless it has it."""
        name = tuple(schema.split("."))
        head, there = self._now([name])
        old = there.get(name)
        properties = (old or {}).get("properties") or {}
        if key not in properties:
            new = {"type": SCHEMA, "elements": [*name], "properties": {**properties, key: value}}
            what = f"schema {schema}: {key}"
            self._commit([_put(name, new | ({"id": old["id"]} if old else {}))], what, head)

    def make_schema(self, schema: str) -> None:
        """Make a schema unless it's there."""
        if schema in self.schemas():
            return
        name = tuple(schema.split("."))
        new = {"type": SCHEMA, "elements": [*name], "properties": {}}
        try:
            self._commit([_put(name, new)], f"schema {schema}", self._head())
        except Moved:
            if schema not in self.schemas():  # another process made it meanwhile
                raise

    def drop_schema(self, schema: str) -> None:
        """Drop a schema that has no tables any more."""
        if schema in self.schemas():
            self._commit([_delete(tuple(schema.split(".")))], f"drop {schema}", self._head())

    def move(self, steps: Sequence[Step]) -> None:
        """Take all steps in one commit, or none: raise ``Moved``."""
        if not steps:
            return
        head, there = self._now([_key(step) for step in steps if step.old_location])
        deletes, puts = [], []
        for step in steps:
            now = there.get(_key(step), {}) if step.old_location else {}
            if step.old_location != now.get("metadataLocation"):
                raise Moved(step.full_name)
            if step.new_location is None or step.final_name != (step.namespace, step.name):
                deletes.append(_delete(_key(step)))
            if step.new_location is not None:
                own = {"id": now["id"]} if now else {}
                puts.append(_put(_key_of(*step.final_name), _content(step) | own))
        taken = [operation["key"] for operation in puts]
        first = [operation for operation in deletes if operation["key"] in taken]
        rest = [operation for operation in deletes if operation not in first]
        what = f"icegate moves {len(steps)}"
        at_step("moving")
        if first:
            self._commit_both(first, [*rest, *puts], what, head)
        else:
            self._commit([*rest, *puts], what, head)
        at_step("moved")

    def took(self, steps: Sequence[Step]) -> bool:
        """Tell whether the commit was made, by one of the files that only it names."""
        new = {step.new_location for step in steps if step.new_location}
        if not new:
            _, there = self._now([_key(step) for step in steps])
            return any(
                there.get(_key(s), {}).get("metadataLocation") != s.old_location for s in steps
            )
        asked = {"fetch": "ALL", "max-records": LOOKED_AT}
        log = self._ask(f"{_tree(self._ref)}/history?{urlencode(asked)}")
        return any(
            (operation.get("content") or {}).get("metadataLocation") in new
            for entry in log["logEntries"]
            for operation in entry["operations"] or []
        )

    def tables(self) -> Tables:
        """Return PyIceberg's way to the same tables."""
        from icegate.catalogs.tables import Tables

        return Tables(self.lake)

    @cached_property
    def _token(self) -> str | None:
        secret = self.lake.catalog_token
        return secret.get_secret_value() if secret else None

    def _ask(self, path: str, body: Any = None, method: str = "") -> Any:
        try:
            return ask(str(self), f"{self._uri}/{path}", body, method=method, token=self._token)
        except Refused as refused:
            # A key that someone made meanwhile has a content id, which isn't told: no bad request.
            if refused.status == CONFLICT or "existing key '" in refused.said:
                raise
            is_ref = "reference" in refused.said
            raise CatalogError(
                f"cannot use the catalog {self}",
                why=f"the server says: {refused.said} ({refused.status})",
                fix="make the branch, or correct `catalog_ref:` of the target"
                if is_ref
                else "correct `catalog_uri:` of the target: it ends in /api/v2",
            ) from refused

    def _head(self) -> str:
        """Return the hash of the branch's last commit."""
        return str(self._ask(_tree(self._ref))["reference"]["hash"])

    def _entries(self) -> Iterator[tuple[Key, Content]]:
        asked, more = {"content": "true"}, True
        while more:
            path = f"{_tree(self._ref)}/entries?{urlencode(asked)}"
            page = self._ask(path)
            for entry in page["entries"]:
                yield tuple(entry["name"]["elements"]), entry["content"]
            more = page["hasMore"]
            asked["page-token"] = page["token"]

    def _now(self, keys: Sequence[Key]) -> tuple[str, dict[Key, Content]]:
        """Return the hash of the branch's last commit, and what it has of some keys."""
        if not keys:
            return self._head(), {}
        body = {"requestedKeys": [{"elements": [*key]} for key in keys]}
        found = self._ask(f"{_tree(self._ref)}/contents", body)
        there = {tuple(one["key"]["elements"]): one["content"] for one in found["contents"]}
        return str(found["effectiveReference"]["hash"]), there

    def _commit(self, operations: list[Any], what: str, at: str, to: str = "") -> str:
        """Commit on top of ``at``, and return the new hash; raise ``Moved`` when someone is first.

        Nessie takes it where nobody changed the same keys since then.
        """
        body = {"commitMeta": {"message": what}, "operations": operations}
        try:
            made = self._ask(f"{_tree(to or self._ref, at)}/history/commit", body)
        except Refused as refused:
            if named := re.search(r"[Kk]ey '([^']+)'", refused.said):
                raise Moved(named[1]) from refused
            raise CatalogError(
                f"cannot write to the catalog {self}",
                why=f"the server says: {refused.said}",
                fix="see to that, and run it again",
            ) from refused
        return str(made["targetBranch"]["hash"])

    def _commit_both(self, first: list[Any], then: list[Any], what: str, at: str) -> None:
        """Commit both at once, as some keys get content of another kind: a table for a view.

        In one commit Nessie would keep the old kind and break the branch. So there are two on a
        branch of their own, which the lake's takes over if it's still at the same commit.
        """
        name = f"icegate-{uuid.uuid4().hex[:12]}"
        own = {"type": "BRANCH", "name": self._ref, "hash": at}
        self._ask(f"trees?{urlencode({'name': name, 'type': 'BRANCH'})}", own)
        last = at
        try:
            for operations in (first, then):
                last = self._commit(operations, what, last, to=name)
            new = {"type": "BRANCH", "name": name, "hash": last}
            try:
                self._ask(f"{_tree(self._ref, at)}?type=BRANCH", new, method="PUT")
            except Refused as refused:
                raise Moved(str(self)) from refused
        finally:
            with suppress(CatalogError):  # it's in nobody's way
                self._ask(f"{_tree(name, last)}?type=BRANCH", method="DELETE")


def _tree(ref: str, at: str = "") -> str:
    """Return the path of a branch, as it is or as of a commit."""
    return f"trees/{quote(ref, safe='')}{f'@{at}' if at else ''}"


def _content(step: Step) -> Content:
    """Return what Nessie keeps of a table or view: Spark takes these over what the file says."""
    metadata: Mapping[str, Any] = step.metadata or {}
    if "versions" in metadata:
        version = metadata["current-version-id"]
        (schema,) = {v["schema-id"] for v in metadata["versions"] if v["version-id"] == version}
        own = {"type": VIEW, "versionId": version, "schemaId": schema}
    else:
        main = (metadata.get("refs") or {}).get("main", {})
        own = {
            "type": TABLE,
            "snapshotId": main.get("snapshot-id", -1),
            "schemaId": metadata.get("current-schema-id", 0),
            "specId": metadata.get("default-spec-id", 0),
            "sortOrderId": metadata.get("default-sort-order-id", 0),
        }
    return {**own, "metadataLocation": step.new_location}


def _key(step: Step) -> Key:
    return _key_of(step.namespace, step.name)


def _key_of(schema: str, name: str) -> Key:
    return (*schema.split("."), name)


def _put(key: Key, content: Content) -> dict[str, Any]:
    return {"type": "PUT", "key": {"elements": [*key]}, "content": content}


def _delete(key: Key) -> dict[str, Any]:
    return {"type": "DELETE", "key": {"elements": [*key]}}
