"""A table that changes at random, and in memory what each of its versions has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from icegate.catalog import list_relations, read_metadata
from icegate.gate.compare import Point
from icegate.gate.refs import MAIN, head
from icegate.history.difference import ADDED, CHANGED, REMOVED, Difference
from icegate.history.reads import Source
from icegate.history.versions import Version, at_snapshot
from icegate.settings import Lake

KINDS = {
    "v2 copy-on-write": (2, "copy-on-write"),
    "v2 merge-on-read": (2, "merge-on-read"),
    "v3 merge-on-read": (3, "merge-on-read"),
}
LAYOUTS = ("", "p", "p, bucket(2, id)", "truncate(2, id)")
TYPES = {"int": "bigint", "float": "double"}  # of what may be widened
KEYS = 12  # of which rows come, go and come again


@dataclass(frozen=True)
class Kept:
    """A version: its snapshot, its columns by id (name, type), its rows by column id."""

    snapshot_id: int
    columns: dict[int, str]
    rows: tuple[dict[int, Any], ...]

    def by_key(self, key: Sequence[str], of: Kept) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """Return the rows with the columns of another version, by its key."""
        ids = [next(id for id, name in of.columns.items() if name == wanted) for wanted in key]
        return {
            tuple(row.get(id) for id in ids): tuple(row.get(id) for id in of.columns)
            for row in self.shown()
        }

    def shown(self) -> list[dict[int, Any]]:
        """Return the rows without what was dropped: files may still have it."""
        return [{id: value for id, value in row.items() if id in self.columns} for row in self.rows]


def changes(old: Kept, new: Kept, key: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return what changed, as a naive program tells it."""
    before, after = old.by_key(key, new), new.by_key(key, new)
    told: list[tuple[Any, ...]] = []
    for at in before.keys() | after.keys():
        if at not in before:
            told.append(("insert", *after[at]))
        elif at not in after:
            told.append(("delete", *before[at]))
        elif before[at] != after[at]:
            told += [("update_before", *before[at]), ("update_after", *after[at])]
    return sorted(told, key=repr)


def metadata_of(lake: Lake, table: str) -> dict[str, Any]:
    """Return the metadata of `schema.table`."""
    return read_metadata(next(e for e in list_relations(lake) if e.full_name == table))


