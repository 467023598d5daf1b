"""`+skip_unchanged`: a node runs when something that it's made of has changed, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest
from conftest import DbtProject, make_home
from gate.gated import NOT_NULL, GatedProject

from dbt.adapters.icegate.relation import IcegateRelation
from dbt.adapters.icegate.unchanged import Unchanged
from icegate.catalog import open_catalog
from icegate.gate import releases
from icegate.gate.staging import final_names
from icegate.session import start_session
from icegate.settings import Lake
from icegate.unchanged import parts

pytestmark = pytest.mark.slow

LOUD = (
    "{{ config(materialized='table') }}\n"
    "select id, {{ shout('name') }} as name, suffix, {{ var('tax', 1) }} as tax"
    " from {{ ref('inner') }}"
)
SHOWN = "{{ config(materialized='view') }}\nselect id, name from {{ ref('loud') }}"
GROWN = (
    "{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}\n"
    "select id, name from {{ ref('shown') }} {% if is_incremental() %} where id >= 0 {% endif %}"
)
PYTHON = """
def model(dbt, spark):
    dbt.config(materialized='table', deterministic={})
    return dbt.ref('loud')
"""
HISTORY = """
{% snapshot history %}
{{ config(unique_key='id', strategy='check', check_cols=['name']) }}
select id, name from {{ ref('loud') }}
{% endsnapshot %}
"""
FILES = {
    "seeds/countries.csv": "id,name\n1,Chad\n2,Peru\n",
    "macros/shout.sql": "{% macro shout(column) %}upper({{ column }}){% endmacro %}",
    "macros/unused.sql": "{% macro unused() %}1{% endmacro %}",
    "models/inner.sql": "{{ config(materialized='ephemeral') }}\nselect id, name,"
    " '{{ env_var('T_SUFFIX', '') }}' as suffix from {{ ref('countries') }}",
    "models/loud.sql": LOUD,
    "models/shown.sql": SHOWN,
    "models/grown.sql": GROWN,
    "models/same.py": PYTHON.format(True),
    "models/free.py": PYTHON.format(False),
    "models/timed.sql": "{{ config(materialized='table') }}\nselect current_date() as today",
    "models/kept.sql": "{{ config(materialized='table') }}\nselect 'now()' as text /* rand() */",
    "snapshots/history.sql": HISTORY,
}
ALWAYS = {"free", "timed"}
BELOW_LOUD = {"loud", "shown", "grown", "same", "history"}
ALL = {"countries", "kept", *BELOW_LOUD}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> DbtProject:
    """A project that was built; each test leaves it so that nothing is to be built."""
    folder = tmp_path_factory.mktemp("unchanged")
    home = make_home(folder / "a home")
    lake = Lake(home=home, warehouse=home / "warehouse", ansi=True,
                spark_conf={"spark.sql.session.timeZone": "UTC"})  # fmt: skip
    project = GatedProject(folder / "a project", lake, start_session(lake), gate=True)
    skip = {"t": {"+skip_unchanged": True}}
    project.configure(models=skip, seeds=skip, snapshots=skip)
    for path, text in FILES.items():
        project.write(path, text)
    first = project.dbt("build")
    assert first.ok and ran(first) == ALL | ALWAYS, first.text
    return project


def ran(run: Any) -> set[str]:
    """Return the nodes that dbt ran and that weren't found unchanged."""
    assert run.ok, run.text
    return {name for name, said in run.message.items() if not said.startswith("unchanged since ")}


def test_the_second_build_leaves_out_what_is_unchanged(made: DbtProject) -> None:
    run = made.dbt("build")
    assert ran(run) == ALWAYS
    assert run.status["loud"] == "success"
    assert run.message["loud"] == "unchanged since release 1: same inputs, code and settings"
    assert made.rows("select id, name from {s}.grown order by id") == [(1, "CHAD"), (2, "PERU")]


Change = Callable[[DbtProject, Any], list[str]]  # it returns arguments for dbt


def edited(path: str, old: str, new: str) -> Change:
    def edit(project: DbtProject, _: Any) -> list[str]:
        assert old in FILES[path]
        project.write(path, FILES[path].replace(old, new))
        return []

    return edit


def sql(statement: str) -> Change:
    return lambda project, _: [] * len(project.rows(statement))


def given(*args: str) -> Change:
    return lambda *_: [*args]


def in_environment(name: str, value: str) -> Change:
    return lambda _, patch: patch.setenv(name, value) or []


def other_version(_: DbtProject, patch: Any) -> list[str]:
    patch.setattr(parts, "engine_of", lambda lake, packages: "another")
    return []


