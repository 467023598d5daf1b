"""The adapter: what dbt-spark does, right on Iceberg, and what models call beyond it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dbt.adapters.base import available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.connections import SparkConnectionMethod
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.contracts.metadata import CatalogTable
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate import freshness, metadata, python_models
from dbt.adapters.icegate.audits import Audits
from dbt.adapters.icegate.batches import Batches
from dbt.adapters.icegate.column import IcegateColumn
from dbt.adapters.icegate.connections import IcegateConnectionManager
from dbt.adapters.icegate.errors import as_dbt_error
from dbt.adapters.icegate.gate import Gate
from dbt.adapters.icegate.history import History
from dbt.adapters.icegate.quarantine import Quarantine
from dbt.adapters.icegate.relation import IcegateRelation
from dbt.adapters.icegate.tables import Tables
from dbt.adapters.icegate.task import calling_task, fit_nodes
from dbt.adapters.icegate.unchanged import Unchanged, is_wanted
from icegate.catalog import list_namespaces
from icegate.frames import seed_view
from icegate.packages import check_installed
from icegate.properties import check_properties, profile_properties
from icegate.session import start_early
from icegate.settings import Lake
from icegate.tables import docs
from icegate.tables.merge_plan import STRATEGIES, unknown_strategy
from icegate.tables.model_checks import no_schema, no_session
from icegate.tables.state import quote

# Commands that surely run a statement: for these Spark starts while dbt reads the project.
NEEDS_SPARK = ("build", "run", "seed", "snapshot", "test", "run-operation", "retry", "clone")


@dataclass
class IcegateConfig(SparkConfig):
    """What a model's author may set beyond dbt-spark's configs."""

    file_format: str = "iceberg"
    table_profile: str | None = None
    isolation: str | None = None
    sort_by: list[str] | str | None = None
    enforce_schema: bool = False
    merge_exclude_columns: list[str] | str | None = None
    incremental_predicates: list[str] | str | None = None
    predicates: list[str] | str | None = None
    matched_condition: str | None = None
    not_matched_condition: str | None = None
    delete_condition: str | None = None
    not_matched_by_source_condition: str | None = None
    not_matched_by_source_action: str | None = None
    null_safe_keys: bool = False
    merge_plan: str | None = None
    merge_order_by: str | None = None
    merge_fixed_columns: list[str] | str | None = None
    skip_unchanged_rows: bool = False
    gate: bool | None = None
    quarantine: bool | list[str] | str | None = None
    quarantine_max_share: float | None = None
    quarantine_max_rows: int | None = None
    skip_unchanged: bool = False
    deterministic: bool = False
    track_columns: list[str] | str | None = None
    history_mode: str | None = None
    history_gap: str | None = None
    from_history: bool | str | int | None = None
    allow_destructive: bool | None = None


class IcegateAdapter(SparkAdapter):
    """dbt-spark's adapter with Iceberg's own ways of replacing, listing and loading."""

    Relation = IcegateRelation
    Column = IcegateColumn
    ConnectionManager = IcegateConnectionManager  # type: ignore[assignment]
    AdapterSpecificConfigs = IcegateConfig
    CONSTRAINT_SUPPORT = SparkAdapter.CONSTRAINT_SUPPORT | dict.fromkeys(
        (ConstraintType.check, ConstraintType.not_null), ConstraintSupport.ENFORCED
    )
    _capabilities = CapabilityDict(
        {
            capability: CapabilitySupport(support=Support.Full)
            for capability in (
                Capability.SchemaMetadataByRelations,
                Capability.GetCatalogForSingleRelation,
                Capability.TableLastModifiedMetadata,
                Capability.TableLastModifiedMetadataBatch,
                Capability.MicrobatchConcurrency,
            )
        }
    )

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # dbt hands a source to `create_from` without the project that its location counts from.
        root = self.Relation.project_root = Path(getattr(config, "project_root", Path.cwd()))
        if hasattr(config, "packages_install_path"):  # `dbt debug` knows the profile only
            with as_dbt_error():
                check_installed(root, config.packages_install_path, config.target_name)
        self._gate, self._audits, self._unchanged = Gate(self), Audits(self), Unchanged(self)
        command = getattr(getattr(config, "args", None), "which", None)
        may_do_without = (command == "test" and config.credentials.audits) or is_wanted(config)
        in_session = config.credentials.method == SparkConnectionMethod.SESSION
        if command in NEEDS_SPARK and in_session and not may_do_without:
            start_early(config.credentials.lake(root))

    @classmethod
    def quote(cls, identifier: str) -> str:  # dbt calls it on the class, too
        return quote(str(identifier))  # dbt's own tests quote the database, which is None here

    @classmethod
    def convert_time_type(cls, agate_table: Any, col_idx: int) -> str:
        return "string"  # Iceberg on Spark has no time of day

    @cached_property
    def embedded_lake(self) -> Lake | None:
        """The lake whose catalog file lists this target's tables; None where Spark has to."""
        return metadata.embedded_lake(self.config.credentials, self.Relation.project_root)

    @available
    def gate(self) -> Gate:
        """Return the gate of the running command."""
        return self._gate

    def clear_transaction(self) -> None:
        """Begin or end a build: dbt calls this before its hooks, where there are none too."""
        super().clear_transaction()
        calling = calling_task(sys._getframe(1))
        if calling is not None:
            fit_nodes(*calling, self.config.credentials, self.embedded_lake)
            self._audits.tell(calling[1])
            self._unchanged.at_hooks(*calling)
            self._gate.at_hooks(*calling)

    def execute(
        self, sql: str, auto_begin: Any = False, fetch: Any = False, limit: Any = None
    ) -> Any:
        """Run a statement; what a data test asks is answered as cheaply as can be."""
        on_spark = partial(super().execute, sql, auto_begin, fetch, limit)
        return self._audits.answer(sql, on_spark) if self._audits.take(sql) else on_spark()

    def acquire_connection(self, name: Any = None) -> Any:
        """Begin a node or a macro: dbt compiles it after this."""
        self._gate.look_around()
        return super().acquire_connection(name)

    def pre_model_hook(self, config: Any) -> Any:
        """Begin what a node writes through the gate."""
        return self._gate.begin_node(config.model)

    def post_model_hook(self, config: Any, context: Any) -> None:
        """End it."""
        context.close()

    @available
    def unchanged(self) -> Unchanged:
        """Return which nodes of the running command needn't run."""
        return self._unchanged

    @available.parse(lambda *a, **k: None)
    def get_relation(self, database: Any, schema: str, identifier: str) -> BaseRelation | None:
        """Return a relation; a table without a release is one to the build that writes it only."""
        found = super().get_relation(database, schema, identifier)
        as_table = RelationType.Table
        asked = found or self.Relation.create(None, schema, identifier, type=as_table)
        return asked if self._gate.is_there(asked, found) else None

    def list_schemas(self, database: Any) -> list[str]:
        if self.embedded_lake is None:
            return super().list_schemas(database)
        with as_dbt_error():
            return list_namespaces(self.embedded_lake)

    def check_schema_exists(self, database: Any, schema: str) -> bool:
        return schema in self.list_schemas(database)

    def create_schema(self, relation: BaseRelation) -> None:
        try:
            super().create_schema(relation)
        except DbtRuntimeError as error:
            if "\n  fix: " in str(error.msg):  # such as a server that isn't there
                raise
            raise DbtRuntimeError(no_schema(str(relation.schema), str(error.msg))) from error

    @available
    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """List by no statement or by two; dbt-spark describes every table."""
        kinds = metadata.list_kinds(self, schema_relation)
        return [
            self.Relation.create(
                schema=schema_relation.schema,
                identifier=name,
                type=RelationType(kind),
                is_iceberg=kind == "table",
            )
            for name, kind in kinds.items()
        ]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """Return the columns of a table or view, or none when there is no such relation."""
        return metadata.spark_columns(self, relation)

    def get_catalog(self, relation_configs: Any, used_schemas: Any) -> tuple[Any, list[Exception]]:
        return self.get_catalog_by_relations(None, self._get_catalog_relations(relation_configs))

    def get_catalog_by_relations(self, used_schemas: Any, relations: Any) -> tuple[Any, list[Any]]:
        return docs.to_agate(self._facts(relations)), []

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        found = self._facts([relation])
        return docs.to_catalog_table(found[0]) if found else None

    def calculate_freshness_from_metadata_batch(
        self, sources: list[BaseRelation], macro_resolver: Any = None
    ) -> tuple[list[Any], dict[BaseRelation, Any]]:
        return [], freshness.batch(self, sources, self._facts(sources))

    def calculate_freshness_from_metadata(self, source: Any, macro_resolver: Any = None) -> Any:
        return None, freshness.single(self, source, self._facts([source]))

    def _facts(self, relations: Iterable[BaseRelation]) -> list[metadata.Facts]:
        return metadata.facts(self, [r for r in relations if not getattr(r, "landing", None)])

    @available
    def table_properties(
        self, profile: str | None, own: dict[str, Any] | None, profiles: dict[str, Any]
    ) -> dict[str, str]:
        """Return a named profile's properties with the model's own over them, all checked."""
        with as_dbt_error():
            return check_properties({**profile_properties(profile, profiles), **(own or {})})

    @available
    def tables(self) -> Tables:
        """Return what the macros ask about tables."""
        return Tables(self)

    @available
    def batches(self) -> Batches:
        """Return what the macros ask about incremental strategies."""
        return Batches(self)

    @available
    def quarantine(self, model: dict[str, Any], table: IcegateRelation, view: Any) -> Quarantine:
        """Return the quarantine of a model that is being written."""
        return Quarantine(self, model, table, view)

    @available
    def history(self, model: dict[str, Any], table: Any, sql: str) -> History:
        """Return the history that a model keeps in its ``table``."""
        return History(self, model, table, sql)

    def valid_incremental_strategies(self) -> list[str]:
        return list(STRATEGIES)

    @available.parse_none
    def get_incremental_strategy_macro(self, model_context: Any, strategy: str) -> Any:
        """Return the macro that writes the SQL of a strategy: ours, or one of the project."""
        if f"get_incremental_{strategy.replace('+', '_')}_sql" not in model_context:
            raise DbtRuntimeError(unknown_strategy(strategy, self.config.project_name))
        return super().get_incremental_strategy_macro(model_context, strategy)

    @available
    def run_python_model(self, model: dict[str, Any], compiled_code: str, view: str) -> None:
        """Run a Python model and leave its rows behind the temporary view ``view``."""
        session = self._session()
        with self.connections.get_thread_connection().handle.work.running():
            python_models.run(session, model, compiled_code, view)

    @available
    def seed_view(self, agate_table: Any, view: str) -> None:
        """Put the cells of a seed, as text, behind the temporary view ``view``."""
        with self.connections.exception_handler(f"seed {view}"):
            seed_view(self._session(), agate_table, view)

    def _session(self) -> Any:
        session = self.batches().session()
        if session is None:
            raise DbtRuntimeError(str(no_session(self.config.credentials.method, [])))
        return session

    @classmethod
    def _get_adapter_specific_run_info(cls, config: Any) -> dict[str, Any]:
        return {"adapter_type": "icegate", "table_format": "iceberg"}