def differing(
    lake: Lake, name: str, metadata: dict[str, Any], old: Version, new: Version, key: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Return what changed, as `icegate diff` finds it without Spark."""
    points = (Point(metadata, at.snapshot_id, at.schema_id) for at in (old, new))
    found = Difference(lake, name, *points, key)
    told: list[tuple[Any, ...]] = []
    for was, now in found.rows(CHANGED):
        told += [("update_before", *was), ("update_after", *now)]
    told += [("insert", *now) for _, now in found.rows(ADDED)]
    told += [("delete", *was) for was, _ in found.rows(REMOVED)]
    assert sum(found.counts.values()) == sum(row[0] != "update_before" for row in told)
    return sorted(told, key=repr)


class Versioned:
    """A table in Spark, and its versions in memory."""

    def __init__(
        self, spark: Any, lake: Lake, name: str, kind: str, layout: str, random: Random
    ) -> None:
        self.spark, self.lake, self.name, self.random = spark, lake, name, random
        version, mode = KINDS[kind]
        properties = [f"'write.{of}.mode' = '{mode}'" for of in ("merge", "update", "delete")]
        spark.sql(
            f"create table {name} (id int, p string, n int, x float) using iceberg"
            f"{layout and f' partitioned by ({layout})'}"
            f" tblproperties ('format-version' = '{version}', {', '.join(properties)})"
        )
        self.columns = {1: "id", 2: "p", 3: "n", 4: "x"}
        self.kinds = {3: "int", 4: "float"}
        self.rows: list[dict[int, Any]] = []
        self.kept: list[Kept] = []
        self.past: list[Kept] = []  # as readers had one after the other
        self.told: list[str] = []

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the table."""
        return metadata_of(self.lake, self.name)

    def changes(self, old: Kept, new: Kept, key: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return what changed, as the macro's query tells it."""
        source = Source(self.lake, self.name, self.name)
        query = source.changes(old.snapshot_id, new.snapshot_id, key)
        return sorted((tuple(row) for row in self.spark.sql(f"select * from {query}").collect()),
                      key=repr)  # fmt: skip

    def difference(self, old: Kept, new: Kept, key: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return what changed, as `icegate diff` finds it without Spark."""
        metadata = self.metadata
        was, now = (at_snapshot(metadata, kept.snapshot_id) for kept in (old, new))
        return differing(self.lake, self.name, metadata, was, now, key)

    def change(self) -> None:
        """Change something at random."""
        ways = [self.insert, self.merge, self.update, self.delete, self.merge, self.move]
        ways += [self.compact, self.roll_back, self.expire, self.add, self.rename, self.drop]
        ways += [self.widen, self.lay_out_anew]
        self.random.choice(ways)()

    def insert(self) -> None:
        """Add rows whose keys aren't there (any more)."""
        known = {row[1] for row in self.rows}
        free = [id for id in (*range(KEYS), None) if id not in known]
        rows = [self._row(id) for id in self.random.sample(free, min(len(free), 4))]
        if rows:
            self._run(f"insert into {self.name} {self._select(rows)}")
            self.rows += rows
            self._keep()

    def merge(self) -> None:
        """Add, change, leave as they are and delete rows by one commit."""
        rows = [self._row(id) for id in self.random.sample(range(KEYS), 4)]
        gone = {rows[0][1]} if self.random.random() < 0.5 else set()
        known = {row[1]: row for row in self.rows}
        if self.random.random() < 0.5 and rows[-1][1] in known:
            rows[-1] = dict(known[rows[-1][1]])
        when = f"when matched and s.id in ({', '.join(map(str, gone))}) then delete" if gone else ""
        self._run(
            f"merge into {self.name} t using ({self._select(rows)}) s on t.id = s.id {when}"
            " when matched then update set * when not matched then insert *"
        )
        for row in rows:
            if row[1] in gone and row[1] in known:
                del known[row[1]]
            else:
                known[row[1]] = row
        self.rows = list(known.values())
        self._keep()

    def update(self) -> None:
        """Change a value of some rows."""
        below, name = self.random.randrange(KEYS), self.columns.get(3)
        if name:
            self._run(f"update {self.name} set `{name}` = 77 where id < {below}")
            self._apply(lambda row: row[1] is not None and row[1] < below, {3: 77})

    def move(self) -> None:
        """Change the partition of some rows."""
        above = self.random.randrange(KEYS)
        self._run(f"update {self.name} set {self.columns[2]} = 'z' where id > {above}")
        self._apply(lambda row: row[1] is not None and row[1] > above, {2: "z"})

    def delete(self) -> None:
        """Delete rows."""
        of = self.random.randrange(3)
        self._run(f"delete from {self.name} where id % 3 = {of}")
        self.rows = [row for row in self.rows if row[1] is None or row[1] % 3 != of]
        self._keep()

    def compact(self) -> None:
        """Write all rows to other files."""
        options = "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        self._run(f"call lake.system.rewrite_data_files('{self.name}', {options})")
        self._keep()

    def roll_back(self) -> None:
        """Go back to a version, whose columns may be others than the table's now."""
        to = [kept for kept in self.kept if kept.columns == self.columns]
        if to:
            kept = self.random.choice(to)
            self._run(f"call lake.system.set_current_snapshot('{self.name}', {kept.snapshot_id})")
            self.rows = [dict(row) for row in kept.rows]
            self.past.append(kept)

    def expire(self) -> None:
        """Forget old versions."""
        if self.random.random() < 0.3:
            self._run(
                f"call lake.system.expire_snapshots(table => '{self.name}',"
                " older_than => timestamp '2100-01-01', retain_last => 3)"
            )
            left = {s["snapshot-id"] for s in self.metadata["snapshots"]}
            self.kept = [kept for kept in self.kept if kept.snapshot_id in left]

    def add(self) -> None:
        """Add a column."""
        id = max(self.columns, default=0) + 10
        self._run(f"alter table {self.name} add column c{id} int")
        self.columns, self.kinds = {**self.columns, id: f"c{id}"}, {**self.kinds, id: "int"}

    def rename(self) -> None:
        """Give a column another name."""
        id = self.random.choice([id for id in self.columns if id > 1])
        new = f"{self.columns[id]}_"
        self._run(f"alter table {self.name} rename column `{self.columns[id]}` to `{new}`")
        self.columns = {**self.columns, id: new}

    def drop(self) -> None:
        """Take a column away."""
        free = [id for id in self.columns if id > 2]
        if free and self.random.random() < 0.3:
            gone = self.random.choice(free)
            self._run(f"alter table {self.name} drop column `{self.columns[gone]}`")
            self.columns = {id: name for id, name in self.columns.items() if id != gone}

    def widen(self) -> None:
        """Give a column a wider type."""
        for id, kind in self.kinds.items():
            if id in self.columns and kind in TYPES:
                change = f"alter column `{self.columns[id]}` type {TYPES[kind]}"
                self._run(f"alter table {self.name} {change}")
                self.kinds[id] = TYPES[kind]
                break

    def lay_out_anew(self) -> None:
        """Partition what comes from here on in another way."""
        fields = self.metadata["partition-specs"][-1]["fields"]
        if not any(field["name"] == "anew" for field in fields):
            self._run(f"alter table {self.name} add partition field bucket(3, id) as anew")

    def _row(self, id: int | None) -> dict[int, Any]:
        values = {
            1: id,
            2: self.random.choice(["a", "b'c", None]),
            4: self.random.choice([0.5, None]),
        }
        return {of: values.get(of, self.random.choice([1, 2, None])) for of in self.columns}

    def _select(self, rows: list[dict[int, Any]]) -> str:
        def said(value: Any) -> str:
            if value is None:
                return "null"
            return (
                "'{}'".format(value.replace("'", "\\'")) if isinstance(value, str) else str(value)
            )

        values = ", ".join(
            f"({', '.join(said(row.get(id)) for id in self.columns)})" for row in rows
        )
        kinds = {1: "int", 2: "string", **self.kinds}
        names = [*self.columns.items()]
        told = ", ".join(
            f"cast(c{n} as {kinds[id]}) as `{name}`" for n, (id, name) in enumerate(names)
        )
        given = ", ".join(f"c{n}" for n in range(len(names)))
        return f"select {told} from values {values} as t({given})"

    def _apply(self, which: Any, new: dict[int, Any]) -> None:
        self.rows = [{**row, **new} if which(row) else row for row in self.rows]
        self._keep()

    def _run(self, sql: str) -> None:
        self.told.append(sql)
        self.spark.sql(sql)

    def _keep(self) -> None:
        found = head(self.metadata, MAIN)
        if found is not None and found not in (kept.snapshot_id for kept in self.kept):
            rows = tuple(dict(row) for row in self.rows)
            self.kept.append(Kept(found, dict(self.columns), rows))
            self.past.append(self.kept[-1])
