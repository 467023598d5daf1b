"""Updates of a REST catalog say all that changed: PyIceberg applies them, as such a server does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableMetadata
from pyiceberg.table import update as to
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from icegate.catalogs.updates import (
    COUNTED,
    of_a_new_table,
    table_requirements,
    table_updates,
    view_updates,
)
from icegate.errors import CatalogError

PLACE = "file:///lake/s/t"
FIELDS = [NestedField(1, "id", LongType(), required=False)]
KINDS = (
    *("append", "tag", "untag", "expire", "statistics", "set", "unset"),
    *("column", "spec", "sort", "place"),
)


def empty() -> TableMetadata:
    return new_table_metadata(
        Schema(*FIELDS),
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        PLACE,
        {"format-version": "2", "said": "no"},
    )


def changed(metadata: TableMetadata, kind: str, number: int) -> TableMetadata:
    """Return a table's next state, whatever a kind of change and a number make of it."""
    return to.update_table_metadata(metadata, tuple(changes(metadata, kind, number)))


def changes(metadata: TableMetadata, kind: str, number: int) -> list[Any]:
    tags = [name for name in metadata.refs if name != "main"]
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    chosen = metadata.snapshots[number % len(metadata.snapshots)] if metadata.snapshots else None
    if kind == "append":
        snapshot = _snapshot(metadata)
        branch = "wap" if number % 2 and metadata.snapshots else "main"
        return [to.AddSnapshotUpdate(snapshot=snapshot), _ref(branch, snapshot, "branch")]
    if kind == "set":
        return [to.SetPropertiesUpdate(updates={f"p{number % 3}": str(number)})]
    if kind == "unset":
        known = [name for name in metadata.properties if name != f"p{number % 3}"]
        return [to.RemovePropertiesUpdate(removals=known)]
    if kind == "place":
        return [to.SetLocationUpdate(location=f"{PLACE}{number}")]
    if kind == "column":
        last = metadata.last_column_id + 1
        fields = [*metadata.schema().fields, NestedField(last, f"c{last}", StringType())]
        schema = Schema(*fields, schema_id=len(metadata.schemas))
        return [to.AddSchemaUpdate(schema=schema), to.SetCurrentSchemaUpdate(schema_id=-1)]
    if kind == "spec":
        field = PartitionField(1, 1000 + number, BucketTransform(number + 2), f"b{number}")
        spec = PartitionSpec(field, spec_id=max(s.spec_id for s in metadata.partition_specs) + 1)
        if any(each.fields == spec.fields for each in metadata.partition_specs):
            return []
        return [to.AddPartitionSpecUpdate(spec=spec), to.SetDefaultSpecUpdate(spec_id=-1)]
    if kind == "sort":
        order = SortOrder(SortField(1, IdentityTransform()), order_id=1)
        known = order in metadata.sort_orders
        add = [] if known else [to.AddSortOrderUpdate(sort_order=order)]
        return [*add, to.SetDefaultSortOrderUpdate(sort_order_id=1)]
    if chosen is None:
        return []
    if kind == "tag":
        return [_ref(f"release_{number % 3}", chosen, "tag")]
    if kind == "untag":
        return [to.RemoveSnapshotRefUpdate(ref_name=tags[0])] if tags else []
    if kind == "expire":
        of_no_name = chosen.snapshot_id not in heads
        return [to.RemoveSnapshotsUpdate(snapshot_ids=[chosen.snapshot_id])] if of_no_name else []
    file = StatisticsFile.model_validate(
        {
            "snapshot-id": chosen.snapshot_id,
            "statistics-path": f"{PLACE}/{number}.puffin",
            "file-size-in-bytes": 9,
            "file-footer-size-in-bytes": 3,
            "blob-metadata": [],
        }
    )
    return [to.SetStatisticsUpdate(statistics=file)]


def _snapshot(metadata: TableMetadata) -> Snapshot:
    number = metadata.last_sequence_number + 1
    return Snapshot(
        snapshot_id=number * 1000,
        sequence_number=number,
        timestamp_ms=metadata.last_updated_ms + number,
        manifest_list=f"{PLACE}/{number}.avro",
        summary=Summary(Operation.APPEND, **{"added-records": "3"}),
        schema_id=metadata.current_schema_id,
    )


def _ref(name: str, snapshot: Snapshot, kind: str) -> to.SetSnapshotRefUpdate:
    return to.SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot.snapshot_id)


def told(metadata: TableMetadata) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(metadata.model_dump_json())
    return found


