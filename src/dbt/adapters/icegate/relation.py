"""Relations: dbt-spark's, and sources that are landing files rather than tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.contracts.relation import RelationConfig
from dbt.adapters.spark.relation import SparkRelation

from dbt.adapters.icegate.explain import as_dbt_error
from icegate.landing import LandingTable, landing_table


@dataclass(frozen=True, eq=False, repr=False)
class IcegateRelation(SparkRelation):
    """A table or view of the lake, or (``landing``) a source that is read from files."""

    landing: LandingTable | None = None

    project_root: ClassVar[Path] = Path.cwd()

    @classmethod
    def create_from(cls, quoting: Any, relation_config: RelationConfig, **kwargs: Any) -> Any:
        relation = super().create_from(quoting, relation_config, **kwargs)
        meta = _meta(relation_config)
        if "location" not in meta:
            return relation
        with as_dbt_error():
            landing = landing_table(
                name=f"{relation_config.source_name}.{relation_config.name}",  # type: ignore
                location=str(cls.project_root / str(meta["location"])),
                format=str(meta.get("format", "json")),
                columns=relation_config.columns.values(),  # type: ignore[attr-defined]
            )
        return relation.replace(landing=landing)

    def render(self) -> str:
        return self.landing.render() if self.landing else super().render()


def _meta(relation_config: RelationConfig) -> dict[str, Any]:
    config = getattr(relation_config, "config", None)
    return {**(getattr(config, "meta", None) or {}), **(getattr(relation_config, "meta", {}) or {})}
