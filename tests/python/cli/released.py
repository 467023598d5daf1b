"""Builds as the gate sees them: PyIceberg writes their branches, `icegate.gate` ends them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER as UNSORTED
from pyiceberg.types import LongType, NestedField, StringType

from icegate.catalog import list_relations, open_catalog
from icegate.gate import ledger, refs
from icegate.gate.decision import Outcome, Request
from icegate.gate.ledger_rows import Event
from icegate.gate.publish import finish, record
from icegate.gate.refs import Metadata
from icegate.gate.report import Node, Report, TestRun
from icegate.gate.store import StoredTable, edit, make_namespace, move, read_tables, write_new
from icegate.settings import Lake

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "amount", StringType()))
FIRST, SECOND, THIRD = "aaaaaaaa", "bbbbbbbb", "cccccccc"


def make(lake: Lake, *names: str, properties: dict[str, str] | None = None) -> None:
    """Make gated tables without rows."""
    lake.home.mkdir(parents=True, exist_ok=True)
    open_catalog(lake).close()  # which makes a database's own tables
    given = {refs.WAP_ENABLED: "true", **(properties or {})}
    for name in names:
        schema, _, table = name.partition(".")
        make_namespace(lake, schema)
        at = f"{lake.root}/{schema}/{table}"
        made = new_table_metadata(COLUMNS, UNPARTITIONED_PARTITION_SPEC, UNSORTED, at, given)
        move(lake, [write_new(schema, table, json.loads(made.model_dump_json()))])


def add(lake: Lake, name: str, *ids: int, build: str = "") -> int:
    """Add rows to a table's main, or to the branch of a build; return the new snapshot's id."""
    branch = refs.branch_of(build) if build else refs.MAIN
    if build:
        edit(lake, name, lambda old: refs.open_branch(old, branch))
    table = open_catalog(lake).load_table(name)
    columns: dict[str, Any] = {field.name: [None] * len(ids) for field in table.schema().fields}
    columns |= {"id": list(ids), "amount": [id if "retyped" in columns else str(id) for id in ids]}
    rows = pa.table(columns, schema=table.schema().as_arrow())
    stamps = {refs.BUILD_STAMP: build} if build else {}
    table.append(rows, branch=branch, snapshot_properties=stamps)
    return table.refresh().refs()[branch].snapshot_id


def report(statuses: dict[str, str]) -> Report:
    """Return what a process did that wrote these tables, each of which has a test that ended so."""
    ids = {name: f"model.shop.{name.partition('.')[2]}" for name in statuses}
    nodes = {id: Node(id, name.partition(".")[2], "success", name) for name, id in ids.items()}
    tests = {
        f"test.{id}": TestRun(
            f"test.{id}", f"not_null_{nodes[id].name}", (id,), statuses[name], id, failures=1
        )
        for name, id in ids.items()
    }
    return Report(nodes, tests)


def request(build: str) -> Request:
    return Request(build, f"{build}-1", "dbt build", "local")


def end(lake: Lake, build: str, **statuses: str) -> Outcome:
    """End an unnamed build of tables in `s`, whose tests ended so."""
    return finish(lake, report({f"s.{name}": s for name, s in statuses.items()}), request(build))


def say(lake: Lake, build: str, **statuses: str) -> Outcome:
    """End one process of a named build."""
    return record(lake, report({f"s.{name}": s for name, s in statuses.items()}), request(build))


def two_releases(lake: Lake) -> None:
    """Make `s.a` and `s.b`; both move in release 1 and 2, and then a build of `s.a` is held back.

    Readers see the ids 1 and 2 in both; 3 and 4 wait in `s.a`.
    """
    make(lake, "s.a", "s.b")
    for number, build in enumerate((FIRST, SECOND), 1):
        for name in ("s.a", "s.b"):
            add(lake, name, 0) if number == 1 else None
            add(lake, name, number, build=build)
        end(lake, build, a="pass", b="pass")
    add(lake, "s.a", 3, 4, build=THIRD)
    end(lake, THIRD, a="fail")


def stored(lake: Lake, name: str) -> StoredTable:
    (table,) = read_tables(lake, [name])
    return table


def metadata(lake: Lake, name: str) -> Metadata:
    return stored(lake, name).metadata


def change(lake: Lake, name: str, how: Callable[[Metadata], Metadata]) -> None:
    edit(lake, name, how)


def ids(lake: Lake, name: str, ref: str = refs.MAIN) -> list[int]:
    """Return the ids that a reader of main, or of another branch or a tag, finds."""
    table = open_catalog(lake).load_table(name)
    if ref not in table.refs():
        return []
    rows = table.scan(snapshot_id=table.refs()[ref].snapshot_id).to_arrow()
    return sorted(rows["id"].to_pylist())


def pointers(lake: Lake) -> dict[str, str]:
    """Return where each table is: what nothing may change that fails."""
    return {table.name: table.entry.metadata_location for table in read_tables(lake)}


def said(lake: Lake) -> list[str]:
    return [event.event for event in ledger.read_events(lake)]


def locations(lake: Lake) -> dict[str, str]:
    return {entry.full_name: entry.metadata_location for entry in list_relations(lake)}


def event(number: Any) -> Event:
    """Return a row for the ledger."""
    return Event(datetime.now(timezone.utc), f"b{number}", "built")
