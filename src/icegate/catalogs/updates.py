"""What changed between two states of a table or view, as the updates of Iceberg's REST catalog.

Such a server writes metadata files itself; it's told what to change, and what that's based on.
As JSON, so that fields which only a newer Iceberg knows survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from icegate.errors import CatalogError

Metadata = Mapping[str, Any]
Update = dict[str, Any]

# What the server counts itself, as it takes the updates.
COUNTED = {
    *("last-updated-ms", "last-sequence-number", "last-column-id", "last-partition-id"),
    *("next-row-id", "current-snapshot-id", "snapshot-log", "metadata-log", "version-log"),
    *("schema", "partition-spec"),  # of format 1: those of the default again
}


class _List(NamedTuple):
    """A list whose elements stay as they are, and one of which is the default."""

    name: str
    key: str  # of an element
    add: str  # the update that adds one
    field: str
    default: str
    choose: str  # the update that names another as the default
    chosen: str


LISTS = (
    _List(
        *("schemas", "schema-id", "add-schema", "schema"),
        *("current-schema-id", "set-current-schema", "schema-id"),
    ),
    _List(
        *("partition-specs", "spec-id", "add-spec", "spec"),
        *("default-spec-id", "set-default-spec", "spec-id"),
    ),
    _List(
        *("sort-orders", "order-id", "add-sort-order", "sort-order"),
        *("default-sort-order-id", "set-default-sort-order", "sort-order-id"),
    ),
)
# What an update names as the state it was made on: its kind, its field, and the metadata's key.
REQUIRED = (
    ("assert-table-uuid", "uuid", "table-uuid"),
    ("assert-current-schema-id", "current-schema-id", "current-schema-id"),
    ("assert-last-assigned-field-id", "last-assigned-field-id", "last-column-id"),
    ("assert-default-spec-id", "default-spec-id", "default-spec-id"),
    ("assert-last-assigned-partition-id", "last-assigned-partition-id", "last-partition-id"),
    ("assert-default-sort-order-id", "default-sort-order-id", "default-sort-order-id"),
)
STATISTICS = ("statistics", "partition-statistics")
LAST = -1  # what the request before has added


def table_updates(old: Metadata, new: Metadata) -> list[Update]:
    """Return what makes one state of a table the other.

    Summaries of snapshots that it had are left as they are: no update changes one. Raises
    ``CatalogError`` where something else changed that no update can say.
    """
    parts: Sequence[Callable[[Metadata, Metadata], Iterator[Update]]] = (
        # A snapshot that goes takes its statistics along.
        *(_format, _lists, _added_snapshots, _refs, _statistics, _removed_snapshots),
        *(_location, _properties),
    )
    handled = {"format-version", "refs", "snapshots", "location", "properties", *STATISTICS}
    handled |= {key for each in LISTS for key in (each.name, each.default)}
    _refuse_others(old, new, handled)
    return [update for part in parts for update in part(old, new)]


def of_a_new_table(metadata: Metadata) -> list[Update]:
    """Return what makes a table of nothing; raises ``CatalogError`` where a server can't.

    It counts schemas and ids of rows by itself, and snapshots name theirs.
    """
    ids = [each["schema-id"] for each in metadata["schemas"]]
    rows = sum(each.get("added-rows", 0) for each in metadata.get("snapshots") or [])
    counted = {
        "some of its schemas were dropped": sorted(ids) == [*range(len(ids))],
        "the ids of its rows go on from another table's": metadata.get("next-row-id", 0) == rows,
    }
    for what, as_counted in counted.items():
        if not as_counted:
            raise CatalogError(
                "cannot make a table in a REST catalog without `register`",
                why=f"{what}, and this server can only count them anew",
                fix="give the model another name, or its table format-version 2",
            )
    nothing = {"table-uuid": metadata["table-uuid"], "location": None}
    uuid = {"action": "assign-uuid", "uuid": metadata["table-uuid"]}
    return [uuid, *table_updates(nothing, metadata)]


def table_requirements(old: Metadata, updates: Sequence[Update]) -> list[Update]:
    """Return what has to hold for updates: that nobody changed what they were made of."""
    refs = old.get("refs") or {}
    made = {each["ref-name"] for each in updates if "ref-name" in each}
    heads = {name: (refs.get(name) or {}).get("snapshot-id") for name in {"main", *refs, *made}}
    return [
        *({"type": kind, field: old[key]} for kind, field, key in REQUIRED if key in old),
        *(
            {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": head}
            for name, head in sorted(heads.items())
        ),
    ]


def view_updates(old: Metadata, new: Metadata) -> list[Update]:
    """Return what makes one state of a view the other; the server gives a version its number."""
    _refuse_others(
        old, new, {"schemas", "versions", "current-version-id", "location", "properties"}
    )
    updates = [*_location(old, new), *_properties(old, new)]
    current, wanted = new["current-version-id"], current_version(new)
    known = {each["version-id"]: each for each in old["versions"]}
    if known.get(current) == wanted:
        if current != old["current-version-id"]:
            updates.append({"action": "set-current-view-version", "view-version-id": current})
        return updates
    schema = current_schema(new)
    # A server adds no schema that it has already.
    same = [s["schema-id"] for s in old["schemas"] if _columns(s) == _columns(schema)]
    if not same:
        updates.append({"action": "add-schema", "schema": schema})
    version = {**wanted, "schema-id": same[0] if same else LAST}
    return [
        *updates,
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": LAST},
    ]


def current_version(view: Metadata) -> dict[str, Any]:
    """Return what a view is by now."""
    current = view["current-version-id"]
    return next(each for each in view["versions"] if each["version-id"] == current)


def current_schema(metadata: Metadata) -> dict[str, Any]:
    """Return the schema that a table or view has by now."""
    of = current_version(metadata) if "versions" in metadata else {}
    current = of.get("schema-id", metadata.get("current-schema-id"))
    return next(each for each in metadata["schemas"] if each["schema-id"] == current)


def view_requirements(old: Metadata) -> list[Update]:
    """Return what has to hold for updates of a view: that it's the same one."""
    return [{"type": "assert-view-uuid", "uuid": old["view-uuid"]}]


