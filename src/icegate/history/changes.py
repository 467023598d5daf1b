"""The rows that differ between two versions of a table, as a query that reads what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icegate.errors import ConfigError, did_you_mean
from icegate.gate.refs import Metadata, set_schema
from icegate.health.files import Part
from icegate.history.scope import Files, Scope, scope
from icegate.history.versions import Version, renames_partitions
from icegate.maintenance.predicate import partition_sql
from icegate.tables.metadata import ancestry, type_name
from icegate.tables.state import literal, quote

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

CHANGE = "change_type"
INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
# Columns of the rows that are compared; the second is of rows that were written anew as they were.
IS_OLD, IS_CARRIED = "icegate_is_old", "icegate_is_carried"
MOST_FILES = 1000  # that a query names
MOST_PARTS = 200  # likewise; their predicates are a tree

NOT_UNIQUE = "the key names more than one row: "


@dataclass(frozen=True)
class Changes:
    """What to compare: a table as SQL names it, two versions, the columns that name a row.

    ``shown`` are the columns that are returned, those of the newer version if none are given.
    In format 3 rows of the newer version that last changed up to the sequence number ``carried``
    needn't be compared: they were the same before.
    """

    table: str
    metadata: Metadata
    old: Version
    new: Version
    key: Sequence[str]
    shown: Sequence[dict[str, Any]] = ()
    carried: int | None = None

    def sql(self, io: FileIO) -> str:
        """Return a query in brackets of all changed rows, with the columns of the newer version.

        Its first column says what became of the row: INSERT, BEFORE and AFTER of an update, or
        DELETE. Columns are the same by field id: one that was renamed is no change, one that is
        new had its initial default. Raises ``ConfigError`` for a key that can't name rows.
        """
        self.check()
        names = [field["name"] for field in self._fields]
        if CHANGE in map(str.lower, names):
            raise ConfigError(
                f"cannot tell the changes of {self.table}",
                why=f"it has a column {CHANGE}, the name of the one that tells what changed",
                fix="rename that column",
            )
        sides = self.sides(io)
        if not sides:
            return self._none()
        return (
            f"(\n    select inline({self._told()})\n    from {grouped(sides, self.key, names)}\n"
            f"    where {differs(self._fields)}\n)"
        )

    @property
    def _fields(self) -> Sequence[dict[str, Any]]:
        return self.shown or self.new.fields(self.metadata)

    def check(self) -> None:
        """Raise ``ConfigError`` for a key that can't name the rows of both versions."""
        what = f"cannot tell the changes of {self.table}"
        names = [field["name"] for field in self._fields]
        if not self.key:
            raise ConfigError(what, why="no key was given", fix="name the columns of its key")
        before = {field["id"] for field in self.old.fields(self.metadata)}
        for name in self.key:
            found = next((f for f in self._fields if f["name"] == name), None)
            if found is None:
                asked = did_you_mean(name, names, f"its columns are {', '.join(names)}")
                raise ConfigError(what, why=f"it has no column {name!r}", fix=asked)
            if self.old.snapshot_id is not None and found["id"] not in before:
                raise ConfigError(
                    what,
                    why=f"its older version had no column {name}, which is of the key",
                    fix="take a later version, or another key",
                )

    def _none(self) -> str:
        """Return no row: no file differs, so that nothing needs to be read."""
        columns = (f"cast(null as {type_name(f['type'])}) as {quote(f['name'])}"
                   for f in self._fields)  # fmt: skip
        return f"(select '' as {CHANGE}, {', '.join(columns)} where false)"

    def _told(self) -> str:
        """Return the array of one or two rows that says what became of a key."""
        insert, before, after, delete = (
            f"named_struct('{CHANGE}', '{kind}', {self._of(row)})"
            for kind, row in ((INSERT, "new"), (BEFORE, "old"), (AFTER, "new"), (DELETE, "old"))
        )
        return (
            f"case\n        when olds > 1 or news > 1 then {not_unique(self.key)}\n"
            f"        when olds = 0 then array({insert})\n"
            f"        when news = 0 then array({delete})\n"
            f"        else array({before}, {after}) end"
        )

    def _of(self, row: str) -> str:
        names = (field["name"] for field in self._fields)
        return ", ".join(f"{literal(name)}, {row}.{quote(name)}" for name in names)

    def sides(self, io: FileIO, more: str = "") -> list[str]:
        """Return the queries of rows that may be gone, and of those that may have come.

        ``more`` are other columns, as SQL that begins with a comma.
        """
        ids = self.old.snapshot_id, self.new.snapshot_id
        return [*self._sides(scope(self.metadata, *ids, io, self.table), more)]

    def _sides(self, found: Scope, more: str) -> Iterable[str]:
        wide = self._wide(found)
        for version, other, mine, others in (
            (self.old, self.new, found.gone, found.come),
            (self.new, self.old, found.come, found.gone),
        ):
            if version.snapshot_id is None:
                continue
            if wide is None:
                # Rows are gone with a data file, or by a delete that has come; and the other way.
                if not (mine.data or others.deletes):
                    continue
                where = self._narrow(version, other, mine, others)
            else:
                where = self._partitions(version, wide)
            yield (
                f"        select {', '.join(self._columns(version))},"
                f" {str(version is self.old).lower()} as {IS_OLD},"
                f" {self._is_carried(version)} as {IS_CARRIED}{more}\n"
                f"        from {self.table} version as of {version.snapshot_id}"
                f"{where and f'{chr(10)}        where {where}'}"
            )

    def _is_carried(self, version: Version) -> str:
        if version is self.old or self.carried is None:
            return "false"
        return f"coalesce(_last_updated_sequence_number <= {self.carried}, false)"

    def _wide(self, found: Scope) -> list[Part] | None:
        """Return in which partitions all rows are compared, [] for everywhere.

        None where it's enough to compare the rows of files and places that changed.
        """
        sides = found.gone, found.come
        columns = (at.fields(self.metadata) for at in (self.old, self.new))
        back = came_back(self.metadata, self.old.snapshot_id, self.new.snapshot_id, *columns)
        if back or any(side.deletes_by_key for side in sides):
            return []
        if all(len(side.data) <= MOST_FILES for side in sides):
            return None
        parts = [part for side in sides for of in (side.data, side.deletes) for part in of.values()]
        # Both versions have to be cut alike.
        cut = all(self._partitions(version, parts) for version in (self.old, self.new))
        return parts if cut else []

    def _narrow(self, version: Version, other: Version, mine: Files, others: Files) -> str:
        """Return the predicate of files that only one version has, and of places in the others."""
        told = [f"_file in ({_list(mine.data)})"] if mine.data else []
        if others.deletes:
            files = {path for path, _ in others.deletes}
            few = len(files) <= MOST_FILES
            told.append(
                f"(_file, _pos) in (select file_path, pos from {self.table}.position_deletes"
                f" version as of {other.snapshot_id}"
                f"{f' where delete_file_path in ({_list(files)})' if few else ''})"
            )
        where = self._partitions(version, [*mine.data.values(), *others.deletes.values()])
        return f"{where and f'{where} and '}({' or '.join(told)})"

    def _partitions(self, version: Version, parts: Iterable[Part]) -> str:
        """Return the predicate of partitions; nothing where it's long or can't be said."""
        if renames_partitions(self.metadata, version):
            return ""
        known = {(part.spec_id, part.values): part for part in parts}
        metadata = set_schema(self.metadata, version.schema_id)
        few = len(known) <= MOST_PARTS
        said = [partition_sql(metadata, part) for part in known.values()] if few else []
        return f"({' or '.join(f'({text})' for text in said)})" if said and all(said) else ""

    def _columns(self, version: Version) -> Iterable[str]:
        """Yield the columns that are shown as a version has them.

        One that the newer version lacks has its default in both: that isn't looked at.
        """
        had = {field["id"]: field for field in version.fields(self.metadata)}
        if self.shown:
            known = {field["id"] for field in self.new.fields(self.metadata)}
            had = {id: field for id, field in had.items() if id in known}
        return (f"{_field('', had, field)} as {quote(field['name'])}" for field in self._fields)


