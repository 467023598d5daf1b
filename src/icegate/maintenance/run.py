"""Carry out plans: a call after the other, each looked at afterwards, none past its budget."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from icegate.catalog import catalog_of, local_path
from icegate.errors import CatalogError, IcegateError, TableError
from icegate.explain import explain
from icegate.gate import refs
from icegate.gate.build import publishing, writing_builds
from icegate.gate.store import Moved, StoredTable, edit, read_tables
from icegate.health.reasons import many, size
from icegate.locks import held_alone
from icegate.maintenance.action import (
    COMPACT,
    DELETES,
    EXPIRE,
    MANIFESTS,
    Action,
    quoted,
)
from icegate.maintenance.binpack import Elsewhere, compact
from icegate.maintenance.compaction import GIB
from icegate.maintenance.expiry import expire, fits
from icegate.maintenance.orphans import views
from icegate.maintenance.plan import TablePlan
from icegate.retries import CONFLICT, kind_of
from icegate.settings import Lake
from icegate.storage import is_remote
from icegate.tables.metadata import history, total

Rows = Sequence[Mapping[str, Any]]
Sql = Callable[[str], Rows]  # runs a statement, and returns its rows by column

BRANCH = "icegate_maintenance"
DONE, LEFT, FAILED = "done", "left", "failed"
REWRITTEN = {  # how a procedure counts what it does, and what that is called
    COMPACT: ("data_files", "file"),
    DELETES: ("delete_files", "delete file"),
    MANIFESTS: ("manifests", "manifest"),
}
WHOLE = {"partial-progress.enabled": "false"}
SPARE_BYTES = 64 * 2**20  # that must stay free on the disk


@dataclass(frozen=True)
class Done:
    """What became of a call: ``done``, ``left`` for another run, or ``failed``; in seconds."""

    action: Action
    outcome: str
    said: str
    seconds: float = 0


@dataclass
class Run:
    """One run of maintenance: what it may spend in bytes and seconds, and what it has."""

    lake: Lake
    sql: Sql
    verify: bool = False
    max_gb: float | None = None
    max_minutes: float | None = None
    rewritten: int = 0
    began: float = field(default_factory=time.monotonic)

    def carry_out(self, plans: Iterable[TablePlan]) -> Iterator[Done]:
        """Yield what became of each call; one that fails ends those of its table only."""
        for each in plans:
            began = time.monotonic()
            for action in each.actions:
                done = self._one(each, action, began)
                yield done
                if done.outcome == FAILED:
                    break

    def _one(self, plan: TablePlan, action: Action, began: float) -> Done:
        left = self._over_budget(plan, action, began)
        if left:
            return Done(action, LEFT, left)
        started = time.monotonic()
        try:
            table = self._table(action.table)
            builds = writing_builds(self.lake, table.metadata)
            if builds:
                return Done(action, LEFT, f"build {', '.join(builds)} is writing it")
            self._check_space(table, action)
            said = self._call(table, action)
            outcome = DONE
        except _Met as met:
            outcome, said = LEFT, str(met)
        except IcegateError as error:
            outcome, said = FAILED, error.render()
        except Exception as error:  # of Spark, which has many
            outcome, said = FAILED, explain(error)
        self.rewritten += action.rewrites
        return Done(action, outcome, said, time.monotonic() - started)

    def _over_budget(self, plan: TablePlan, action: Action, began: float) -> str:
        """Return which budget is used up, or nothing: of bytes only for what rewrites files."""
        for limit, since in ((self.max_minutes, self.began), (plan.policy.max_minutes, began)):
            if limit is not None and time.monotonic() - since > limit * 60:
                return f"its {limit:g} minutes are over"
        after = self.rewritten + action.rewrites
        if self.max_gb is not None and action.rewrites and after > self.max_gb * GIB:
            return f"it would be more than {self.max_gb:g} GiB in this run"
        return ""

    def _table(self, name: str) -> StoredTable:
        found = next(read_tables(self.lake, [name]), None)
        if found is None:
            raise CatalogError(f"cannot maintain {name}", why="it's gone, or can't be read")
        return found

    def _check_space(self, table: StoredTable, action: Action) -> None:
        if not action.rewrites or is_remote(table.metadata["location"]):
            return
        folder = local_path(table.metadata["location"])
        free = shutil.disk_usage(folder).free
        if free < action.rewrites + SPARE_BYTES:
            raise TableError(
                f"cannot compact {action.table}",
                why=f"it writes up to {size(action.rewrites)}, and {size(free)} are free; what is "
                "there stays until its snapshots expire",
                fix="free space, or give less to a run: `--max-gb`, `+maintenance_max_gb`",
            )

    def _call(self, before: StoredTable, action: Action) -> str:
        if action.tag:
            edit(self.lake, action.table, action.tag.put)
            return f"{action.tag.name} is at snapshot {action.tag.snapshot_id}"
        if BRANCH in (before.metadata.get("refs") or {}):  # of a run that was stopped
            self._drop_branch(action.table)
        if self.verify and action.kind == COMPACT:
            rows = self._verified(action)
        elif action.files:
            rows = [row for view in views(action.files) for row in self._orphans(view, action)]
        elif action.expiry and fits(before.metadata, action.expiry):
            rows = []
            expire(self.lake, action.table, action.expiry)
        else:
            rows = self._compacted(before, action) or self.sql(action.call())
            if rows and rows[0].get("failed_data_files_count"):
                rows = self._whole(action)
        after = self._table(action.table).metadata
        check_rows(before.metadata, after, action.table)
        if action.kind == EXPIRE:
            gone = {s["snapshot-id"] for s in before.metadata["snapshots"]}
            gone -= {s["snapshot-id"] for s in after["snapshots"]}
            return f"{many(len(gone), 'snapshot')} expired"
        return _told(action, rows)

    def _compacted(self, before: StoredTable, action: Action) -> Rows:
        """Compact in this process, if that can be: nothing is returned, and done, if it can't."""
        if action.kind != COMPACT:
            return []
        try:
            return compact(self.lake, before, action)
        except (Elsewhere, Moved):
            return []

    def _orphans(self, view: str, action: Action) -> Rows:
        self.sql(view)
        return self.sql(action.call())

    def _whole(self, action: Action) -> Rows:
        """Rewrite in one commit what failed in one of several: only then there is a reason told."""
        try:
            return self.sql(replace(action, options=action.options | WHOLE).call())
        except Exception as error:
            if kind_of(error) != CONFLICT:
                raise
            raise _Met("others wrote to all of it meanwhile") from error

    def _verified(self, action: Action) -> Rows:
        """Compact on a branch, compare the rows of its partitions, and move `main` there."""
        name = quoted(action.table)
        self.sql(f"alter table {name} create branch {BRANCH}")
        had = self._rows(action)
        rows = self.sql(action.call(BRANCH))
        has = self._rows(action)
        if has != had:
            raise TableError(
                f"cannot compact {action.table}: its rows would change",
                why=f"there were {had[0]:,} rows, and on its branch are {has[0]:,}, or others",
                fix=f"look at it, version as of '{BRANCH}'; main is as it was",
            )
        try:
            with publishing(self.lake):
                target = f"branch => 'main', to => '{BRANCH}'"
                self.sql(f"call system.fast_forward(table => '{name}', {target})")
        except Exception as error:
            if "not an ancestor" not in str(error):
                raise
            raise _Met("someone wrote to it meanwhile, so nothing was published") from error
        finally:
            self._drop_branch(action.table)
        return rows

    def _rows(self, action: Action) -> tuple[int, Any]:
        where = f" where {action.where}" if action.where else ""
        (found,) = self.sql(
            "select count(*) as rows, sum(cast(xxhash64(*) as decimal(38, 0))) as hashed"
            f" from {quoted(action.table)} version as of '{BRANCH}'{where}"
        )
        return found["rows"], found["hashed"]

    def _drop_branch(self, table: str) -> None:
        self.sql(f"alter table {quoted(table)} drop branch if exists {BRANCH}")


