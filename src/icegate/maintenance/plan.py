"""Which tables need maintenance, and what of it pays: from metadata and the models' policies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from icegate.catalog import CatalogEntry
from icegate.gate import refs
from icegate.gate.refs import Metadata
from icegate.health.limits import MIB, limits_of
from icegate.health.reasons import many
from icegate.health.snapshots import expired, expired_refs
from icegate.health.table import Health, look
from icegate.history.steps import TAG
from icegate.maintenance.action import (
    COMPACT,
    EXPIRE,
    MAKE_TAG,
    MANIFESTS,
    ORPHANS,
    Action,
    Expiry,
    Work,
)
from icegate.maintenance.compaction import HOUR_MS, plan_files
from icegate.maintenance.policy import SERVICES, Policy
from icegate.maintenance.tags import TAKEN, Tag, wanted_tags
from icegate.streams.places import only_in
from icegate.tables.metadata import current_snapshot, total

TARGET = "write.target-file-size-bytes"
OF_SERVICES = (COMPACT, EXPIRE, ORPHANS)
KEPT = (
    "snapshots: `gc.enabled` isn't true, so no file may be deleted. On Nessie other branches may "
    "have them: `nessie-gc` knows"
)
S3_TABLES = "--table-s3"  # how the bucket of a table in S3 Tables ends


@dataclass(frozen=True)
class TablePlan:
    """What is to be done on a table, what is left and why, and what nobody may do for now."""

    table: str
    policy: Policy
    actions: tuple[Action, ...] = ()
    left: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    score: int | None = None
    keeps_files: bool = False

    @property
    def worth(self) -> float:
        """How much all that is rewritten saves, per byte of it; without any it costs next to none.

        So what only touches metadata comes first.
        """
        rewriting = [action for action in self.actions if action.rewrites]
        return max((action.worth for action in rewriting), default=math.inf)


class Around(NamedTuple):
    """What there is of the lake beside the table: builds that run, tables with its files."""

    alive: Sequence[str] = ()
    sharing: Sequence[str] = ()
    keeps_files: bool = False


def plan(
    entry: CatalogEntry, metadata: Metadata, policy: Policy, now: datetime, around: Around
) -> TablePlan:
    """Return what a table's policy asks for, the calls in the order in which they are run.

    Raises ``TableError`` for properties that can't be right. A table whose manifests can't be read
    has that as what is ``refused``.
    """
    name, policy = entry.full_name, _with_service(policy, metadata)
    empty = TablePlan(name, policy, keeps_files=around.keeps_files)
    snapshot = current_snapshot(metadata)
    if not policy.enabled or snapshot is None:
        return empty
    if around.alive:
        return replace(empty, left=(f"build {', '.join(around.alive)} is writing it",))
    if policy.target_file_mb:
        target = {TARGET: str(policy.target_file_mb * MIB)}
        metadata = refs.with_properties(metadata, target)
    found = look(entry, now, _may_pay(metadata, snapshot, policy), metadata)
    if found.error:
        return replace(empty, refused=(f"it can't be read: {found.error}",))
    now_ms = int(now.timestamp() * 1000)
    work = Work(name, metadata, policy, limits_of(metadata), now_ms)
    tags = wanted_tags(name, metadata, policy, now)
    _plan_tags(work, tags)
    plan_files(work, [part.files for part in found.partitions if part.files])
    _plan_manifests(work, found)
    if not any(tag.state == TAKEN for tag in tags):  # what should have that tag would go
        _plan_expiry(work, around)
    _leave_to_service(work)
    return replace(
        empty,
        actions=tuple(work.actions),
        left=tuple(work.left),
        refused=tuple(work.refused),
        score=found.score,
    )


def ranked(plans: Iterable[TablePlan]) -> list[TablePlan]:
    """Return plans in the order in which they pay: what readers are saved per byte rewritten."""
    return sorted(plans, key=lambda each: (-each.worth, each.table))


def _may_pay(metadata: Metadata, snapshot: Metadata, policy: Policy) -> bool:
    """Tell whether files may have to be rewritten, as far as the totals of a snapshot say."""
    if policy.old_partitions_max_gb is not None and len(metadata["partition-specs"]) > 1:
        return True
    files, deletes = (total(snapshot["summary"], what) for what in ("data-files", "delete-files"))
    if files is None or deletes is None or deletes:
        return True
    return files >= policy.min_files or (policy.max_age_hours is not None and files > 1)


def _plan_tags(work: Work, tags: Sequence[Tag]) -> None:
    """Plan the tags that a policy asks for first: what is planned then leaves their snapshots."""
    for tag in tags:
        if tag.can_be_made:
            work.actions.append(Action(work.table, MAKE_TAG, str(tag), tag=tag))
            work.metadata = tag.put(work.metadata)
        else:
            (work.refused if tag.state == TAKEN else work.left).append(str(tag))


def _plan_manifests(work: Work, found: Health) -> None:
    # Compaction writes them anew as well: what it leaves is for the next run.
    compacts = any(action.kind == COMPACT for action in work.actions)
    for reason in found.reasons:
        if reason.name == "manifests" and not compacts:
            work.actions.append(Action(work.table, MANIFESTS, reason.sentence))


def _plan_expiry(work: Work, around: Around) -> None:
    """Plan what no reader can ask for any more; never past what a branch or tag has to keep."""
    policy = work.policy
    age_ms = max(work.limits.snapshot_age, int(policy.max_query_hours * HOUR_MS))
    if told := refs.oldest_kept(work.metadata, TAG):
        tag, at_ms = told
        if work.now_ms - at_ms > age_ms:
            work.left.append(f"snapshots after {tag}: a model goes on from there with its history")
        age_ms = max(age_ms, work.now_ms - at_ms)
    limits = work.limits.model_copy(update={"snapshot_age": age_ms})
    gone = expired(work.metadata, limits, work.now_ms)
    if len(gone) < policy.min_snapshots:
        return
    lost = expired_refs(work.metadata, limits, work.now_ms, policy.protect)
    if lost:
        work.refused.append(
            f"expire_snapshots would drop {', '.join(lost)}, which the policy protects, for their "
            "own retention or the table's `history.expire.max-ref-age-ms` has run out: make them "
            "anew without one, or unset it"
        )
    elif streams := only_in(work.metadata, gone):
        work.left.append(
            f"snapshots: only they tell the newest batch of the stream {streams[0]}, whose process "
            f"was killed: `icegate stream start {streams[0]}`"
        )
    elif around.sharing:
        work.left.append(f"snapshots: {', '.join(around.sharing)} may need their files")
    elif around.keeps_files:
        work.left.append(KEPT)
    else:
        kept = len(work.metadata["snapshots"]) - len(gone)
        why = f"{many(len(gone), 'snapshot')} can go, {kept:,} left"
        expiry = Expiry(work.now_ms - age_ms, limits.snapshots, _removed(work.metadata))
        action = Action(work.table, EXPIRE, why, arguments=expiry.arguments, expiry=expiry)
        work.actions.append(action)


def _removed(metadata: Metadata) -> int:
    """Return how many files the snapshots of a table removed; what stays may have removed most."""
    summaries = [snapshot.get("summary") or {} for snapshot in metadata["snapshots"]]
    names = "deleted-data-files", "removed-delete-files"
    return sum(int(summary.get(name) or 0) for summary in summaries for name in names)


def _with_service(policy: Policy, metadata: Metadata) -> Policy:
    """Return the policy with the service that maintains the table's bucket, whoever named it."""
    bucket = metadata["location"].partition("://")[2].partition("/")[0]
    if policy.service or not bucket.endswith(S3_TABLES):
        return policy
    return policy.model_copy(update={"service": "s3_tables"})


def _leave_to_service(work: Work) -> None:
    if work.policy.service:
        kept = [action for action in work.actions if action.kind not in OF_SERVICES]
        if len(kept) < len(work.actions):
            work.left.append(SERVICES[work.policy.service])
        work.actions = kept