def came_back(
    metadata: Metadata,
    old: int | None,
    new: int | None,
    was: Iterable[dict[str, Any]],
    now: Iterable[dict[str, Any]],
) -> bool:
    """Tell whether files of both versions may have values that only the newer one shows.

    They have where a column was dropped, and one goes back to before that.
    """
    had = {field["id"] for field in was}
    if all(field["id"] in had for field in now):
        return False
    return all(snapshot["snapshot-id"] != old for snapshot in ancestry(metadata, new))


def grouped(sides: Sequence[str], key: Sequence[str], names: Sequence[str], step: str = "") -> str:
    """Return a query in brackets with a row for each key, and each value of the column ``step``:
    how many rows it had before and has after, and one of each.
    """
    keys = ", ".join([*map(quote, key), *[step] * bool(step)])
    columns = ", ".join(map(quote, names))
    rows = f"\n{' ' * 8}union all\n".join(sides)
    return (
        f"(\n        select {keys}, count_if({IS_OLD}) as olds, count_if(not {IS_OLD}) as news,\n"
        f"            bool_or({IS_CARRIED}) as is_carried,\n"
        f"            first(row) filter (where {IS_OLD}) as old,\n"
        f"            first(row) filter (where not {IS_OLD}) as new\n"
        f"        from (select {keys}, {IS_OLD}, {IS_CARRIED},"
        f" if({IS_CARRIED}, null, struct({columns})) as row from (\n{rows}\n"
        f"        ))\n        group by {keys}\n    )"
    )