HOOKED = "materialized='table', post_hook='select 1')"
COMPACT = (
    "call lake.system.rewrite_data_files("
    "table => '{s}.kept', options => map('rewrite-all', 'true'))"
)
# What changes, and which nodes run then beside those that always do.
CASES: dict[str, tuple[list[Change], set[str]]] = {
    "a seed's row": ([edited("seeds/countries.csv", "Peru", "Togo")], ALL - {"kept"}),
    "the SQL of a table": ([edited("models/loud.sql", "suffix,", "suffix, 7 as n,")], BELOW_LOUD),
    "the SQL of an ephemeral model": (
        [edited("models/inner.sql", "select id", "select id + 1 as id")], BELOW_LOUD),
    "the text of a view": (
        [edited("models/shown.sql", "id, name", "id, lower(name) as name")], {"shown", "grown"}),
    "a node's own code": (
        [edited("models/same.py", "'loud')", "'loud').where('id > 0')"),
         edited("snapshots/history.sql", "id, name from", "name, id from"),
         edited("models/kept.sql", "materialized='table')", HOOKED)],
        {"same", "history", "kept"}),
    "a macro": ([edited("macros/shout.sql", "upper", "lower")], BELOW_LOUD),
    "a macro that no node names": ([edited("macros/unused.sql", "1", "2")], ALL),
    "a variable": ([given("--vars", "{tax: 2}")], BELOW_LOUD),
    "the environment": ([in_environment("T_SUFFIX", "x")], BELOW_LOUD),
    "what others did": (
        [sql("insert into {s}.grown values (7, 'x')"), sql("drop table {s}.same"),
         sql("alter table {s}.history add column more int")],
        {"grown", "same", "history"}),
    "a version": ([other_version], ALL),
    "nothing of theirs": (
        [sql(COMPACT), in_environment("T_OTHER", "x"), given("--vars", "{fee: 2}")], set()),
    "--full-refresh": ([given("--full-refresh")], ALL),
    "ICEGATE_FULL": ([in_environment("ICEGATE_FULL", "1")], ALL),
}  # fmt: skip


@pytest.fixture
def back(made: DbtProject) -> Iterator[None]:
    """Put the files back, and build what differs."""
    yield
    for path, text in FILES.items():
        made.write(path, text)
    assert made.dbt("build").ok


