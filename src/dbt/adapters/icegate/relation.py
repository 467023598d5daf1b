"""Relations: dbt-spark's, and sources that are landing files rather than tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dbt.adapters.contracts.relation import RelationConfig
from dbt.adapters.spark.relation import SparkRelation

from dbt.adapters.icegate.errors import as_dbt_error
from icegate.gate.staging import NAMESPACE
from icegate.landing import LandingTable, landing_table


@dataclass(frozen=True, eq=False, repr=False)
class IcegateRelation(SparkRelation):
    """A table or view of the lake, or (``landing``) a source that is read from files."""

    landing: LandingTable | None = None
    is_label: bool = False  # a name for people, as in dbt's log

    project_root: ClassVar[Path] = Path.cwd()
    # Where the running build keeps a table or view that it can't have on a branch, by final name.
    staged: ClassVar[dict[str, str]] = {}

    @classmethod
    def create_from(cls, quoting: Any, relation_config: RelationConfig, **kwargs: Any) -> Any:
        relation = super().create_from(quoting, relation_config, **kwargs)
        if "quote_policy" in kwargs:  # only dbt's log wants it unquoted
            return relation.replace(is_label=True)
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

    @property
    def stored(self) -> IcegateRelation:
        """The relation that the running build reads and writes for this one."""
        staged = self.staged.get(f"{self.schema}.{self.identifier}")
        if staged is None or self.is_label:
            return self
        return self.incorporate(path={"schema": NAMESPACE, "identifier": staged})

    def render(self) -> str:
        if self.landing:
            return self.landing.render()
        return super(IcegateRelation, self.stored).render()


def _meta(relation_config: RelationConfig) -> dict[str, Any]:
    config = getattr(relation_config, "config", None)
    return {**(getattr(config, "meta", None) or {}), **(getattr(relation_config, "meta", {}) or {})}
