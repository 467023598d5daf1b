"""Prove a test on the rows that came since it was last asked.

Sound where three things hold of each table: its columns have the same field ids and types; each
delete file of before is still there, so that no row came back; and the test's query has a shape in
which old rows can't fail anew (see `shape`). Where some failed, they still do if no row went away.
A table that was made anew has no such snapshot any more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from pyiceberg import expressions as pyiceberg_expressions
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from sqlglot import exp

from icegate.audits.metadata import all_of, origins
from icegate.audits.rows import Rows
from icegate.audits.shape import DOUBLES, ROWS, Shape, shape_of
from icegate.audits.source import Source
from icegate.audits.tree import Undecided, column_names
from icegate.dialect import name_in
from icegate.gate.refs import Metadata

on: Any = pyiceberg_expressions


class Known(NamedTuple):
    """A table as a test read it when it was last asked."""

    snapshot_id: int | None
    columns: str

    @staticmethod
    def of(source: Source) -> Known:
        """Return what has to be remembered of a table."""
        return Known(source.snapshot_id, _columns(source.table.metadata))


class Part(NamedTuple):
    """The rows that decide a test, ``read`` from so many files ``of`` all."""

    tree: exp.Select  # which has other names for the tables of which it needs some rows only
    tables: dict[str, Rows]
    read: int
    of: int


def part_of(
    tree: exp.Select, sources: Iterable[Source], known: Mapping[str, Known], failures: int
) -> Part:
    """Return the rows which decide a resolved query, or raise ``Undecided``.

    ``failures`` are the failing rows that it had of the known tables.
    """
    tree = tree.copy()
    failing = tree.args["from_"].this
    shape = shape_of(failing)
    met: dict[int, list[exp.Expr]] = {}
    for origin in origins(failing):  # of a CTE that is read twice each row may meet either
        met[id(origin.table)] = [] if id(origin.table) in met else origin.conditions
    since = {source.table.name.lower(): Since(source, known) for source in sources}
    if failures:
        _carry(failures, tree, shape, since)
    part = Part(tree, {}, 0, 0)
    names = column_names(tree)
    for node in shape.grown:
        grown = since[name_in(node)]
        if not grown.lost_no_row():
            raise Undecided(f"{name_in(node)}, in which rows are looked up, has lost some")
        part.tables[grown.source.table.name] = Rows(grown.source, names)
    for node in {id(node): node for node in shape.tables}.values():
        table, name = since[name_in(node)], f"icegate_added_{len(part.tables)}"
        rows = table.deciding(shape, all_of(met.get(id(node), [])), names)
        part.tables[name] = rows
        node.replace(exp.alias_(exp.to_table(name), node.alias_or_name, table=True, quoted=True))
        read = len(rows.files or ()) + len(rows.alike)
        part = part._replace(read=part.read + read, of=part.of + table.source.total_files)
    return part


def _carry(failures: int, tree: exp.Select, shape: Shape, since: Mapping[str, Since]) -> None:
    """Add the failing rows of before to those that a query counts, if they all still fail."""
    if shape.kind != ROWS:
        raise Undecided(f"it had {failures} failing groups, which new rows may belong to")
    grown = {name_in(node) for node in shape.grown}
    for name, table in since.items():
        if not (table.is_same() if name in grown else table.lost_no_row()):
            raise Undecided(f"it had {failures} failing rows, and some of {name} changed since")
    for count in [node for item in tree.expressions for node in item.find_all(exp.AggFunc)]:
        if not isinstance(count.this, exp.Star):
            raise Undecided(f"more than a count is asked of its {failures} failing rows")
        more = exp.Add(this=count.copy(), expression=exp.Literal.number(failures))
        count.replace(exp.Paren(this=more))


def _columns(metadata: Metadata) -> str:
    """Return what decides how rows in old files are read."""
    current = metadata["current-schema-id"]
    fields = next(s["fields"] for s in metadata["schemas"] if s["schema-id"] == current)
    about = ({k: v for k, v in field.items() if k not in ("doc", "required")} for field in fields)
    return json.dumps([*about])


class Since:
    """What became of a table since a test was last asked."""

    def __init__(self, source: Source, all_known: Mapping[str, Known]) -> None:
        name, now = source.table.name, Known.of(source)
        known = all_known[name.lower()]
        if "initial-default" in now.columns:
            raise Undecided(f"{name} has a column with a value for old rows")
        if now.columns != known.columns:
            raise Undecided(f"{name} has got other columns since")
        self.source, self.files = source, source.files
        before = {m.manifest_path: m for m in self.files.manifests_at(known.snapshot_id)}
        after = {m.manifest_path: m for m in self.files.manifests}
        # A live file is in one manifest of a snapshot: what both snapshots have stayed as it was.
        self.gone = [m for path, m in before.items() if path not in after]
        self.new = [m for path, m in after.items() if path not in before]
        if self._paths(self.gone, ManifestContent.DELETES) - self._paths(
            self.new, ManifestContent.DELETES
        ):
            raise Undecided(f"rows of {name} that were deleted may have come back")

    def is_same(self) -> bool:
        """Tell whether it has the rows of before and no others."""
        return not self.gone and not self.new

    def lost_no_row(self) -> bool:
        """Tell whether each row of before is still there."""
        data, deletes = ManifestContent.DATA, ManifestContent.DELETES
        lost = self._paths(self.gone, data) - self._paths(self.new, data)
        return not lost and self._paths(self.new, deletes) == self._paths(self.gone, deletes)

    def deciding(self, shape: Shape, row_filter: Any, columns: Collection[str]) -> Rows:
        """Return the rows among which failing rows of a query are."""
        old = self._paths(self.gone, ManifestContent.DATA)
        added = [f for f in self.files.data(row_filter, self.new) if f.file_path not in old]
        if shape.kind != DOUBLES or not added:
            return Rows(self.source, columns, added)
        keys = [key for key in shape.keys if key]
        among = on.And(row_filter, _between(self.files.metadata.schema(), keys, added))
        paths = {file.file_path for file in added}
        everywhere = self.files.data(among, self.files.manifests)
        alike = [file for file in everywhere if file.file_path not in paths]
        return Rows(self.source, columns, added, alike, keys)

    def _paths(self, manifests: Iterable[ManifestFile], content: ManifestContent) -> Counter[str]:
        """Count the live files; deletion vectors share one."""
        entries = (m.fetch_manifest_entry(self.files.io) for m in manifests if m.content == content)
        return Counter(entry.data_file.file_path for listed in entries for entry in listed)


def _between(schema: Any, keys: Iterable[str], files: Iterable[DataFile]) -> Any:
    """Return what each row meets that has the keys of a row in the files, as far as bounds tell."""
    found = on.AlwaysTrue()
    for key in keys:
        field = schema.find_field(key, case_sensitive=False)
        both = [b.get(field.field_id) for f in files for b in (f.lower_bounds, f.upper_bounds)]
        bounds = [bound for bound in both if bound is not None]
        if len(bounds) < len(both):
            continue
        values = [from_bytes(field.field_type, bound) for bound in bounds]
        within = on.And(
            on.GreaterThanOrEqual(field.name, min(values)),
            on.LessThanOrEqual(field.name, max(values)),
        )
        nulls = any(f.null_value_counts.get(field.field_id) != 0 for f in files)
        found = on.And(found, on.Or(within, on.IsNull(field.name)) if nulls else within)
    return found
