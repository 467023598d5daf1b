"""Views in the gate: their text, and their versions, edited as the JSON that they are.

A version says in its summary which release it came with, so that a rollback finds it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from icegate.gate.refs import NODE_STAMP, RELEASE_STAMP, Metadata
from icegate.tables.metadata import view_version

# Each build replaces each view, changed or not, and Iceberg keeps ten versions by itself.
VERSIONS_KEPT = {"version.history.num-entries": "100"}


def sql_of(view: Metadata) -> str:
    """Return the text of a view, or nothing where no engine wrote one."""
    shown = view_version(view).get("representations") or [{"sql": ""}]
    return str(shown[0]["sql"])


def is_same(metadata: Metadata, sql: str) -> bool:
    """Tell whether something in the catalog is a view with this text."""
    return "versions" in metadata and sql_of(metadata).split() == sql.split()


def with_names(view: Metadata, schema: str, names: Mapping[str, str]) -> Metadata:
    """Return a view that reads other names than those in ``schema``, whether or not quoted."""
    staged = rf"`?{schema}`?\.`?(\w+)`?"
    text = re.sub(staged, lambda found: names.get(found[1], found[0]), sql_of(view))
    shown = [{**view_version(view)["representations"][0], "sql": text}]
    return _with_current(view, representations=shown)


def signed(view: Metadata, release: int, node: str) -> Metadata:
    """Return a view whose current version names the release it came with, and its node."""
    signs = {RELEASE_STAMP: str(release), NODE_STAMP: node}
    edited = _with_current(view, summary={**view_version(view).get("summary", {}), **signs})
    return {**edited, "properties": {**VERSIONS_KEPT, **(view.get("properties") or {})}}


def next_version(old: Metadata, new: Metadata) -> Metadata:
    """Return an existing view with what is current in another one as its newest version."""
    version = view_version(new)
    schema = next(s for s in new["schemas"] if s["schema-id"] == version["schema-id"])
    schema_id = max(s["schema-id"] for s in old["schemas"]) + 1
    version_id = max(v["version-id"] for v in old["versions"]) + 1
    entry = {"timestamp-ms": version["timestamp-ms"], "version-id": version_id}
    return {
        **old,
        "properties": new["properties"],
        "schemas": [*old["schemas"], {**schema, "schema-id": schema_id}],
        "versions": [
            *old["versions"],
            {**version, "version-id": version_id, "schema-id": schema_id},
        ],
        "version-log": [*old["version-log"], entry],
        "current-version-id": version_id,
    }


def back(view: Metadata, number: int, release: int) -> Metadata:
    """Return a view as release ``number`` had it, as part of another ``release``.

    One that is newer, was never in a release, or has the same text stays as it is.
    """
    known = [v for v in view["versions"] if 0 < _release_of(v) <= number]
    wanted = max(known, key=lambda v: (_release_of(v), v["version-id"]), default=None)
    if wanted is None:
        return view
    old = {**view, "current-version-id": wanted["version-id"]}
    if is_same(view, sql_of(old)):
        return view
    node = wanted["summary"].get(NODE_STAMP, "")
    return signed(next_version(view, old), release, node)


def _release_of(version: dict[str, Any]) -> int:
    return int(version.get("summary", {}).get(RELEASE_STAMP, 0))


def _with_current(view: Metadata, **changes: Any) -> Metadata:
    current = view_version(view)
    new = {**current, **changes}
    return {**view, "versions": [new if v is current else v for v in view["versions"]]}
