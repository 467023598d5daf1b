"""Of which tests only new rows can fail anew.

Failing rows are a query's output. Its shape says what a new row of a table can add to them:

- **rows**: each comes of one row of a table, whatever the others are. Only new rows can fail. An
  anti-join is such a query of its left side, as long as the right side lost no row.
- **groups**: groups that are chosen by their keys alone. One that is chosen and had no row before
  has new rows only.
- **doubles**: groups of more rows than a number. One that wasn't too large before has a new row;
  its others may be anywhere where its keys are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from icegate.audits.tree import Ctes, Undecided, cte_of, entered, grouping, null_column

ROWS, GROUPS, DOUBLES = "rows", "groups", "doubles"
UNDERSTOOD = {"expressions", "from_", "where", "joins", "group", "having", "with_", "order"}
UNDERSTOOD |= {"this", "expression"}  # the sides of a union


@dataclass(frozen=True)
class Shape:
    """How a query's rows come about; ``tables`` and ``grown`` are nodes of the query."""

    kind: str
    tables: list[exp.Table]  # of which new rows suffice
    grown: list[exp.Table] = field(default_factory=list)  # that must have lost no row meanwhile
    # Columns that are one of the table's own (of groups: and a key), by name; None for the table.
    plain: Mapping[str, str] | None = None
    keys: tuple[str | None, ...] = ()  # the table's columns by which doubles are found

    def column(self, name: str) -> str | None:
        """Return the table's own column that a column is."""
        return name if self.plain is None else self.plain.get(name)


def shape_of(query: exp.Expr, ctes: Ctes | None = None) -> Shape:
    """Return the shape of a resolved query, or raise ``Undecided``."""
    query, ctes = entered(query, ctes or {})
    others = {name for name, value in query.args.items() if value} - UNDERSTOOD
    if others:
        raise Undecided(f"its rows depend on each other: {', '.join(sorted(others))}")
    if isinstance(query, exp.Union):
        left, right = (shape_of(side, ctes) for side in (query.left, query.right))
        if {left.kind, right.kind} != {ROWS}:
            raise Undecided("it unites more than rows")
        return Shape(ROWS, left.tables + right.tables, left.grown + right.grown, {})
    if not isinstance(query, exp.Select):
        raise Undecided(f"{query.key} isn't understood")
    start = query.args.get("from_")
    if start is None:
        raise Undecided("it reads no table")
    clauses = [*query.expressions, query.args.get("where"), query.args.get("having")]
    if any(clause is not None and clause.find(exp.Query, exp.Window) for clause in clauses):
        raise Undecided("it has a query or a window within")
    if query.args.get("joins"):
        return _anti_join(query, start.this, ctes)
    return _select(query, _source(start.this, ctes))


def _source(source: exp.Expr, ctes: Ctes) -> Shape:
    if not isinstance(source, exp.Table):
        return shape_of(source, ctes)
    found = cte_of(source, ctes)
    return Shape(ROWS, [source]) if found is None else shape_of(*found)


def _select(query: exp.Select, inner: Shape) -> Shape:
    keys, where = grouping(query), query.args.get("where")
    if inner.kind == DOUBLES and (where or keys):
        raise Undecided("it chooses among groups")
    if inner.kind == GROUPS:
        asked = where.find_all(exp.Column) if where else ()
        if keys or any(inner.column(column.name) is None for column in asked):
            raise Undecided("it chooses groups by more than their keys")
    if keys:
        return _grouped(query, keys, inner)
    found = {}
    for item in query.expressions:
        column = item.unalias()
        own = inner.column(column.name) if isinstance(column, exp.Column) else None
        if own is not None:
            found[item.alias_or_name] = own
    return replace(inner, plain=found)


def _grouped(query: exp.Select, keys: list[exp.Expr], inner: Shape) -> Shape:
    having = query.args.get("having")
    if having is None:
        names = {key.name for key in keys}
        by_keys = {
            item.alias_or_name: ""
            for item in query.expressions
            if isinstance(item.unalias(), exp.Column) and item.unalias().name in names
        }
        return replace(inner, kind=GROUPS, plain=by_keys)
    if not _is_too_many(having.this):
        raise Undecided("it chooses groups by more than their size")
    if len(inner.tables) + len(inner.grown) > 1:
        raise Undecided("its groups have rows of more than one table")
    columns = tuple(inner.column(key.name) for key in keys)
    return replace(inner, kind=DOUBLES, plain={}, keys=columns)


def doubled_keys(tree: exp.Select) -> exp.Select | None:
    """Return the query of the keys that a resolved query looks for doubles of, as k0, k1, ….

    If all of them differ, it has no row. None for another shape, or where it isn't plain to tell.
    """
    failing = tree.args["from_"].this
    try:
        is_of_doubles = shape_of(failing).kind == DOUBLES
    except Undecided:
        return None
    grouped = next((s for s in failing.find_all(exp.Select) if s.args.get("having")), None)
    if not is_of_doubles or grouped is None or not _is_of_two(grouped.args["having"].this):
        return None
    keys = grouped.copy()
    groups = keys.args["group"].expressions
    keys.set("expressions", [exp.alias_(key, f"k{n}") for n, key in enumerate(groups)])
    for clause in ("group", "having", "order"):
        keys.set(clause, None)
    # What a CTE around it has isn't known within.
    return keys if all(table.db for table in keys.find_all(exp.Table)) else None


def _is_of_two(having: exp.Expr) -> bool:
    """Tell whether a group that is too large has two rows at least."""
    least = int(float(having.expression.name)) + isinstance(having, exp.GT)
    return least >= 2 and isinstance(having.this.this, exp.Star | exp.Column)


def _is_too_many(having: exp.Expr) -> bool:
    """Tell whether a condition, once true of a group, stays so with more rows: `count(*) > 1`."""
    if not isinstance(having, exp.GT | exp.GTE) or not isinstance(having.this, exp.Count):
        return False
    number = having.expression
    is_distinct = having.this.find(exp.Distinct) is not None
    return isinstance(number, exp.Literal) and not number.is_string and not is_distinct


def _anti_join(query: exp.Select, left: exp.Expr, ctes: Ctes) -> Shape:
    (join, *more), where = query.args["joins"], query.args.get("where")
    theirs, on = join.this.alias_or_name, join.args.get("on")
    is_plain = not more and join.side == "LEFT" and join.kind in ("", "OUTER")
    if not is_plain or grouping(query):
        raise Undecided("it joins in another way than for rows without a match")
    sides = {left.alias_or_name, theirs}
    columns = [on.this, on.expression] if isinstance(on, exp.EQ) else []
    matched = [c.name for c in columns if isinstance(c, exp.Column) and c.table == theirs]
    is_matched = {c.table for c in columns if isinstance(c, exp.Column)} == sides
    met = where.this if where else exp.Null()
    conditions = list(met.flatten()) if isinstance(met, exp.And) else [met]
    nulls = [column for c in conditions if (column := null_column(c)) is not None]
    if not is_matched or not any(n.table == theirs and n.name in matched for n in nulls):
        raise Undecided("it joins in another way than for rows without a match")
    child, parent = _source(left, ctes), _source(join.this, ctes)
    if {child.kind, parent.kind} != {ROWS} or child.grown or parent.grown:
        raise Undecided("it joins more than rows")
    if {id(node) for node in child.tables} & {id(node) for node in parent.tables}:
        raise Undecided("both sides of its join are one query")
    return Shape(ROWS, child.tables, parent.tables, {})
