"""A project behind the gate, and what its readers see: by PyIceberg, never by the build's Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from conftest import DbtProject

from icegate.catalog import CatalogEntry, list_relations, open_catalog, read_metadata
from icegate.gate import ledger, refs, staging
from icegate.gate.ledger_rows import Event
from icegate.tables.metadata import columns

Rows = list[tuple[Any, ...]]
NOT_NULL = {"amount": ["not_null"]}


class GatedProject(DbtProject):
    """A project whose target has ``gate: true``; no other test shares its catalog."""

    def retarget(self, **keys: Any) -> None:
        """Change keys of the target."""
        profiles = yaml.safe_load((self.folder / "profiles.yml").read_text())
        profiles["t"]["outputs"]["t"].update(keys)
        self.write_yaml("profiles.yml", profiles)

    def model(self, name: str, sql: str, **config: Any) -> None:
        """Write a SQL model, a table unless ``config`` says otherwise."""
        config = {"materialized": "table", **config}
        arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
        self.write(f"models/{name}.sql", f"{{{{ config({arguments}) }}}}\n{sql}\n")

    def values(self, name: str, *amounts: int | None, **config: Any) -> None:
        """Write a model with the columns id, from 1 on, and amount."""
        rows = ", ".join(f"({i}, {_sql(amount)})" for i, amount in enumerate(amounts, 1))
        sql = f"select id, cast(amount as int) as amount from values {rows} as t(id, amount)"
        self.model(name, sql, **config)

    def tests(self, **models: dict[str, list[Any]]) -> None:
        """Declare the tests of columns, by model; those of before are gone."""
        described = [
            {"name": name, "columns": [{"name": c, "data_tests": t} for c, t in columns.items()]}
            for name, columns in models.items()
        ]
        self.write_yaml("models/_models.yml", {"models": described})

    def seen(self, table: str) -> Rows:
        """Return the rows that another reader sees on main, sorted; none of no table."""
        return self._scan(table, refs.MAIN) if table in self.tables() else []

    def waiting(self, table: str) -> Rows:
        """Return the rows on the one branch of a build that a table has."""
        (build,) = self.builds(table)
        if table not in self.tables():
            return self._scan(staging.staging_name(f"{self.schema}.{table}", build), refs.MAIN)
        return self._scan(table, refs.branch_of(build))

    def builds(self, table: str) -> list[str]:
        """Return the builds that have a branch of a table, or one that readers don't have yet."""
        if table in self.tables():
            return refs.builds(self.metadata(table))
        name = staging.staging_name(f"{self.schema}.{table}", "")
        entries = list_relations(self.lake, staging.NAMESPACE)
        return [staging.build_of(e) for e in entries if e.name.startswith(name)]

    def is_wap(self, table: str) -> bool:
        """Tell whether the gate has its property on a table."""
        return self.metadata(table)["properties"].get(refs.WAP_ENABLED) == "true"

    def metadata(self, table: str) -> dict[str, Any]:
        """Return the metadata of a table of the project, or of one beside."""
        return read_metadata(self._entry(table))

    def _entry(self, table: str) -> CatalogEntry:
        found = (e for e in list_relations(self.lake) if e.name == table)
        return next(e for e in found if e.namespace in (self.schema, staging.NAMESPACE))

    def columns(self, table: str) -> list[str]:
        """Return the names of the columns that readers see."""
        return [column["name"] for column in columns(self.metadata(table))]

    def staged(self) -> list[str]:
        """Return what builds have beside their tables."""
        return [entry.name for entry in list_relations(self.lake, staging.NAMESPACE)]

    def tables(self) -> set[str]:
        return {entry.name for entry in list_relations(self.lake, self.schema)}

    def events(self) -> list[Event]:
        return ledger.read_events(self.lake)

    def last_detail(self) -> dict[str, Any]:
        """Return what the ledger's newest event says."""
        return json.loads(self.events()[-1].detail or "{}")

    def append(self, table: str, *rows: dict[str, Any]) -> None:
        """Add rows to main as another writer does."""
        import pyarrow

        found = open_catalog(self.lake).load_table(f"{self.schema}.{table}")
        found.append(pyarrow.Table.from_pylist(list(rows), schema=found.schema().as_arrow()))

    def save_state(self, name: str = "state") -> Path:
        """Keep what dbt left of its last run, for `--state`."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file in ("manifest.json", "run_results.json"):
            (folder / file).write_bytes((self.folder / "target" / file).read_bytes())
        return folder

    def _scan(self, table: str, ref: str) -> Rows:
        if (snapshot := refs.head(self.metadata(table), ref)) is None:
            return []
        found = open_catalog(self.lake).load_table(self._entry(table).full_name)
        rows = found.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)


def _sql(value: int | None) -> str:
    return "null" if value is None else str(value)