def _columns(schema: Metadata) -> Any:
    return schema["fields"], schema.get("identifier-field-ids") or []


def _refuse_others(old: Metadata, new: Metadata, handled: set[str]) -> None:
    keys = (old.keys() | new.keys()) - handled - COUNTED
    if others := sorted(key for key in keys if (old.get(key) or None) != (new.get(key) or None)):
        raise CatalogError(
            "cannot change a table in a REST catalog",
            why=f"no update of Iceberg's REST catalog says a change of {', '.join(others)}",
            fix="report this: the command should have changed something else",
        )


def _format(old: Metadata, new: Metadata) -> Iterator[Update]:
    if old.get("format-version") != (wanted := new.get("format-version")):
        yield {"action": "upgrade-format-version", "format-version": wanted}


def _lists(old: Metadata, new: Metadata) -> Iterator[Update]:
    for of in LISTS:
        known = {each[of.key] for each in old.get(of.name) or []}
        anew = [each for each in new.get(of.name) or [] if each[of.key] not in known]
        for each in sorted(anew, key=lambda each: each[of.key]):
            # Servers of before Iceberg 1.8 want to be told, of a schema.
            more = {"last-column-id": new["last-column-id"]} if of.field == "schema" else {}
            yield {"action": of.add, of.field: each, **more}
        if new.get(of.default) != old.get(of.default):
            yield {"action": of.choose, of.chosen: new[of.default]}


def _added_snapshots(old: Metadata, new: Metadata) -> Iterator[Update]:
    known = {each["snapshot-id"] for each in old.get("snapshots") or []}
    anew = [each for each in new.get("snapshots") or [] if each["snapshot-id"] not in known]
    for snapshot in sorted(anew, key=lambda each: each.get("sequence-number", 0)):
        yield {"action": "add-snapshot", "snapshot": snapshot}


def _removed_snapshots(old: Metadata, new: Metadata) -> Iterator[Update]:
    kept = {each["snapshot-id"] for each in new.get("snapshots") or []}
    had = [each["snapshot-id"] for each in old.get("snapshots") or []]
    if gone := [id for id in had if id not in kept]:
        yield {"action": "remove-snapshots", "snapshot-ids": gone}


def _refs(old: Metadata, new: Metadata) -> Iterator[Update]:
    before, after = old.get("refs") or {}, new.get("refs") or {}
    for name in sorted(before.keys() - after.keys()):
        yield {"action": "remove-snapshot-ref", "ref-name": name}
    for name, ref in after.items():
        if ref != before.get(name):
            yield {"action": "set-snapshot-ref", "ref-name": name, **ref}


def _statistics(old: Metadata, new: Metadata) -> Iterator[Update]:
    for name in STATISTICS:
        before, after = (
            {each["snapshot-id"]: each for each in metadata.get(name) or []}
            for metadata in (old, new)
        )
        for id in before.keys() - after.keys():
            yield {"action": f"remove-{name}", "snapshot-id": id}
        for id, told in after.items():
            if told != before.get(id):
                yield {"action": f"set-{name}", "snapshot-id": id, name: told}


def _location(old: Metadata, new: Metadata) -> Iterator[Update]:
    if old["location"] != new["location"]:
        yield {"action": "set-location", "location": new["location"]}


def _properties(old: Metadata, new: Metadata) -> Iterator[Update]:
    before, after = old.get("properties") or {}, new.get("properties") or {}
    if gone := sorted(before.keys() - after.keys()):
        yield {"action": "remove-properties", "removals": gone}
    if changed := {key: value for key, value in after.items() if before.get(key) != value}:
        yield {"action": "set-properties", "updates": changed}
