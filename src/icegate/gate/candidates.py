"""What a build wrote and readers don't see yet: branches, and tables and views beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from icegate.catalog import list_relations, read_metadata
from icegate.gate import ledger, refs, staging
from icegate.gate.build import is_alive, is_own_name
from icegate.gate.report import Report
from icegate.gate.staging import Staged
from icegate.gate.store import Step, StoredTable, dropped, read_tables
from icegate.settings import Lake

OWN = (ledger.NAMESPACE, staging.NAMESPACE)  # what is no table of people's


@dataclass(frozen=True)
class Candidate:
    """A table or view that a build wrote: where its branch began and is, where `main` is.

    ``since`` is the release whose rows readers have, ``node`` the unique id of what wrote it.
    """

    table: StoredTable
    base: int | None
    head: int | None
    main: int | None
    since: int | None = None
    node: str = ""

    @property
    def staged(self) -> Staged | None:
        """What was built beside the table that readers see, if it was."""
        return self.table if isinstance(self.table, Staged) else None

    @property
    def changed(self) -> bool:
        """Tell whether it has anything that readers don't."""
        return self.staged is not None or self.head not in (self.base, self.main)

    @property
    def added_rows(self) -> int | None:
        """How many rows it has more than `main`, as the summaries say."""
        return refs.rows_between(self.table.metadata, self.main, self.head)

    def query(self, build: str) -> str:
        """Return the SQL that shows its rows."""
        if self.staged is not None:
            return f"select * from {self.table.name}"
        return f"select * from {self.table.name} version as of '{refs.branch_of(build)}'"


def read_lake(lake: Lake, kind: str = "table") -> dict[str, StoredTable]:
    """Return all tables, or views, that people have, by name: not the gate's own."""
    return {t.name: t for t in read_tables(lake, kind=kind) if t.entry.namespace not in OWN}


def candidates(
    lake: Lake, build: str, tables: dict[str, StoredTable], report: Report
) -> dict[str, Candidate]:
    """Return what a build wrote, by final name."""
    branch = refs.branch_of(build)
    # What isn't gated is to be on `main`.
    gated = {node.table: node.id for node in report.nodes.values() if node.table}
    found = {
        name: Candidate(
            table,
            refs.base_of(table.metadata, branch),
            refs.head(table.metadata, branch),
            refs.head(table.metadata),
            _since(table),
            gated.get(name, ""),
        )
        for name, table in tables.items()
        if refs.head(table.metadata, branch) is not None
        or (name in gated and refs.leak(table.metadata, build))
    }
    for name, staged in staging.read_staged(lake, gated, build).items():
        now = tables.get(name)
        main, since = (refs.head(now.metadata), _since(now)) if now else (None, None)
        head = refs.head(staged.metadata)
        found[name] = Candidate(staged, main, head, main, since, gated[name])
    return found


def _since(table: StoredTable) -> int | None:
    return max(refs.releases(table.metadata), default=None)


def with_heads(report: Report, found: dict[str, Candidate]) -> Report:
    """Return the report with where the branches are now, for the nodes that it ran itself."""
    nodes = dict(report.nodes)
    for id, node in nodes.items():
        if node.head is None and node.table in found:
            nodes[id] = dataclasses.replace(node, head=found[node.table].head)
    return dataclasses.replace(report, nodes=nodes)


def blocked(
    found: dict[str, Candidate], report: Report, build: str, tables: dict[str, StoredTable]
) -> dict[str, str]:
    """Return why tables can't be published whatever their tests say."""
    proven = {node.table: node.head for node in report.nodes.values() if node.head is not None}
    why = {}
    for name, candidate in found.items():
        if not (candidate.changed or refs.leak(candidate.table.metadata, build)):
            continue
        if candidate.staged is not None:
            why[name] = staging.why_not(candidate.staged, tables.get(name), build)
        else:
            why[name] = _why_not(candidate, build)
        if not why[name] and proven.get(name, candidate.head) != candidate.head:
            why[name] = "it was written again after its tests"
    return {name: reason for name, reason in why.items() if reason}


def _why_not(candidate: Candidate, build: str) -> str:
    metadata = candidate.table.metadata
    if refs.leak(metadata, build):
        return "a write of this build went to its main instead of the branch"
    if refs.is_overtaken(metadata, refs.branch_of(build)):
        return "someone else wrote to its main after the build had begun"
    return ""


def stale_branches(
    lake: Lake, table: StoredTable, build: str, kept: Collection[str], anew: Collection[str]
) -> list[str]:
    """Return the branches of a table that nobody needs any more.

    Of unnamed builds that no process runs: what crashed or was cancelled, and what was held back
    before ``build`` wrote the table ``anew``. A person ends a build that a person named.
    """
    stale = []
    for other in refs.builds(table.metadata):
        branch = refs.branch_of(other)
        if other == build:
            done = table.name not in kept
        else:
            done = is_own_name(other) and not is_alive(lake, other)
            done = done and (table.name in anew or not refs.is_held(table.metadata, branch))
        stale += [branch] * done
    return stale


def stale_staged(
    lake: Lake, build: str, kept: Collection[str], anew: Collection[str]
) -> Iterator[Step]:
    """Yield the same of what was built beside its table, and is to be dropped."""
    staying = {staging.staging_name(name, build) for name in kept}
    for entry in list_relations(lake, staging.NAMESPACE):
        other = staging.build_of(entry)
        if other == build:
            done = entry.name not in staying
        else:
            done = is_own_name(other) and not is_alive(lake, other)
            renewed = entry.name in {staging.staging_name(name, other) for name in anew}
            done = done and (renewed or not staging.is_held(read_metadata(entry)))
        if done:
            yield dropped(entry)
