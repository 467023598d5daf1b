"""Where the columns of models come from, by compiled SQL, and which of them bring personal data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.lineage import Node, lineage

from icegate.dialect import SPARK, name_in, tables_in
from icegate.landing import LandingTable
from icegate.pii import declared, kinds

MASKED = "icegate: masked"  # what the macro `masked_value` has in its SQL
ANY = "*"  # stands for each column of a node whose columns aren't known
EPHEMERAL = "__dbt__cte__"
# They tell how many values there are, and none of them.
COUNTS = (exp.Count, exp.CountIf, exp.ApproxDistinct)
# What a source that is files has beside the declared columns; the first two are its whole line.
OF_FILES = ("_raw_text", "_corrupt_record", "_metadata")

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it can't follow is dealt with here


class Origin(NamedTuple):
    """A column of a node or source, by unique id."""

    node: str
    column: str


Origins = dict[str, set[Origin]]  # by column


class Lineage:
    """The columns of a project's nodes.

    ``code`` returns the compiled SQL of a model or snapshot with the names that tables have for
    readers; ``landing`` the files that a source is read from, None for a table.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        code: Callable[[Any], str],
        landing: Callable[[Any], LandingTable | None],
    ) -> None:
        self._nodes, self._code, self._landing = nodes, code, landing
        kinds_read = ("model", "seed", "snapshot", "source")
        self._named = {name_of(n): i for i, n in nodes.items() if n.resource_type in kinds_read}
        self._known: dict[str, Origins] = {}
        self._ways: dict[Origin, list[Origin]] = {}

    def columns(self, id: str) -> list[str]:
        """Return the columns of a node: those of its SQL, and those that its YAML names."""
        listed = [name.lower() for name in self._nodes[id].columns]
        beside = OF_FILES if self._files(id) else ()
        known = dict.fromkeys([*self.origins(id), *listed, *beside])
        return [name for name in known if name != ANY]

    def origins(self, id: str) -> Origins:
        """Return the columns of which each column of a node tells something."""
        if id not in self._known:
            self._known[id] = {}
            self._known[id] = self._found(id)
        return self._known[id]

    def way(self, id: str, column: str) -> list[Origin]:
        """Return how personal data gets into a column, the nearest column first; [] if it doesn't.

        It ends at a column that says `pii: false`: someone has looked.
        """
        to = Origin(id, column)
        if to not in self._ways:
            self._ways[to] = []
            self._ways[to] = self._find_way(to)
        return self._ways[to]

    def personal(self, sql: str, parents: list[str]) -> dict[str, str] | None:
        """Return each column of a query with the kind of its personal data, "" for none.

        None where the query can't be followed.
        """
        try:
            found = self._traced(sql, [id for id in parents if id in self._nodes], "")
        except Exception:  # as of a model
            return None
        return None if ANY in found else {name: self._kind(of) for name, of in found.items()}

    def _kind(self, origins: set[Origin]) -> str:
        """Return the kind of what personal data a value tells, `text` if of more than one."""
        near = {origin: self.said(origin) for origin in origins}
        ways = ([o, *self.way(*o)] for o, said in near.items() if said is not False)
        told = (next((s for s in map(self.said, way) if s), "") for way in ways)
        kinds_told = {"text" if said is True else str(said) for said in told} - {""}
        return kinds_told.pop() if len(kinds_told) == 1 else "text" if kinds_told else ""

    def said(self, of: Origin) -> Any:
        """Return what the YAML says of a column: the kind of personal data, false, or nothing."""
        named = {name.lower(): c for name, c in self._nodes[of.node].columns.items()}
        if of.column in named:
            return declared(named[of.column].to_dict())
        is_line = of.column in OF_FILES[:2] and self._files(of.node)
        return "text" if is_line and kinds({n: c.to_dict() for n, c in named.items()}) else None

    def _files(self, id: str) -> LandingTable | None:
        return self._landing(self._nodes[id]) if id.startswith("source.") else None

    def shown(self, origin: Origin) -> str:
        """Return a column as people name it, as in `silver.curated_customers.email`."""
        column = "some column" if origin.column == ANY else origin.column
        return f"{name_of(self._nodes[origin.node])}.{column}"

    def _find_way(self, to: Origin) -> list[Origin]:
        found = self.origins(to.node)
        for node, name in sorted(found.get(to.column, found.get(ANY, ()))):
            origin = Origin(node, to.column if name == ANY else name)
            said = self.said(origin)
            further = [] if said is False else self.way(*origin)
            if further or said not in (None, False):
                return [origin, *further]
        return []

    def _found(self, id: str) -> Origins:
        node = self._nodes[id]
        if node.resource_type not in ("model", "snapshot"):
            return {}
        if getattr(node, "language", "sql") == "python":
            return self._by_name(node)
        try:
            return self._traced(self._code(node), self._parents(node), id)
        except Exception:  # whatever it is: what can't be followed counts as passing on everything
            return {ANY: {o for parent in self._parents(node) for o in self._all(parent)}}

    def _parents(self, node: Any) -> list[str]:
        return [id for id in node.depends_on_nodes if id in self._nodes]

    def _all(self, id: str) -> Iterator[Origin]:
        names = [*self.columns(id), *([ANY] if ANY in self.origins(id) else [])]
        return (Origin(id, name) for name in names)

    def _by_name(self, node: Any) -> Origins:
        """Return that a Python model passes on what it reads, by name; no more than its schema."""
        passed: Origins = {}
        for parent in self._parents(node):
            for origin in self._all(parent):
                passed.setdefault(origin.column, set()).add(origin)
        listed = {name.lower() for name in node.columns}
        is_whole = node.config.get("enforce_schema")
        return {n: o for n, o in passed.items() if n in listed or not is_whole}

    def _traced(self, sql: str, parents: list[str], own: str) -> Origins:
        for id in parents:
            files = self._files(id)
            sql = sql.replace(files.render(), name_of(self._nodes[id])) if files else sql
        tree = _with_ephemeral_names(sqlglot.parse_one(sql, dialect=SPARK)).transform(_unmasked)
        if not isinstance(tree, exp.Query) or not all(s.alias_or_name for s in tree.selects):
            raise ValueError("only Spark knows how a column is named")
        read = {name_in(table): table for table in tables_in(tree)}
        ids = {name: self._named[name] for name in read if name in self._named}
        ids = {name: id for name, id in ids.items() if id != own}
        schema: dict[str, Any] = {}
        for name, id in ids.items():
            named = dict.fromkeys(self.columns(id), "string")
            schema.setdefault(read[name].db, {})[read[name].name] = named
        tops = lineage(None, tree, schema, dialect=SPARK)
        return {name: set(_leaves(top, name, ids)) for name, top in tops.items()}


