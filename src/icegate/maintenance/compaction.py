"""Which data files and delete files of a table it pays to rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from icegate.health.files import Part, whole
from icegate.health.limits import MIB
from icegate.health.reasons import many
from icegate.maintenance.action import COMPACT, DELETES, Action, Work
from icegate.maintenance.predicate import partition_sql
from icegate.tables.state import literal, quote

GIB, HOUR_MS = 1024 * MIB, 3600 * 1000
# A call is planned, committed and, if it's interrupted, repeated as a whole.
PARTITIONS, BYTES = 50, 10 * GIB

Due = tuple[Part, str]  # a partition, and why


def plan_files(work: Work, parts: list[Part]) -> None:
    """Plan what a table's policy asks for, the partitions first that pay most."""
    everything, policy = whole(parts), work.policy
    work.bytes = everything.bytes
    due = [(part, why) for part in parts if (why := _why(part, everything, work))]
    if policy.scope == "closed_partitions":
        since = work.now_ms - policy.quiet_hours * HOUR_MS
        open_now = [part for part, _ in due if part.newest_ms > since]
        due = [each for each in due if each[0].newest_ms <= since]
        # Without a predicate the call would be one on all partitions.
        unsaid = [part.name for part, _ in due if partition_sql(work.metadata, part) is None]
        if unsaid and len(due) < len(parts):
            due = [each for each in due if each[0].name not in unsaid]
            work.left.append(f"{many(len(unsaid), 'partition')} that no SQL can name")
        if open_now:
            said = f"{many(len(open_now), 'partition')} written to less than"
            work.left.append(f"{said} {policy.quiet_hours:g} hours ago")
    due.sort(key=lambda each: -_saves(each[0], work) / max(1, _rewrites(each[0], work)))
    old = [each for each in due if _is_old(each[0], work)]
    moved = _within(work, old, policy.old_partitions_max_gb or 0, " of an earlier partitioning")
    taken = _within(work, [each for each in due if each not in old], policy.max_gb)
    for chunk in (*_chunks(moved, work), *_chunks(taken, work)):
        work.actions.append(_compaction(work, chunk, len(chunk) == len(parts)))
    compacted = {id(part) for part, _ in due}
    _plan_deletes(work, [part for part in parts if id(part) not in compacted])


def _within(work: Work, due: list[Due], max_gb: float, which: str = "") -> list[Due]:
    """Return what fits into a budget, and say what doesn't."""
    taken, room = list[Due](), max_gb * GIB
    for part, why in due:
        if _rewrites(part, work) <= room:
            taken.append((part, why))
            room -= _rewrites(part, work)
    if len(taken) < len(due):
        rest = many(len(due) - len(taken), "partition") + which
        work.left.append(f"{rest}: more than {max_gb:g} GiB in one run")
    return taken


def _is_old(part: Part, work: Work) -> bool:
    """Tell whether a partition of an earlier partitioning is to be moved into today's."""
    is_of_before = part.spec_id != work.metadata["default-spec-id"] and part.files > 0
    return is_of_before and work.policy.old_partitions_max_gb is not None


def _why(part: Part, everything: Part, work: Work) -> str:
    """Return why a partition is due, or nothing."""
    policy, gone = work.policy, part.deleted_rows + part.equality_rows
    if _is_old(part, work):
        return f"{many(part.files, 'file')} of an earlier partitioning"
    if gone and gone >= policy.delete_ratio * part.rows:
        return f"{gone:,} of {many(part.rows, 'row')} are deleted in {many(part.deletes, 'file')}"
    many_small = part.small >= policy.min_files or everything.spare >= policy.min_files
    if part.spare and many_small:
        return _small(part)
    age_ms = work.now_ms - part.oldest_ms
    is_old = policy.max_age_hours is not None and age_ms >= policy.max_age_hours * HOUR_MS
    if is_old and part.oldest_ms and (part.spare or part.deletes):
        what = _small(part) if part.spare else many(part.deletes, "delete file")
        return f"{what}, for {age_ms / HOUR_MS:.0f} hours"
    return ""