@pytest.mark.parametrize("case", CASES)
def test_what_changed_runs(
    made: DbtProject, case: str, back: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, expected = CASES[case]
    with monkeypatch.context() as patch:
        args = [arg for change in changes for arg in change(made, patch)]
        assert ran(made.dbt("build", *args)) == expected | ALWAYS
        asked_to = ("--full-refresh", "ICEGATE_FULL")
        if expected and case not in asked_to:
            assert ran(made.dbt("build", *args)) == ALWAYS
    if case in asked_to:
        assert ran(made.dbt("build")) == ALWAYS


def test_a_rehearsal_is_no_build(made: DbtProject) -> None:
    assert ran(made.dbt("build", "--empty")) == ALL | ALWAYS
    assert ran(made.dbt("build")) == ALWAYS


def test_what_cannot_be_known_runs(gated: GatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    gated.configure(models={"t": {"+skip_unchanged": True}})
    gated.spark.sql(f"create namespace if not exists {gated.schema}")
    gated.spark.sql(f"create table {gated.schema}.other (id bigint) using iceberg")
    gated.model("hard_coded", "select id from {{ target.schema }}.other")
    gated.model("of_values", "select * from {{ ref('base') }}, explode(array(1, 2))")
    gated.model("named", "select '{{ env_var('T_' ~ 'NAME', '') }}' as name")
    gated.model("drawn", "select rand() as draw")
    gated.model("base", "select 1 as id")
    gated.model("sampled", "select * from {{ ref('base') }} tablesample (50 percent)")
    gated.model("of_branch", "select * from {{ ref('base') }} version as of 'main'")
    gated.model("drawn_once", "select rand() as draw", deterministic=True)
    gated.model("asked", "select {{ 1 if execute else 2 }} as id", materialized="incremental")
    always = {"hard_coded", "named", "drawn", "sampled", "of_branch"}
    once = {"base", "drawn_once", "asked", "of_values"}
    assert ran(gated.dbt("build")) == {*always, *once}
    assert ran(gated.dbt("build")) == always


def test_without_the_config_all_run(gated: GatedProject) -> None:
    gated.values("plain", 1)
    assert ran(gated.dbt("build")) == ran(gated.dbt("build")) == {"plain"}


def test_what_was_held_back_runs_until_it_is_published(gated: GatedProject) -> None:
    gated.configure(models={"t": {"+skip_unchanged": True}})
    gated.values("parent", 1)
    gated.model("child", "select amount from {{ ref('parent') }}")
    gated.tests(parent=NOT_NULL)
    assert gated.dbt("build").ok
    gated.values("parent", 1, None)
    for _ in range(2):
        bad = gated.dbt("build")
        assert not bad.message["parent"].startswith("unchanged")
        assert (bad.status["child"], gated.seen("parent")) == ("skipped", [(1, 1)])
    gated.values("parent", 1, 2)
    assert ran(gated.dbt("build")) >= {"parent", "child"}
    assert gated.seen("child") == [(1,), (2,)]
    tested = gated.dbt("build")
    assert {"parent", "child"}.isdisjoint(ran(tested))
    assert tested.status["not_null_parent_amount"] == "pass"


def test_a_table_that_fails_its_test_fails_it_again(own_project: DbtProject) -> None:
    own_project.configure(models={"t": {"+skip_unchanged": True}})
    own_project.write("models/bad.sql", "select cast(null as int) as id")
    column = {"name": "id", "data_tests": ["not_null"]}
    own_project.write_yaml("models/bad.yml", {"models": [{"name": "bad", "columns": [column]}]})
    own_project.configure(models={"t": {"+skip_unchanged": True, "+materialized": "table"}})
    first, second = own_project.dbt("build"), own_project.dbt("build")
    assert first.status == second.status == {"bad": "success", "not_null_bad_id": "fail"}
    assert second.message["bad"].startswith("unchanged since 20")


def test_processes_of_one_build_skip_too(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.configure(models={"t": {"+skip_unchanged": True}})
    gated.values("m", 1)
    gated.values("n", 1)
    gated.tests(m=NOT_NULL)
    monkeypatch.setenv("ICEGATE_RELEASE", "nightly")
    assert ran(gated.dbt("run")) == {"m", "n"}
    assert ran(gated.dbt("run")) == set()
    gated.values("m", 1, 2)
    assert ran(gated.dbt("run")) == {"m"}
    assert gated.dbt("test").ok
    monkeypatch.delenv("ICEGATE_RELEASE")
    assert releases.publish(gated.lake, "nightly", "t", {}, [], "").release == 1
    assert (gated.seen("m"), gated.seen("n")) == ([(1, 1), (2, 2)], [(1, 1)])
    assert ran(gated.dbt("run")) == set()


def test_who_writes_a_table_in_between_is_seen(
    own_project: DbtProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_project.configure(models={"t": {"+skip_unchanged": True, "+materialized": "table"}})
    own_project.write("models/m.sql", "select cast(1 as bigint) as id")
    assert ran(own_project.dbt("run")) == {"m"}
    assert ran(own_project.dbt("run")) == set()
    left = Unchanged.left

    def left_after_another(self: Unchanged, node: Any) -> None:
        table = open_catalog(own_project.lake).load_table(f"{own_project.schema}.m")
        table.append(pyarrow.table({"id": [7]}))
        left(self, node)

    own_project.write("models/m.sql", "select cast(2 as bigint) as id")
    with monkeypatch.context() as patch:
        patch.setattr(Unchanged, "left", left_after_another)
        assert ran(own_project.dbt("run")) == {"m"}
    assert ran(own_project.dbt("run")) == {"m"}
    assert own_project.rows("select id from {s}.m") == [(2,)]


def test_landing_files_are_inputs(gated: GatedProject) -> None:
    gated.configure(models={"t": {"+skip_unchanged": True}})
    column = {"name": "id", "data_type": "bigint"}
    landed = {"name": "orders", "columns": [column],
              "meta": {"location": "landing/*/orders-*.jsonl", "format": "json"}}  # fmt: skip
    source = {"name": "shop", "schema": "shop", "tables": [landed]}
    gated.write_yaml("models/_sources.yml", {"sources": [source]})
    select = "select id, substring_index(_metadata.file_path, '/', -2) as loaded_from"
    gated.model("raw", f"{select} from {{{{ source('shop', 'orders') }}}}"
                " where {{ not_yet_loaded(source('shop', 'orders')) }}",
                materialized="incremental")  # fmt: skip

    def land(day: str) -> None:
        gated.write(f"landing/{day}/orders-0.jsonl", '{"id": 1}\n')
        size = {"rows": 1, "bytes": 10}
        gated.write(f"landing/{day}/_SUCCESS", json.dumps({"files": {"orders-0.jsonl": size}}))

    land("2026-01-01")
    assert ran(gated.dbt("run")) == {"raw"}
    assert ran(gated.dbt("run")) == set()
    land("2026-01-02")
    assert ran(gated.dbt("run")) == {"raw"}
    assert gated.rows("select count(*) from {s}.raw") == [(2,)]


def test_names_of_staging_are_read_from_a_copy(
    gated: GatedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = list[bool]()

    def noted(sql: str, staged: dict[str, str]) -> str:
        shared.append(staged is IcegateRelation.staged)  # other threads add to it
        return final_names(sql, staged)

    monkeypatch.setattr(parts, "final_names", noted)
    gated.configure(models={"t": {"+skip_unchanged": True}})
    gated.model("base", "select 1 as id")
    assert gated.dbt("build").ok
    assert (len(shared), any(shared)) == (1, False)
