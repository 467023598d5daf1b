"""Tables and views that a build can't keep on a branch: new ones, and those whose form it changes.

A branch isolates rows, not columns or partitioning. So a changed table is written as a clone that
shares its files, under another name, and at publish its metadata takes the clone's changes over. A
new table, for which some readers would take its branch, a changed view, and a table that takes a
view's place are built under another name and move.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from icegate.catalog import CatalogEntry, list_relations, read_metadata
from icegate.gate import refs, views
from icegate.gate.refs import WAP_ENABLED, Metadata
from icegate.gate.store import (
    Moved,
    Step,
    StoredTable,
    dropped,
    edit,
    make_namespace,
    move,
    read_tables,
    write_new,
)
from icegate.settings import Lake

NAMESPACE = "icegate_staging"
ORIGIN = "icegate.origin"  # what a clone was made of, to see at publish that it's still so
HELD = "icegate.held"
# What stops a clone from deleting files that it shares, and from being gated itself.
OF_CLONE = {
    "gc.enabled": "false",
    WAP_ENABLED: "false",
    "write.metadata.delete-after-commit.enabled": "false",
}

_PAST = re.compile(rf"\b{NAMESPACE}\.(\w+)__past_[0-9a-f]{{8}}__(\w+)__\w+")


def staging_name(final: str, build: str) -> str:
    """Return the name in ``NAMESPACE`` that stands for `schema.table` in a build."""
    schema, _, name = final.partition(".")
    # `a__b.c` and `a.b__c` must not meet.
    apart = f"_{hashlib.sha256(final.encode()).hexdigest()[:6]}" if "__" in final else ""
    return f"{schema}__{name}{apart}__{build}"


def final_names(sql: str, staged: Mapping[str, str]) -> str:
    """Return SQL with the names that tables have once they are published, of their staged ones."""
    for final, name in staged.items():
        sql = sql.replace(f"{NAMESPACE}.{name}", final)
    return _PAST.sub(r"\1.\2", sql)


def build_of(entry: CatalogEntry) -> str:
    """Return the build that a table or view in ``NAMESPACE`` is of."""
    return entry.name.rpartition("__")[2]


@dataclass(frozen=True)
class Staged(StoredTable):
    """A table or view as a build made it beside the ``final`` one, `schema.name`."""

    final: str

    @property
    def is_view(self) -> bool:
        """Tell whether it's a view."""
        return self.entry.kind == "view"

    @property
    def is_clone(self) -> bool:
        """Tell whether its changes go into the table that it was made of."""
        return ORIGIN in (self.metadata.get("properties") or {})


def read_staged(lake: Lake, finals: Iterable[str], build: str) -> dict[str, Staged]:
    """Return what a build staged, by final name."""
    found = _entries(lake, finals, build).items()
    return {final: Staged(entry, read_metadata(entry), final) for final, entry in found}


def staged_finals(lake: Lake, finals: Iterable[str], build: str) -> list[str]:
    """Return the final names of what a build staged, and read nothing of it."""
    return list(_entries(lake, finals, build))


def _entries(lake: Lake, finals: Iterable[str], build: str) -> dict[str, CatalogEntry]:
    names = {staging_name(final, build): final for final in finals}
    entries = list_relations(lake, NAMESPACE)
    return {names[entry.name]: entry for entry in entries if entry.name in names}


def new_location(lake: Lake, final: str, build: str) -> str:
    """Return where a new table has its files from the first, or nothing once it's there."""
    if staged_finals(lake, [final], build):
        return ""
    return f"{lake.root}/{final.replace('.', '/')}"


def stage(lake: Lake, final: str, build: str, *, as_view: bool) -> None:
    """Make room for a table or view beside the final one; a table that is there is cloned.

    The clone has the rows of the build's branch, else those of `main`, if there are any.
    """
    make_namespace(lake, NAMESPACE)
    for table in read_tables(lake, [final]):
        if not as_view:
            with suppress(Moved):  # another thread of this build was first
                move(lake, [_clone(table, staging_name(final, build), build)])


def _clone(table: StoredTable, name: str, build: str) -> Step:
    """Write a table's metadata as that of a new table with one snapshot, which shares its files."""
    old, branch = table.metadata, refs.branch_of(build)
    head = refs.head(old, branch) or refs.head(old)
    new = {
        **_apart(old),
        "snapshots": [refs.snapshot(old, head)] if head else [],
        "current-snapshot-id": head or -1,
        "refs": {refs.MAIN: {"snapshot-id": head, "type": "branch"}} if head else {},
        "snapshot-log": [],
    }
    return write_new(NAMESPACE, name, refs.with_properties(new, {ORIGIN: _origin(old, branch)}))


def _apart(metadata: Metadata) -> Metadata:
    """Return a table's metadata as that of another one, which shares its files."""
    new = {"table-uuid": str(uuid.uuid4())}
    gone: Metadata = {"metadata-log": [], "statistics": [], "partition-statistics": []}
    return refs.with_properties({**metadata, **new, **gone}, OF_CLONE)


