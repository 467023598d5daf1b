"""Choose how a batch gets into a table: pure functions over facts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from icegate.errors import ConfigError, did_you_mean
from icegate.merge.facts import Batch, Touched
from icegate.tables.merge_plan import MergePlan

MODE, DELETE_MODE = "write.merge.mode", "write.delete.mode"
ON_READ, ON_WRITE = "merge-on-read", "copy-on-write"
LITTLE = 4 * 1024**2  # bytes that are rewritten sooner than delete files are made
MUCH = 0.2  # of the rows: delete files of so many cost readers so much that compaction comes next


class Plan(str, Enum):
    """The ways."""

    AUTO = "auto"
    APPEND = "append"
    COPY_ON_WRITE = "copy_on_write"
    MERGE_ON_READ = "merge_on_read"
    DELETE_AND_INSERT = "delete_and_insert"
    OVERWRITE_PARTITIONS = "overwrite_partitions"


@dataclass(frozen=True)
class Choice:
    """A plan and why it was taken."""

    plan: Plan
    why: str


def read_plan(merge: MergePlan, properties: dict[str, str]) -> Plan | None:
    """Return the plan that a model's configs name, None without one.

    Raises ``ConfigError`` for an unknown one, and for one that its table properties contradict.
    """
    given = merge.config.get("merge_plan")
    if given is None:
        return None
    names = [plan.value for plan in Plan]
    if given not in names:
        raise ConfigError(
            f"unknown merge_plan {given!r} of model {merge.model}",
            why=f"the plans are: {', '.join(names)}",
            fix=did_you_mean(str(given), names, "take one of them, or auto"),
        )
    plan, said = Plan(given), {properties.get(MODE), properties.get(DELETE_MODE)} - {None}
    wrong = {
        Plan.COPY_ON_WRITE: ON_READ,
        Plan.MERGE_ON_READ: ON_WRITE,
        Plan.DELETE_AND_INSERT: ON_WRITE,
    }.get(plan)
    if wrong in said:
        raise ConfigError(
            f"merge_plan {given} of model {merge.model} contradicts its table properties",
            why=f"its tblproperties or table_profile say {wrong}",
            fix=f"take out `write.merge.mode` and `write.delete.mode`, or merge_plan: {given}",
        )
    return plan


def why_not_split(merge: MergePlan) -> str:
    """Return why delete and insert aren't the same as the merge of a model; nothing if they are."""
    conditions = (
        "matched_condition",
        "not_matched_condition",
        "delete_condition",
        "not_matched_by_source_action",
    )
    for name in conditions:
        if merge.config.get(name):
            return f"{name} treats rows that meet one by one"
    if merge.predicates:
        return "incremental_predicates leave out rows that have a key of the batch"
    if len(merge.update) < len(merge.table):
        return "only some columns are updated, and a merge keeps the others as they are"
    return ""


def check_split(merge: MergePlan, has_branch: bool) -> None:
    """Raise for a model that can't be written by delete and insert."""
    why = why_not_split(merge)
    fix = "take merge_plan: auto, or merge_on_read"
    if not why and not has_branch:
        why = "readers would see the table between the two, since no branch keeps them apart"
        fix = "set `gate: true` in the target, or take merge_plan: auto, or merge_on_read"
    if why:
        raise ConfigError(
            f"merge_plan delete_and_insert isn't the same as the merge of model {merge.model}",
            why=why,
            fix=fix,
        )


def choose(
    merge: MergePlan,
    batch: Batch,
    touched: Touched | None,
    properties: dict[str, str],
    has_branch: bool,
) -> Choice:
    """Choose a plan for a batch; ``touched`` is None where nobody knows the table's files."""
    said = properties.get(MODE) or properties.get(DELETE_MODE)
    # Elsewhere another writer could add such a key meanwhile: a merge notices, an append doesn't.
    none = has_branch and touched is not None and not touched.files
    if none and merge.delete_unmatched is None:
        return Choice(Plan.APPEND, "no file may have a key of the batch")
    if said == ON_WRITE:
        return Choice(Plan.COPY_ON_WRITE, "its table properties say copy-on-write")
    if merge.delete_unmatched is not None:
        way = Plan.MERGE_ON_READ if said else Plan.COPY_ON_WRITE
        return Choice(way, "what the batch lacks is deleted, so all of the table is read")
    if touched is not None and said is None:
        if touched.bytes <= LITTLE:
            return Choice(Plan.COPY_ON_WRITE, "there is little to rewrite")
        if is_much(batch, touched.rows):
            return Choice(Plan.COPY_ON_WRITE, "so many rows change that delete files cost more")
    why = why_not_split(merge) or ("" if has_branch else "there is no branch")
    if why:
        return Choice(Plan.MERGE_ON_READ, why)
    return Choice(Plan.DELETE_AND_INSERT, "few of the rows change")


def may_overwrite(choice: Choice, batch: Batch, touched: Touched | None) -> bool:
    """Tell whether it's worth a look how many rows the partitions of the batch have."""
    if choice.plan is not Plan.COPY_ON_WRITE or touched is None or touched.bytes <= LITTLE:
        return False
    return is_much(batch, touched.rows)


def is_much(batch: Batch, rows: int) -> bool:
    """Tell whether so many of ``rows`` change that all of them are written anew."""
    return batch.rows > MUCH * rows


def mode_of(plan: Plan) -> dict[str, str]:
    """Return the table properties that a plan needs."""
    if plan is Plan.DELETE_AND_INSERT:
        return {DELETE_MODE: ON_READ}
    modes: dict[Any, str] = {Plan.COPY_ON_WRITE: ON_WRITE, Plan.MERGE_ON_READ: ON_READ}
    return {MODE: modes[plan]} if plan in modes else {}
