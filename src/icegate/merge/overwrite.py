"""Partitions written whole: when that is the same as a merge, which they are, and the statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from icegate.errors import ConfigError
from icegate.gate.store import StoredTable
from icegate.merge.bounds import INTEGERS, MOST_VALUES, Column, bounded
from icegate.merge.plans import why_not_split
from icegate.merge.statements import matching
from icegate.retries import CONFLICT, FROM_SNAPSHOT, kind_of
from icegate.tables.layout import Transform, as_terms, partition_fields
from icegate.tables.merge_plan import DEST, MergePlan
from icegate.tables.state import quote, state_from_metadata

if TYPE_CHECKING:
    from icegate.merge.run import Engine

KINDS = {"days": "date", "years": "int", "months": "int", "hours": "int", "bucket": "int"}
DONE = "select 'partitions overwritten' as said"


class Layout(NamedTuple):
    """Where a table is: at a snapshot, None without rows; and whether no file lies elsewhere
    than its partitioning says now.
    """

    snapshot_id: int | None
    is_even: bool


def layout_of(table: StoredTable, branch: str, fields: Sequence[Transform]) -> Layout:
    """Return the layout from the metadata and manifests of a branch, or of `main`."""
    from icegate.audits.source import source_of

    source = source_of(table, branch)
    same = partition_fields(state_from_metadata(table.metadata).partitions, table.name) == fields
    specs = {manifest.partition_spec_id for manifest in source.files.manifests}
    return Layout(source.snapshot_id, same and specs <= {table.metadata["default-spec-id"]})


def layout_sql(table: str, fields: Sequence[Transform]) -> str:
    """Return the query of ``Layout`` for a catalog that only Spark reads, where `main` is written.

    `_partition` has the fields of all partitionings that there were.
    """
    return (
        f"select (select max(snapshot_id) from {table}.refs where name = 'main'),\n"
        "    count(distinct partition_spec_id) <= 1\n"
        f"    and count_if(size(partition_summaries) <> {len(fields)}) = 0\n"
        "    and size(split((select typeof(max(_partition)) from "
        f"{table} where false), ':')) = {len(fields) + 1}\nfrom {table}.manifests"
    )


def is_lossless(table: str, batch: str) -> bool:
    """Tell whether a union of these types has the values of both as they are.

    The rows that stay go through it: of bigint and double it makes double.
    """
    if table == batch or (table in INTEGERS and batch in INTEGERS):
        return True
    found = [re.fullmatch(r"decimal\((\d+),(\d+)\)", kind) for kind in (table, batch)]
    sizes = [(int(kind[1]), int(kind[2])) for kind in found if kind]
    if len(sizes) < len(found):
        return False
    return max(all - after for all, after in sizes) + max(after for _, after in sizes) <= 38


class Overwrite:
    """The partitions of a batch in ``target``; ``kinds`` are the types of table and batch."""

    def __init__(
        self, merge: MergePlan, target: str, kinds: tuple[dict[str, str], dict[str, str]]
    ) -> None:
        self.merge, self.target, self.kinds = merge, target, kinds
        where = f"partition_by of model {merge.model}"
        self.fields = partition_fields(as_terms(merge.config.get("partition_by")), where)
        self.within, self.snapshot_id = "", 0

    def why_not(self) -> str:
        """Return why this isn't the same as the merge of the model; nothing if it is."""
        if why := why_not_split(self.merge):
            return why
        if not (self.fields and self.merge.keys):
            return "it takes a partition_by, and a unique_key that has its columns"
        for name in map(str.lower, self.merge.table):
            table, batch = (kinds.get(name, "") for kinds in self.kinds)
            if not is_lossless(table, batch):
                return f"{name} is {table} in the table, and {batch} in the batch"
        known = bounded([*self.merge.key_names, *self.merge.fixed], *self.kinds, quote)
        for field in self.fields:
            if field.column not in {column.name.lower() for column in known}:
                return (
                    f"the table may have a key of the batch in another partition: {field.column} "
                    "isn't in its unique_key, or has a type whose equal values differ"
                )
        return ""

    def check(self, engine: Engine) -> None:
        """Raise for a model or a table whose partitions can't be written so."""
        why, fix = self.why_not(), "take merge_plan: auto, or copy_on_write"
        if not (why or engine.has_session):
            why = "there is no session that could hold the batch"
        if not (why or engine.has_options):
            why = "Spark 3.5 has no `with (…)` in SQL, by which other writers' rows are kept"
        if not (why or engine.layout(self.fields).is_even):
            why = "files of the table lie under another partitioning than it has now"
            fix += "; or rewrite them, by the macro compact with rewrite-all"
        if why:
            raise ConfigError(
                "merge_plan overwrite_partitions isn't the same as the merge of model "
                f"{self.merge.model}",
                why=why,
                fix=fix,
            )

    def finds(self, engine: Engine, held: str) -> bool:
        """Find the partitions of the view ``held``; tell whether these can be written."""
        found = engine.layout(self.fields)
        if found.snapshot_id is None or not found.is_even:
            return False
        self.snapshot_id, said = found.snapshot_id, []
        for field in self.fields:
            kind = KINDS.get(field.name) or self.kinds[0][field.column]
            column = Column("", field.value(), kind)
            text = column.text(column.sql)
            rows = engine.ask(f"select distinct {text} from {held} limit {MOST_VALUES + 1}")
            if len(rows) > MOST_VALUES:
                return False
            named = field.value(f"{DEST}.")
            values = ", ".join(column.literal(str(row[0])) for row in rows if row[0] is not None)
            # A row without a key meets nothing, but its partition is written all the same.
            either = [f"{named} in ({values})"] * bool(values)
            either += [f"{named} is null"] * any(row[0] is None for row in rows)
            said.append(f"({' or '.join(either)})")
        self.within = " and ".join(said)
        return True

    def rows(self, engine: Engine) -> int:
        """Return how many rows these partitions have, which Iceberg counts by its manifests."""
        asked = f"select count(*) from {self.target} as {DEST} where {self.within}"
        return int(engine.ask(asked)[0][0])

    def sql(self, held: str, rows: int) -> str:
        """Return the statement: the batch of so many rows, and what the table has beside it.

        Without its options Iceberg drops what another writer added to these partitions since
        they were read, on a branch too.
        """
        columns = ", ".join(self.merge.columns)
        kept = ", ".join(f"{DEST}.{name}" for name in self.merge.columns)
        return (
            f"insert overwrite {self.target} with ('overwrite-mode' = 'dynamic', "
            f"'isolation-level' = 'serializable', '{FROM_SNAPSHOT}' = '{self.snapshot_id}')"
            f" ({columns})\nselect {columns} from {held}\nunion all\n"
            f"select {kept} from {self.target} as {DEST}\n"
            f"where {self.within} and not {matching(self.merge, held, [], rows)}"
        )

    def run(self, engine: Engine, held: str, rows: int) -> str:
        """Run the statement and return one that tells of it, or nothing: someone else came first,
        and the table is as they left it.
        """
        sql = self.sql(held, rows)
        try:
            engine.write(sql)
        except Exception as error:
            if kind_of(error) == CONFLICT:
                return ""
            raise
        return "\n".join([DONE, *(f"-- {line}" for line in sql.splitlines())])