WALK = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=8)
READ: TypeAdapter[tuple[to.TableUpdate, ...]] = TypeAdapter(tuple[to.TableUpdate, ...])
REQUIRED: TypeAdapter[tuple[to.TableRequirement, ...]] = TypeAdapter(
    tuple[to.TableRequirement, ...]
)


@settings(max_examples=150, deadline=None)
@given(before=WALK, after=WALK)
@example(before=[("append", 0), ("append", 0), ("statistics", 0)], after=[("expire", 0)])
def test_what_the_updates_make_is_what_was_wanted(before: Any, after: Any) -> None:
    old = empty()
    for step in before:
        old = changed(old, *step)
    new = old
    for step in after:
        new = changed(new, *step)
    found = table_updates(told(old), told(new))
    for required in REQUIRED.validate_python(table_requirements(told(old), found)):
        if old.snapshots:  # PyIceberg's own rule: the first one can only be main's
            required.validate(old)
    again = to.update_table_metadata(old, READ.validate_python(found))
    assert _compared(told(again)) == _compared(told(new))
    assert again.current_snapshot_id == new.current_snapshot_id


def _compared(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return what is the writer's to say, in an order of no meaning."""
    kept = {key: value for key, value in metadata.items() if key not in COUNTED}
    lists = ("snapshots", "statistics", "schemas", "partition-specs", "sort-orders")
    return kept | {key: sorted(kept[key], key=json.dumps) for key in lists}


@pytest.mark.parametrize("kind", ["append", "column", "spec", "sort"])
def test_a_requirement_is_refused_where_anything_was_changed_since(kind: str) -> None:
    old = changed(changed(empty(), "append", 0), "append", 1)
    assert _refused(old, changed(old, kind, 0))


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("column", to.SetCurrentSchemaUpdate(schema_id=0)),
        ("spec", to.SetDefaultSpecUpdate(spec_id=0)),
        ("sort", to.SetDefaultSortOrderUpdate(sort_order_id=0)),
    ],
)
def test_a_requirement_is_refused_where_an_older_one_was_chosen(kind: str, before: Any) -> None:
    old = changed(changed(empty(), "append", 0), kind, 0)
    assert _refused(old, to.update_table_metadata(old, (before,)))


def _refused(old: TableMetadata, since: TableMetadata) -> list[str]:
    required = REQUIRED.validate_python(table_requirements(told(old), []))
    return [each.type for each in required if _refuses(each, since)]


def _refuses(required: to.TableRequirement, since: TableMetadata) -> bool:
    try:
        required.validate(since)
    except CommitFailedException:
        return True
    return False


def test_a_change_that_no_update_says_is_refused() -> None:
    old = told(empty())
    with pytest.raises(CatalogError, match="encryption-keys"):
        table_updates(old, {**old, "encryption-keys": [{"key-id": "a"}]})


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"schemas": [{"schema-id": 1}]}, "some of its schemas were dropped"),
        ({"next-row-id": 4}, "ids of its rows go on"),
    ],
)
def test_a_table_that_a_server_would_count_otherwise_is_refused(
    odd: dict[str, Any], why: str
) -> None:
    assert of_a_new_table(told(empty()))[0]["action"] == "assign-uuid"
    with pytest.raises(CatalogError, match=why):
        of_a_new_table({**told(empty()), **odd})


def view(number: int, schema: int = 0) -> dict[str, Any]:
    version = {"version-id": number, "schema-id": schema, "representations": [{"sql": str(number)}]}
    schemas = [{"schema-id": each, "fields": [each]} for each in range(schema + 1)]
    return {
        "view-uuid": "u",
        "location": PLACE,
        "schemas": schemas,
        "versions": [version],
        "current-version-id": number,
        "properties": {},
    }


def test_a_view_gets_a_version_and_its_schema_only_where_they_are_new() -> None:
    assert view_updates(view(1), view(1)) == []
    (add, choose) = view_updates(view(1), view(2))
    assert add["action"] == "add-view-version" and add["view-version"]["schema-id"] == 0
    assert choose == {"action": "set-current-view-version", "view-version-id": -1}
    (schema, add, _) = view_updates(view(1), view(2, schema=1))
    assert schema["schema"]["schema-id"] == 1 and add["view-version"]["schema-id"] == -1
    both = {**view(1), "versions": [*view(1)["versions"], *view(2)["versions"]]}
    assert view_updates(both, {**both, "current-version-id": 2}) == [
        {"action": "set-current-view-version", "view-version-id": 2}
    ]
