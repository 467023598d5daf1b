"""A table that a test changes by SQL, and the model that keeps its history."""

from __future__ import annotations

from typing import Any

from conftest import DbtProject, DbtRun

from history.versioned import metadata_of

Rows = list[tuple[Any, ...]]
FORMS = {
    "changelog": (2, "copy-on-write"),
    "diff": (2, "merge-on-read"),
    "row_lineage": (3, "merge-on-read"),
    "row_lineage copied": (3, "copy-on-write"),
}
MODEL = "{{{{ config(materialized='history', {config}) }}}}\nselect {columns} from {source}"


class Shop:
    """The table `{t}` of a form, and the model `past` of it."""

    def __init__(self, project: DbtProject, form: str) -> None:
        self.project, self.form = project, form
        self.table = f"{project.schema}_shop.t"
        project.spark.sql(f"create namespace {project.schema}_shop")
        source = {"name": "shop", "schema": f"{project.schema}_shop", "tables": [{"name": "t"}]}
        project.write_yaml("models/shop.yml", {"sources": [source]})
        self.keep()

    def make(self, columns: str) -> None:
        version, mode = FORMS[self.form]
        modes = (f"'write.{of}.mode' = '{mode}'" for of in ("merge", "update", "delete"))
        self.sql(
            f"create table {{t}} ({columns}) using iceberg"
            f" tblproperties ('format-version' = '{version}', {', '.join(modes)})"
        )

    def keep(
        self, columns: str = "*", source: str = "{{ source('shop', 't') }}", **config: Any
    ) -> None:
        said = {"unique_key": "id", **config}
        listed = ", ".join(f"{name}={value!r}" for name, value in said.items())
        self.project.write(
            "models/past.sql", MODEL.format(config=listed, columns=columns, source=source)
        )

    def sql(self, *statements: str) -> None:
        for sql in statements:
            self.project.spark.sql(sql.replace("{t}", self.table))

    def run(self) -> DbtRun:
        run = self.project.dbt("run", "--select", "past")
        assert run.ok, run.text
        return run

    def rows(self, columns: str) -> Rows:
        return sorted(self.project.rows(f"select {columns} from {{s}}.past"), key=repr)

    @property
    def metadata(self) -> dict[str, Any]:
        return metadata_of(self.project.lake, self.table)
