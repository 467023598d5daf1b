"""What dbt builds in an environment: from production's past, and nothing outside of its schemas."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import DbtProject

from icegate.catalog import list_relations
from icegate.gate.refs import keep
from icegate.gate.store import edit

pytestmark = pytest.mark.slow

ORDERS = """
{{{{ config(materialized='incremental', unique_key='id', incremental_strategy='merge',
    partition_by=['bucket(4, id)'], from_history={past}) }}}}
select id, {column} from values {rows} as t(id, amount)
{{% if is_incremental() %}} where id > (select max(id) from {{{{ this }}}}) {{% endif %}}
"""
THREE = "(1, 10), (2, 20), (3, 30)"


class PullRequest:
    """A project whose production is built, and an environment of it."""

    def __init__(self, project: DbtProject, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.monkeypatch = project, monkeypatch
        self.pr = f"{project.schema}_pr"
        profile = (project.folder / "profiles.yml").read_text()
        schema = "\"{{ env_var('ICEGATE_ENV', '" + project.schema + "') }}\""
        project.write(
            "profiles.yml", profile.replace(f"schema: {project.schema}", f"schema: {schema}")
        )
        project.write("models/untouched.sql", "{{ config(materialized='table') }} select 7 as id")
        self.orders("amount", "false", THREE)
        project.write(
            "models/total.sql",
            "{{ config(materialized='table') }} select count(*) as n, max(u.id) as u"
            " from {{ ref('orders') }} as o cross join {{ ref('untouched') }} as u",
        )

    def orders(self, column: str, past: str, rows: str) -> None:
        text = ORDERS.format(column=column, past=past, rows=rows)
        self.project.write("models/orders.sql", text)

    def release(self) -> None:
        assert self.project.dbt("build").ok
        state = self.project.folder / "state"
        state.mkdir(exist_ok=True)
        manifest = (self.project.folder / "target" / "manifest.json").read_text()
        (state / "manifest.json").write_text(manifest)

    def build(self, *more: str) -> Any:
        with self.monkeypatch.context() as patch:
            patch.setenv("ICEGATE_ENV", self.pr)
            state = str(self.project.folder / "state")
            select = "--select", "state:modified+"
            return self.project.dbt("build", *select, "--defer", "--state", state, *more)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.project.rows(query.replace("{pr}", self.pr))

    def outside(self) -> dict[str, str]:
        """Return where each table is that isn't the environment's."""
        every = list_relations(self.project.lake)
        return {e.full_name: e.metadata_location for e in every if e.namespace != self.pr}


@pytest.fixture
def pull(own_project: DbtProject, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    monkeypatch.delenv("ICEGATE_ENV", raising=False)
    made = PullRequest(own_project, monkeypatch)
    made.release()
    return made


def test_a_changed_model_goes_on_from_production_and_the_rest_is_read_there(
    pull: PullRequest,
) -> None:
    before = pull.outside()
    pull.orders("amount * 2 as amount", "true", THREE + ", (4, 40)")
    ran = pull.build()
    assert ran.ok and "begins_with=" in ran.told, ran.text
    rows = [(1, 10), (2, 20), (3, 30), (4, 80)]  # as production would go on
    assert pull.rows("select id, amount from {pr}.orders order by id") == rows
    assert pull.rows("select n, u from {pr}.total") == [(4, 7)]
    assert pull.rows("select count(distinct partition) from {pr}.orders.files") != [(1,)]
    tables = [e.name for e in list_relations(pull.project.lake, pull.pr)]
    assert tables == ["orders", "total"] and pull.outside() == before
    pull.orders("amount * 3 as amount", "true", THREE + ", (4, 40), (5, 50)")
    ran = pull.build()
    assert ran.ok and "begins_with" not in ran.told
    assert pull.rows("select id, amount from {pr}.orders order by id") == [*rows, (5, 150)]


def test_as_of_a_version_or_from_nothing(pull: PullRequest) -> None:
    (first,), *_ = pull.rows("select snapshot_id from {s}.orders.snapshots")
    name = f"{pull.project.schema}.orders"
    edit(pull.project.lake, name, lambda old: keep(old, "then", first))
    pull.orders("amount", "false", THREE + ", (4, 40)")
    pull.release()
    pull.orders("amount * 2 as amount", "'then'", THREE + ", (4, 40)")
    assert pull.build().ok
    assert pull.rows("select amount from {pr}.orders order by id")[-2:] == [(30,), (80,)]
    assert pull.build("--full-refresh").ok
    assert pull.rows("select amount from {pr}.orders order by id")[-2:] == [(60,), (80,)]
    pull.rows("drop table {pr}.orders")
    pull.orders("amount * 2 as amount", "'nowhere'", THREE)
    ran = pull.build()
    assert not ran.ok and "no tag or branch of this name" in ran.text
    pull.orders("amount * 2 as amount", "false", THREE)
    assert pull.build().ok
    assert pull.rows("select amount from {pr}.orders order by id") == [(20,), (40,), (60,)]


def test_production_copies_nothing_to_itself(pull: PullRequest) -> None:
    pull.orders("amount", "true", THREE)
    ran = pull.project.dbt("build", "--defer", "--state", str(pull.project.folder / "state"))
    assert ran.ok and "begins_with" not in ran.told
    text = (pull.project.folder / "models/orders.sql").read_text()
    pull.project.write("models/orders.sql", text.replace("from_history", "from_histori"))
    assert "did you mean 'from_history'?" in pull.project.dbt("build").text