def _small(part: Part) -> str:
    return f"{many(part.small, 'small file')} where {part.small - part.spare:,} would do"


def _saves(part: Part, work: Work) -> int:
    gone = part.bytes * min(1.0, part.deleted_rows / max(1, part.rows))
    return (part.spare + part.deletes) * work.limits.open_cost + int(gone)


def _rewrites(part: Part, work: Work) -> int:
    if _is_old(part, work):  # without a partition no `where` keeps the rest of the table out
        return part.bytes if partition_sql(work.metadata, part) else work.bytes
    return part.bytes if part.deletes else part.small_bytes


def _chunks(due: list[Due], work: Work) -> Iterator[list[Due]]:
    chunk, held = list[Due](), 0
    for each in due:
        held += _rewrites(each[0], work)
        if chunk and (len(chunk) == PARTITIONS or held > BYTES):
            yield chunk
            chunk, held = [], _rewrites(each[0], work)
        chunk.append(each)
    if chunk:
        yield chunk


def _compaction(work: Work, chunk: list[Due], is_all: bool) -> Action:
    policy, parts = work.policy, [part for part, _ in chunk]
    first = f"{parts[0].name}: {chunk[0][1]}" if parts[0].name else chunk[0][1]
    options = {
        # Which partitions pay is decided by now; left are files of the right size.
        "min-input-files": "2",
        "remove-dangling-deletes": "true",
        "partial-progress.enabled": "true",
    }
    if any(part.deletes for part in parts):
        options["delete-file-threshold"] = "1"
    if any(_is_old(part, work) for part in parts):
        options["rewrite-all"] = "true"  # of the right size they would be left
    if policy.target_file_mb:
        options["target-file-size-bytes"] = str(policy.target_file_mb * MIB)
    arguments = {} if policy.strategy == "binpack" else {"strategy": "'sort'"}
    if policy.sort_by:
        columns = ", ".join(map(quote, policy.sort_by)) if policy.strategy == "zorder" else ""
        order = f"zorder({columns})" if columns else ", ".join(policy.sort_by)
        arguments["sort_order"] = literal(order)
    return Action(
        table=work.table,
        kind=COMPACT,
        why=first,
        partitions=tuple(part.name for part in parts if part.name),
        where=_where(work, () if is_all else parts),
        options=options,
        arguments=arguments,
        rewrites=sum(_rewrites(part, work) for part in parts),
        saves=sum(_saves(part, work) for part in parts),
        parts=None
        if policy.where or "rewrite-all" in options
        else tuple((part.spec_id, part.values) for part in ([] if is_all else parts)),
    )


def _where(work: Work, parts: Sequence[Part]) -> str:
    """Return the predicate of partitions; nothing where the table is meant, or SQL can't say it."""
    said = [partition_sql(work.metadata, part) for part in parts]
    either = "" if None in said or "" in said else " or ".join(f"({each})" for each in said)
    given = work.policy.where
    return f"({given}) and ({either})" if given and either else given or either


def _plan_deletes(work: Work, parts: list[Part]) -> None:
    """Plan for delete files where the data stays: many of them, or some for data that is gone."""
    if work.metadata["format-version"] != 2:
        return  # a deletion vector goes with its data file, and there is one for each at most
    compacts = any(action.kind == COMPACT for action in work.actions)  # which takes dangling ones
    least = work.policy.min_files
    due = [p for p in parts if p.delete_files >= least or (p.dangling and not compacts)]
    if not due:
        return
    files = sum(part.delete_files for part in due)
    gone = 0 if compacts else sum(part.dangling for part in due)
    said = [f"{many(files, 'delete file')} of few rows"] * bool(files)
    said += [f"{many(gone, 'delete file')} for data that is gone"] * bool(gone)
    action = Action(
        table=work.table,
        kind=DELETES,
        why=" and ".join(said),
        partitions=tuple(part.name for part in due if part.name),
        where=_where(work, due if len(due) <= PARTITIONS else ()),
        options={"rewrite-all": "true"},
        saves=(files + gone) * work.limits.open_cost,
    )
    work.actions.append(action)