def name_of(node: Any) -> str:
    """Return `schema.table` of a node or source as queries have it; an ephemeral one has a CTE."""
    if node.config.get("materialized") == "ephemeral":
        return f"{EPHEMERAL}.{node.name}".lower()
    return f"{node.schema}.{getattr(node, 'alias', None) or node.identifier}".lower()


def _with_ephemeral_names(tree: exp.Expr) -> exp.Expr:
    """Make tables of the CTEs that dbt puts in for ephemeral models, whose YAML counts, too."""
    for cte in [*tree.find_all(exp.CTE)]:
        if cte.alias.startswith(EPHEMERAL):
            clause = cte.parent
            cte.pop()
            if isinstance(clause, exp.With) and not clause.expressions:
                clause.pop()
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.startswith(EPHEMERAL):
            alias = table.alias or table.name
            table.set("db", exp.to_identifier(EPHEMERAL))
            table.set("this", exp.to_identifier(table.name.removeprefix(EPHEMERAL)))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree


def _unmasked(node: exp.Expr) -> exp.Expr:
    """Put a constant where an expression tells nothing of the values of its columns."""
    if isinstance(node, exp.Nvl2) and node.this.is_string and node.this.name == MASKED:
        return exp.null()
    if isinstance(node, COUNTS):
        return exp.Literal.number(0)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return exp.true()
    if isinstance(node, exp.Window):  # what it's over orders and groups rows
        return node.this.transform(_unmasked)
    return node


def _leaves(top: Node, name: str, ids: Mapping[str, str]) -> Iterator[Origin]:
    for leaf in top.walk():
        if leaf.downstream:
            continue
        table = name_in(leaf.expression) if isinstance(leaf.expression, exp.Table) else None
        if leaf.name == ANY:
            columns = [name]
        elif table or isinstance(leaf.expression, exp.Placeholder):
            column = exp.to_column(leaf.name, dialect=SPARK)
            # Where no table is known, nobody knows either whether `a.b` is a field of a column.
            columns = [column.name] if table else [part.name for part in column.parts]
        else:
            continue  # a constant
        for id in ids.values() if table is None else [ids[table]] if table in ids else []:
            yield from (Origin(id, column.lower()) for column in columns)
