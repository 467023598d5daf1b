"""What the macros ask before they write SQL for a table: decisions are made here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.metadata import embedded_metadata
from icegate.anomalies.as_test import as_sql
from icegate.catalog import catalog_of
from icegate.gate.refs import WAP_ENABLED
from icegate.landing import file_uri, new_files
from icegate.locks import loading
from icegate.maintenance.policy import policy_of
from icegate.maintenance.tags import make_tags
from icegate.properties import isolation_properties
from icegate.tables import changes, constraints, model_checks, schema
from icegate.tables.changes import Change, Wanted
from icegate.tables.renames import pending
from icegate.tables.state import TableState, literal, parse_state, quote, state_from_metadata

logger = AdapterLogger("Icegate")

NO_GRANTS = ("PARSE_SYNTAX_ERROR", "INVALID_STATEMENT_OR_CLAUSE", "UNSUPPORTED", "not supported")
# Configs that the adapter reads and dbt declares.
OF_DBT = {"tblproperties", "unique_key", "incremental_strategy", "on_schema_change"}


class Tables:
    """The methods behind `adapter.tables()`."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    @as_dbt_error()
    def state(self, relation: Any) -> TableState:
        """Return a table's state, from the embedded catalog where that is possible."""
        metadata = embedded_metadata(self.adapter, relation)
        if metadata:
            return state_from_metadata(metadata)
        return parse_state(self._value(f"show create table {relation}", 0))

    @as_dbt_error()
    def wanted(self, model: dict[str, Any], profiles: dict[str, Any]) -> Wanted:
        """Read the configs of a model, all of them checked."""
        self.check_model(model)
        config = model["config"]
        own = {
            **isolation_properties(config.get("isolation")),
            **(config.get("tblproperties") or {}),
        }
        properties = self.adapter.table_properties(config.get("table_profile"), own, profiles)
        if self.adapter.gate().holds(model):
            properties[WAP_ENABLED] = str(not self.adapter.gate().is_staged(model)).lower()
        return changes.wanted_table(model, properties)

    @as_dbt_error()
    def check_model(self, model: dict[str, Any]) -> None:
        """Raise for a name that Spark can't read, and for configs that would do nothing."""
        known = {field.name for field in fields(self.adapter.AdapterSpecificConfigs)} | OF_DBT
        model_checks.check_name(model, quoted=bool(self.adapter.config.quoting.get("identifier")))
        model_checks.check_configs(model, known)
        policy_of(model["config"], model["name"])

    def changes_after_replace(
        self, state: TableState | None, wanted: Wanted, columns: Iterable[tuple[str, str]]
    ) -> list[Change]:
        """Return what a replaced table still needs."""
        if state is not None:
            wanted = self._with_defaults(state, wanted)
        return changes.changes_after_replace(state, wanted, [name for name, _ in columns])

    def comment_changes(self, state: TableState, wanted: Wanted) -> list[Change]:
        """Return the comments that differ."""
        return changes.comment_changes(state, wanted)

    @as_dbt_error()
    def plan(
        self, wanted: Wanted, state: TableState | None, select_sql: str, not_null: Iterable[str]
    ) -> tuple[str, list[tuple[str, str]]]:
        """Choose how all rows of a table are written, and return the query's columns if known.

        `replace` is `create or replace table … as`, which can hold neither a sort order nor
        not-null columns nor comments. `fill` creates the table with them and inserts, `refill`
        keeps them and replaces the rows. Through the gate only these two leave `main` as it is;
        where neither will do, the table is staged first and replaced there: `stage`.
        """
        gated = wanted.properties.get(WAP_ENABLED) == "true"
        keeps = bool(wanted.sort or wanted.comments or not_null or gated)
        renames = self.renames(state, wanted)
        is_watched = state is not None and (wanted.allow_destructive is False or renames)
        if not keeps and not wanted.partitions and not is_watched:
            return "replace", []
        columns = self.query_columns(select_sql)
        wanted.check(name for name, _ in columns)
        schema.check_rebuild(columns, state, wanted)
        if not keeps:
            return "replace", columns
        if state is None:
            return "fill", columns
        if renames:
            return "stage" if gated else "replace", columns
        fixed = {column.name.lower() for column in state.columns if not column.nullable}
        same = schema.same_columns(columns, [(c.name, c.type) for c in state.columns])
        if same and fixed <= set(not_null) and changes.same_layout(state, wanted):
            return "refill", columns
        return "stage" if gated else "replace", columns

    def query_columns(self, sql: str) -> list[tuple[str, str]]:
        """Return names and types of a query without running it."""
        empty = f"select * from (\n{sql}\n) as model_subq where false limit 0"
        return [(c.name, c.dtype) for c in self.adapter.get_column_schema_from_query(empty)]

    def column_ddl(
        self, columns: Iterable[tuple[str, str]], not_null: Iterable[str], wanted: Wanted
    ) -> list[str]:
        """Return the columns for `create table (…)`."""
        return [
            f"{quote(name)} {kind}"
            + (" not null" if name.lower() in not_null else "")
            + (f" comment {literal(text)}" if (text := wanted.comment_of(name)) else "")
            for name, kind in columns
        ]

    def create_and_fill(self, relation: Any, wanted: Wanted, create: str, fill: str) -> Any:
        """Create a new table and insert its rows; without them it mustn't stay."""
        # The sort order, which `create table` can't say.
        left = changes.changes_after_replace(None, wanted)
        alter = (f"alter table {relation} {change.sql}" for change in left)
        for number, sql in enumerate([create, *alter, fill]):
            try:
                response, _ = self.adapter.execute(sql)
            except Exception:
                if number > 0:
                    self.adapter.execute(f"drop table if exists {relation}")
                raise
        return response

    def not_null(self, model: dict[str, Any]) -> set[str]:
        """Return the columns that may hold no null."""
        return constraints.not_null_columns(model)

    def checked_columns(self, model: dict[str, Any]) -> list[str]:
        """Return select items that raise for a row that breaks a constraint."""
        # dbt warns here about the constraints that nobody enforces.
        self.adapter.render_raw_columns_constraints(raw_columns=model["columns"])
        self.adapter.render_raw_model_constraints(raw_constraints=model.get("constraints") or [])
        return constraints.checked_columns(model)

    @as_dbt_error()
    def reconcile(
        self, state: TableState, wanted: Wanted, batch: Any = None, mode: str = "ignore"
    ) -> list[Change]:
        """Return all changes of a table that stays, and raise before the first of them."""
        wanted, columns = self._with_defaults(state, wanted), []
        if batch and (mode != "ignore" or pending(state, wanted.renames, wanted.model)):
            columns = [(c.name, c.dtype) for c in self.adapter.get_columns_in_relation(batch)]
        try:
            return schema.table_changes(state, wanted, columns, mode)
        except schema.ColumnsDiffer as error:
            raise CompilationError(str(error)) from error

    def renames(self, state: TableState | None, wanted: Wanted) -> list[Change]:
        """Return what renames the columns of a table that is about to be replaced."""
        names = pending(state, wanted.renames, wanted.model) if state else []
        return [*map(changes.renamed, names)]

    def not_yet_loaded(self, source: Any, table: Any) -> str:
        """Return the predicate of the files of a landing source that ``table`` lacks."""
        landing = getattr(source, "landing", None)
        if landing is None:
            raise DbtRuntimeError(
                f"{source} is no landing source: give it `meta: {{location: …, format: …}}`"
            )
        if table is not None and self.adapter.embedded_lake is not None:
            name = f"builds/loading.{table.schema}.{table.identifier}"
            loading.begin(catalog_of(self.adapter.embedded_lake).lock(name))
        loaded = f"select distinct loaded_from from {table}"
        rows = self.adapter.execute(loaded, fetch=True)[1].rows if table is not None else ()
        with as_dbt_error():
            found = new_files(landing, {row[0] for row in rows})
        for day in found.waiting:
            logger.warning(f"landing day={day} skipped: it has no _SUCCESS marker yet")
        files = ",\n    ".join(literal(file_uri(path)) for path in found.files)
        return f"_metadata.file_path in (\n    {files}\n)" if files else "false"

    @as_dbt_error()
    def anomalies(self, table: Any, **asked: Any) -> str:
        """Return the SQL of a test that metadata answers."""
        lake, gate = self.adapter.embedded_lake, self.adapter.gate()
        return as_sql(lake, table, gate, asked, logger.info)

    @as_dbt_error()
    def maintain(self, nodes: Any, select: list[str], max_gb: float | None) -> None:
        """Maintain tables as the policies of ``nodes`` say."""
        from icegate.maintenance.in_dbt import in_dbt  # with what the command line needs

        run = partial(self.adapter.execute, fetch=True)
        in_dbt(self.adapter.embedded_lake, nodes, run, select, max_gb, logger.info)

    def make_tags(self, node: Any) -> None:
        """Tag what readers had when a period ended, as the policy of a node's table asks for.

        Before its table is written: its log of versions may begin anew then.
        """
        config, lake = node.config.to_dict(), self.adapter.embedded_lake
        if lake is None or not any(name.startswith("maintenance_keep") for name in config):
            return
        name, policy = f"{node.schema}.{node.alias}", policy_of(config, node.name)
        for tag in make_tags(lake, name, policy, datetime.now(timezone.utc)):
            if tag.can_be_made:
                logger.info(f"table={name} tag={tag.name} snapshot={tag.snapshot_id}")
            else:
                logger.warning(f"{name}: {tag}")

    @as_dbt_error()
    def check_format(self, model: str, file_format: str) -> None:
        """Raise for a file format in a catalog that makes Iceberg tables of everything."""
        catalog = self._value("select current_catalog()", 0)
        kind = self._value(f"set `spark.sql.catalog.{catalog}`", 1)
        if kind == "org.apache.iceberg.spark.SparkCatalog":
            raise model_checks.no_format(model, file_format, catalog)

    def _with_defaults(self, state: TableState, wanted: Wanted) -> Wanted:
        """Return to the catalog's own value of a property that the model no longer sets."""
        names = [name for name in changes.forgotten(state, wanted) if "." in name]
        if set(names) <= {changes.MANAGED}:
            return wanted
        catalog = self._value("select current_catalog()", 0)
        found = {
            name: self._value(f"set `spark.sql.catalog.{catalog}.table-default.{name}`", 1)
            for name in names
        }
        defaults = {name: value for name, value in found.items() if value != "<undefined>"}
        return replace(wanted, defaults=defaults)

    def _value(self, sql: str, column: int) -> str:
        return str(self.adapter.execute(sql, fetch=True)[1].rows[0][column])

    @as_dbt_error()
    def check_grants(self, relation: Any, grants: dict[str, Any] | None) -> None:
        """Raise when `grants` is configured and this catalog has none."""
        if not grants:
            return
        try:
            self.adapter.execute(f"show grants on {relation}")
        except DbtRuntimeError as error:
            if not any(text in str(error.msg) for text in NO_GRANTS):
                return  # such as a table that isn't there yet: the grant itself will say
            raise model_checks.no_grants(str(relation)) from error
