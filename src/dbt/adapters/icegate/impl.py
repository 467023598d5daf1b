"""The adapter: what dbt-spark does, right on Iceberg, and what models call beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbt.adapters.base import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.spark.impl import (
    SCHEMA_NOT_FOUND_MESSAGES,
    TABLE_OR_VIEW_NOT_FOUND_MESSAGES,
    SparkAdapter,
    SparkConfig,
)
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.icegate import python_models, seeds
from dbt.adapters.icegate.connections import IcegateConnectionManager
from dbt.adapters.icegate.explain import as_dbt_error
from dbt.adapters.icegate.relation import IcegateRelation
from icegate.landing import file_uri, new_files
from icegate.packages import check_installed
from icegate.properties import check_properties, profile_properties

logger = AdapterLogger("Icegate")


@dataclass
class IcegateConfig(SparkConfig):
    """What a model's author may set beyond dbt-spark's configs."""

    file_format: str = "iceberg"
    table_profile: str | None = None
    sort_by: list[str] | str | None = None


class IcegateAdapter(SparkAdapter):
    """dbt-spark's adapter with Iceberg's own ways of replacing, listing and loading."""

    Relation = IcegateRelation
    ConnectionManager = IcegateConnectionManager  # type: ignore[assignment]
    AdapterSpecificConfigs = IcegateConfig

    def __init__(self, config: Any, mp_context: Any) -> None:
        super().__init__(config, mp_context)
        # dbt hands a source to `create_from` without the project that its location counts from.
        self.Relation.project_root = Path(getattr(config, "project_root", Path.cwd()))
        if hasattr(config, "packages_install_path"):  # `dbt debug` knows the profile only
            with as_dbt_error():
                check_installed(
                    self.Relation.project_root, config.packages_install_path, config.target_name
                )

    @classmethod
    def convert_time_type(cls, agate_table: Any, col_idx: int) -> str:
        return "string"  # Iceberg on Spark has no time of day

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """List tables and views by one statement each; dbt-spark describes every table."""
        tables = self._names("icegate_show_tables", schema_relation)
        views = self._names("icegate_show_views", schema_relation)
        return [
            self.Relation.create(
                schema=schema_relation.schema,
                identifier=name,
                type=RelationType.View if name in views else RelationType.Table,
                is_iceberg=name not in views,
            )
            for name in [*tables, *(view for view in views if view not in tables)]
        ]

    def _names(self, macro: str, schema_relation: BaseRelation) -> list[str]:
        try:
            rows = self.execute_macro(macro, kwargs={"schema_relation": schema_relation})
        except DbtRuntimeError as error:
            gone = SCHEMA_NOT_FOUND_MESSAGES + TABLE_OR_VIEW_NOT_FOUND_MESSAGES
            no_views = ("MISSING_CATALOG_ABILITY", "does not support views")
            if any(text in str(error.msg) for text in (*gone, *no_views)):
                return []
            raise
        # A temporary view is listed with every schema: it has no namespace.
        return [row[1] for row in rows if row[0]]

    @available
    def files_to_load(self, source: IcegateRelation, loaded: list[str]) -> list[str]:
        """Return the file paths of a landing source that are whole and not yet ``loaded``."""
        landing = getattr(source, "landing", None)
        if landing is None:
            raise DbtRuntimeError(
                f"{source} is no landing source: give it `meta: {{location: …, format: …}}`"
            )
        with as_dbt_error():
            found = new_files(landing, set(loaded))
        for day in found.waiting:
            logger.warning(f"landing day={day} skipped: it has no _SUCCESS marker yet")
        return [file_uri(path) for path in found.files]

    @available
    def table_properties(
        self, profile: str | None, own: dict[str, Any] | None, profiles: dict[str, Any]
    ) -> dict[str, str]:
        """Return a named profile's properties with the model's own over them, all checked."""
        with as_dbt_error():
            return check_properties({**profile_properties(profile, profiles), **(own or {})})

    @available
    def run_python_model(self, model: dict[str, Any], compiled_code: str, view: str) -> None:
        """Run a Python model and leave its rows behind the temporary view ``view``."""
        session = self.connections.get_thread_connection().handle.session
        python_models.run(session, model, compiled_code, view)

    @available
    def is_known_empty(self, view: str) -> bool:
        """Tell whether the plan alone says that ``view`` has no row, as with `where false`."""
        frame = self.connections.get_thread_connection().handle.session.table(view)
        most = frame._jdf.queryExecution().optimizedPlan().maxRows()
        return bool(most.isDefined() and most.get() == 0)

    @available
    def seed_view(self, agate_table: Any, view: str) -> None:
        """Put the cells of a seed, as text, behind the temporary view ``view``."""
        session = self.connections.get_thread_connection().handle.session
        seeds.to_view(session, agate_table, view)

    @classmethod
    def _get_adapter_specific_run_info(cls, config: Any) -> dict[str, Any]:
        return {"adapter_type": "icegate", "table_format": "iceberg"}