def differs(fields: Iterable[dict[str, Any]]) -> str:
    """Return whether a key of ``grouped`` has changed in these columns, or isn't unique.

    Spark can't compare maps.
    """
    told = []
    for field in fields:
        sides = [f"{row}.{quote(field['name'])}" for row in ("old", "new")]
        if not _is_comparable(field["type"]):
            sides = [f"to_json(struct({side}))" for side in sides]
        told.append(" <=> ".join(sides))
    same = " and ".join(told) or "true"
    return f"olds <> news or olds > 1 or not (is_carried or ({same}))"


def not_unique(key: Sequence[str]) -> str:
    """Return what ends a query in which a key of ``grouped`` names more than one row."""
    names = ", ".join(f"coalesce(old, new).{quote(name)}" for name in key)
    return f"raise_error({literal(NOT_UNIQUE)} || to_json(struct({names})))"


def _field(of: str, had: Mapping[int, Any], field: dict[str, Any]) -> str:
    """Return a field of a row or struct that had others: the same by id, or its default."""
    old = had.get(field["id"])
    if old is not None:
        return _as(f"{of}{quote(old['name'])}", old["type"], field["type"])
    default = field.get("initial-default")
    value = "null" if default is None else literal(str(default))
    return f"cast({value} as {type_name(field['type'])})"


def _as(sql: str, old: Any, new: Any) -> str:
    """Return a value of one type as another that it became, or was; types are Iceberg's JSON."""
    if old == new:
        return sql
    if isinstance(new, str) or isinstance(old, str):
        return f"try_cast({sql} as {type_name(new)})"
    each = f"x{sql.count('->')}"
    if new["type"] == "list":
        return f"transform({sql}, {each} -> {_as(each, old['element'], new['element'])})"
    if new["type"] == "map":
        key, value = (_as(f"{each}.{of}", old[of], new[of]) for of in ("key", "value"))
        return f"map_from_entries(transform(map_entries({sql}), {each} -> struct({key}, {value})))"
    had = {field["id"]: field for field in old["fields"]}
    told = (f"{literal(f['name'])}, {_field(f'{sql}.', had, f)}" for f in new["fields"])
    return f"if({sql} is null, null, named_struct({', '.join(told)}))"


def _is_comparable(kind: Any) -> bool:
    """Tell whether Spark has an order of a type of Iceberg's JSON."""
    if isinstance(kind, str):
        return kind != "variant"
    if kind["type"] == "map":
        return False
    inner = [kind["element"]] if kind["type"] == "list" else [f["type"] for f in kind["fields"]]
    return all(_is_comparable(of) for of in inner)


def _list(names: Iterable[str]) -> str:
    return ", ".join(literal(name) for name in sorted(names))