class _Met(Exception):
    """Another writer came first; nothing is lost, and it's left for another run."""


def lease(lake: Lake) -> AbstractContextManager[None]:
    """Hold while tables are maintained; raise when another process does that already."""
    return held_alone(catalog_of(lake).lock("maintenance"), "maintain tables")


def check_rows(before: refs.Metadata, after: refs.Metadata, table: str) -> None:
    """Raise ``TableError`` where a compaction since ``before`` changed how many rows there are.

    By the totals of its commit and of the one before. Where there are delete files these are
    bounds: a row may be deleted twice, and an equality delete takes nobody knows how many.
    """
    known = {snapshot["snapshot-id"] for snapshot in before["snapshots"]}
    for found in history(after):
        if found["snapshot-id"] in known:
            return
        parent = refs.snapshot(after, found.get("parent-snapshot-id"))
        if parent is None or found["summary"].get("operation") != "replace":
            continue
        old, new = (_bounds(snapshot["summary"]) for snapshot in (parent, found))
        if old and new and (new[0] > old[1] or old[0] > new[1]):
            raise TableError(
                f"compaction changed how many rows {table} has",
                why=f"there were {old[1]:,} by its snapshot {parent['snapshot-id']}, and are "
                f"{new[1]:,} by {found['snapshot-id']}",
                fix=f"go back: `call system.rollback_to_snapshot('{table}', "
                f"{parent['snapshot-id']})`",
            )


def _bounds(summary: Mapping[str, str]) -> tuple[int, int] | None:
    names = ("records", "position-deletes", "equality-deletes")
    records, positions, equality = (total(dict(summary), name) for name in names)
    if records is None:
        return None
    return 0 if equality else records - (positions or 0), records


def _told(action: Action, rows: Rows) -> str:
    if action.files:
        return f"{many(len(rows), 'file')} deleted"
    row = rows[0]
    counted, noun = REWRITTEN[action.kind]
    old, new = (row[f"{done}_{counted}_count"] for done in ("rewritten", "added"))
    return f"{many(old, noun)} into {new:,}"