def with_past(lake: Lake, final: str, build: str) -> str:
    """Return what SQL calls a table to read its earlier versions in a session of a build.

    Iceberg before 1.12 reads none of a gated table then. So a clone has them all, until the build
    ends: one for each state of the table.
    """
    table = next(read_tables(lake, [final]), None)
    if table is None or not refs.is_gated(table.metadata):
        return final
    schema, _, name = final.partition(".")
    state = hashlib.sha256(table.entry.metadata_location.encode()).hexdigest()[:8]
    clone = f"{schema}__past_{state}__{name}__{build}"
    make_namespace(lake, NAMESPACE)
    if all(entry.name != clone for entry in list_relations(lake, NAMESPACE)):
        with suppress(Moved):  # another thread of this build was first
            move(lake, [write_new(NAMESPACE, clone, _apart(table.metadata))])
    return f"{NAMESPACE}.{clone}"


def _origin(metadata: Metadata, branch: str) -> str:
    """Return what a clone's changes count from: they fit only while the table has the same."""
    numbers = [
        refs.base_of(metadata, branch) if refs.head(metadata, branch) else refs.head(metadata),
        metadata.get("last-sequence-number", 0),
        metadata.get("last-column-id"),
        *(len(metadata.get(kind) or []) for kind in ("schemas", "partition-specs", "sort-orders")),
    ]
    return json.dumps(numbers)


def why_not(staged: Staged, now: StoredTable | None, build: str) -> str:
    """Return why a staged table or view can't be published, or nothing."""
    if staged.is_clone:
        if now is None:
            return "it was dropped after the build had begun"
        branch = refs.branch_of(build)
        if _origin(now.metadata, branch) != staged.metadata["properties"][ORIGIN]:
            return "someone else wrote to it after the build had begun"
    elif now is not None and not staged.is_view:
        return "someone else made it after the build had begun"
    return ""


def drop_overtaken(lake: Lake, finals: Collection[str], build: str) -> None:
    """Drop what can't be published any more, so that it's built anew, on top of what is there."""
    branch = refs.branch_of(build)

    def change(old: Metadata) -> Metadata:
        return refs.without_refs(old, [branch]) if refs.is_overtaken(old, branch) else old

    for name, staged in read_staged(lake, finals, build).items():
        now = next(iter(read_tables(lake, [name])), None)
        if why_not(staged, now, build):
            move(lake, [dropped(staged.entry)])
    for name in finals:
        edit(lake, name, change)


def reads(staged: Staged, names: Iterable[str]) -> bool:
    """Tell whether a staged view reads any of these staged names."""
    return staged.is_view and any(name in views.sql_of(staged.metadata) for name in names)


def hold(staged: Staged) -> Step:
    """Mark as held back, rather than left by a crash."""
    return staged.write(refs.with_properties(staged.metadata, {HELD: "true"}))


def is_held(metadata: Metadata) -> bool:
    """Tell whether it was held back by a build that ended."""
    return HELD in (metadata.get("properties") or {})


def publish_steps(
    lake: Lake,
    staged: Staged,
    table: StoredTable | None,
    signs: tuple[int, str, str],
    finals: dict[str, str],
    stale: Iterable[str],
) -> list[Step]:
    """Return what moves a staged table or view into place.

    ``table`` is the one of that name as it was judged, if there is one: someone else's write to it
    since then must not get through. ``signs`` are release, build and node; ``finals`` the final
    names of everything staged, by the name that the build used; ``stale`` branches of the table go
    with it.
    """
    there = table or next(read_tables(lake, [staged.final], kind="view"), None)
    schema, _, name = staged.final.partition(".")
    if staged.is_view:
        release, _, node = signs
        edited = refs.with_properties(staged.metadata, {}, gone=[HELD])
        edited = views.with_names(edited, NAMESPACE, finals)
        edited = views.signed(edited, release, node)
        if there is not None and there.entry.kind == "view":
            edited = views.next_version(there.metadata, edited)
            return [there.write(edited), dropped(staged.entry)]
    elif staged.is_clone and table is not None:
        edited = _released(_taken_over(table.metadata, staged.metadata), staged, signs)
        edited = refs.without_refs(edited, list(stale))
        return [table.write(edited), dropped(staged.entry)]
    else:
        edited = refs.with_properties(staged.metadata, {WAP_ENABLED: "true"}, gone=[HELD])
        edited = _released(edited, staged, signs)
    out_of_the_way = [dropped(there.entry)] if there is not None else []
    return [*out_of_the_way, staged.write(edited).renamed(schema, name)]


def _released(metadata: Metadata, staged: Staged, signs: tuple[int, str, str]) -> Metadata:
    head = refs.head(staged.metadata)
    return metadata if head is None else refs.release(metadata, head, *signs)


def _taken_over(table: Metadata, new: Metadata) -> Metadata:
    """Return a table's metadata with what was added to its clone: schemas, specs, snapshots."""
    own = table.get("properties") or {}
    properties = {k: own[k] for k in OF_CLONE if k in own} | {WAP_ENABLED: "true"}
    edited = refs.with_properties(new, properties, gone=(*OF_CLONE, ORIGIN, HELD))
    taken = {
        key: new[key]
        for key in (
            *("current-schema-id", "last-column-id", "default-spec-id", "last-partition-id"),
            *("default-sort-order-id", "last-sequence-number", "next-row-id"),
        )
        if key in new
    }
    ids = {"schemas": "schema-id", "partition-specs": "spec-id", "sort-orders": "order-id"}
    for kind, id in {**ids, "snapshots": "snapshot-id"}.items():
        known = {item[id] for item in table.get(kind) or []}
        added = [item for item in new.get(kind) or [] if item[id] not in known]
        taken[kind] = [*(table.get(kind) or []), *added]
    return {**table, **taken, "properties": edited["properties"]}
